// SPDX-License-Identifier: Apache-2.0
// The physical limit of a message between two SMs' threads, by the device's own clock: each polls a
// word of its own, the other stores a number there. Nothing else travels, so no protocol on the
// same way can be faster. The words lie in the shared memory of one SM, in each other's shared
// memory within a cluster, or in device memory (the L2 cache).
#pragma once

#include <cooperative_groups.h>
#include <memory>

#include <denizen/base/clock.hpp>

#include "cuda.cuh"

namespace denizen::bench {

enum class WordPlace { sm, cluster, gpu, peer };

struct Exchange {
    uint64_t ns = 0;
    uint32_t rounds = 0; // made: fewer than asked for if it took too long
    uint32_t sm[2] = {}; // where each player was
};

namespace kernels {

// Waits for `value` in `own`; false at the time limit. Nobody stores another value than the next.
template <WordPlace W>
__device__ inline bool await(const uint32_t* own, uint32_t value, uint64_t give_up)
{
    for (uint32_t polls = 1;; ++polls) {
        uint32_t found = 0;
        if constexpr (W == WordPlace::peer) {
            asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(found) : "l"(own) : "memory");
        } else if constexpr (W == WordPlace::gpu) {
            asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(found) : "l"(own) : "memory");
        } else {
            found = *static_cast<const volatile uint32_t*>(own);
        }
        if (found == value) return true;
        if (polls % 4096 == 0 && now_ns() > give_up) return false;
    }
}

template <WordPlace W>
__device__ inline void tell(uint32_t* other, uint32_t value)
{
    if constexpr (W == WordPlace::peer) {
        asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(other), "r"(value) : "memory");
    } else if constexpr (W == WordPlace::gpu) {
        asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(other), "r"(value) : "memory");
    } else {
        *static_cast<volatile uint32_t*>(other) = value;
    }
}

// Two players: two warps of a block (sm), a thread of each of two blocks, or `seat` 0 and 1 on two
// GPUs. `words` are two words, zero, a line apart (peer: one, and the other player's in `theirs`).
template <WordPlace W>
__global__ void exchange(uint32_t* words, uint32_t* theirs, uint32_t seat, uint32_t rounds,
                         uint64_t limit_ns, Exchange* result)
{
    __shared__ uint32_t in_block[2 * line / 4];
    constexpr uint32_t apart = line / 4;
    const bool two_warps = W == WordPlace::sm;
    const uint32_t player = W == WordPlace::peer ? seat : two_warps ? threadIdx.x / 32 : blockIdx.x;
    uint32_t* own = nullptr;
    uint32_t* other = nullptr;
    if constexpr (W == WordPlace::peer) {
        own = words;
        other = theirs;
    } else if constexpr (W == WordPlace::gpu) {
        own = words + player * apart;
        other = words + (1 - player) * apart;
    } else {
        if (threadIdx.x < 2) in_block[threadIdx.x * apart] = 0;
        __syncthreads();
        if constexpr (W == WordPlace::sm) {
            own = in_block + player * apart;
            other = in_block + (1 - player) * apart;
        } else {
#if __CUDA_ARCH__ >= 900
            const auto cluster = cooperative_groups::this_cluster();
            own = in_block;
            other = cluster.map_shared_rank(in_block, 1 - player);
            cluster.sync(); // the other's word is zero before we store there
#else
            __trap(); // no clusters before compute capability 9.0; the host does not launch it
                      // there
#endif
        }
    }
    if (threadIdx.x % 32 == 0) {
        asm volatile("mov.u32 %0, %%smid;" : "=r"(result->sm[player]));
        const uint64_t begin = now_ns();
        uint32_t made = 0;
        while (made < rounds) { // ends with the rounds, or at the time limit
            if (player == 0) tell<W>(other, made + 1);
            if (!await<W>(own, made + 1, begin + limit_ns)) break;
            if (player == 1) tell<W>(other, made + 1);
            ++made;
        }
        if (player == 0) {
            result->ns = now_ns() - begin;
            result->rounds = made;
        }
    }
#if __CUDA_ARCH__ >= 900
    // Nobody leaves while the other may still store to its shared memory.
    if constexpr (W == WordPlace::cluster) cooperative_groups::this_cluster().sync();
#endif
}

} // namespace kernels

// Microseconds of one way between two places of one kind.
class WordExchange {
public:
    WordExchange() : words_(2 * line / 4), result_(1)
    {
        preload(kernels::exchange<WordPlace::sm>);
        preload(kernels::exchange<WordPlace::cluster>);
        preload(kernels::exchange<WordPlace::gpu>);
    }

