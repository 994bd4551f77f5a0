// SPDX-License-Identifier: Apache-2.0
// Who does the work of one channel: the threads of a block, or one thread of the host. And how its
// members touch memory that other ranks see: `Direct` is the real thing; tests have another one
// that delays stores and lets them overtake each other as far as the device's memory model allows.
#pragma once

#include <denizen/base/packet.hpp>

#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
#include <sched.h>
#include <time.h>
#endif

// A loop whose every turn has registers of its own.
#if DENIZEN_ON_DEVICE
#define DENIZEN_EACH _Pragma("unroll")
#else
#define DENIZEN_EACH
#endif

// Compiled once on the device, for all who call it.
#if DENIZEN_ON_DEVICE
#define DENIZEN_APART __noinline__
#else
#define DENIZEN_APART
#endif

namespace denizen::group {

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
};

struct Direct {
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

    // On the host packets are releases and acquires by themselves (base/packet.hpp).
    DENIZEN_HD static void fence()
    {
#if DENIZEN_ON_DEVICE
        __threadfence_system();
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

} // namespace denizen::group
