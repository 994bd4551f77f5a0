// SPDX-License-Identifier: Apache-2.0
// The arena beside what a user would take instead. On a GPU: 1 Mi threads that allocate one block
// each and free it in another kernel, 65,536 threads that allocate and free again and again (with
// nothing, 4, 64 or 256 bytes written in between), and threads that keep sixteen blocks of 16 B to
// 8 KB until 95 % of the arena are live. Beside it CUDA's device malloc, with fewer threads and a
// smaller heap where it would take minutes, and a bump pointer, which can free nothing, as a
// ceiling. On the CPU:
// malloc, and std::pmr's synchronized pool (arena_cpu.cpp).
//
// Live bytes are those of the blocks as the arena rounds them up, over the bytes it was made with;
// all sizes are powers of two, which it does not round. Contents are checked outside the timed
// kernels: every byte of every block after the first kernel, all that is written in a churn.
#include "arena_arms.hpp"

#include <denizen/memory/arena.hpp>

#include <memory>

#if defined(__CUDACC__)
#include "arena_kernels.cuh"
#include "rivals/gallatin.cuh"
#endif

namespace {

using namespace denizen;
using namespace denizen::bench;

#if defined(__CUDACC__)

// Runs kernels and times them by events.
class Runner {
public:
    Runner() : count_(1)
    {
        check_cuda(cudaEventCreate(&begin_), "cudaEventCreate");
        check_cuda(cudaEventCreate(&end_), "cudaEventCreate");
    }
    ~Runner()
    {
        cudaEventDestroy(begin_);
        cudaEventDestroy(end_);
    }
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;

    // Microseconds of what `enqueue(stream)` puts on the stream.
    template <class Enqueue>
    double time(Enqueue&& enqueue)
    {
        check_cuda(cudaEventRecord(begin_, stream_), "cudaEventRecord");
        enqueue(stream_);
        check_cuda(cudaGetLastError(), "a launch");
        check_cuda(cudaEventRecord(end_, stream_), "cudaEventRecord");
        check_cuda(cudaEventSynchronize(end_), "cudaEventSynchronize");
        float ms = 0;
        check_cuda(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
        return 1e3 * static_cast<double>(ms);
    }

    // As time(), and what the kernel counted.
    template <class Enqueue>
    Count counted(Enqueue&& enqueue, double* microseconds = nullptr)
    {
        check_cuda(cudaMemsetAsync(count_.get(), 0, sizeof(Count), stream_), "cudaMemsetAsync");
        const double us = time([&](cudaStream_t s) { enqueue(s, count_.get()); });
        if (microseconds != nullptr) *microseconds = us;
        Count count{};
        check_cuda(cudaMemcpy(&count, count_.get(), sizeof count, cudaMemcpyDeviceToHost),
                   "cudaMemcpy");
        return count;
    }

private:
    OwnStream stream_;
    DeviceBuffer<Count> count_;
    cudaEvent_t begin_ = nullptr;
    cudaEvent_t end_ = nullptr;
};

constexpr uint32_t block = kernels::arena_threads;

uint32_t blocks_for(uint64_t threads)
{
    return static_cast<uint32_t>((threads + block - 1) / block);
}

// One block each of `threads` threads; the blocks lie in `out`.
template <class A>
struct OneShot {
    Runner& run;
    A a;
    void** out;
    uint32_t threads;
    uint64_t bytes;

