// SPDX-License-Identifier: Apache-2.0
// Sound in a box of cells: the second-order acoustic wave equation on a regular grid, with walls,
// sources and receivers, on a GPU or on CPU threads.
//
//   denizen::wave::Settings room;
//   room.cells[0] = room.cells[1] = room.cells[2] = 64;
//   denizen::wave::Simulation simulation(room);
//   simulation.add_source({.at = {32, 32, 32}});
//   const uint32_t ear = simulation.add_receiver(40, 32, 32);
//   simulation.run(100);
//   const std::vector<double> heard = simulation.trace(ear);
//
// In a file compiled by nvcc a GPU is used, if there is one; else threads of the CPU.
#pragma once

#include <denizen/actor/any_runtime.hpp>
#include <denizen/base/code.hpp>
#include <denizen/base/process.hpp>
#include <denizen/wave/request.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#include <denizen/wave/detail/kernels.hpp>
#endif

namespace denizen::wave {

enum class Precision { single, twofold };

struct Settings {
    uint32_t cells[3] = {64, 64, 64}; // along x, y, z; x is the fastest in memory
    double spacing = 0.1;             // m from cell to cell
    double speed = 343;               // m/s
    double dt = 0;                    // s per step; 0: spacing / (2 speed)
    double damping = 0;               // 1/s, g in p_tt + 2 g p_t = c2 lap p
    double absorber = 500;            // 1/s, on top of it in absorber cells
    Boundary boundary[3] = {};        // on both sides of x, y, z
    std::vector<uint8_t> kinds;       // Cell by cell, or empty: all are normal
    Precision precision = Precision::single;
    // No kernel of resident tiles lasts longer: the next one is queued behind it, so that whoever
    // waits for the whole device waits for two of them at most. 0: one for a whole run. Unless it
    // is said: denizen::default_breath on a GPU, 0 on the CPU, where only tests want it.
    std::optional<std::chrono::microseconds> breath;
};

enum class Method {
    automatic, // GPU: the fastest, found by trying those that the grid fits; CPU: threads
    threads,   // CPU: slabs of planes, a barrier per step
    launches,  // GPU: a kernel launch per step
    graph,     // GPU: a captured graph of launches
    tiles,     // resident: each block holds a tile, which swaps faces with its neighbours
    deep,      // the same with shells of two cells, which are swapped every second step
    pass2,     // two steps in each pass over the memory
    pass4,     // four
};
const char* to_string(Method method);

#if defined(__CUDACC__)
namespace detail {

static inline void* wave_kernel(const std::string& name)
{
#define DENIZEN_WAVE_NAMED(kernel)                                                                 \
    {                                                                                              \
        #kernel, reinterpret_cast<const void*>(&denizen_wave_##kernel)                             \
    }
    const denizen::detail::NamedKernel kernels[] = {
        DENIZEN_WAVE_NAMED(sweep_f32),      DENIZEN_WAVE_NAMED(sweep_f64),
        DENIZEN_WAVE_NAMED(tick),           DENIZEN_WAVE_NAMED(small_f32),
        DENIZEN_WAVE_NAMED(medium_f32),     DENIZEN_WAVE_NAMED(large_f32),
        DENIZEN_WAVE_NAMED(small_deep_f32), DENIZEN_WAVE_NAMED(medium_deep_f32),
        DENIZEN_WAVE_NAMED(small_f64),      DENIZEN_WAVE_NAMED(medium_f64),
        DENIZEN_WAVE_NAMED(small_deep_f64), DENIZEN_WAVE_NAMED(pass2_f32),
        DENIZEN_WAVE_NAMED(pass4_f32),      DENIZEN_WAVE_NAMED(pass2_f64),
        DENIZEN_WAVE_NAMED(pass4_f64),
    };
#undef DENIZEN_WAVE_NAMED
    return denizen::detail::function_of(kernels, name, "the wave");
}

} // namespace detail

static inline Code compiled_code() { return {{}, &detail::wave_kernel}; }
#else
inline Code compiled_code() { return {}; }
#endif

// What a run took.
struct Ran {
    uint32_t steps = 0;
    double seconds = 0; // from the first step to the last: of resident tiles by the device's clock,
                        // else by the host's, from the first launch to the last one's end
    Method method = Method::automatic; // that was used
    std::string tiles;                 // of resident ones: "128 tiles of 32 x 8 x 8", else empty
    uint32_t incarnations = 0;         // of resident tiles: kernels that the run was made of
};

class Engine;
class Mailbox;
struct State;

// One call at a time, and none but those that say so while a run is under way. While a run uses a
// GPU, the resident programs of this process leave it, and come back by themselves.
class Simulation {
public:
    // `threads`: of the CPU, 0 for as many as there are. `slabs`: the grid is cut along z into so
    // many, each on a GPU, from `device` on (`group_code`: group::compiled_code()), or on its share
    // of the threads. Errc::bad_argument for settings that are out of range or not stable,
    // Errc::no_device, Errc::exhausted (memory).
    explicit Simulation(const Settings& settings, Device device = Device::automatic(),
                        const Code& code = compiled_code(), uint32_t threads = 0,
                        uint32_t slabs = 1, const Code& group_code = {});
    ~Simulation();
    Simulation(const Simulation&) = delete;
    Simulation& operator=(const Simulation&) = delete;

