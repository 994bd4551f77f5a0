// SPDX-License-Identifier: Apache-2.0
#include "engine.hpp"

#include <denizen/device/residents.hpp>

#include <denizen/base/interrupt.hpp>
#include <denizen/base/threads.hpp>
#include <denizen/group/ref.hpp>
#include <denizen/wire/wait.hpp>

#include <cmath>

namespace denizen::wave {
namespace {

constexpr uint32_t least_planes = 4;           // of a slab
constexpr double stable = 0.57735026918962576; // 1 / sqrt(3): Courant, Friedrichs and Lewy (1928)

std::string number(double value)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
}

[[noreturn]] void refuse(const std::string& why) { throw Error(Errc::bad_argument, why); }

void check_positive(const char* what, double value, const char* unit)
{
    if (!(value > 0) || !std::isfinite(value)) {
        refuse(std::string(what) + " is " + number(value) + " " + unit + "; it must be above 0");
    }
}

void check_not_negative(const char* what, double value)
{
    if (!(value >= 0) || !std::isfinite(value)) {
        refuse(std::string(what) + " is " + number(value) + " per second; it must not be negative");
    }
}

std::unique_ptr<State> state_of(const Settings& settings, bool on_gpu)
{
    auto state = std::make_unique<State>();
    for (uint32_t axis = 0; axis < 3; ++axis) {
        if (settings.cells[axis] < 4 || settings.cells[axis] > 8192) {
            refuse("the grid has " + std::to_string(settings.cells[axis]) + " cells along " +
                   "xyz"[axis] + "; 4 to 8192 can be simulated");
        }
        state->geometry.n[axis] = settings.cells[axis];
        state->geometry.boundary[axis] = settings.boundary[axis];
    }
    check_positive("the spacing of cells", settings.spacing, "m");
    check_positive("the speed of sound", settings.speed, "m/s");
    check_not_negative("damping", settings.damping);
    check_not_negative("the absorbers' damping", settings.absorber);
    state->dt = settings.dt == 0 ? settings.spacing / (2 * settings.speed) : settings.dt;
    check_positive("the time step", state->dt, "s");
    state->medium.courant = settings.speed * state->dt / settings.spacing;
    if (state->medium.courant > stable) {
        refuse("a step of " + number(state->dt) + " s is not stable: the Courant number is " +
               number(state->medium.courant) + ", at most 0.57735 is; steps of " +
               number(stable * settings.spacing / settings.speed) + " s or cells of " +
               number(settings.speed * state->dt / stable) + " m are");
    }
    state->medium.damping = settings.damping * state->dt;
    state->medium.absorber = settings.absorber * state->dt;
    state->precision = settings.precision;
    state->breath_ns = on_gpu || settings.breath ? breath_ns_of(settings.breath) : 0;
    state->kinds = settings.kinds;
    const uint64_t cells = state->geometry.cells();
    if (state->kinds.empty()) assign_interruptibly(state->kinds, cells, uint8_t{0});
    if (state->kinds.size() != cells) {
        refuse("kinds of " + std::to_string(state->kinds.size()) + " cells for a grid of " +
               std::to_string(cells));
    }
    interruptibly(uint64_t{0}, cells, [&](uint64_t i) {
        if (state->kinds[i] > static_cast<uint8_t>(Cell::obstacle)) {
            refuse("the kind of cell " + std::to_string(i) + " is " +
                   std::to_string(state->kinds[i]) +
                   "; there are 0 normal, 1 absorber, 2 reflector, 3 obstacle");
        }
    });
    return state;
}

// x, y, z
std::string place(const int32_t at[3])
{
    return "(" + std::to_string(at[0]) + ", " + std::to_string(at[1]) + ", " +
           std::to_string(at[2]) + ")";
}

void check_inside(const Geometry& geometry, const int32_t at[3], const char* what)
{
    for (uint32_t axis = 0; axis < 3; ++axis) {
        if (at[axis] < 0 || at[axis] >= static_cast<int32_t>(geometry.n[axis])) {
            refuse(std::string(what) + " at " + place(at) + " is outside the grid of " +
                   std::to_string(geometry.n[0]) + " x " + std::to_string(geometry.n[1]) + " x " +
                   std::to_string(geometry.n[2]) + " cells");
        }
    }
}

void check_source(const State& state, const Source& source)
{
    check_inside(state.geometry, source.at, "a source");
    if (state.kinds[state.geometry.index(source.at)] >= static_cast<uint8_t>(Cell::reflector)) {
        refuse("a source at " + place(source.at) + " lies in a solid cell, which has no pressure");
    }
    if (!std::isfinite(source.amplitude) || !std::isfinite(source.delay)) {
        refuse("a source's amplitude and delay must be finite");
    }
    const bool periodic = source.shape == Shape::ricker || source.shape == Shape::sine;
    if (periodic && !(source.frequency > 0 && source.frequency <= 0.5)) {
        refuse("a source of " + number(source.frequency) +
               " cycles per step; above 0, and at most 0.5 (Nyquist), can be simulated");
    }
}

} // namespace

