// SPDX-License-Identifier: Apache-2.0
// The arena under many threads, on the CPU always and on a GPU where there is one: every block
// keeps what its owner wrote until that frees it, all of the arena can be had, what is given back
// serves other sizes, exhaustion is null and a count, and misuse is found.
#include <denizen/base/error.hpp>
#include <denizen/memory/arena.hpp>
#include <denizen/memory/arena/resource.hpp>

#include <algorithm>
#include <gtest/gtest.h>
#include <list>
#include <memory>
#include <memory_resource>
#include <random>
#include <string>
#include <support/threads.hpp>
#include <vector>

#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#endif

namespace denizen {
namespace {

using namespace arena;

// Sanitizers make a run many times as long.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint32_t scale = 10;
#else
constexpr uint32_t scale = 1;
#endif

struct Place {
    const char* name;
    bool gpu;
    uint32_t threads; // of a test that runs many
};

void PrintTo(const Place& p, std::ostream* out) { *out << p.name; }

#if defined(__CUDACC__)
template <class Body>
__global__ void run_body(uint32_t n, Body body)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        body(i);
    }
}

bool gpu_here()
{
    int devices = 0;
    return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}
#endif

class ArenaAt : public testing::TestWithParam<Place> {
protected:
    void SetUp() override
    {
#if defined(__CUDACC__)
        if (GetParam().gpu && !gpu_here()) {
            GTEST_SKIP() << "this machine has no CUDA device";
        }
#endif
    }

    static Device device() { return GetParam().gpu ? Device::gpu() : Device::cpu(); }
    static uint32_t threads() { return GetParam().threads; }

    // Runs body(0) to body(n - 1) side by side and waits for all.
    template <class Body>
    static void run(uint32_t n, Body body)
    {
#if defined(__CUDACC__)
        if (GetParam().gpu) {
            run_body<<<(n + 127) / 128, 128>>>(n, body);
            ASSERT_EQ(cudaGetLastError(), cudaSuccess);
            ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
            return;
        }
#endif
        test::on_threads(n, body);
    }

    // Zeroed words that the host and the threads reach.
    template <class T>
    static std::shared_ptr<T> shared(size_t count)
    {
#if defined(__CUDACC__)
        if (GetParam().gpu) {
            void* p = nullptr;
            EXPECT_EQ(cudaMallocManaged(&p, count * sizeof(T)), cudaSuccess);
            std::fill_n(static_cast<T*>(p), count, T{});
            return {static_cast<T*>(p), [](T* q) { cudaFree(q); }};
        }
#endif
        return {new T[count](), [](T* q) { delete[] q; }};
    }
};

std::vector<Place> places()
{
    return {
        {"cpu1", false, 1},
        {"cpu4", false, 4},
#if defined(__CUDACC__)
        {"gpu", true, 8192},
#endif
    };
}

INSTANTIATE_TEST_SUITE_P(at, ArenaAt, testing::ValuesIn(places()),
                         [](const auto& instance) { return std::string(instance.param.name); });

struct Random {
    uint32_t state;

    DENIZEN_HD uint32_t next()
    {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        return state >> 3;
    }
};

DENIZEN_HD inline void fill(uint32_t* p, uint64_t words, uint32_t seed)
{
    for (uint64_t w = 0; w < words; ++w) {
        p[w] = seed + static_cast<uint32_t>(w);
    }
}
DENIZEN_HD inline uint32_t damaged(const uint32_t* p, uint64_t words, uint32_t seed)
{
    uint32_t n = 0;
    for (uint64_t w = 0; w < words; ++w) {
        n += p[w] != seed + static_cast<uint32_t>(w) ? 1 : 0;
    }
    return n;
}

struct Seen {
    uint32_t failed;
    uint32_t damaged;
    uint32_t got;
};

// Keeps up to `kept` blocks, all of whose words are written and checked before they are freed.
struct Traffic {
    static constexpr uint32_t kept = 8;

    ArenaRef arena;
    Seen* seen;
    uint32_t steps;
    uint32_t classes; // sizes up to 4 << classes words
    bool leave;       // blocks stay at the end

