// SPDX-License-Identifier: Apache-2.0
// Random sequences of one thread against a model that knows every live block: blocks never overlap,
// keep their contents, and a request fails only if it must: no free block of its class, and no page
// (or run of pages) without a live block.
#include <denizen/memory/arena.hpp>

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <random>

namespace denizen {
namespace {

using namespace arena;

class Model {
public:
    explicit Model(Arena& arena) : ref_(arena.ref()), pages_(arena.stats().bytes / page_bytes) {}

    // False if the request failed, which has been checked to be right.
    bool allocate(uint64_t bytes, uint64_t seed)
    {
        auto* p = static_cast<unsigned char*>(ref_.allocate(bytes));
        if (p == nullptr) {
            EXPECT_FALSE(has_room(bytes)) << bytes << " bytes";
            return false;
        }
        const uint64_t room = rounded(bytes);
        EXPECT_TRUE(ref_.owns(p) && ref_.owns(p + room - 1));
        const auto next = live_.lower_bound(p);
        EXPECT_TRUE(next == live_.end() || p + room <= next->first);
        EXPECT_TRUE(next == live_.begin() ||
                    std::prev(next)->first + std::prev(next)->second.room <= p);
        EXPECT_EQ(reinterpret_cast<uint64_t>(p) % std::min(room, page_bytes), 0u);
        live_.emplace(p, Block{bytes, room, seed});
        fill(p, bytes, seed);
        return true;
    }

    void deallocate(size_t which)
    {
        const auto it = std::next(live_.begin(), static_cast<std::ptrdiff_t>(which));
        EXPECT_TRUE(whole(it->first, it->second));
        ref_.deallocate(it->first);
        live_.erase(it);
    }

    size_t live() const { return live_.size(); }
    uint64_t live_bytes() const
    {
        uint64_t sum = 0;
        for (const auto& [p, block] : live_) {
            sum += block.room;
        }
        return sum;
    }

private:
    struct Block {
        uint64_t bytes;
        uint64_t room;
        uint64_t seed;
    };

    // First and last 64 bytes: all of it would make large blocks most of the test.
    template <class Use>
    static void ends(unsigned char* p, uint64_t bytes, Use use)
    {
        for (uint64_t i = 0; i < bytes; i = i == 63 && bytes > 128 ? bytes - 64 : i + 1) {
            use(p[i], i);
        }
    }
    static void fill(unsigned char* p, uint64_t bytes, uint64_t seed)
    {
        ends(p, bytes, [seed](unsigned char& c, uint64_t i) {
            c = static_cast<unsigned char>((seed + i) * 167);
        });
    }
    static bool whole(unsigned char* p, const Block& block)
    {
        bool right = true;
        ends(p, block.bytes, [&](const unsigned char& c, uint64_t i) {
            right &= c == static_cast<unsigned char>((block.seed + i) * 167);
        });
        return right;
    }

    bool has_room(uint64_t bytes) const
    {
        std::vector<uint64_t> used(pages_); // live bytes of the page
        std::vector<uint64_t> size(pages_); // of its blocks
        for (const auto& [p, block] : live_) {
            const uint64_t first = static_cast<uint64_t>(p - ref_.map()->base) / page_bytes;
            for (uint64_t i = 0; i < std::max<uint64_t>(1, block.room / page_bytes); ++i) {
                used[first + i] += std::min(block.room, page_bytes);
                size[first + i] = block.room;
            }
        }
        const uint64_t need = pages_for(bytes);
        uint64_t run = 0;
        for (uint64_t i = 0; i < pages_; ++i) {
            run = used[i] == 0 ? run + 1 : 0;
            if (run >= need || (size[i] == rounded(bytes) && used[i] < page_bytes)) {
                return true;
            }
        }
        return false;
    }