    double allocate() const
    {
        return run.time([this](cudaStream_t s) {
            kernels::once<<<blocks_for(threads), block, 0, s>>>(a, threads, bytes, out);
        });
    }
    double deallocate() const
    {
        return run.time([this](cudaStream_t s) {
            kernels::give<<<blocks_for(threads), block, 0, s>>>(a, threads, out);
        });
    }
    bool marks_hold() const
    {
        auto* const* blocks = reinterpret_cast<uint32_t**>(out);
        const uint32_t grid = blocks_for(uint64_t{threads} * 32);
        const Count count = run.counted([&](cudaStream_t s, Count* c) {
            kernels::mark<<<grid, block, 0, s>>>(threads, bytes / 4, blocks);
            kernels::check_marks<<<grid, block, 0, s>>>(threads, bytes / 4, blocks, c);
        });
        return count.failed == 0 && count.wrong == 0;
    }
    bool correct() const
    {
        allocate();
        const bool right = marks_hold();
        deallocate();
        return right;
    }
};

template <class A>
void add_one_shot(std::vector<Arm>& arms, const std::string& suffix, const OneShot<A>& shot,
                  const char* again, uint32_t at_most, std::vector<std::string> rivals)
{
    const Json params = Json().add("bytes", shot.bytes).add("threads", shot.threads);
    Arm malloc_arm{Case("malloc" + suffix, params, "M/s"), shot.threads,
                   [shot] {
                       const double us = shot.allocate();
                       shot.deallocate();
                       return rate(shot.threads, us);
                   },
                   [shot] { return shot.correct(); }, at_most};
    Arm free_arm{Case("free" + suffix, params, "M/s"), shot.threads,
                 [shot] {
                     shot.allocate();
                     return rate(shot.threads, shot.deallocate());
                 },
                 [] { return true; }, at_most};
    malloc_arm.result.arm = free_arm.result.arm = again;
    for (const std::string& rival : rivals) {
        malloc_arm.result.ratio_base.push_back("malloc" + rival);
        free_arm.result.ratio_base.push_back("free" + rival);
    }
    arms.push_back(std::move(malloc_arm));
    arms.push_back(std::move(free_arm));
}

template <class A>
Arm churn_arm(Runner& run, const std::string& name, A a, uint32_t threads, uint32_t rounds,
              uint64_t bytes, uint32_t touch, uint32_t at_most)
{
    const auto go = [=, &run](auto checked, uint32_t touched, double* us) {
        return run.counted(
            [&](cudaStream_t s, Count* c) {
                kernels::churn<A, checked()>
                    <<<blocks_for(threads), block, 0, s>>>(a, threads, rounds, bytes, touched, c);
            },
            us);
    };
    Json params;
    params.add("bytes", bytes).add("touch", touch).add("threads", threads).add("rounds", rounds);
    return {Case(name, params, "M/s"), uint64_t{threads} * rounds,
            [=] {
                double us = 0;
                const Count count = go(std::false_type{}, touch, &us);
                if (count.failed != 0) throw std::runtime_error(name + ": a request failed");
                return rate(uint64_t{threads} * rounds, us);
            },
            [=] {
                const auto all = static_cast<uint32_t>(bytes < 256 ? bytes : 256);
                const Count count = go(std::true_type{}, all, nullptr);
                return count.failed == 0 && count.wrong == 0;
            },
            at_most};
}

// What device malloc finishes in well under a second (FACTS of an H100: 11 M/s at 16 B, 0.02 M/s at
// 1 KB).
uint32_t malloc_threads(uint64_t bytes)
{
    return bytes <= 64 ? 65536 : bytes <= 256 ? 16384 : 1024;
}

void sizes_alone(Runner& run, const ArenaRef& ref, bool quick)
{
    constexpr uint32_t threads = 1u << 20;
    DeviceBuffer<void*> out(threads);
    DeviceBuffer<unsigned long long> next(1);
    const ArenaArm arena{ref};
    const Bump bump{nullptr, next.get()}; // its blocks are never touched
#if defined(DENIZEN_GALLATIN)
    const GallatinHeap heap(8192 * mib); // as large as the arena
    const std::vector<std::string> others{", device malloc", ", Gallatin"};
#else
    const std::vector<std::string> others{", device malloc"};
#endif
    const uint32_t repetitions = quick ? 3 : 11;
    std::vector<Arm> arms;
    for (const uint64_t bytes : {16u, 64u, 256u, 1024u, 4096u}) {
        const std::string rival = ", device malloc";
        add_one_shot(arms, "", OneShot<ArenaArm>{run, arena, out.get(), threads, bytes}, "", ~0u,
                     others);
#if defined(DENIZEN_GALLATIN)
        add_one_shot(arms, ", Gallatin", OneShot<GallatinArm>{run, {}, out.get(), threads, bytes},
                     "", ~0u, {});
#endif
        add_one_shot(arms, rival,
                     OneShot<DeviceMalloc>{run, {}, out.get(), malloc_threads(bytes), bytes}, "",
                     quick ? 1 : 2, {});
        add_one_shot(arms, "", OneShot<ArenaArm>{run, arena, out.get(), threads, bytes}, "A/A", ~0u,
                     {});
        const OneShot<Bump> ceiling{run, bump, out.get(), threads, bytes};
        const auto bumped = [&next] {
            unsigned long long at = 0;
            check_cuda(cudaMemcpy(&at, next.get(), sizeof at, cudaMemcpyDeviceToHost),
                       "cudaMemcpy");
            return at;
        };
        arms.push_back({Case("malloc, bump pointer",
                             Json().add("bytes", bytes).add("threads", threads), "M/s"),
                        threads, [ceiling] { return rate(threads, ceiling.allocate()); },
                        [ceiling, bumped, bytes] {
                            const unsigned long long before = bumped();
                            ceiling.allocate();
                            return bumped() - before == threads * bytes;
                        }});
        take_turns(arms, repetitions);
    }
    for (const uint64_t bytes : {16u, 64u, 256u, 1024u, 4096u}) {
        for (const uint32_t touch :
             bytes == 256 ? std::vector<uint32_t>{0, 4, 64, 256} : std::vector<uint32_t>{0}) {
            const uint32_t few = malloc_threads(bytes) / 4;
            Arm ours = churn_arm(run, "churn", arena, 65536, 50, bytes, touch, ~0u);
            for (const std::string& other : others)
                ours.result.ratio_base.push_back("churn" + other);
            Arm again = churn_arm(run, "churn", arena, 65536, 50, bytes, touch, ~0u);
            again.result.arm = "A/A";
            arms.push_back(std::move(ours));
#if defined(DENIZEN_GALLATIN)
            arms.push_back(
                churn_arm(run, "churn, Gallatin", GallatinArm{}, 65536, 50, bytes, touch, ~0u));
#endif
            arms.push_back(churn_arm(run, "churn, device malloc", DeviceMalloc{}, few,
                                     bytes <= 256 ? 50 : 5, bytes, touch, quick ? 1 : 2));
            arms.push_back(std::move(again));
            take_turns(arms, repetitions);
        }
    }
}

// Success of `keep` until 95 % of the memory are live, and how much was live at most.
class Filling {
public:
    using Sizes = kernels::Sizes;