const char* to_string(Method method)
{
    switch (method) {
    case Method::automatic: return "auto";
    case Method::threads: return "threads";
    case Method::launches: return "launches";
    case Method::graph: return "graph";
    case Method::tiles: return "tiles";
    case Method::deep: return "deep";
    case Method::pass2: return "pass2";
    case Method::pass4: return "pass4";
    }
    return "unknown";
}

// A run on a thread of its own.
struct Simulation::Run {
    std::unique_ptr<Mailbox> mailbox;
    uint64_t first = 0;
    std::atomic<bool> over = false;
    std::atomic<bool> paused = false;
    Ran ran;
    std::exception_ptr error;
    Threads thread;
};

Simulation::Simulation(const Settings& settings, Device device, const Code& code, uint32_t threads,
                       uint32_t slabs, const Code& group_code)
{
    const bool gpu = device.kind == Device::Kind::gpu || (device.kind == Device::Kind::automatic &&
                                                          gpu_present() && code.runs_on_gpu());
    state_ = state_of(settings, gpu);
    if (gpu && !code.runs_on_gpu()) {
        throw Error(Errc::no_device, "this simulation was compiled without CUDA: compile the file "
                                     "that makes it with nvcc, or use Device::cpu()");
    }
    if (slabs == 0 || slabs > group::max_ranks || slabs > state_->geometry.n[2] / least_planes) {
        refuse(std::to_string(slabs) + " slabs of " + std::to_string(state_->geometry.n[2]) +
               " planes along z; there can be 1 to " + std::to_string(group::max_ranks) +
               ", of at least " + std::to_string(least_planes) + " planes each");
    }
    if (!gpu && threads != 0 && threads % slabs != 0) {
        refuse(std::to_string(threads) + " threads for " + std::to_string(slabs) +
               " slabs; each has as many");
    }
    engine_ = gpu ? make_gpu_engine(*state_, device.ordinal, slabs, code, group_code)
                  : make_cpu_engine(*state_, threads, slabs);
}

Simulation::~Simulation()
{
    if (!run_) return;
    if (!process_.here()) {
        (void)run_.release(); // what its thread holds is not this process's
        return;
    }
    const Interruptible never(nullptr);
    try {
        if (running()) command({Request{}});
    } catch (const Error&) { // it has just ended by itself
    }
    run_->thread.join();
}

bool Simulation::on_gpu() const { return engine_->on_gpu; }
const std::string& Simulation::device() const { return engine_->device; }
uint64_t Simulation::steps() const { return run_ ? run_->first : state_->step; }
double Simulation::dt() const { return state_->dt; }
double Simulation::courant() const { return state_->medium.courant; }
Method Simulation::chosen() const
{
    if (run_) refuse("a run is under way: ask for its method before it or after it");
    return engine_->chosen();
}

