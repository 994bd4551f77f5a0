// SPDX-License-Identifier: Apache-2.0
// Who computes a block's part of a step: the warps of a block of GPU threads, some of them, or one
// thread of the CPU, which stands for a block of one warp of one lane and for each part of it. And
// four rows times a vector.
#pragma once

#include <denizen/base/cluster.hpp>
#include <denizen/base/floats.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/infer/detail/block_op.hpp>
#include <denizen/infer/detail/functions.hpp>

#if DENIZEN_HOSTED
#include <ctime>
#include <sched.h>
#endif

namespace denizen::infer::detail {

struct alignas(16) Quad {
    float v[4];
};

// Of shared memory whose address came by a call: as such its accesses are not asked where they
// point.
DENIZEN_HD inline unsigned char* known_as_shared(unsigned char* shared)
{
#if DENIZEN_ON_DEVICE
    auto at = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("" : "+r"(at));
    return static_cast<unsigned char*>(__cvta_shared_to_generic(at));
#else
    return shared;
#endif
}

class Team {
public:
    DENIZEN_HD explicit Team(uint32_t number) : Team(number, 0, block_threads / 32, 0) {}
    // The first `warps` of a block, and those behind them.
    DENIZEN_HD static Team front(uint32_t number, uint32_t warps) { return {number, 0, warps, 1}; }
    DENIZEN_HD static Team behind(uint32_t number, uint32_t front)
    {
        return {number, front, block_threads / 32 - front, 2};
    }

    DENIZEN_HD uint32_t block() const { return block_; }
    DENIZEN_HD bool leads() const { return block_ == 0; }
#if DENIZEN_ON_DEVICE
    __device__ bool here() const { return threadIdx.x / 32 - first_ < warps_; }
    __device__ uint32_t rank() const { return threadIdx.x - 32 * first_; }
    __device__ uint32_t size() const { return 32 * warps_; }
    __device__ uint32_t warp() const { return threadIdx.x / 32 - first_; }
    __device__ uint32_t warps() const { return warps_; }
    __device__ void sync() const
    {
        if (meeting_ == 0) {
            __syncthreads();
        } else {
            asm volatile("bar.sync %0, %1;" ::"r"(meeting_), "r"(size()) : "memory");
        }
    }
#else
    DENIZEN_HD bool here() const { return warps_ != 0; }
    DENIZEN_HD uint32_t rank() const { return 0; }
    DENIZEN_HD uint32_t size() const { return 1; }
    DENIZEN_HD uint32_t warp() const { return 0; }
    DENIZEN_HD uint32_t warps() const { return 1; }
    DENIZEN_HD void sync() const {}
#endif
    DENIZEN_HD bool last_warp() const { return warp() == warps() - 1; }

private:
    DENIZEN_HD Team(uint32_t number, uint32_t first, uint32_t warps, uint32_t meeting)
        : block_(number), first_(first), warps_(warps), meeting_(meeting)
    {
    }

    uint32_t block_;
    uint32_t first_;
    uint32_t warps_;
    uint32_t meeting_; // of the block's barriers, where they meet
};

// Between two looks for what another block stores: a thread gives its core to the others.
DENIZEN_HD inline void pause_block()
{
#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
    static thread_local uint32_t looks = 0;
    const timespec nap{0, 5'000};
    if (++looks % 16 != 0) {
        sched_yield();
    } else {
        nanosleep(&nap, nullptr);
    }
#endif
}

DENIZEN_HD inline float sum_of_lanes(float x)
{
#if DENIZEN_ON_DEVICE
    DENIZEN_UNROLL
    for (int far = 16; far > 0; far /= 2) x += __shfl_xor_sync(~0u, x, far);
#endif
    return x;
}

DENIZEN_HD inline float most_of_lanes(float x)
{
#if DENIZEN_ON_DEVICE
    DENIZEN_UNROLL
    for (int far = 16; far > 0; far /= 2) {
        const float other = __shfl_xor_sync(~0u, x, far);
        x = x < other || other != other ? other : x; // a NaN stays one
    }
#endif
    return x;
}

// Four weights that lie one after the other.
struct alignas(8) FourHalves {
    uint32_t pair[2];
};
template <Format F>
struct FourOf {
    using Type = FourHalves;
};
template <>
struct FourOf<Format::fp32> {
    using Type = Quad;
};
template <Format F>
using Four = typename FourOf<F>::Type;

template <Format F>
DENIZEN_HD inline Four<F> four_at(const unsigned char* w)
{
    return *reinterpret_cast<const Four<F>*>(w);
}

template <Format F>
DENIZEN_HD inline Quad widened(const Four<F>& w)
{
    if constexpr (F == Format::fp32) {
        return w;
    } else {
        Quad q;
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
            const auto half = static_cast<uint16_t>(w.pair[i / 2] >> (i % 2 * 16));
            if constexpr (F == Format::bf16) {
                q.v[i] = widen(BFloat{half});
            } else {
                q.v[i] = widen(Half{half});
            }
        }
        return q;
    }
}

DENIZEN_HD inline Quad plus_product(const Quad& w, const Quad& x, Quad sum, uint32_t row)
{
    float s = sum.v[row];
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < 4; ++i) s = fma_of(w.v[i], x.v[i], s);
    sum.v[row] = s;
    return sum;
}

