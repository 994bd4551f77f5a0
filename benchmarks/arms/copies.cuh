// SPDX-License-Identifier: Apache-2.0
// The ways in which a block gets vectors from other memory: plain loads, cp.async, bulk copies.
// Each has `sum`: to[i] = from[0][i] + ... + from[sources - 1][i] for this block's tiles, in that
// order; with one source it is a copy. And the ways in which it puts them there: plain stores, bulk
// copies.
#pragma once

#include "links.cuh"

namespace denizen::arms {

struct Sources {
    const float4* from[max_ranks];
    uint32_t count;
};

// --- plain loads, `Unroll` tiles of each source in flight ---

template <uint32_t Unroll>
struct Loads {
    static constexpr uint32_t shared_bytes(uint32_t) { return 0; }

    __device__ static void sum(const View& v, const Sources& s, float4* to, uint64_t n)
    {
        for (Tiles t(n); t.any(); t.next += Unroll * t.step) {
            float4 total[Unroll];
            Span copying(v, Track::copy);
            for (uint32_t r = 0; r < s.count; ++r) {
                float4 found[Unroll];
#pragma unroll
                for (uint32_t k = 0; k < Unroll; ++k)
                    if (t.at(k) < n) found[k] = __ldcv(&s.from[r][t.at(k)]);
#pragma unroll
                for (uint32_t k = 0; k < Unroll; ++k)
                    total[k] = r == 0 ? found[k] : total[k] + found[k];
            }
#pragma unroll
            for (uint32_t k = 0; k < Unroll; ++k)
                if (t.at(k) < n) to[t.at(k)] = total[k];
            copying.end();
        }
    }
};

// --- cp.async: each thread its own vectors, `Stages` tiles of each source in flight ---

template <uint32_t Stages>
struct Async {
    static constexpr uint32_t shared_bytes(uint32_t ranks)
    {
        return Stages * ranks * threads * uint32_t{sizeof(float4)};
    }

    __device__ static void sum(const View& v, const Sources& s, float4* to, uint64_t n)
    {
        extern __shared__ float4 staged[]; // [stage][source][thread]; a thread reads its own alone
        __shared__ uint64_t asked[Stages]; // of the thread that is traced
        const auto place = [&](uint32_t stage, uint32_t r) {
            return &staged[(stage * s.count + r) * threads + threadIdx.x];
        };
        const auto fetch = [&](uint64_t i, uint32_t stage) {
            if (is_traced(v)) asked[stage] = now();
            if (i < n) {
                for (uint32_t r = 0; r < s.count; ++r) {
                    const auto at =
                        static_cast<uint32_t>(__cvta_generic_to_shared(place(stage, r)));
                    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at),
                                 "l"(&s.from[r][i])
                                 : "memory");
                }
            }
            asm volatile("cp.async.commit_group;" ::
                             : "memory"); // empty at the end: the count holds
        };
        Tiles t(n);
        for (uint32_t k = 0; k + 1 < Stages; ++k) fetch(t.at(k), k);
        for (uint32_t stage = 0; t.any(); t.next += t.step, stage = (stage + 1) % Stages) {
            // The slot that the last round emptied is filled before this round's is waited for.
            fetch(t.at(Stages - 1), (stage + Stages - 1) % Stages);
            asm volatile("cp.async.wait_group %0;" ::"n"(Stages - 1) : "memory");
            if (is_traced(v)) mark(v, Track::copy, asked[stage]); // it ran while others were summed
            Span summing(v, Track::sum);
            if (t.at(0) < n) {
                float4 total = *place(stage, 0);
                for (uint32_t r = 1; r < s.count; ++r) total = total + *place(stage, r);
                to[t.at(0)] = total;
            }
            summing.end();
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
    }
};

// --- bulk copies (the tensor memory accelerator without a tensor): one thread asks for whole
// tiles, `Stages` of each source in flight, and the block waits at an mbarrier ---

