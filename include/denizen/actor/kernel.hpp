// SPDX-License-Identifier: Apache-2.0
// A worker's main loop, and how a program gets onto its processor: as a kernel whose last block is
// the monitor, or as one function per CPU thread.
#pragma once

#include <denizen/actor/detail/crew_loop.hpp>
#include <denizen/actor/detail/monitor.hpp>
#include <denizen/actor/detail/worker_choice.hpp>
#include <denizen/actor/detail/worker_service.hpp>
#include <denizen/device/detail/resident.hpp>

namespace denizen {

namespace detail {

inline constexpr uint32_t rounds_per_look = 16;     // rounds between two looks at the command
inline constexpr uint32_t rounds_per_task_look = 4; // of an idle worker
inline constexpr uint32_t eager_rounds = 8192; // rounds without work before a worker slows down
// On a GPU a round that finds nothing has so many looks, and counts as a round for every four: what
// comes while a worker is between two rounds waits longest. One that has slowed down has four, and
// so has one that is to say soon that it has heard of its breath's end.
inline constexpr uint32_t eager_looks = lanes::size > 1 ? 16 : 1;
inline constexpr uint32_t slow_looks = lanes::size > 1 ? 4 : 1;
static_assert(eager_rounds > rounds_per_look); // it says what it has done before it sleeps

// The workers of a cluster wait for each other, once when their boxes are ready to be written and
// once when nobody writes any more. In a cluster of several blocks that is the hardware's barrier,
// which waits for every thread that has not ended: the monitor arrives at the second at once and
// goes on, the warps without a worker have ended by then. It is not the .aligned form: the lanes of
// a warp may come one by one. In a block by itself (where that barrier was seen to hang once a warp
// had ended) it is a barrier of the worker warps alone.
#if DENIZEN_ON_DEVICE
__device__ inline bool in_cluster(const Shared& s) { return s.near > s.per_sm; }

__device__ inline void arrive_at_cluster()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ inline void meet_workers(const Shared& s)
{
    lanes::rejoin(); // lanes that came to the barrier apart were seen to wait there for ever
    if (in_cluster(s)) {
#if __CUDA_ARCH__ >= 900
        asm volatile("barrier.cluster.arrive.release;\n\t"
                     "barrier.cluster.wait.acquire;" ::
                         : "memory");
#endif
        return;
    }
    const uint32_t left = s.workers - blockIdx.x * s.per_sm;
    const uint32_t here = left < s.per_sm ? left : s.per_sm;
    asm volatile("barrier.cta.sync 1, %0;" ::"r"(32 * here) : "memory");
}
#else
DENIZEN_HD inline bool in_cluster(const Shared& s) { return s.near > s.per_sm; }
DENIZEN_HD inline void arrive_at_cluster() {}
DENIZEN_HD inline void meet_workers(const Shared&) {}
#endif

// A worker's box goes back to device memory when the worker leaves the GPU; see fetch_box().
DENIZEN_HD inline void leave_near([[maybe_unused]] const Shared& s, [[maybe_unused]] uint32_t id)
{
#if DENIZEN_ON_DEVICE
    cluster::await_copies(); // sources.hpp's write here
    meet_workers(s);
    const auto* here = reinterpret_cast<const uint4*>(near_memory + threadIdx.x / 32 * s.box_bytes);
    auto* kept = reinterpret_cast<uint4*>(s.boxes + static_cast<uint64_t>(id) * s.box_bytes);
    for (uint32_t i = lanes::id(); i < s.box_bytes / 16; i += lanes::size) {
        kept[i] = here[i];
    }
    lanes::sync();
#endif
}

} // namespace detail

// Ends when the command says stop or leave, or with the breath: see breath.hpp. Each of the
// worker's members is called at one place, where it is expanded: what is called seldom would be
// most of this function otherwise.
template <class P>
DENIZEN_HD void run_worker(const Shared& s, uint32_t id)
{
    const uint64_t entered = s.breath.ns != 0 ? now_ns() : 0;
    detail::fetch_box(s, id);
    Worker<P> worker(s, id);
    detail::meet_workers(s);
    Mode mode = Mode::starting; // as told; a paused program stays so when it comes back
    // Rounds without work, in a row: an idle program slows down though no incarnation lasts.
    uint32_t idle = cluster::load(detail::box::idle(detail::own_box(s, id)));
    [[maybe_unused]] bool crowded = false;  // others took its core when it was last offered
    [[maybe_unused]] uint32_t withheld = 0; // how often it is not offered: wait.hpp
    if (s.breath.ns != 0 && lanes::id() == 0) {
        detail::begin_breath(s.breath, entered);
    }
    for (;;) {
        const uint32_t told = worker.look();
        const Command command = command_of(told);
        const bool runs = command == Command::run;
        // Passed: it goes on in the next incarnation.
        const bool passed = (told & breath_go) != 0 && detail::pass_gate(s.breath, told);
        if (passed || (runs ? idle >= detail::rounds_per_look : mode != Mode::paused)) {
            worker.tell(passed ? Told::to_successor : runs ? Told::on_the_way : Told::all);
        }
        if (passed) {
            cluster::store_own(detail::box::idle(detail::own_box(s, id)), idle);
            detail::leave_near(s, id);
            if (lanes::id() == 0) {
                detail::end_breath(s.breath);
            }
            return;
        }
        if (command == Command::stop || command == Command::leave) {
            // Whatever waits or is parked stays, with its tickets: the host sees that there is work
            // and brings the program back.
            detail::leave_near(s, id);
            worker.set_mode(Mode::left);
            return;
        }
        const Mode next = runs ? Mode::running : Mode::paused;
        if (next != mode) {
            mode = next;
            worker.set_mode(mode);
        }
        uint32_t n = told == static_cast<uint32_t>(Command::run) ? detail::rounds_per_look : 1;
        if ((told & breath_soon) != 0 && (told & breath_go) == 0) {
            n = detail::acknowledge(s.breath, id, told);
            if (n == 0) {
                continue; // it has waited for what it is told now
            }
        }
        if (!runs) {
            // Ends when the host resumes, parks, stops or dies (the monitor sees to the last).
#if DENIZEN_ON_DEVICE
            __nanosleep(1000);
#elif DENIZEN_HOSTED
            if (told == static_cast<uint32_t>(Command::pause)) {
                futex_wait(&s.board->command, told, 10'000'000);
            } else {
                sched_yield(); // a breath ends, and nobody rings for its steps
            }
#endif
            continue;
        }
#if DENIZEN_ON_DEVICE
        if (idle > detail::eager_rounds && (told & breath_soon) == 0) {
            const uint32_t nap = (idle - detail::eager_rounds) / 16;
            __nanosleep(nap < 1000 ? nap : 1000);
        }
#elif DENIZEN_HOSTED
        if (idle > detail::eager_rounds && !worker.blocked() &&
            told == static_cast<uint32_t>(Command::run) && !worker.something_arrived() &&
            (s.links == nullptr || s.links->see(*s.links, s.node, id, Duty::rest))) {
            // Ends by a sender's bell, or when a timer is due; else the time-out only bounds a wait
            // for a command.
            sleep_on_bell(&s.bells[id].bell, &s.bells[id].sleeping, worker.until_due(100'000'000),
                          [&] {
                              return worker.something_arrived() ||
                                     load<Scope::gpu>(&s.board->command) != told;
                          });
            if (s.links != nullptr) { // before it sends: else that wakes the links' threads
                s.links->see(*s.links, s.node, id, Duty::look);
            }
        } else if (idle > (crowded || worker.waits_for_room() ? 16 : 256)) {
            // Who sends, or makes room, may need this core. If others took it and nothing has come
            // meanwhile, they will want it again: it sleeps after one more round, and the next time
            // offers its core sooner. While a breath ends nobody sleeps, and all offer theirs.
            const bool may_sleep =
                told == static_cast<uint32_t>(Command::run) && !worker.waits_for_room();
            const Offered how = offer_core(withheld, !may_sleep);
            crowded = how == Offered::withheld ? crowded : how == Offered::taken;
            if (crowded && may_sleep) {
                idle = detail::eager_rounds;
            }
        }
#endif
        // A breath that ends is not to last longer than it must: then looks are more frequent.
        do { // ends: n counts down; a worker that has slowed down looks after each round
            const bool eager = idle <= detail::eager_rounds && n != 1;
            const uint32_t looks = eager ? detail::eager_looks : detail::slow_looks;
            const bool worked = worker.round(looks);
            const uint32_t rounds = worked ? 1 : looks / detail::slow_looks;
            idle = worked ? 0 : idle + rounds;
            n = n > rounds ? n - rounds : 0;
#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
            // While anything is parked, all that is sent there is parked too, which costs more than
            // to send it: so it is seen to before the next message. Ends: there is no room, or
            // nothing parked for it, or by the turns that an outbox may take.
            for (uint32_t turns = 0; s.links != nullptr && worker.waits_for_room() && turns < 64 &&
                                     s.links->see(*s.links, s.node, id, Duty::parked) &&
                                     parked(s, id) != 0 && flush(s, id);
                 ++turns) {
            }
            if (s.links != nullptr &&
                (worked ? n % 4 == 0 || worker.row_ended() : idle < 256 || idle % 4 == 0) &&
                s.links->see(*s.links, s.node, id, Duty::look) && !crowded) {
                idle = idle < detail::eager_rounds ? idle : detail::eager_rounds;
            }
#endif
            if (P::has_tasks && idle % detail::rounds_per_task_look == 0) {
                idle = worker.round_of_tasks() ? 0 : idle;
            }
        } while (n != 0 && idle <= detail::eager_rounds && !worker.row_ended());
    }
}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

// Warp v of block b is worker b * per_sm + v, and the last warp of the last block, which is none,
// is the monitor. Where handlers take whole blocks, per_sm is 1, and the next warps of the block
// are the worker's crew. Launched cooperatively, so that every block is resident or the launch
// fails.
template <class P>
__device__ inline void run_resident(const Shared& s)
{
    if (s.workers == 0) {
        return; // the first launch, which only has the driver make ready
    }
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t id = blockIdx.x * s.per_sm + warp;
    if (warp < s.per_sm && id < s.workers) {
        run_worker<P>(s, id);
#if DENIZEN_ON_DEVICE
        if constexpr (P::has_blocks) {
            detail::dismiss_crew<P>();
        }
#endif
        return;
    }
#if DENIZEN_ON_DEVICE
    if constexpr (P::has_blocks) {
        if (warp < P::block_threads / 32 && blockIdx.x < s.workers) {
            if (detail::in_cluster(s)) { // as a warp without a worker, until that leaves
                detail::meet_workers(s);
                detail::arrive_at_cluster();
            }
            detail::run_crew<P>(s, blockIdx.x);
            return;
        }
    }
#endif
    if (detail::in_cluster(s)) {
        detail::meet_workers(s);
    }
    if (warp == blockDim.x / 32 - 1 && blockIdx.x == gridDim.x - 1) {
        if (detail::in_cluster(s)) {
            detail::arrive_at_cluster();
        }
        run_monitor(s);
    }
}

#endif

} // namespace denizen

// Ends program text that is compiled at run time: defines the symbols the runtime looks up.
#if defined(__CUDACC_RTC__)
#define DENIZEN_PROGRAM(P)                                                                         \
    extern "C" __device__ const denizen::ProgramTable denizen_table = P::table();                  \
    extern "C" __global__ void __launch_bounds__(P::most_threads, P::least_blocks)                 \
        denizen_resident(const __grid_constant__ denizen::Shared shared)                           \
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
