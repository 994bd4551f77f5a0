// SPDX-License-Identifier: Apache-2.0
// The packet: 16 bytes that are read and written as one single-copy-atomic access, on the host, on
// the device and across PCIe. It carries its own sequence number, so a reader that finds the
// sequence it expects has the payload too: no index to read, no fence to wait for. NCCL calls the
// idea LL (low latency); here it is the only thing that ever crosses between two processors.
//
// Hazard: on the device, `ld.v4.u32` is four accesses and was seen torn; only `.b128` is one. And
// of `ld.relaxed.b128` ptxas makes two loads of 4 bytes if the code behind uses no more than, say,
// the first word and the sequence (13.0 to 13.5, sm_80 to sm_100, and of ld.acquire too). It leaves
// `ld.volatile.b128` whole, which the memory model takes for a relaxed load of system scope
// (tests/device/orders).
//
// These functions are for global memory: with a generic address the compiler would ask each time
// where it points. Shared memory's are in base/cluster.hpp.
//
// aarch64 without FEAT_LSE2 (before Armv8.4; qemu before 8.1): compile with DENIZEN_WITHOUT_LSE2.
// All that share a ring must be compiled alike.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/target.hpp>

#if DENIZEN_HOSTED
#if defined(__SSE2__)
#include <emmintrin.h>
// GCC's %v, which other compilers do not know.
#if defined(__AVX__)
#define DENIZEN_MOVDQA "vmovdqa"
#else
#define DENIZEN_MOVDQA "movdqa"
#endif
#endif
#if defined(__SANITIZE_THREAD__)
// The sanitizer's own 16-byte atomics: it would take the instructions below for plain accesses.
// Declared here because not every compiler package ships sanitizer/tsan_interface_atomic.h. The
// last argument is the memory order: 2 is acquire, 3 release.
__extension__ typedef __int128 TsanPacket;
extern "C" {
TsanPacket __tsan_atomic128_load(const volatile TsanPacket* p, int order);
void __tsan_atomic128_store(volatile TsanPacket* p, TsanPacket value, int order);
}
#endif
#endif

namespace denizen {

struct alignas(16) Packet {
    uint32_t word[3];
    uint32_t sequence;
};

static_assert(sizeof(Packet) == 16 && alignof(Packet) == 16);

// Reads a packet in one access. On the host it is also an acquire (free on x86), partner of
// store_packet's release, so that what a message refers to has arrived with it. On the device it is
// relaxed: a reader that follows a pointer out of a packet must fence for itself.
template <Scope S>
DENIZEN_HD inline Packet load_packet(const Packet* p)
{
#if DENIZEN_ON_DEVICE
    uint64_t low = 0;
    uint64_t high = 0;
    asm volatile("{ .reg .b128 t; ld.volatile.global.b128 t, [%2]; mov.b128 {%0, %1}, t; }"
                 : "=l"(low), "=l"(high)
                 : "l"(__cvta_generic_to_global(p)));
    return {
        {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high)},
        static_cast<uint32_t>(high >> 32)};
#elif defined(__SANITIZE_THREAD__)
    const auto raw = __tsan_atomic128_load(reinterpret_cast<const volatile TsanPacket*>(p), 2);
    Packet value;
    copy_bytes(&value, &raw, sizeof value);
    return value;
#elif defined(__SSE2__)
    // Aligned 16-byte accesses are atomic on every CPU with AVX (Intel SDM vol. 3, 9.1.1; AMD APM
    // vol. 2, 7.3.2). The clobber keeps the compiler from moving later reads in front of it.
    __m128i raw;
    asm volatile(DENIZEN_MOVDQA " %1, %0" : "=x"(raw) : "m"(*p) : "memory");
    Packet value;
    copy_bytes(&value, &raw, sizeof value);
    return value;
#elif defined(__aarch64__)
    uint64_t low = 0;
    uint64_t high = 0;
#if defined(DENIZEN_WITHOUT_LSE2)
    // The pair was read at once if what was read could be stored: the loop ends when nobody wrote
    // in between. The memory must be writable.
    uint32_t failed = 0;
    asm volatile("1:\n\tldaxp %0, %1, [%3]\n\tstxp %w2, %0, %1, [%3]\n\tcbnz %w2, 1b"
                 : "=&r"(low), "=&r"(high), "=&r"(failed)
                 : "r"(p)
                 : "memory");
#else
    // LDP is single-copy atomic with FEAT_LSE2 (Armv8.4); the fence makes it an acquire.
    asm volatile("ldp %0, %1, [%2]\n\tdmb ishld" : "=r"(low), "=r"(high) : "r"(p) : "memory");
#endif
    Packet value;
    copy_bytes(&value, &low, 8);
    copy_bytes(reinterpret_cast<char*>(&value) + 8, &high, 8);
    return value;
#else
#error "denizen needs a 16-byte single-copy-atomic load: x86-64 or aarch64 with LSE2"
#endif
}

// Writes a packet in one access; on the host also a release, partner of load_packet's acquire.
template <Scope S>
DENIZEN_HD inline void store_packet(Packet* p, const Packet& value)
{
#if DENIZEN_ON_DEVICE
    const uint64_t low = value.word[0] | static_cast<uint64_t>(value.word[1]) << 32;
    const uint64_t high = value.word[2] | static_cast<uint64_t>(value.sequence) << 32;
    if constexpr (S == Scope::system) {
        asm volatile(
            "{ .reg .b128 t; mov.b128 t, {%1, %2}; st.relaxed.sys.global.b128 [%0], t; }" ::"l"(
                __cvta_generic_to_global(p)),
            "l"(low), "l"(high)
            : "memory");
    } else {
        asm volatile(
            "{ .reg .b128 t; mov.b128 t, {%1, %2}; st.relaxed.gpu.global.b128 [%0], t; }" ::"l"(
                __cvta_generic_to_global(p)),
            "l"(low), "l"(high)
            : "memory");
    }
#elif defined(__SANITIZE_THREAD__)
    TsanPacket raw = 0;
    copy_bytes(&raw, &value, sizeof raw);
    __tsan_atomic128_store(reinterpret_cast<volatile TsanPacket*>(p), raw, 3);
#elif defined(__SSE2__)
    __m128i raw;
    copy_bytes(&raw, &value, sizeof raw);
    asm volatile(DENIZEN_MOVDQA " %1, %0" : "=m"(*p) : "x"(raw) : "memory");
#elif defined(__aarch64__)
    uint64_t low = 0;
    uint64_t high = 0;
    copy_bytes(&low, &value, 8);
    copy_bytes(&high, reinterpret_cast<const char*>(&value) + 8, 8);
#if defined(DENIZEN_WITHOUT_LSE2)
    uint64_t old = 0;
    uint64_t older = 0;
    uint32_t failed = 0;
    asm volatile("1:\n\tldxp %0, %1, [%5]\n\tstlxp %w2, %3, %4, [%5]\n\tcbnz %w2, 1b"
                 : "=&r"(old), "=&r"(older), "=&r"(failed)
                 : "r"(low), "r"(high), "r"(p)
                 : "memory");
#else
    asm volatile("dmb ish\n\tstp %0, %1, [%2]" ::"r"(low), "r"(high), "r"(p) : "memory");
#endif
#endif
}

} // namespace denizen