    Filling(const std::string& suffix, Sizes sizes, uint64_t bytes)
        : sizes_(sizes), bytes_(bytes), limit_(bytes / 100 * 95)
    {
        // All sixteen blocks of all threads would be 97 % of the memory.
        const double mean = sizes == Sizes::mixed ? 1636.8 : 0.9 * 64 + 0.1 * 1636.8;
        threads_ =
            static_cast<uint32_t>(0.97 * static_cast<double>(bytes) / mean / kernels::outstanding);
        met_ = Case("requests met until 95 % are live" + suffix, params(), "%");
        most_ = Case("most live bytes" + suffix, params(), "%");
        met_.verified = most_.verified = true;
    }

    const char* name() const
    {
        return sizes_ == Sizes::mixed ? "16 B to 8 KB" : "nine of ten 64 B";
    }
    uint32_t threads() const { return threads_; }
    unsigned long long limit() const { return limit_; }
    Json params() const
    {
        return Json().add("sizes", name()).add("MiB", bytes_ / mib).add("threads", threads_);
    }

    template <class A>
    Count run(Runner& run, const A& allocator, void** left)
    {
        constexpr uint32_t steps = 160;
        const Count count = run.counted([&](cudaStream_t s, Count* c) {
            kernels::keep<<<blocks_for(threads_), block, 0, s>>>(allocator, threads_, steps, sizes_,
                                                                 limit_, left, c);
        });
        met_.n += count.requests;
        met_.verified &= count.wrong == 0;
        const auto share = [](unsigned long long part, unsigned long long all) {
            return 100 * static_cast<double>(part) / static_cast<double>(all);
        };
        shares_.add(share(count.requests - count.failed, count.requests));
        live_.add(share(count.most, bytes_));
        return count;
    }

