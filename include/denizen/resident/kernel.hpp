// SPDX-License-Identifier: Apache-2.0
// A worker's main loop, and how a program gets onto its processor: as a kernel whose last block is
// the monitor, or as one function per CPU thread.
#pragma once

#include <denizen/resident/monitor.hpp>
#include <denizen/resident/worker.hpp>

namespace denizen {

namespace detail {

inline constexpr uint32_t rounds_per_look = 16; // rounds between two looks at the command
inline constexpr uint32_t eager_rounds = 8192;  // rounds without work before a worker slows down

} // namespace detail

// Ends when the command says stop or leave.
template <class P>
DENIZEN_HD void run_worker(const Shared& s, uint32_t id)
{
    Worker<P> worker(s, id);
    worker.set_mode(Mode::running);
    uint32_t idle = 0;
    for (uint32_t n = 1;; ++n) {
        const bool worked = worker.round();
        idle = worked ? 0 : idle + 1;
        if (n % detail::rounds_per_look != 0 && idle <= detail::eager_rounds) {
            continue;
        }
        Command command = worker.look();
        if (command == Command::pause) {
            worker.set_mode(Mode::paused);
            while (command == Command::pause) {
                // Ends when the host resumes, parks, stops or dies (the monitor sees to the last).
#if DENIZEN_ON_DEVICE
                __nanosleep(1000);
#elif DENIZEN_HOSTED
                futex_wait(&s.board->command, static_cast<uint32_t>(Command::pause), 10'000'000);
#endif
                command = worker.look();
            }
            if (command == Command::run) {
                worker.set_mode(Mode::running);
                continue;
            }
        }
        if (command == Command::stop || command == Command::leave) {
            // Whatever waits or is parked stays, with its tickets: the host sees that there is work
            // and brings the program back.
            worker.set_mode(Mode::left);
            return;
        }
        if (idle >= detail::rounds_per_look) {
            worker.idle();
        }
#if DENIZEN_ON_DEVICE
        if (idle > detail::eager_rounds) {
            const uint32_t nap = (idle - detail::eager_rounds) / 16;
            __nanosleep(nap < 1000 ? nap : 1000);
        }
#elif DENIZEN_HOSTED
        if (idle > detail::eager_rounds) {
            // Ends by a sender's bell; the time-out only bounds a wait for a command.
            sleep_on_bell(&s.bells[id].bell, &s.bells[id].sleeping, 100'000'000, [&] {
                return worker.something_arrived() ||
                       load<Scope::gpu>(&s.board->command) != static_cast<uint32_t>(Command::run);
            });
        } else if (idle > 256) {
            sched_yield();
        }
#endif
    }
}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

// Warp v of block b is worker b * warps + v; the warp after the last worker is the monitor.
// Launched cooperatively, so that every block is resident or the launch fails.
template <class P>
__device__ inline void run_resident(const Shared& s)
{
    const uint32_t id = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (id < s.workers) {
        run_worker<P>(s, id);
    } else if (id == s.workers) {
        run_monitor(s);
    }
}

#endif

} // namespace denizen

// Ends program text that is compiled at run time: defines the symbols the runtime looks up.
#if defined(__CUDACC_RTC__)
#define DENIZEN_PROGRAM(P)                                                                         \
    extern "C" __device__ const denizen::ProgramTable denizen_table = P::table();                  \
    extern "C" __global__ void denizen_resident(const __grid_constant__ denizen::Shared shared)    \
    {                                                                                              \
        denizen::run_resident<P>(shared);                                                          \
    }
#else
#define DENIZEN_PROGRAM(P)                                                                         \
    extern "C" __attribute__((visibility("default"))) const denizen::ProgramTable denizen_table =  \
        P::table();                                                                                \
    extern "C" __attribute__((visibility("default"))) void denizen_run_worker(                     \
        const denizen::Shared& shared, uint32_t id)                                                \
    {                                                                                              \
        denizen::run_worker<P>(shared, id);                                                        \
    }
#endif