    // Frequency in cycles per step, as Source says; `begin` counts from now. `samples`: for
    // Shape::samples, one for each step. Errc::bad_argument for a place outside or in a solid cell,
    // Errc::exhausted for more than most_sources.
    void add_source(Source source, const std::vector<float>& samples = {});
    // Its number. Errc::bad_argument, Errc::exhausted.
    uint32_t add_receiver(uint32_t x, uint32_t y, uint32_t z);

    // The pressure now and a step before, x fastest. Solid cells become 0.
    void set_fields(const std::vector<double>& now, const std::vector<double>& before);
    std::vector<double> field() const;
    std::vector<double> field_before() const;
    // What receiver `number` has heard in all steps since it was added.
    const std::vector<double>& trace(uint32_t number) const;

    // Errc::bad_argument for a method that the device does not have or that the grid does not fit;
    // Errc::timeout if the device does not get on: the field is then that of some step of the run.
    // CPU threads look for an interrupt (interrupt.hpp) between two passes, and keep their steps.
    Ran run(uint32_t steps, Method method = Method::automatic);

    // The same on a thread of its own, open to commands. `ahead`: how many steps the conductor of
    // resident tiles is in front of them.
    void start(uint32_t steps, Method method = Method::automatic, uint32_t ahead = 2);
    // From any thread: applies the commands together, between two steps; the step, counted from the
    // start of the simulation, in front of which that was. Returns when they have been taken. A
    // read has to be the last; `values` are its cells, x fastest. Errc::closed if the run was over,
    // Errc::oversize for more cells than the largest face has, Errc::timeout.
    uint64_t command(std::vector<Request> commands, std::vector<double>* values = nullptr,
                     nanoseconds patience = std::chrono::seconds(10));
    bool running() const;
    // Waits for the end of the run that start() began; throws what went wrong with it.
    Ran finish();

    uint64_t steps() const; // done since the start; while a run is under way, before it
    double dt() const;
    double courant() const;
    bool on_gpu() const;
    const std::string& device() const;
    // The method that `automatic` stands for here. The first call on a GPU tries the methods out,
    // some ms each, and may not be made while a run is under way.
    Method chosen() const;

private:
    void check_command(const Request& command) const;
    Method method_of(Method method) const;

    Process process_; // that a run is of
    std::unique_ptr<State> state_;
    std::unique_ptr<Engine> engine_;
    struct Run;
    std::unique_ptr<Run> run_;
};

} // namespace denizen::wave
