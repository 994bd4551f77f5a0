// SPDX-License-Identifier: Apache-2.0
// Team: the threads that do the work of one channel, which are those of a block or one thread of
// the host. Direct: which team that is, and how it accesses memory that other ranks see. OneWarp
// and Alone are smaller teams, for handlers and tasks (inside.hpp). Tests put other classes in
// Direct's place: one delays stores and lets them overtake each other as far as the device's memory
// model allows, and one has teams of several threads of the host.
#pragma once

#include <denizen/base/packet.hpp>

#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
#include <sched.h>
#include <time.h>
#endif

// Groups are for compute capability 9.0; a program that holds their kernels may be compiled for
// others too.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define DENIZEN_GROUP_HOPPER 1
#else
#define DENIZEN_GROUP_HOPPER 0
#endif

// Compiled once on the device, for all who call it.
#if DENIZEN_ON_DEVICE
#define DENIZEN_APART __noinline__
#else
#define DENIZEN_APART
#endif

// clang-format off
#if defined(__CUDACC_RTC__)
#define DENIZEN_GROUP_KERNEL extern "C" __global__ void
#elif defined(__CUDACC__)
#define DENIZEN_GROUP_KERNEL static __global__ void
#endif
// clang-format on

namespace denizen::group {

inline constexpr uint32_t team_threads = 512; // of the kernels that groups launch themselves

struct Team {
#if DENIZEN_ON_DEVICE
    __device__ static uint32_t rank() { return threadIdx.x; }
    __device__ static uint32_t size() { return blockDim.x; }
    __device__ static void sync() { __syncthreads(); }
    __device__ static bool all(bool good) { return __syncthreads_and(good ? 1 : 0) != 0; }
#else
    DENIZEN_HD static uint32_t rank() { return 0; }
    DENIZEN_HD static uint32_t size() { return 1; }
    DENIZEN_HD static void sync() {}
    DENIZEN_HD static bool all(bool good) { return good; }
#endif
    // Of all threads' values, for each of them; the same bits on all ranks.
    DENIZEN_HD static float sum(float value);
};

// One thread is the whole team, also on the device.
struct Alone {
    DENIZEN_HD static uint32_t rank() { return 0; }
    DENIZEN_HD static uint32_t size() { return 1; }
    DENIZEN_HD static void sync() {}
    DENIZEN_HD static bool all(bool good) { return good; }
    DENIZEN_HD static uint32_t index() { return 0; }
    DENIZEN_HD static uint32_t count() { return 1; }
};

// A part of a team that runs in step: a warp, or the one thread of the host. Lanes of it share a
// piece of the data.
#if DENIZEN_ON_DEVICE
struct Warp {
    __device__ static uint32_t rank() { return threadIdx.x % 32; }
    __device__ static uint32_t size() // the last one of a block may be smaller
    {
        const uint32_t left = blockDim.x - threadIdx.x / 32 * 32;
        return left < 32 ? left : 32;
    }
    __device__ static uint32_t lanes() { return 0xffffffffu >> (32 - size()); }
    __device__ static void sync() { __syncwarp(lanes()); }
    __device__ static bool all(bool good) { return __all_sync(lanes(), good ? 1 : 0) != 0; }
    // Of the team.
    __device__ static uint32_t index() { return threadIdx.x / 32; }
    __device__ static uint32_t count() { return (blockDim.x + 31) / 32; }
};
#else
struct Warp : Alone {};
#endif

DENIZEN_HD inline float Team::sum(float value)
{
#if DENIZEN_ON_DEVICE
    __shared__ float of_warps[32];
    for (uint32_t by = 16; by != 0; by /= 2) {
        const float other = __shfl_down_sync(Warp::lanes(), value, by);
        if (Warp::rank() + by < Warp::size()) value += other;
    }
    sync(); // all have read the sums before
    if (Warp::rank() == 0) of_warps[Warp::index()] = value;
    sync();
    value = 0;
    for (uint32_t i = 0; i < Warp::count(); ++i) value += of_warps[i];
#endif
    return value;
}

// One warp is the whole team.
struct OneWarp : Warp {
    DENIZEN_HD static uint32_t index() { return 0; }
    DENIZEN_HD static uint32_t count() { return 1; }
};

DENIZEN_HD inline float root(float value)
{
#if DENIZEN_ON_DEVICE
    return sqrtf(value);
#else
    return __builtin_sqrtf(value);
#endif
}

struct Direct {
    using Team = group::Team;
    using Warp = group::Warp; // a part of it

    DENIZEN_HD static Packet load(const Packet* p) { return load_packet<Scope::system>(p); }
    DENIZEN_HD static void store(Packet* p, const Packet& value)
    {
        store_packet<Scope::system>(p, value);
    }

    // What peers read after the next header: a store of up to 16 bytes.
    template <class V>
    DENIZEN_HD static void write(V* to, const V& value)
    {
#if DENIZEN_ON_DEVICE
        *to = value;
#else
        copy_bytes(to, &value, sizeof value); // whatever type the user sees there
#endif
    }

    // Orders all earlier accesses of this thread, and of those it has synchronised with, before the
    // packets that it stores afterwards. Partner: acquire(), of a thread that has loaded such a
    // packet. On the host packets do both by themselves (base/packet.hpp).
    DENIZEN_HD static void release()
    {
#if DENIZEN_GROUP_HOPPER
        // MEMBAR alone: a fence that is an acquire too empties the L1 as well.
        asm volatile("fence.release.sys;" ::: "memory");
#elif DENIZEN_ON_DEVICE
        denizen::detail::fence_if<Scope::system>(true);
#endif
    }
    // Partner of release(). Called once, after the load that has seen the packet, not at every
    // look. It empties the L1 and waits for nothing; acq_rel would wait for this thread's own
    // stores.
    DENIZEN_HD static void acquire()
    {
#if DENIZEN_GROUP_HOPPER
        asm volatile("fence.acquire.sys;" ::: "memory");
#elif DENIZEN_ON_DEVICE
        denizen::detail::fence_if<Scope::system>(true);
#endif
    }

    // Between two looks at a packet that is not there yet.
    DENIZEN_HD static void idle(uint32_t looks)
    {
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        if (looks > 4096) {
            const timespec nap{0, 50'000};
            nanosleep(&nap, nullptr);
        } else if (looks % 32 == 0) {
            sched_yield(); // there may be fewer cores than ranks
        }
#else
        (void)looks;
#endif
    }
};

template <class T>
struct DirectOf : Direct {
    using Team = T;
    using Warp = T;
};

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

// A kernel is launched while the one before it on the stream is ending. Before it touches memory it
// waits for the end of that one, and so sees its writes.
__device__ __forceinline__ void await_kernel_before()
{
#if DENIZEN_GROUP_HOPPER
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// It lets the kernel behind it launch when all its blocks have done their part. If that came
// sooner, the next kernel's blocks could hold SMs that a peer needs.
__device__ __forceinline__ void let_kernel_behind_launch()
{
#if DENIZEN_GROUP_HOPPER
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif

} // namespace denizen::group
