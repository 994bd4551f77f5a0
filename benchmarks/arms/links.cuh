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
inline constexpr uint32_t traced_blocks = 4; // spread over the grid
inline constexpr uint32_t max_arms = 32;
inline constexpr uint64_t deadline_ns = 2'000'000'000;

// One span on a timeline.
struct Mark {
    uint64_t begin;
    uint64_t end;
    uint32_t track; // Track
    uint32_t block;
};
enum class Track : uint32_t { copy, sum, wait };

// Of one rank, on its own device.
struct alignas(128) Words {
    uint32_t flag[max_blocks][max_ranks]; // written by the ranks: how many barriers they came to
    uint32_t passed[max_blocks];          // barriers that the block came to, kept between launches
    uint32_t epoch[max_blocks];           // operations done, likewise
    uint32_t packets[max_blocks];         // operations by packets, likewise
    uint32_t ran[2][max_arms];     // operations, by the arm that the kernel says it is; [1]: PDL
    uint32_t running;              // 1: a kernel of this rank is between its first and last step
    uint32_t began_early;          // kernels that found the one before running
    uint32_t late;                 // 1: a wait took too long
    uint32_t marks[traced_blocks]; // how many there are of each
    Mark mark[traced_blocks][max_marks];
};

struct View {
    uint32_t rank;
    uint32_t ranks;
    uint32_t iterations; // operations of one launch
    uint32_t tracing;    // 1: leave marks
    uint32_t early;      // 1: launched programmatically
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
    if (blockIdx.x == 0 && threadIdx.x == 0) v.own().ran[v.early][Arm] += 1;
}

// Every how many blocks one is traced.
__device__ inline uint32_t traced_step()
{
    return gridDim.x < traced_blocks ? 1 : gridDim.x / traced_blocks;
}

// Whether this thread leaves marks: the first of a traced block, in a run that is traced.
__device__ inline bool is_traced(const View& v)
{
    return v.tracing != 0 && threadIdx.x == 0 && blockIdx.x % traced_step() == 0 &&
           blockIdx.x / traced_step() < traced_blocks;
}

// A span from `begin` until now, by a thread that is traced.
__device__ inline void mark(const View& v, Track track, uint64_t begin)
{
    if (!is_traced(v)) return;
    const uint32_t place = blockIdx.x / traced_step();
    Words& own = v.own();
    uint32_t& count = own.marks[place];
    if (count < max_marks)
        own.mark[place][count++] = {begin, now(), static_cast<uint32_t>(track), blockIdx.x};
}

// When a copy was asked for; of use to a thread that is traced alone.
__device__ inline uint64_t asked_at(const View& v) { return is_traced(v) ? now() : 0; }

// A span from its making to end().
class Span {
public:
    __device__ Span(const View& v, Track track) : v_(v), track_(track), begin_(asked_at(v)) {}
    __device__ void end() { mark(v_, track_, begin_); }

private:
    const View& v_;
    Track track_;
    uint64_t begin_;
};

// Launched programmatically (PDL), a kernel begins while the one before it still runs: what that
// wrote may be read from here on, and the next one may begin. Otherwise the two instructions are
// nothing. It is counted if the one before was seen running.
__device__ inline void follow_the_kernel_before(const View& v)
{
    const bool is_first = blockIdx.x == 0 && threadIdx.x == 0;
    Words& own = v.own();
    const bool is_early = is_first && *static_cast<volatile uint32_t*>(&own.running) != 0;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (is_first) {
        own.began_early += is_early;
        *static_cast<volatile uint32_t*>(&own.running) = 1;
    }
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

__device__ inline void end_for_the_next(const View& v)
{
    if (blockIdx.x == 0 && threadIdx.x == 0) *static_cast<volatile uint32_t*>(&v.own().running) = 0;
}

__device__ inline float4 operator+(float4 a, float4 b)
{
    return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

} // namespace denizen::arms
