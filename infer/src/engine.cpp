// SPDX-License-Identifier: Apache-2.0
// The asking half: it checks, fills cells, and waits.
#include "copies.hpp"
#include "gpu_serve.hpp"
#include "serve.hpp"
#include "states_file.hpp"

#include <denizen/base/interrupt.hpp>
#include <denizen/base/process.hpp>

#include <algorithm>
#include <cstring>
#include <sched.h>

namespace denizen::infer {
namespace {

constexpr uint32_t most_streams = 1u << 24;
constexpr uint32_t most_parts = 64;
constexpr uint32_t most_copies = 128;
constexpr uint32_t most_requests = 1u << 16;
constexpr size_t bytes_of_a_part = size_t{4} << 20;
constexpr size_t most_answers = 32;             // that are taken before the next requests are sent
constexpr size_t most_states = size_t{1} << 40; // floats

void require_within(const char* name, uint64_t n, uint64_t least, uint64_t most)
{
    if (n < least || n > most) {
        throw Error(Errc::bad_argument, std::string(name) + " = " + std::to_string(n) + "; use " +
                                            std::to_string(least) + " to " + std::to_string(most));
    }
}

uint32_t parts_for(size_t bytes)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    const size_t cores = sched_getaffinity(0, sizeof set, &set) == 0
                             ? static_cast<size_t>(CPU_COUNT(&set))
                             : size_t{1};
    const size_t wanted = (bytes + bytes_of_a_part - 1) / bytes_of_a_part;
    const size_t most = std::min<size_t>(cores > 1 ? cores - 1 : 1, most_parts);
    return static_cast<uint32_t>(std::clamp<size_t>(wanted, 1, most));
}

// The model is checked before anything is made of it.
Plan checked_plan(const Model& model)
{
    check(model);
    return plan_of(model);
}

} // namespace

struct Engine::Core {
    Core(const Model& model, const Options& given, std::unique_ptr<Chip> chip)
        : options(given), plan(checked_plan(model))
    {
        require_within("streams", options.streams, 1, most_streams);
        require_within("requests", options.requests, 1, most_requests);
        size_t floats = 0;
        if (__builtin_mul_overflow(plan.state_floats, size_t{options.streams}, &floats) ||
            floats > most_states) {
            throw Error(Errc::bad_argument, "streams = " + std::to_string(options.streams) +
                                                ": each keeps " +
                                                std::to_string(plan.state_floats) +
                                                " floats, which is more than 2^40 for all");
        }
        const uint32_t most = std::min(options.streams, most_copies); // each has a stream
        require_within("copies", options.copies, 1, chip != nullptr ? most : 1);
        if (options.copies > 1) {
            server = copies_on(std::move(chip), plan, model, options);
            return;
        }
        if (chip != nullptr) {
            server = serve_on(std::move(chip), plan, model, options);
            return;
        }
        require_within("parts", options.parts, 0, most_parts);
        if (options.parts == 0) options.parts = parts_for(packed_bytes(plan, options.format));
        plan.parts = options.parts;
        server = std::make_unique<Server>(
            plan, std::make_unique<Weights>(pack(plan, model, options.format)), options);
    }

    void check_stream(uint32_t stream) const
    {
        if (stream >= options.streams) {
            throw Error(Errc::bad_argument, "stream " + std::to_string(stream) +
                                                "; the resident model has streams 0 to " +
                                                std::to_string(options.streams - 1));
        }
    }

    void check_input(const std::byte* input) const
    {
        if (!plan.tokens) {
            return;
        }
        int32_t token = 0;
        std::memcpy(&token, input, sizeof token);
        if (token < 0 || static_cast<size_t>(token) >= plan.tokens_below) {
            throw Error(Errc::bad_argument, "token " + std::to_string(token) +
                                                "; the model's embedding has tokens 0 to " +
                                                std::to_string(plan.tokens_below - 1));
        }
    }