    DENIZEN_HD void operator()(uint32_t thread) const
    {
        Random random{thread * 2654435761u + 99};
        uint32_t* held[kept] = {};
        uint32_t words[kept] = {};
        Seen mine{};
        for (uint32_t s = 0; s < steps + (leave ? 0 : kept); ++s) {
            const uint32_t k = s < steps ? random.next() % kept : s - steps;
            if (held[k] != nullptr) {
                mine.damaged += damaged(held[k], words[k], thread * 1000 + k);
                arena.deallocate(held[k]);
                held[k] = nullptr;
            }
            if (s >= steps) {
                continue;
            }
            const uint32_t least = 4u << random.next() % classes;
            words[k] = least + random.next() % least;
            held[k] = static_cast<uint32_t*>(arena.allocate(uint64_t{words[k]} * 4, k + 1));
            if (held[k] == nullptr) {
                ++mine.failed;
            } else {
                fill(held[k], words[k], thread * 1000 + k);
                ++mine.got;
            }
        }
        seen[thread] = mine;
    }
};

Seen sum(const Seen* seen, uint32_t n)
{
    Seen all{};
    for (uint32_t i = 0; i < n; ++i) {
        all.failed += seen[i].failed;
        all.damaged += seen[i].damaged;
        all.got += seen[i].got;
    }
    return all;
}

TEST_P(ArenaAt, BlocksKeepTheirContents)
{
    const uint64_t bytes = GetParam().gpu ? uint64_t{512} << 20 : uint64_t{16} << 20;
    for (const bool guarded : {false, true}) {
        Arena arena(device(), bytes, guarded);
        const auto seen = shared<Seen>(threads());
        const uint32_t steps = GetParam().gpu ? 60 : 20'000 / scale;
        run(threads(), Traffic{arena.ref(), seen.get(), steps, 8, false});
        const Seen all = sum(seen.get(), threads());
        EXPECT_EQ(all.damaged, 0u);
        EXPECT_EQ(all.failed, 0u);
        EXPECT_EQ(all.got, threads() * steps);
        const ArenaStats stats = arena.stats();
        EXPECT_EQ(stats.live_blocks, 0u);
        EXPECT_EQ(stats.refused, 0u);
        EXPECT_EQ(stats.failed, 0u);
        if (guarded) {
            EXPECT_TRUE(arena.faults().empty());
            EXPECT_TRUE(arena.leaks().empty());
        }
    }
}

struct TakeAll {
    ArenaRef arena;
    Seen* seen;

    DENIZEN_HD void operator()(uint32_t) const
    {
        void* p = arena.allocate(arena.bytes());
        seen[0].got = p != nullptr ? 1 : 0;
        arena.deallocate(p);
    }
};

// The same in an arena that is too small: requests fail, and nothing else does.
TEST_P(ArenaAt, ExhaustionIsNullAndCounted)
{
    Arena arena(device(), GetParam().gpu ? uint64_t{16} << 20 : uint64_t{1} << 20);
    const auto seen = shared<Seen>(threads());
    const uint32_t steps = GetParam().gpu ? 40 : 8'000 / scale;
    for (uint32_t round = 0; round < 2; ++round) {
        run(threads(), Traffic{arena.ref(), seen.get(), steps, 14, false});
        const Seen all = sum(seen.get(), threads());
        EXPECT_EQ(all.damaged, 0u);
        if (threads() > 1) {
            EXPECT_GT(all.failed, 0u);
        }
        const ArenaStats stats = arena.stats();
        EXPECT_EQ(stats.failed, all.failed);
        EXPECT_EQ(stats.live_blocks, 0u);
        EXPECT_EQ(stats.refused, 0u);
        // Nothing is lost: all of it can be had in one piece.
        run(1, TakeAll{arena.ref(), seen.get()});
        EXPECT_EQ(seen.get()->got, 1u);
        arena.reset();
        EXPECT_EQ(arena.stats().failed, 0u);
        EXPECT_EQ(arena.stats().free_bytes, arena.stats().bytes);
    }
}

struct Fill { // everything there is, by all threads
    ArenaRef arena;
    void** blocks;
    uint32_t* count;
    uint64_t bytes;

    DENIZEN_HD void operator()(uint32_t) const
    {
        while (void* p = arena.allocate(bytes)) { // ends: the arena is finite
            blocks[fetch_add<Scope::gpu>(count, 1u)] = p;
        }
    }
};
struct Free {
    ArenaRef arena;
    void** blocks;
    uint32_t count;
    uint32_t threads;

    DENIZEN_HD void operator()(uint32_t thread) const
    {
        for (uint32_t i = thread; i < count; i += threads) {
            arena.deallocate(blocks[i]);
        }
    }
};

