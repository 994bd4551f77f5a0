// SPDX-License-Identifier: Apache-2.0
// How the blocks of a resident model give each other what they have computed: words that carry the
// round's number, so that one store and one load are one step, without a barrier and without a
// fence. Far: through device memory, that is the second-level cache. Near: into the shared memory
// of every block of the cluster, for rounds of one request.
//
// Hazard: two areas take turns. A block may write the words of a round when all blocks have ended
// the round before the last; the leader begins no round earlier (resident_loop.hpp).
#pragma once

#include <denizen/infer/detail/team.hpp>

namespace denizen::infer::detail {

DENIZEN_HD inline Word word_of(float value, uint32_t number)
{
    uint32_t bits = 0;
    copy_bytes(&bits, &value, 4);
    return bits | Word{number} << 32;
}

DENIZEN_HD inline float value_of(Word word)
{
    const auto bits = static_cast<uint32_t>(word);
    float value = 0;
    copy_bytes(&value, &bits, 4);
    return value;
}

DENIZEN_HD inline uint32_t number_of(Word word) { return static_cast<uint32_t>(word >> 32); }

struct TwoWords {
    Word word[2];
};

#if DENIZEN_ON_DEVICE
// Each of the two is read at once, not both.
__device__ inline TwoWords load_far(const Word* at)
{
    TwoWords t;
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(t.word[0]), "=l"(t.word[1])
                 : "l"(__cvta_generic_to_global(at))
                 : "memory");
    return t;
}

__device__ inline TwoWords load_near(cluster::Address own)
{
    TwoWords t;
#if __CUDA_ARCH__ >= 900
    asm volatile("ld.relaxed.cluster.shared.v2.b64 {%0, %1}, [%2];"
                 : "=l"(t.word[0]), "=l"(t.word[1])
                 : "r"(own)
                 : "memory");
#else
    t = {};
#endif
    return t;
}

// The same place in another block's shared memory. Generic: the address of a store into a cluster
// is else made of a special register each time. Volatile: made once.
__device__ inline Word* word_in_block(const unsigned char* own, [[maybe_unused]] uint32_t rank)
{
    uint64_t there = reinterpret_cast<uint64_t>(own);
#if __CUDA_ARCH__ >= 900
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(there), "r"(rank));
#endif
    return reinterpret_cast<Word*>(there);
}

__device__ inline void store_near([[maybe_unused]] Word* there, [[maybe_unused]] Word word)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("st.relaxed.cluster.b64 [%0], %1;" ::"l"(there), "l"(word) : "memory");
#endif
}
#else
DENIZEN_HD inline TwoWords load_far(const Word* at)
{
    // Acquire: partner of the release in publish(); what the other had read before may be written.
    return {{load<Scope::gpu, Order::acquire>(at), load<Scope::gpu, Order::acquire>(at + 1)}};
}
#endif

// Through device memory.
class Far {
public:
    static constexpr bool staged = false; // each word is stored by who has made it

    DENIZEN_HD Far(const ResidentModel& m, uint32_t round)
        : words_(m.words(round, 0)), column_words_(m.column_words), round_(round)
    {
    }

    // `units` words of a column from `at` on.
    DENIZEN_HD void publish(const Quad& value, uint32_t column, uint32_t at, uint32_t units) const
    {
        Word* const to = word(column, at);
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
            if (i < units) {
                store<Scope::gpu, denizen::detail::host_release>(to + i,
                                                                 word_of(value.v[i], round_));
            }
        }
    }

    // A word of column 0.
    DENIZEN_HD void publish_one(float value, uint32_t at) const
    {
        store<Scope::gpu, denizen::detail::host_release>(words_ + at, word_of(value, round_));
    }

    DENIZEN_HD TwoWords pair(uint32_t column, uint32_t at) const
    {
        return load_far(word(column, at));
    }

private:
    DENIZEN_HD Word* word(uint32_t column, uint32_t at) const
    {
        return words_ + uint64_t{column} * column_words_ + at;
    }

    Word* words_;
    uint32_t column_words_;
    uint32_t round_;
};

#if DENIZEN_ON_DEVICE
// Into the shared memory of the cluster's blocks, of which there are at most as many as warps.
// Column 0 alone. Each warp stores all that its block has made into another block: of 16 blocks,
// one word to each would be 16 packets of their network, and all words of a block to one are one
// packet.
class Near {
public:
    static constexpr bool staged = true;

    __device__ Near(const ResidentModel& m, const unsigned char* shared, uint32_t round)
        : round_(round)
    {
        const unsigned char* const own =
            shared + m.near_at + 32 + (round & 1) * m.column_words * sizeof(Word);
        words_ = cluster::address(own);
        const uint32_t block = threadIdx.x / 32;
        has_block_ = block < m.blocks;
        there_ = word_in_block(own, has_block_ ? block : 0);
    }

    // `units` words from `at` on, of the floats at `from`. All warps.
    __device__ void publish_all(const float* from, uint32_t at, uint32_t units) const
    {
        if (!has_block_) return;
        for (uint32_t i = lanes::id(); i < units; i += lanes::size) {
            store_near(there_ + at + i, word_of(from[i], round_));
        }
    }

    __device__ TwoWords pair(uint32_t, uint32_t at) const
    {
        return load_near(words_ + at * sizeof(Word));
    }

private:
    uint32_t round_;
    bool has_block_;
    cluster::Address words_;
    Word* there_; // of the block that this warp stores into
};

// Of a round's number that is even or odd.
__device__ inline cluster::Address near_head(const ResidentModel& m, const unsigned char* shared,
                                             uint32_t round)
{
    return cluster::address(shared + m.near_at) + (round & 1) * sizeof(Packet);
}
#endif

} // namespace denizen::infer::detail