__device__ inline uint32_t shared_address(const void* p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

template <uint32_t Stages>
struct Bulk {
    static constexpr uint32_t shared_bytes(uint32_t ranks)
    {
        return Stages * ranks * threads * uint32_t{sizeof(float4)};
    }

    __device__ static void sum(const View& v, const Sources& s, float4* to, uint64_t n)
    {
        extern __shared__ __align__(128) float4 staged[]; // [stage][source][thread]
        __shared__ alignas(8) uint64_t full[Stages];
        __shared__ uint64_t asked[Stages]; // of the thread that is traced
        __syncthreads();                   // nobody is in the barriers of an earlier call
        if (threadIdx.x == 0) {
            for (uint32_t k = 0; k < Stages; ++k)
                asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&full[k])));
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            // What ranks wrote by ordinary stores, before the barrier, is read by the copy engine.
            asm volatile("fence.proxy.async.global;" ::: "memory");
        }
        __syncthreads();
        const auto fetch = [&](uint64_t first, uint32_t stage) { // thread 0
            if (first >= n) return;
            if (is_traced(v)) asked[stage] = now();
            const auto vectors = static_cast<uint32_t>(n - first < threads ? n - first : threads);
            const uint32_t bytes = vectors * uint32_t{sizeof(float4)};
            const uint32_t bar = shared_address(&full[stage]);
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar),
                         "r"(bytes * s.count)
                         : "memory");
            for (uint32_t r = 0; r < s.count; ++r) {
                const uint32_t at = shared_address(&staged[(stage * s.count + r) * threads]);
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                             "[%0], [%1], %2, [%3];" ::"r"(at),
                             "l"(&s.from[r][first]), "r"(bytes), "r"(bar)
                             : "memory");
            }
        };
        Tiles t(n);
        if (threadIdx.x == 0)
            for (uint32_t k = 0; k < Stages; ++k) fetch(t.next + k * t.step, k);
        uint32_t round = 0;
        for (uint32_t stage = 0; t.any(); t.next += t.step) {
            const uint32_t bar = shared_address(&full[stage]);
            uint32_t done = 0;
            while (done == 0) { // ends: the copy engine completes, or the context dies of its error
                asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; "
                             "selp.u32 %0, 1, 0, p; }"
                             : "=r"(done)
                             : "r"(bar), "r"(round & 1)
                             : "memory");
            }
            if (is_traced(v)) mark(v, Track::copy, asked[stage]); // it ran while others were summed
            Span summing(v, Track::sum);
            if (t.at(0) < n) {
                const float4* mine = &staged[stage * s.count * threads + threadIdx.x];
                float4 total = mine[0];
                for (uint32_t r = 1; r < s.count; ++r) total = total + mine[r * threads];
                to[t.at(0)] = total;
            }
            summing.end();
            __syncthreads(); // the stage has been read by all before it is filled again
            if (threadIdx.x == 0) fetch(t.next + Stages * t.step, stage);
            if (++stage == Stages) {
                stage = 0;
                ++round;
            }
        }
        __syncthreads();
        if (threadIdx.x == 0)
            for (uint32_t k = 0; k < Stages; ++k)
                asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(&full[k])));
    }
};

// --- putting: from[i] to to[d][i], for all targets ---

struct Targets {
    float4* to[max_ranks];
    uint32_t count;
};

struct Stores {
    static constexpr uint32_t shared_bytes(uint32_t) { return 0; }

    __device__ static void put(const View& v, const float4* from, const Targets& d, uint64_t n)
    {
        constexpr uint32_t unroll = 4;
        for (Tiles t(n); t.any(); t.next += unroll * t.step) {
            Span copying(v, Track::copy);
            float4 found[unroll];
#pragma unroll
            for (uint32_t k = 0; k < unroll; ++k)
                if (t.at(k) < n) found[k] = __ldcv(&from[t.at(k)]);
            for (uint32_t r = 0; r < d.count; ++r)
#pragma unroll
                for (uint32_t k = 0; k < unroll; ++k)
                    if (t.at(k) < n) d.to[r][t.at(k)] = found[k];
            copying.end();
        }
    }
};

// A tile into shared memory by its threads, out of it by one bulk copy for each target.
struct BulkStores {
    static constexpr uint32_t stages = 4;
    static constexpr uint32_t shared_bytes(uint32_t)
    {
        return stages * threads * uint32_t{sizeof(float4)};
    }

    __device__ static void put(const View& v, const float4* from, const Targets& d, uint64_t n)
    {
        extern __shared__ __align__(128) float4 staged[];
        uint32_t stage = 0;
        for (Tiles t(n); t.any(); t.next += t.step, stage = (stage + 1) % stages) {
            // The copies that read this stage were asked for `stages` rounds ago.
            if (threadIdx.x == 0)
                asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(stages - 1) : "memory");
            __syncthreads();
            Span copying(v, Track::copy);
            float4* tile = &staged[stage * threads];
            if (t.at(0) < n) tile[threadIdx.x] = __ldcv(&from[t.at(0)]);
            // The asynchronous proxy reads what the threads wrote.
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncthreads();
            if (threadIdx.x == 0) {
                const uint64_t left = n - t.next;
                const auto bytes =
                    static_cast<uint32_t>((left < threads ? left : threads) * sizeof(float4));
                for (uint32_t r = 0; r < d.count; ++r)
                    asm volatile(
                        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                            &d.to[r][t.next]),
                        "r"(shared_address(tile)), "r"(bytes)
                        : "memory");
                asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            }
            copying.end();
        }
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); // written, not only read
            asm volatile("fence.proxy.async.global;" ::: "memory");
        }
        __syncthreads();
    }
};

} // namespace denizen::arms