TEST_P(ArenaAt, PagesServeOneClassAfterTheOther)
{
    const uint64_t bytes = GetParam().gpu ? uint64_t{64} << 20 : uint64_t{2} << 20;
    Arena arena(device(), bytes);
    const auto blocks = shared<void*>(bytes / 16 + 1);
    const auto count = shared<uint32_t>(1);
    uint64_t moved = 0;
    for (const uint64_t size : {uint64_t{16}, uint64_t{4096}, uint64_t{64}, uint64_t{32768},
                                uint64_t{1024}, uint64_t{16}}) {
        SCOPED_TRACE(size);
        *count = 0;
        run(threads(), Fill{arena.ref(), blocks.get(), count.get(), size});
        EXPECT_EQ(*count, bytes / size);
        std::sort(blocks.get(), blocks.get() + *count);
        EXPECT_EQ(std::unique(blocks.get(), blocks.get() + *count), blocks.get() + *count);
        EXPECT_EQ(arena.stats().live_bytes, bytes);
        std::shuffle(blocks.get(), blocks.get() + *count, std::mt19937(7));
        run(threads(), Free{arena.ref(), blocks.get(), *count, threads()});
        EXPECT_EQ(arena.stats().live_blocks, 0u);
        EXPECT_GE(arena.stats().moved, moved);
        moved = arena.stats().moved;
    }
    EXPECT_GT(moved, bytes / page_bytes);
    EXPECT_EQ(arena.stats().refused, 0u);
}

struct Diverging {
    ArenaRef arena;
    uint32_t* out;

    DENIZEN_HD void operator()(uint32_t i) const
    {
        uint32_t* a = nullptr;
        if (i % 3 == 0) {
            a = static_cast<uint32_t*>(arena.allocate(16));
        } else if (i % 3 == 1) {
            a = static_cast<uint32_t*>(arena.allocate(16u << i % 7));
        }
        auto* b = static_cast<uint32_t*>(arena.allocate(16u << i % 5));
        if (a != nullptr) {
            fill(a, 4, i);
        }
        fill(b, 4, i + 7);
        if (i % 2 == 0) {
            out[i] += damaged(b, 4, i + 7);
            arena.deallocate(b);
            b = nullptr;
        }
        if (a != nullptr) {
            out[i] += damaged(a, 4, i);
        }
        arena.deallocate(a);
        if (b != nullptr) {
            out[i] += damaged(b, 4, i + 7);
            arena.deallocate(b);
        }
    }
};

// Lanes of a warp that come to different calls, or ask for different sizes in one.
TEST_P(ArenaAt, CallersMayDiverge)
{
    Arena arena(device(), uint64_t{32} << 20);
    const auto wrong = shared<uint32_t>(threads());
    run(threads(), Diverging{arena.ref(), wrong.get()});
    for (uint32_t i = 0; i < threads(); ++i) {
        ASSERT_EQ(wrong.get()[i], 0u) << i;
    }
    EXPECT_EQ(arena.stats().live_blocks, 0u);
    EXPECT_EQ(arena.stats().refused, 0u);
}

struct Refused {
    ArenaRef arena;
    uint64_t* out;