    ArenaRef ref_;
    uint64_t pages_;
    std::map<unsigned char*, Block> live_;
};

// Sizes of one sequence: any, one class, small with a few large, all large.
uint64_t draw(std::mt19937_64& random, uint64_t kind, uint64_t whole)
{
    const uint64_t any = uint64_t{1} << random() % 21;
    switch (kind) {
    case 0: return std::min(any + random() % any, whole);
    case 1: return 16;
    case 2: return random() % 50 == 0 ? whole / 3 : 1 + random() % 300;
    case 3: return page_bytes + random() % (whole - page_bytes + 1);
    default: return page_bytes / (1 + random() % 8);
    }
}

TEST(ArenaModel, TenThousandRandomSequences)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    constexpr uint64_t sequences = 500;
#else
    constexpr uint64_t sequences = 10'000;
#endif
    constexpr uint64_t bytes = 32 * page_bytes;
    Arena arena(Device::cpu(), bytes);
    uint64_t failed = 0;
    uint64_t failed_at_reset = 0;
    uint64_t blocks = 0;
    for (uint64_t s = 0; s < sequences && !testing::Test::HasFailure(); ++s) {
        SCOPED_TRACE(s);
        std::mt19937_64 random(s);
        Model model(arena);
        const uint64_t kind = s % 5;
        for (uint32_t step = 0; step < 120; ++step) {
            // Fills for a while, then empties.
            const bool more = random() % 4 < (step / 40 % 2 == 0 ? 3u : 1u);
            if (more || model.live() == 0) {
                const bool done = model.allocate(draw(random, kind, bytes), random());
                (done ? blocks : failed) += 1;
            } else {
                model.deallocate(random() % model.live());
            }
        }
        const ArenaStats stats = arena.stats();
        EXPECT_EQ(stats.live_blocks, model.live());
        EXPECT_EQ(stats.live_bytes, model.live_bytes());
        EXPECT_EQ(stats.failed, failed - failed_at_reset);
        EXPECT_EQ(stats.refused, 0u);
        while (model.live() != 0) {
            model.deallocate(random() % model.live());
        }
        EXPECT_EQ(arena.stats().live_blocks, 0u);
        EXPECT_TRUE(model.allocate(bytes, 1)); // all of it, in one piece
        model.deallocate(0);
        if (s % 8 == 7) {
            arena.reset();
            failed_at_reset = failed;
        }
    }
    EXPECT_GT(failed, sequences / 10);
    EXPECT_GT(blocks, sequences * 20);
}

// Sixteen blocks of each of many, replaced at random while they become more: no request fails
// before 95 % of the arena are live.
TEST(ArenaModel, MixedAndSkewedSizesFillItTo95Percent)
{
    constexpr uint64_t bytes = uint64_t{64} << 20;
    for (const bool skewed : {false, true}) {
        SCOPED_TRACE(skewed);
        Arena arena(Device::cpu(), bytes);
        const ArenaRef ref = arena.ref();
        const double mean = skewed ? 0.9 * 64 + 0.1 * 1636.8 : 1636.8;
        std::vector<std::pair<void*, uint64_t>> places(
            static_cast<size_t>(0.97 * static_cast<double>(bytes) / mean));
        std::mt19937_64 random(skewed ? 1 : 2);
        uint64_t live = 0;
        uint64_t requests = 0;
        while (true) { // ends: live blocks become more until 95 % are reached
            auto& [p, size] = places[random() % places.size()];
            if (p != nullptr) {
                ref.deallocate(p);
                live -= size;
            }
            size = skewed && random() % 10 != 0 ? 64 : uint64_t{16} << random() % 10;
            if (static_cast<double>(live + size) > 0.95 * static_cast<double>(bytes)) {
                break;
            }
            p = ref.allocate(size);
            ASSERT_NE(p, nullptr) << size << " bytes after " << requests << " requests";
            live += size;
            ++requests;
        }
        EXPECT_GT(requests, places.size());
        EXPECT_EQ(arena.stats().refused, 0u);
    }
}

TEST(ArenaModel, EveryClassFillsAllOfIt)
{
    constexpr uint64_t bytes = 64 * page_bytes;
    Arena arena(Device::cpu(), bytes);
    const ArenaRef ref = arena.ref();
    for (uint32_t round = 0; round < 2; ++round) {
        for (uint32_t c = 0; c < size_classes; ++c) {
            std::vector<void*> blocks;
            while (void* p = ref.allocate(class_bytes(c))) { // ends: the arena is finite
                blocks.push_back(p);
            }
            EXPECT_EQ(blocks.size(), bytes / class_bytes(c));
            std::sort(blocks.begin(), blocks.end());
            EXPECT_EQ(std::unique(blocks.begin(), blocks.end()), blocks.end());
            EXPECT_EQ(arena.stats().live_bytes, bytes);
            std::shuffle(blocks.begin(), blocks.end(), std::mt19937(c));
            for (void* p : blocks) {
                ref.deallocate(p);
            }
        }
    }
    EXPECT_EQ(arena.stats().failed, 2u * size_classes);
    EXPECT_EQ(arena.stats().live_blocks, 0u);
}

} // namespace
} // namespace denizen