void Simulation::add_source(Source source, const std::vector<float>& samples)
{
    check_source(*state_, source);
    if (state_->sources.size() == most_sources) {
        throw Error(Errc::exhausted, "there are " + std::to_string(most_sources) +
                                         " sources already; add some of them up");
    }
    source.begin += state_->step;
    source.first = state_->pool.size();
    source.count = samples.size();
    state_->pool.insert(state_->pool.end(), samples.begin(), samples.end());
    state_->sources.push_back(source);
}

uint32_t Simulation::add_receiver(uint32_t x, uint32_t y, uint32_t z)
{
    const std::array<int32_t, 3> at = {static_cast<int32_t>(x), static_cast<int32_t>(y),
                                       static_cast<int32_t>(z)};
    check_inside(state_->geometry, at.data(), "a receiver");
    if (state_->receivers.size() == most_receivers) {
        throw Error(Errc::exhausted, "there are " + std::to_string(most_receivers) +
                                         " receivers already; read boxes of the field instead");
    }
    state_->receivers.push_back(at);
    state_->traces.emplace_back();
    return static_cast<uint32_t>(state_->receivers.size() - 1);
}

void Simulation::set_fields(const std::vector<double>& now, const std::vector<double>& before)
{
    for (const auto* field : {&now, &before}) {
        if (field->size() != state_->geometry.cells()) {
            refuse("a field of " + std::to_string(field->size()) + " values for a grid of " +
                   std::to_string(state_->geometry.cells()) + " cells");
        }
        for (const double value : *field) {
            if (!std::isfinite(value)) refuse("the field has a value that is not finite");
        }
    }
    engine_->set(now, before);
}

std::vector<double> Simulation::field() const { return engine_->get(false); }
std::vector<double> Simulation::field_before() const { return engine_->get(true); }

const std::vector<double>& Simulation::trace(uint32_t at) const
{
    if (at >= state_->traces.size()) {
        refuse("there is no receiver " + std::to_string(at) + ": there are " +
               std::to_string(state_->traces.size()) + ", from 0");
    }
    return state_->traces[at];
}

Method Simulation::method_of(Method method) const
{
    if (method == Method::automatic) return engine_->chosen();
    const bool gpu_only = method == Method::launches || method == Method::graph;
    if (on_gpu() ? method == Method::threads : gpu_only) {
        refuse(std::string("method ") + to_string(method) + " is not one of " + device() +
               ": use " +
               (on_gpu() ? "launches, graph, tiles, deep, pass2 or pass4"
                         : "threads, tiles, deep, pass2 or pass4"));
    }
    return method;
}

Ran Simulation::run(uint32_t steps, Method method)
{
    if (steps == 0 || steps > 1u << 30) {
        refuse(std::to_string(steps) + " steps; a run has 1 to 2^30");
    }
    const Ran ran = engine_->run(steps, method_of(method), nullptr, 0);
    denizen::detail::throw_interrupt(); // what was done before it is kept
    return ran;
}

void Simulation::start(uint32_t steps, Method method, uint32_t ahead)
{
    if (run_) refuse("a run is under way; finish() it first");
    if (steps == 0 || steps > 1u << 30) {
        refuse(std::to_string(steps) + " steps; a run has 1 to 2^30");
    }
    if (ahead == 0 || ahead > 1024) refuse("ahead is " + std::to_string(ahead) + "; 1 to 1024 do");
    method = method_of(method);
    auto run = std::make_unique<Run>();
    run->mailbox = engine_->open_mailbox();
    const bool resident = method == Method::tiles || method == Method::deep;
    run->mailbox->allow(resident ? most_changes : ~0u,
                        most_sources - static_cast<uint32_t>(state_->sources.size()));
    run->first = state_->step;
    run_ = std::move(run);
    const auto body = [this, steps, method, ahead](uint32_t) {
        try {
            run_->ran = engine_->run(steps, method, run_->mailbox.get(), ahead);
        } catch (...) {
            run_->error = std::current_exception();
        }
        run_->over = true;
    };
    try {
        run_->thread.start(1, "stepping", body);
    } catch (...) {
        run_.reset();
        throw;
    }
}