    void print(bool right, const std::vector<std::string>& rivals)
    {
        met_.verified &= right;
        most_.verified = met_.verified;
        most_.n = live_.size();
        for (const std::string& rival : rivals) {
            met_.ratio_base.push_back("requests met until 95 % are live" + rival);
            most_.ratio_base.push_back("most live bytes" + rival);
        }
        met_.print(shares_);
        most_.print(live_);
    }

private:
    Sizes sizes_;
    uint64_t bytes_;
    unsigned long long limit_;
    uint32_t threads_ = 0;
    Case met_;
    Case most_;
    Samples shares_{64};
    Samples live_{64};
};

constexpr uint64_t heap_bytes = 128 * mib; // of device malloc, which fills no more in seconds

void fill_the_heap(Runner& run, kernels::Sizes sizes)
{
    Filling filling(", device malloc", sizes, heap_bytes);
    const uint32_t blocks = filling.threads() * kernels::outstanding;
    DeviceBuffer<void*> left(blocks);
    filling.run(run, DeviceMalloc{}, left.get());
    run.time([&](cudaStream_t s) {
        kernels::give<<<blocks_for(blocks), block, 0, s>>>(DeviceMalloc{}, blocks, left.get());
    });
    filling.print(true, {});
}

// Throughput of `keep`, and its success until 95 % are live.
void sizes_together(Runner& run, int device, bool quick)
{
    using kernels::Sizes;
    const uint64_t bytes = (quick ? 256 : 1024) * mib;
    Arena arena(Device::gpu(device), bytes);
    for (const Sizes sizes : {Sizes::mixed, Sizes::skewed}) {
        const ArenaArm a{arena.ref()};
        Filling filling("", sizes, bytes);
        Samples left(64);
        bool right = true;
        for (uint32_t i = 0; i < (quick ? 2u : 5u); ++i) {
            arena.reset();
            const Count count = filling.run(run, a, nullptr);
            const ArenaStats stats = arena.stats();
            right &= stats.live_bytes == count.live && stats.refused == 0 &&
                     count.most > filling.limit() - filling.limit() / 500;
            left.add(100 * static_cast<double>(stats.free_bytes) / static_cast<double>(bytes));
        }
        filling.print(right, {", device malloc"});
        Case unused("pages that no size has then", filling.params(), "%");
        unused.n = left.size();
        unused.verified = right;
        unused.print(left);
        fill_the_heap(run, sizes);

        // About a third of the arena is live.
        arena.reset();
        const uint32_t third = filling.threads() / 3;
        std::vector<Arm> arms;
        const auto keep_arm = [&](const char* arm_name, auto allocator, uint32_t threads,
                                  uint32_t some, uint32_t at_most) {
            const auto go = [=, &run](double* us) {
                return run.counted(
                    [&](cudaStream_t s, Count* c) {
                        kernels::keep<<<blocks_for(threads), block, 0, s>>>(
                            allocator, threads, some, sizes, 0, nullptr, c);
                    },
                    us);
            };
            return Arm{
                Case(arm_name,
                     Json().add("sizes", filling.name()).add("threads", threads).add("steps", some),
                     "M/s"),
                uint64_t{threads} * some,
                [=] {
                    double us = 0;
                    const Count c = go(&us);
                    if (c.failed != 0) throw std::runtime_error("a request failed");
                    return rate(uint64_t{threads} * some, us);
                },
                [=] {
                    const Count c = go(nullptr);
                    return c.failed == 0 && c.wrong == 0;
                },
                at_most};
        };
        arms.push_back(keep_arm("sixteen kept", a, third, 64, ~0u));
        arms.back().result.ratio_base = {"sixteen kept, device malloc"};
        arms.push_back(
            keep_arm("sixteen kept, device malloc", DeviceMalloc{}, 1024, 20, quick ? 1 : 2));
        take_turns(arms, quick ? 3 : 11);
    }
}

void on_gpu(const Arguments& arguments)
{
    const int device = arguments.device.ordinal;
    // Before any kernel with malloc is loaded.
    check_cuda(cudaDeviceSetLimit(cudaLimitMallocHeapSize, heap_bytes), "cudaLimitMallocHeapSize");
    Runner run;
    {
        Arena arena(arguments.device, 8192 * mib);
        sizes_alone(run, arena.ref(), arguments.quick);
        const ArenaStats stats = arena.stats();
        if (stats.live_blocks != 0 || stats.failed != 0 || stats.refused != 0)
            throw std::runtime_error("the arena has " + std::to_string(stats.live_blocks) +
                                     " blocks left, " + std::to_string(stats.failed) +
                                     " failures, " + std::to_string(stats.refused) + " refused");
    }
    sizes_together(run, device, arguments.quick);
}

#endif

void measure(const Arguments& arguments)
{
    print_environment(environment(arguments));
#if defined(__CUDACC__)
    if (arguments.gpu()) {
        on_gpu(arguments);
        return;
    }
#endif
    arena_on_cpu(arguments.quick);
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