#if DENIZEN_ON_DEVICE
// Over all lanes the sum of row lane / 8. Each half of the warp keeps two rows, then each quarter
// one.
__device__ inline float row_of_lanes(const Quad& of)
{
    const uint32_t lane = lanes::id();
    const bool upper = (lane & 16) != 0;
    float a = upper ? of.v[2] : of.v[0];
    float b = upper ? of.v[3] : of.v[1];
    a += __shfl_xor_sync(~0u, upper ? of.v[0] : of.v[2], 16);
    b += __shfl_xor_sync(~0u, upper ? of.v[1] : of.v[3], 16);
    const bool odd = (lane & 8) != 0;
    float s = odd ? b : a;
    s += __shfl_xor_sync(~0u, odd ? a : b, 8);
    s += __shfl_xor_sync(~0u, s, 4);
    s += __shfl_xor_sync(~0u, s, 2);
    s += __shfl_xor_sync(~0u, s, 1);
    return s;
}
#endif

// sums[c].v[r]: row r of the group at `w` times the floats at x + c * apart, for the first `live`
// of n columns. A warp's lane l sums columns 4l to 4l + 3 of each chunk, then the lanes' sums are
// added, those that are 16 apart first. So a sum does not depend on n, nor on which rows stand
// beside it.
template <Format F, uint32_t n>
DENIZEN_HD inline void sum_group(const unsigned char* w, const float* x, uint32_t apart,
                                 uint32_t chunks, uint32_t live, Quad* sums)
{
    constexpr uint32_t row_bytes = chunk * format_bytes(F);
#if DENIZEN_ON_DEVICE
    const uint32_t lane = lanes::id();
    Quad of[n] = {};
    w += lane * 4 * format_bytes(F);
    x += lane * 4;
#pragma unroll 2
    for (uint32_t k = 0; k < chunks; ++k) {
        Quad row[4];
        DENIZEN_UNROLL
        for (uint32_t r = 0; r < 4; ++r) row[r] = widened<F>(four_at<F>(w + r * row_bytes));
        DENIZEN_UNROLL
        for (uint32_t c = 0; c < n; ++c) {
            const Quad in = *reinterpret_cast<const Quad*>(x + c * apart);
            DENIZEN_UNROLL
            for (uint32_t r = 0; r < 4; ++r) of[c] = plus_product(row[r], in, of[c], r);
        }
        w += 4 * row_bytes;
        x += chunk;
    }
    DENIZEN_UNROLL
    for (uint32_t c = 0; c < n; ++c) {
        const float s = row_of_lanes(of[c]);
        if (lane % 8 == 0 && c < live) sums[c].v[lane / 8] = s;
    }
#else
    for (uint32_t c = 0; c < live; ++c) {
        Quad of[32] = {};
        for (uint32_t k = 0; k < chunks; ++k) {
            for (uint32_t lane = 0; lane < 32; ++lane) {
                const uint32_t at = k * chunk + lane * 4;
                const Quad in = *reinterpret_cast<const Quad*>(x + c * apart + at);
                for (uint32_t r = 0; r < 4; ++r) {
                    const unsigned char* row = w + (k * 4 + r) * row_bytes;
                    const Quad four = widened<F>(four_at<F>(row + lane * 4 * format_bytes(F)));
                    of[lane] = plus_product(four, in, of[lane], r);
                }
            }
        }
        for (uint32_t half = 16; half > 0; half /= 2) {
            for (uint32_t lane = 0; lane < half; ++lane) {
                for (uint32_t r = 0; r < 4; ++r) of[lane].v[r] += of[lane + half].v[r];
            }
        }
        sums[c] = of[0];
    }
#endif
}

} // namespace denizen::infer::detail