bool Simulation::running() const { return run_ && !run_->over; }

void Simulation::check_command(const Request& command) const
{
    const auto& n = state_->geometry.n;
    if (command.act == Act::source) {
        check_inside(state_->geometry, command.source.at, "a source");
        if (command.source.shape == Shape::samples) {
            refuse("sources of samples are added before a run starts");
        }
        if (command.source.shape != Shape::impulse &&
            !(command.source.frequency > 0 && command.source.frequency <= 0.5)) {
            refuse("a source of " + number(command.source.frequency) +
                   " cycles per step; above 0, and at most 0.5 (Nyquist), can be simulated");
        }
    }
    if (command.act == Act::damping && (!(command.value >= 0) || !std::isfinite(command.value))) {
        refuse("damping must not be negative");
    }
    if (command.act != Act::cells && command.act != Act::read) return;
    const Box& box = command.edit.box;
    uint64_t cells = 1;
    for (uint32_t axis = 0; axis < 3; ++axis) {
        if (box.low[axis] < 0 || box.high[axis] > static_cast<int32_t>(n[axis]) ||
            box.low[axis] >= box.high[axis]) {
            refuse("the box from " + place(box.low) + " to " + place(box.high) +
                   " is empty or goes beyond the grid");
        }
        cells *= static_cast<uint64_t>(box.high[axis] - box.low[axis]);
    }
    if (command.act == Act::cells && command.edit.cell > static_cast<uint32_t>(Cell::obstacle)) {
        refuse("kind " + std::to_string(command.edit.cell) +
               "; there are 0 normal, 1 absorber, 2 reflector, 3 obstacle");
    }
    const uint64_t most =
        std::max({uint64_t{n[0]} * n[1], uint64_t{n[0]} * n[2], uint64_t{n[1]} * n[2]});
    if (command.act == Act::read && cells > most) {
        throw Error(Errc::oversize, "a box of " + std::to_string(cells) + " cells; at most " +
                                        std::to_string(most) +
                                        ", those of the largest face, are read at once");
    }
}

uint64_t Simulation::command(std::vector<Request> commands, std::vector<double>* values,
                             nanoseconds patience)
{
    if (!run_) throw Error(Errc::closed, "no run is under way: start() one");
    process_.check("the run");
    for (size_t i = 0; i < commands.size(); ++i) {
        check_command(commands[i]);
        if (commands[i].act == Act::read && (i + 1 != commands.size() || values == nullptr)) {
            refuse("a read is the last of its commands, and needs a place for the values");
        }
    }
    if (values != nullptr && (commands.empty() || commands.back().act != Act::read)) {
        refuse("none of the commands reads");
    }
    const auto over = [this] { return run_->over.load(); };
    uint32_t step = 0;
    try {
        step = run_->mailbox->ask(commands, values, patience, over);
    } catch (const Error& error) {
        // A run that failed is over as well: its own error says more.
        if (error.code() == Errc::closed && run_->over && run_->error) {
            std::rethrow_exception(run_->error);
        }
        throw;
    }
    for (const Request& command : commands) {
        if (command.act == Act::pause) run_->paused = true;
        if (command.act == Act::end) run_->paused = false;
        if (command.act == Act::resume) run_->paused = command.until != 0;
    }
    return run_->first + step;
}

Ran Simulation::finish()
{
    if (!run_) throw Error(Errc::closed, "no run is under way: start() one");
    process_.check("the run");
    if (run_->paused && running()) {
        Request go_on;
        go_on.act = Act::resume;
        try {
            command({go_on});
        } catch (const Error&) {
            if (running()) throw;
        }
    }
    // The run goes on if the wait for its end is interrupted.
    Backoff wait;
    while (running()) { // ends with the run
        check_interrupt();
        wait.pause();
    }
    run_->thread.join();
    const auto run = std::move(run_);
    if (run->error) std::rethrow_exception(run->error);
    return run->ran;
}

} // namespace denizen::wave
