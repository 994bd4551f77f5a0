// SPDX-License-Identifier: Apache-2.0
// What the kernels of the all-reduce experiment share: the ranks' buffers as one of them sees
// them, the barrier between them, deadlines, proof of which kernel ran, and spans for a timeline.
//
// The experiment compares ways of moving data, so it brings the plainest collective that they fit
// in, after vLLM's custom all-reduce (barriers between blocks of the same index, ranks added in
// fixed order); denizen's own is include/denizen/group.
#pragma once

#include <cstdint>

namespace denizen::arms {

inline constexpr uint32_t max_ranks = 8;
inline constexpr uint32_t threads = 512;
inline constexpr uint32_t max_blocks = 256;
inline constexpr uint32_t max_marks = 64;
inline constexpr uint32_t max_arms = 32;
inline constexpr uint64_t deadline_ns = 2'000'000'000;

// One span on a timeline: block 0's.
struct Mark {
    uint64_t begin;
    uint64_t end;
    uint32_t track; // Track
    uint32_t unused;
};
enum class Track : uint32_t { copy, sum, wait };

// Of one rank, on its own device.
struct alignas(128) Words {
    uint32_t flag[max_blocks][max_ranks]; // written by the ranks: how many barriers they came to
    uint32_t passed[max_blocks];          // barriers that the block came to, kept between launches
    uint32_t epoch[max_blocks];           // operations done, likewise
    uint32_t packets[max_blocks];         // operations by packets, likewise
    uint32_t ran[max_arms];               // operations, by the arm that the kernel says it is
    uint32_t late;                        // 1: a wait took too long
    uint32_t marks;                       // how many there are
    Mark mark[max_marks];
};

struct View {
    uint32_t rank;
    uint32_t ranks;
    uint32_t iterations; // operations of one launch
    uint32_t tracing;    // 1: leave marks
    uint64_t count;      // of float4; divisible by the number of ranks
    Words* words[max_ranks];
    const float4* input[max_ranks];
    float4* output[max_ranks];
    float4* scratch[max_ranks]; // count / ranks
    float4* inbox[max_ranks];   // for two operations in turn, each ranks * count
    uint4*
        packet[max_ranks]; // twice as much; nothing else may lie there, it could look like a flag

    __device__ Words& own() const { return *words[rank]; }
};

__device__ inline uint64_t now()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

// Whole tiles of one vector per thread, dealt to the blocks in turn. The same on every rank, so
// what block b reads of a peer is what block b there wrote.
struct Tiles {
    uint64_t next;
    uint64_t step;
    uint64_t n; // vectors

    __device__ explicit Tiles(uint64_t vectors)
        : next(uint64_t{blockIdx.x} * threads), step(uint64_t{gridDim.x} * threads), n(vectors)
    {
    }
    __device__ bool any() const { return next < n; }
    // This thread's vector in the k-th tile from the next one.
    __device__ uint64_t at(uint32_t k) const { return next + k * step + threadIdx.x; }
};

// Every block of this index, on all ranks, has come here; what each wrote before is seen by all
// after. False, for the whole block, if one has not come in time.
__device__ inline bool barrier(const View& v)
{
    __shared__ uint32_t in_time;
    __syncthreads();
    if (threadIdx.x == 0) in_time = 1;
    __syncthreads();
    Words& own = v.own();
    const uint32_t target = own.passed[blockIdx.x] + 1;
    if (threadIdx.x < v.ranks) {
        uint32_t* theirs = &v.words[threadIdx.x]->flag[blockIdx.x][v.rank];
        const uint32_t* mine = &own.flag[blockIdx.x][threadIdx.x];
        // Release, after the block's writes by the __syncthreads above: partner of the acquire
        // below, on the other rank.
        asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(theirs), "r"(target) : "memory");
        const uint64_t begin = now();
        uint32_t seen = 0;
        do { // ends by the peer's store or the deadline
            asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
            if (static_cast<int32_t>(seen - target) < 0 && now() - begin > deadline_ns) {
                own.late = 1;
                in_time = 0;
                break;
            }
        } while (static_cast<int32_t>(seen - target) < 0);
    }
    __syncthreads();
    if (threadIdx.x == 0) own.passed[blockIdx.x] = target;
    return in_time != 0;
}

// One more operation is done by a kernel that is compiled as this arm's: the proof that it ran.
template <uint32_t Arm>
__device__ inline void count_operation(const View& v)
{
    static_assert(Arm < max_arms);
    if (blockIdx.x == 0 && threadIdx.x == 0) v.own().ran[Arm] += 1;
}

// A span of block 0, thread 0, if the run is traced: from its making to end().
class Span {
public:
    __device__ Span(const View& v, Track track) : v_(v), track_(track)
    {
        if (traced()) begin_ = now();
    }
    __device__ void end()
    {
        if (!traced()) return;
        Words& own = v_.own();
        if (own.marks < max_marks)
            own.mark[own.marks++] = {begin_, now(), static_cast<uint32_t>(track_), 0};
    }

private:
    __device__ bool traced() const
    {
        return v_.tracing != 0 && blockIdx.x == 0 && threadIdx.x == 0;
    }
    const View& v_;
    Track track_;
    uint64_t begin_ = 0;
};

__device__ inline float4 operator+(float4 a, float4 b)
{
    return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

} // namespace denizen::arms