    DENIZEN_HD void operator()(uint32_t) const
    {
        auto* p = static_cast<unsigned char*>(arena.allocate(100));
        auto* run_of_pages = static_cast<unsigned char*>(arena.allocate(100'000));
        arena.deallocate(p + 16);            // 1: inside of a block
        arena.deallocate(run_of_pages + 64); // 2
        arena.deallocate(out);               // 3: not the arena's
        arena.deallocate(nullptr);           // is allowed
        arena.deallocate(p);
        arena.deallocate(p); // 4: again
        arena.deallocate(run_of_pages);
        arena.deallocate(run_of_pages); // 5
        *out = arena.owns(p) && !arena.owns(out) ? 1 : 0;
    }
};

TEST_P(ArenaAt, WhatIsNoLiveBlockIsRefused)
{
    Arena arena(device(), uint64_t{1} << 20);
    const auto out = shared<uint64_t>(1);
    run(1, Refused{arena.ref(), out.get()});
    EXPECT_EQ(*out, 1u);
    EXPECT_EQ(arena.stats().refused, 5u);
    EXPECT_EQ(arena.stats().live_blocks, 0u);
}

struct Misuse {
    ArenaRef arena;
    uint64_t* at;

    DENIZEN_HD void operator()(uint32_t) const
    {
        auto* twice = static_cast<unsigned char*>(arena.allocate(40, 1));
        auto* over = static_cast<unsigned char*>(arena.allocate(50, 2));
        auto* inside = static_cast<unsigned char*>(arena.allocate(200, 3));
        auto* large = static_cast<unsigned char*>(arena.allocate(200'000, 4));
        static_cast<void>(arena.allocate(10, 3));
        arena.deallocate(twice);
        arena.deallocate(twice);
        over[50] = 1; // one byte behind its end
        arena.deallocate(over);
        arena.deallocate(inside + 32);
        large[200'000] = 1;
        arena.deallocate(large);
        at[0] = reinterpret_cast<uint64_t>(twice);
        at[1] = reinterpret_cast<uint64_t>(over);
        at[2] = reinterpret_cast<uint64_t>(inside + 32);
        at[3] = reinterpret_cast<uint64_t>(large);
    }
};

TEST_P(ArenaAt, GuardsTellWhoMisusedIt)
{
    Arena arena(device(), uint64_t{4} << 20, true);
    const auto at = shared<uint64_t>(4);
    run(1, Misuse{arena.ref(), at.get()});
    const std::vector<Fault> faults = arena.faults();
    ASSERT_EQ(faults.size(), 4u);
    const FaultKind kinds[] = {FaultKind::double_free, FaultKind::overrun, FaultKind::foreign,
                               FaultKind::overrun};
    const uint32_t tags[] = {1, 2, 0, 4};
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(faults[i].kind, kinds[i]) << i;
        EXPECT_EQ(faults[i].address, at.get()[i]) << i;
        if (i != 0) { // its page may be in no use any more, and then its tag is not known
            EXPECT_EQ(faults[i].tag, tags[i]) << i;
        }
    }
    const std::vector<ArenaLeak> leaks = arena.leaks();
    ASSERT_EQ(leaks.size(), 1u);
    EXPECT_EQ(leaks[0].tag, 3u);
    EXPECT_EQ(leaks[0].blocks, 2u);
    EXPECT_EQ(leaks[0].bytes, 210u);
}

TEST_P(ArenaAt, LeaksAreCountedByTag)
{
    Arena arena(device(), uint64_t{64} << 20, true);
    const auto seen = shared<Seen>(threads());
    run(threads(), Traffic{arena.ref(), seen.get(), 5, 4, true});
    uint64_t blocks = 0;
    for (const ArenaLeak& leak : arena.leaks()) {
        EXPECT_TRUE(leak.tag >= 1 && leak.tag <= Traffic::kept);
        EXPECT_GE(leak.bytes, leak.blocks * 16);
        blocks += leak.blocks;
    }
    EXPECT_GT(blocks, 0u);
    EXPECT_EQ(blocks, arena.stats().live_blocks);
}

TEST(Arena, ContainersUseIt)
{
    for (const bool guarded : {false, true}) {
        Arena arena(Device::cpu(), uint64_t{8} << 20, guarded);
        ArenaResource resource(arena.ref(), 5);
        test::on_threads(4, [&](uint32_t thread) {
            std::pmr::vector<std::pmr::string> all(&resource);
            std::pmr::list<uint64_t> numbers(&resource);
            for (uint32_t i = 0; i < 2000 / scale; ++i) {
                all.emplace_back(std::to_string(thread * 100'000 + i) + " and some more of it");
                numbers.push_back(i);
            }
            for (uint32_t i = 0; i < all.size(); ++i) {
                EXPECT_EQ(std::string_view(all[i]),
                          std::to_string(thread * 100'000 + i) + " and some more of it");
            }
        });
        EXPECT_EQ(arena.stats().live_blocks, 0u);
        void* p = resource.allocate(100, 4096);
        EXPECT_EQ(reinterpret_cast<uint64_t>(p) % 4096, 0u);
        resource.deallocate(p, 100, 4096);
        EXPECT_THROW(static_cast<void>(resource.allocate(uint64_t{9} << 20, 16)), std::bad_alloc);
        EXPECT_THROW(static_cast<void>(resource.allocate(16, 65536)), std::bad_alloc);
        ArenaResource same(arena.ref());
        EXPECT_TRUE(resource.is_equal(same));
        EXPECT_FALSE(resource.is_equal(*std::pmr::new_delete_resource()));
        EXPECT_EQ(arena.stats().refused, 0u);
    }
}

TEST(Arena, SizesOutOfRangeAreErrors)
{
    EXPECT_THROW(Arena(Device::cpu(), 1000), Error);
    EXPECT_THROW(Arena(Device::cpu(), uint64_t{1} << 50), Error);
    Arena arena(Device::cpu(), 600'000);
    EXPECT_EQ(arena.stats().bytes, 18 * page_bytes);
    EXPECT_THROW(arena.leaks(), Error);
    EXPECT_THROW(arena.faults(), Error);
    EXPECT_EQ(arena.ref().allocate(~uint64_t{0}), nullptr);
    EXPECT_NE(arena.ref().allocate(0), nullptr);
}

} // namespace
} // namespace denizen
