// SPDX-License-Identifier: Apache-2.0
// Memory that the SMs of a thread-block cluster share: on the device the shared memory of their
// blocks, addressed explicitly (a generic access would first ask where it points, which takes
// longer than the access); on the host ordinary memory. Accesses are relaxed on the device, where
// packets carry their own arrival.
//
// Hazard: another block's memory is there only while that block runs.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/packet.hpp>

namespace denizen::cluster {

#if DENIZEN_ON_DEVICE

// In the window of the cluster's shared memory.
using Address = uint32_t;

__device__ inline Address address(const void* in_this_block)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(in_this_block));
}

// The same place in the block of that rank.
__device__ inline Address in_block(Address a, [[maybe_unused]] uint32_t rank)
{
#if __CUDA_ARCH__ >= 900
    Address there = 0;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(a), "r"(rank));
    return there;
#else
    return a; // no clusters: the only rank is 0
#endif
}

// What other blocks store is loaded with their scope.
__device__ inline uint32_t load(Address own)
{
    uint32_t value = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("ld.relaxed.cluster.shared.u32 %0, [%1];" : "=r"(value) : "r"(own) : "memory");
#else
    asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(value) : "r"(own) : "memory");
#endif
    return value;
}

// Returns the value before the addition.
__device__ inline uint32_t add(Address own, uint32_t n)
{
    uint32_t before = 0;
    asm volatile("atom.relaxed.cta.shared.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "r"(own), "r"(n)
                 : "memory");
    return before;
}

// Volatile, or ptxas would make several loads of it (base/packet.hpp).
__device__ inline Packet load_packet(Address own)
{
    uint64_t low = 0;
    uint64_t high = 0;
    asm volatile("{ .reg .b128 t; ld.volatile.shared.b128 t, [%2]; mov.b128 {%0, %1}, t; }"
                 : "=l"(low), "=l"(high)
                 : "r"(own)
                 : "memory");
    return {
        {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high)},
        static_cast<uint32_t>(high >> 32)};
}

// Into any block.
__device__ inline void store(Address a, uint32_t value)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], %1;" ::"r"(a), "r"(value)
                 : "memory");
#else
    asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(a), "r"(value) : "memory");
#endif
}

// The upper half of the generic address of all shared memory. Who has it before it knows where to
// store does not wait for it then.
__device__ inline uint32_t window()
{
    uint64_t generic = 0;
    asm volatile("cvta.shared.u64 %0, 0;" : "=l"(generic));
    return static_cast<uint32_t>(generic >> 32);
}

__device__ inline void store_packet(uint32_t window, Address a, const Packet& value)
{
    const uint64_t low = value.word[0] | static_cast<uint64_t>(value.word[1]) << 32;
    const uint64_t high = value.word[2] | static_cast<uint64_t>(value.sequence) << 32;
    asm volatile("{ .reg .b128 t; .reg .b64 at; mov.b64 at, {%0, %1}; mov.b128 t, {%2, %3}; "
#if __CUDA_ARCH__ >= 900
                 "st.relaxed.cluster.b128 [at], t; }"
#else
                 "st.relaxed.cta.b128 [at], t; }"
#endif
                 ::"r"(a),
                 "r"(window), "l"(low), "l"(high)
                 : "memory");
}

__device__ inline void store_packet(Address a, const Packet& value)
{
    const uint64_t low = value.word[0] | static_cast<uint64_t>(value.word[1]) << 32;
    const uint64_t high = value.word[2] | static_cast<uint64_t>(value.sequence) << 32;
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .b128 t; mov.b128 t, {%1, %2}; "
                 "st.relaxed.cluster.shared::cluster.b128 [%0], t; }" ::"r"(a),
                 "l"(low), "l"(high)
                 : "memory");
#else
    asm volatile(
        "{ .reg .b128 t; mov.b128 t, {%1, %2}; st.relaxed.cta.shared.b128 [%0], t; }" ::"r"(a),
        "l"(low), "l"(high)
        : "memory");
#endif
}

// Into this block's.
__device__ inline void store_own(Address own, uint32_t value)
{
    asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(own), "r"(value) : "memory");
}

__device__ inline void store_own_packet(Address own, const Packet& value)
{
    const uint64_t low = value.word[0] | static_cast<uint64_t>(value.word[1]) << 32;
    const uint64_t high = value.word[2] | static_cast<uint64_t>(value.sequence) << 32;
    asm volatile(
        "{ .reg .b128 t; mov.b128 t, {%1, %2}; st.relaxed.cta.shared.b128 [%0], t; }" ::"r"(own),
        "l"(low), "l"(high)
        : "memory");
}

// Starts a copy of a packet from global memory, which nobody waits for; await_copies() does for all
// of this thread's. The sequence that the packet carries tells that it has come: the copy is one
// access at each end, and goes to L2 as a volatile load does.
__device__ inline void copy_packet(Address own, const Packet* from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(own),
                 "l"(__cvta_generic_to_global(from))
                 : "memory");
}
__device__ inline void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#else

using Address = unsigned char*;

DENIZEN_HD inline Address address(void* p) { return static_cast<Address>(p); }

// Acquire: partner of store()'s release. What a credit gives back has been read.
DENIZEN_HD inline uint32_t load(Address a)
{
    return denizen::load<Scope::system, Order::acquire>(reinterpret_cast<const uint32_t*>(a));
}
DENIZEN_HD inline void store(Address a, uint32_t value)
{
    denizen::store<Scope::system, Order::release>(reinterpret_cast<uint32_t*>(a), value);
}
DENIZEN_HD inline void store_own(Address a, uint32_t value) { store(a, value); }
DENIZEN_HD inline uint32_t add(Address a, uint32_t n)
{
    return fetch_add<Scope::block>(reinterpret_cast<uint32_t*>(a), n);
}
DENIZEN_HD inline Packet load_packet(Address a)
{
    return denizen::load_packet<Scope::gpu>(reinterpret_cast<const Packet*>(a));
}
DENIZEN_HD inline void store_packet(Address a, const Packet& value)
{
    denizen::store_packet<Scope::gpu>(reinterpret_cast<Packet*>(a), value);
}
DENIZEN_HD inline uint32_t window() { return 0; }
DENIZEN_HD inline void store_packet(uint32_t, Address a, const Packet& value)
{
    store_packet(a, value);
}
DENIZEN_HD inline void store_own_packet(Address a, const Packet& value) { store_packet(a, value); }

#endif

} // namespace denizen::cluster