    void check_sizes(size_t count, size_t input, size_t output) const
    {
        if (input != count * input_bytes() || output != count * output_floats()) {
            throw Error(Errc::bad_argument,
                        std::to_string(count) + " steps take " +
                            std::to_string(count * input_bytes()) + " bytes and give " +
                            std::to_string(count * output_floats()) + " floats, not " +
                            std::to_string(input) + " and " + std::to_string(output));
        }
    }

    size_t input_bytes() const { return size_t{plan.widths[0]} * 4; }
    size_t output_floats() const { return plan.widths[plan.output]; }

    void wait(uint32_t cell, const Deadline& deadline)
    {
        wait_for(*server, cell, deadline, denizen::detail::nanoseconds_of(options.spin));
    }

    uint32_t cell_of(Ticket ticket) const
    {
        const auto number = static_cast<uint32_t>(ticket.value);
        if (number >= server->cells() || server->generation(number) != ticket.value >> 32) {
            throw Error(Errc::bad_argument, "the ticket is of no request under way: its answer "
                                            "has been taken, or it was given up");
        }
        return number;
    }

    Options options;
    Plan plan;
    Process process;
    std::unique_ptr<Serving> server;
};

Engine::Engine(const Model& model, const Options& options)
    : core_(std::make_unique<Core>(model, options, nullptr))
{
}

Engine::Engine(const Model& model, const Options& options, std::unique_ptr<Chip> chip)
    : core_(std::make_unique<Core>(model, options, std::move(chip)))
{
}

Engine::~Engine() = default;

uint64_t Engine::step(uint32_t stream, std::span<const std::byte> input, std::span<float> output,
                      nanoseconds deadline)
{
    core_->check_sizes(1, input.size(), output.size());
    return end(begin(stream, input, deadline), output, deadline);
}

Ticket Engine::begin(uint32_t stream, std::span<const std::byte> input, nanoseconds deadline)
{
    Core& core = *core_;
    core.process.check("the resident model");
    core.check_stream(stream);
    core.check_sizes(1, input.size(), core.output_floats());
    core.check_input(input.data());
    const Deadline until(deadline);
    const uint32_t number = take_cell(*core.server, stream, until);
    const uint64_t generation = core.server->generation(number);
    core.server->send(number, stream, input.data(), until);
    core.server->flush();
    return {generation << 32 | number};
}

bool Engine::ready(Ticket ticket) const
{
    core_->process.check("the resident model");
    return core_->server->done(core_->cell_of(ticket)) || core_->server->ended();
}

uint64_t Engine::end(Ticket ticket, std::span<float> output, nanoseconds deadline)
{
    Core& core = *core_;
    core.process.check("the resident model");
    const uint32_t number = core.cell_of(ticket);
    if (output.size() != core.output_floats()) {
        core.server->abandon(number);
        core.check_sizes(1, core.input_bytes(), output.size());
    }
    core.wait(number, Deadline(deadline));
    return core.server->take_answer(number, output.data());
}

void Engine::abandon(Ticket ticket)
{
    core_->process.check("the resident model");
    core_->server->abandon(core_->cell_of(ticket));
}

