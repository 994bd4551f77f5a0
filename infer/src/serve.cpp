// SPDX-License-Identifier: Apache-2.0
#include "serve.hpp"

#include <denizen/base/interrupt.hpp>

#include <algorithm>
#include <cstring>

namespace denizen::infer {
namespace {

constexpr uint64_t nap_ns = 1'000'000'000;

// Looks for what `found()` says until `spin_ns` have passed, then sleeps on the bell between looks.
// Ends when it is found.
template <class Found>
void wait_on_bell(uint64_t spin_ns, uint32_t* bell, uint32_t* sleeping, Found&& found)
{
    constexpr uint32_t looks = 32; // between two readings of the clock
    const uint64_t begin = now_ns();
    do {
        for (uint32_t i = 0; i < looks; ++i) {
            if (found()) {
                return;
            }
            relax();
        }
    } while (now_ns() - begin < spin_ns);
    bool there = false;
    const auto look = [&] { return there = there || found(); };
    while (!look()) sleep_on_bell(bell, sleeping, nap_ns, look);
}

} // namespace

Server::Server(const Plan& plan, std::unique_ptr<Weights> weights, const Options& options)
    : plan_(plan), format_(options.format), spin_ns_(denizen::detail::nanoseconds_of(options.spin)),
      cells_(options.requests, plan.widths[0], plan.widths[plan.output]),
      weight_bytes_(weights->bytes()), ring_("requests", Cells::slots_for_all(options.requests)),
      weights_(std::move(weights)),
      states_(options.streams * plan.state_floats,
              "the states of " + std::to_string(options.streams) + " streams"),
      positions_(options.streams, 0), values_(plan.value_floats, "the values of a step"),
      barrier_(plan.parts)
{
    for (uint32_t part = 0; part < plan.parts; ++part) {
        parts_.push_back(
            std::make_unique<Part>(plan, options.format, part, values_.data(), barrier_));
    }
    threads_.start(plan.parts, "model",
                   [this](uint32_t part) { part == 0 ? lead() : follow(part); });
}

void Server::send(uint32_t number, uint32_t stream, const std::byte* input,
                  const Deadline& deadline)
{
    Cell& cell = cells_[number];
    cell.request = Request::step;
    cell.stream = stream;
    std::memcpy(cell.input, input, plan_.widths[0] * sizeof(float));
    post(number, deadline);
}

// Step 1 of a cell that has been filled. Throws closed.
void Server::post(uint32_t cell, const Deadline& deadline)
{
    Header h;
    h.destination = cell;
    store<Scope::system>(&cells_[cell].state, static_cast<uint32_t>(CellState::pending));
    MpscSender<Scope::system> sender(ring_.view());
    for (;;) { // ends: there are more slots than cells, and the leader gives credit
        const Errc code = sender.try_send(h, nullptr);
        if (code == Errc::ok) {
            ring_bell(&ring_.view().words->bell, &ring_.view().words->sleeping);
            return;
        }
        if (code != Errc::full || deadline.left_ns() == 0) {
            cells_.give_back(cell);
            if (code != Errc::full) refuse();
            throw Error(code, "the resident model takes no request: its thread does not run");
        }
        check_interrupt();
        sched_yield();
    }
}

void Server::refuse() const
{
    throw Error(Errc::closed, "the resident model is closed; make a new one");
}

void Server::sleep(uint32_t cell, uint64_t most_ns)
{
    auto expected = static_cast<uint32_t>(CellState::pending);
    const auto asleep = static_cast<uint32_t>(CellState::sleeping);
    if (compare_exchange<Scope::system>(&cells_[cell].state, expected, asleep) ||
        expected == asleep) {
        futex_wait(&cells_[cell].state, asleep, most_ns);
    }
}

uint64_t Server::take_answer(uint32_t number, float* output)
{
    const Cell& cell = cells_[number];
    const uint64_t version = cell.version;
    std::memcpy(output, cell.output, plan_.widths[plan_.output] * sizeof(float));
    cells_.give_back(number);
    return version;
}

template <class Before, class After>
void Server::call(Request request, uint32_t stream, const Deadline& deadline, Before&& before,
                  After&& after)
{
    const uint32_t number = take_cell(*this, stream, deadline);
    Cell& cell = cells_[number];
    cell.request = request;
    cell.stream = stream;
    try {
        before(cell);
    } catch (...) {
        cells_.give_back(number);
        throw;
    }
    post(number, deadline);
    wait_for(*this, number, deadline, spin_ns_);
    after(cell);
    cells_.give_back(number);
}

uint64_t Server::swap(const Model& model, uint64_t, const Deadline& deadline)
{
    auto weights = std::make_unique<Weights>(pack(plan_, model, format_));
    uint64_t version = 0;
    call(
        Request::swap, 0, deadline, [&](Cell& cell) { cell.weights = std::move(weights); },
        [&](Cell& cell) { version = cell.version; });
    return version;
}

void Server::reset(uint32_t stream, const Deadline& deadline)
{
    call(Request::reset, stream, deadline, [](Cell&) {}, [](Cell&) {});
}

void Server::read_state(uint32_t stream, std::span<float> to, const Deadline& deadline)
{
    call(
        Request::read_state, stream, deadline, [&](Cell& cell) { cell.kept.resize(to.size()); },
        [&](Cell& cell) { std::copy(cell.kept.begin(), cell.kept.end(), to.begin()); });
}

void Server::write_state(uint32_t stream, std::span<const float> from, const Deadline& deadline)
{
    call(
        Request::write_state, stream, deadline,
        [&](Cell& cell) { cell.kept.assign(from.begin(), from.end()); }, [](Cell&) {});
}

std::vector<float> Server::read_all(const Deadline& deadline)
{
    std::vector<float> all;
    call(
        Request::read_all, 0, deadline,
        [&](Cell& cell) { cell.kept.resize(plan_.kept_floats * positions_.size()); },
        [&](Cell& cell) { all = std::move(cell.kept); });
    return all;
}

void Server::write_all(std::vector<float> states, const Deadline& deadline)
{
    call(
        Request::write_all, 0, deadline, [&](Cell& cell) { cell.kept = std::move(states); },
        [](Cell&) {});
}

Stats Server::stats() const
{
    const auto relaxed = std::memory_order_relaxed;
    Stats stats;
    stats.steps = steps_.load(relaxed);
    stats.busy_ns = busy_ns_.load(relaxed);
    stats.swaps = swaps_.load(relaxed);
    return stats;
}

std::string Server::place() const
{
    return std::to_string(plan_.parts) + (plan_.parts == 1 ? " CPU thread" : " CPU threads");
}

void Server::stop()
{
    ring_.close();
    threads_.join();
}

void Server::lead()
{
    MpscReceiver<Scope::system> requests(ring_.view());
    RingWords& words = *ring_.view().words;
    for (;;) { // ends when the ring is closed and empty
        Header h;
        Errc code = Errc::empty;
        wait_on_bell(spin_ns_, &words.bell, &words.sleeping, [&] {
            code = requests.try_receive(h, nullptr, 0);
            return code != Errc::empty;
        });
        if (code != Errc::ok) {
            break;
        }
        serve(h.destination);
    }
    tell({});
    ended_.store(true, std::memory_order_release); // partner: ended()
}

void Server::follow(uint32_t part)
{
    for (uint32_t next = 1;; ++next) { // ends by a job without weights
        wait_on_bell(spin_ns_, &post_.bell, &post_.sleeping, [&] {
            // Acquire: partner of the release in tell(); the job was written before.
            return load<Scope::system, Order::acquire>(&post_.sequence) == next;
        });
        if (post_.job.weights == nullptr) {
            return;
        }
        parts_[part]->run(post_.job);
    }
}

// The followers have met the leader at the end of the last step, so none still reads the job; one
// that is told to end does not meet again.
void Server::tell(const StepJob& job)
{
    if (plan_.parts == 1) {
        return;
    }
    post_.job = job;
    store<Scope::system, Order::release>(&post_.sequence, post_.sequence + 1);
    ring_bell(&post_.bell, &post_.sleeping);
}

void Server::step(Cell& cell)
{
    const StepJob job = {weights_.get(), cell.input, state(cell.stream), positions_[cell.stream]};
    tell(job);
    parts_[0]->run(job);
    ++positions_[cell.stream];
    std::memcpy(cell.output, parts_[0]->value(plan_.output),
                plan_.widths[plan_.output] * sizeof(float));
}

void Server::serve(uint32_t number)
{
    Cell& cell = cells_[number];
    if (cells_.abandoned(number)) {
        cells_.answer(number);
        return;
    }
    const uint64_t begin = now_ns();
    const auto relaxed = std::memory_order_relaxed; // counters, of which the leader is the writer
    switch (cell.request) {
    case Request::step: {
        step(cell);
        steps_.store(steps_.load(relaxed) + 1, relaxed);
        busy_ns_.store(busy_ns_.load(relaxed) + (now_ns() - begin), relaxed);
        break;
    }
    case Request::swap:
        cell.weights->version = weights_->version + 1;
        std::swap(weights_, cell.weights);
        version_.store(weights_->version, relaxed);
        weight_bytes_.store(weights_->bytes(), relaxed);
        swaps_.store(swaps_.load(relaxed) + 1, relaxed);
        break;
    case Request::reset:
        std::fill_n(state(cell.stream), plan_.state_floats, 0.0F);
        positions_[cell.stream] = 0;
        break;
    case Request::read_state:
        infer::read_state(plan_, state(cell.stream), positions_[cell.stream], cell.kept.data());
        break;
    case Request::write_state:
        infer::write_state(plan_, cell.kept.data(), state(cell.stream));
        positions_[cell.stream] = 0;
        break;
    case Request::read_all: copy_all(cell.kept); break;
    case Request::write_all: set_all(cell.kept); break;
    }
    cell.version = weights_->version;
    cells_.answer(number);
}

void Server::copy_all(std::vector<float>& kept) const
{
    for (uint32_t stream = 0; stream < positions_.size(); ++stream) {
        infer::read_state(plan_, state(stream), positions_[stream],
                          kept.data() + size_t{stream} * plan_.kept_floats);
    }
}

void Server::set_all(const std::vector<float>& kept)
{
    for (uint32_t stream = 0; stream < positions_.size(); ++stream) {
        infer::write_state(plan_, kept.data() + size_t{stream} * plan_.kept_floats, state(stream));
        positions_[stream] = 0;
    }
}

} // namespace denizen::infer
