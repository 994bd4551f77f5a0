// SPDX-License-Identifier: Apache-2.0
#include "workers.hpp"

#include <denizen/base/clock.hpp>

namespace denizen::flow {
namespace {

using namespace std::chrono_literals;

// How long the host waits for room in a worker's ring, and for a quantum to come back.
constexpr auto patience = 5s;

// Types of messages, resident/program.hpp.
enum : uint32_t { of_setup, of_values, of_scalars, of_job };

} // namespace

Engine::ResidentWorkers::ResidentWorkers(Resident& resident, OnDone on_done)
    : resident_(resident), on_done_(std::move(on_done)), number_(resident.enter(*this))
{
}

Engine::ResidentWorkers::~ResidentWorkers()
{
    resident_.leave(number_);
    for (const Address worker : workers_) {
        try {
            resident_.runtime_.stop(worker, 1s);
        } catch (const Error&) { // the runtime has ended already
        }
    }
}

void Engine::ResidentWorkers::start(uint32_t count, resident::Setup setup)
{
    AnyRuntime& runtime = resident_.runtime_;
    const uint64_t areas = setup.beside_at != 0 ? 3 : 2;
    setup.chain = number_;
    workers_ = runtime.spawn(0, count, 10s);
    for (const Address worker : workers_) {
        areas_.push_back(runtime.buffer(setup.areas_at + areas * uint64_t{setup.area}));
        setup.memory = areas_.back().ref();
        runtime.send(worker, of_setup, &setup, sizeof setup, patience);
    }
}

template <class M>
void Engine::ResidentWorkers::tell_all(uint32_t type, const M& message)
{
    for (const Address worker : workers_) {
        resident_.runtime_.send(worker, type, &message, sizeof message, patience);
    }
}

void Engine::ResidentWorkers::set(uint32_t stage, const std::vector<float>& values)
{
    for (size_t first = 0; first < values.size(); first += resident::Values::most) {
        resident::Values message{};
        message.stage = stage;
        message.first = static_cast<uint32_t>(first);
        message.count =
            static_cast<uint32_t>(std::min<size_t>(resident::Values::most, values.size() - first));
        std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(first), message.count,
                    message.value);
        tell_all(of_values, message);
    }
}

void Engine::ResidentWorkers::set(uint32_t stage, float a, float b)
{
    tell_all(of_scalars, resident::Scalars{stage, a, b});
}

void Engine::ResidentWorkers::send(const resident::Job& job)
{
    const Address worker = workers_[next_++ % workers_.size()];
    resident_.runtime_.send(worker, of_job, &job, sizeof job, patience);
}

void Engine::ResidentWorkers::check_patience(const char* what, uint64_t since_ns) const
{
    if (now_ns() - since_ns > static_cast<uint64_t>(std::chrono::nanoseconds(patience).count())) {
        throw Error(Errc::timeout, std::string(what) + " been with the resident runtime for 5 s; " +
                                       resident_.runtime_.stuck(1s));
    }
}

} // namespace denizen::flow