// It waits for a free cell only while it holds none itself: two such callers, each with half of the
// cells, would else wait for each other.
void Engine::steps(std::span<const uint32_t> streams, std::span<const std::byte> inputs,
                   std::span<float> outputs, std::span<uint64_t> versions, nanoseconds deadline)
{
    Core& core = *core_;
    core.process.check("the resident model");
    core.check_sizes(streams.size(), inputs.size(), outputs.size());
    if (versions.size() != streams.size()) {
        throw Error(Errc::bad_argument, std::to_string(streams.size()) + " steps have as many " +
                                            "versions, not " + std::to_string(versions.size()));
    }
    for (size_t i = 0; i < streams.size(); ++i) {
        core.check_stream(streams[i]);
        core.check_input(inputs.data() + i * core.input_bytes());
    }
    const Deadline until(deadline);
    std::vector<uint32_t> under_way(core.options.requests); // by number of the step
    size_t begun = 0;
    size_t ended = 0;
    const auto cell_of = [&](size_t i) -> uint32_t& { return under_way[i % under_way.size()]; };
    try {
        for (uint32_t turn = 0; ended < streams.size(); ++turn) { // ends: each ends a step
            const size_t before = begun;
            while (begun < streams.size() && begun - ended < under_way.size()) {
                uint32_t number = 0;
                if (begun == ended) {
                    number = take_cell(*core.server, streams[begun], until);
                } else if (!core.server->take(number, streams[begun])) {
                    break;
                }
                core.server->send(number, streams[begun],
                                  inputs.data() + begun * core.input_bytes(), until);
                cell_of(begun++) = number;
            }
            if (begun != before) core.server->flush();
            if (turn % 16 == 0) check_interrupt();
            // The next answer, and those behind it that are there: what takes their places is sent
            // together.
            for (size_t taken = 0; ended < begun && taken < most_answers; ++taken) {
                const uint32_t number = cell_of(ended);
                const bool there = core.server->done(number);
                if (!there && taken != 0) break;
                ++ended; // wait() gives it up if it throws
                if (!there) core.wait(number, until);
                versions[ended - 1] = core.server->take_answer(
                    number, outputs.data() + (ended - 1) * core.output_floats());
            }
        }
    } catch (...) {
        core.server->flush();
        while (ended < begun) core.server->abandon(cell_of(ended++));
        throw;
    }
}

uint64_t Engine::swap(const Model& model, nanoseconds deadline)
{
    Core& core = *core_;
    core.process.check("the resident model");
    const Deadline until(deadline);
    check_same(core.plan, checked_plan(model), model, "the new model");
    return core.server->swap(model, 0, until);
}

void Engine::reset(uint32_t stream, nanoseconds deadline)
{
    core_->check_stream(stream);
    core_->process.check("the resident model");
    core_->server->reset(stream, Deadline(deadline));
}

void Engine::state(uint32_t stream, std::span<float> to, nanoseconds deadline)
{
    Core& core = *core_;
    core.check_stream(stream);
    require_within("floats of a state", to.size(), core.plan.kept_floats, core.plan.kept_floats);
    core.process.check("the resident model");
    core.server->read_state(stream, to, Deadline(deadline));
}

void Engine::set_state(uint32_t stream, std::span<const float> from, nanoseconds deadline)
{
    Core& core = *core_;
    core.check_stream(stream);
    require_within("floats of a state", from.size(), core.plan.kept_floats, core.plan.kept_floats);
    core.process.check("the resident model");
    core.server->write_state(stream, from, Deadline(deadline));
}

void Engine::save(const std::string& path, nanoseconds deadline)
{
    const Deadline until(deadline);
    core_->process.check("the resident model");
    const std::vector<float> all = core_->server->read_all(until);
    write_states(path, core_->plan, core_->options.streams, all, until.left_ns());
}

void Engine::restore(const std::string& path, nanoseconds deadline)
{
    core_->process.check("the resident model");
    std::vector<float> all = read_states(path, core_->plan, core_->options.streams);
    core_->server->write_all(std::move(all), Deadline(deadline));
}

const std::vector<StatePart>& Engine::state_parts() const { return core_->plan.kept; }
size_t Engine::state_floats() const { return core_->plan.kept_floats; }
uint64_t Engine::version() const { return core_->server->version(); }
Stats Engine::stats() const { return core_->server->stats(); }
uint32_t Engine::parts() const { return core_->server->parts(); }
uint32_t Engine::streams() const { return core_->options.streams; }
uint32_t Engine::requests() const { return core_->options.requests; }
Format Engine::format() const { return core_->options.format; }
size_t Engine::input_bytes() const { return core_->input_bytes(); }
size_t Engine::output_floats() const { return core_->output_floats(); }
size_t Engine::weight_bytes() const { return core_->server->weight_bytes(); }
size_t Engine::state_bytes() const { return core_->server->state_bytes(); }
std::string Engine::place() const { return core_->server->place(); }

void Engine::close()
{
    if (core_->process.here()) core_->server->stop();
}

} // namespace denizen::infer