    double one_way(WordPlace way, uint32_t rounds, bool& right)
    {
        check_cuda(cudaMemsetAsync(words_.get(), 0, words_.size() * 4, stream_), "memset");
        result_[0] = {};
        cudaLaunchAttribute attribute{};
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(way == WordPlace::sm ? 1 : 2);
        config.blockDim = dim3(way == WordPlace::sm ? 64 : 32);
        config.stream = stream_;
        config.attrs = &attribute;
        config.numAttrs = 1;
        if (way == WordPlace::cluster) {
            attribute.id = cudaLaunchAttributeClusterDimension;
            attribute.val.clusterDim = {2, 1, 1};
        } else {
            attribute.id = cudaLaunchAttributeCooperative;
            attribute.val.cooperative = 1;
        }
        const auto launch = [&](auto* kernel) {
            check_cuda(cudaLaunchKernelEx(&config, kernel, words_.get(), nullptr, 0, rounds,
                                          kernel_limit_ns, result_.get()),
                       "launch");
        };
        switch (way) {
        case WordPlace::sm: launch(kernels::exchange<WordPlace::sm>); break;
        case WordPlace::cluster: launch(kernels::exchange<WordPlace::cluster>); break;
        case WordPlace::gpu: launch(kernels::exchange<WordPlace::gpu>); break;
        case WordPlace::peer: throw std::logic_error("peers need a PeerExchange"); break;
        }
        stream_.synchronize();
        const Exchange& e = result_[0];
        right &= e.rounds == rounds && (e.sm[0] == e.sm[1]) == (way == WordPlace::sm);
        return static_cast<double>(e.ns) * 1e-3 / (2.0 * rounds);
    }

private:
    OwnStream stream_;
    DeviceBuffer<uint32_t> words_;
    PinnedBuffer<Exchange> result_;
};

// The same between two GPUs that reach each other's memory. The caller's current device stays.
class PeerExchange {
public:
    // Whether two devices do.
    static bool possible(int first, int second)
    {
        int there = 0;
        int back = 0;
        return cudaDeviceCanAccessPeer(&there, first, second) == cudaSuccess && there != 0 &&
               cudaDeviceCanAccessPeer(&back, second, first) == cudaSuccess && back != 0;
    }

    PeerExchange(int first, int second) : device_{first, second}
    {
        for (int seat = 0; seat < 2; ++seat) {
            check_cuda(cudaSetDevice(device_[seat]), "cudaSetDevice");
            const cudaError_t status = cudaDeviceEnablePeerAccess(device_[1 - seat], 0);
            if (status == cudaErrorPeerAccessAlreadyEnabled) {
                (void)cudaGetLastError(); // that one stays behind
            } else {
                check_cuda(status, "cudaDeviceEnablePeerAccess");
            }
            player_[seat] = std::make_unique<Player>();
            preload(kernels::exchange<WordPlace::peer>);
        }
        check_cuda(cudaSetDevice(first), "cudaSetDevice");
    }

    double one_way(uint32_t rounds, bool& right)
    {
        for (const auto& player : player_) {
            player->result[0] = {};
            check_cuda(cudaMemsetAsync(player->word.get(), 0, 4, player->stream), "memset");
        }
        for (const auto& player : player_) player->stream.synchronize();
        // Each waits for the other's launch, at the most for the kernels' time limit.
        for (uint32_t seat = 2; seat-- > 0;) {
            check_cuda(cudaSetDevice(device_[seat]), "cudaSetDevice");
            kernels::exchange<WordPlace::peer><<<1, 32, 0, player_[seat]->stream>>>(
                player_[seat]->word.get(), player_[1 - seat]->word.get(), seat, rounds,
                kernel_limit_ns, player_[seat]->result.get());
            check_cuda(cudaGetLastError(), "launch");
        }
        for (const auto& player : player_) player->stream.synchronize();
        const Exchange& e = player_[0]->result[0];
        right &= e.rounds == rounds;
        return static_cast<double>(e.ns) * 1e-3 / (2.0 * rounds);
    }

private:
    struct Player {
        OwnStream stream;
        DeviceBuffer<uint32_t> word{line / 4};
        PinnedBuffer<Exchange> result{1};
    };

    int device_[2];
    std::unique_ptr<Player> player_[2];
};

} // namespace denizen::bench
