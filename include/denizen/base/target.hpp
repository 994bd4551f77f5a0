// SPDX-License-Identifier: Apache-2.0
// What is being compiled for: the host compiler, nvcc (both passes) or NVRTC. Every header under
// include/ is one text for all three; this file holds the only macros they share.
#pragma once

#if defined(__CUDACC_RTC__)
// NVRTC has no standard headers; these are the few names the runtime and its users need.
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
using uintptr_t = unsigned long;
#else
#include <cstddef>
#include <cstdint>
#endif

// Marks a function that also runs on the device. Handlers compiled ahead of time by nvcc need it;
// in text compiled by NVRTC or by the host compiler it may be left out.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define DENIZEN_HD __host__ __device__
#else
#define DENIZEN_HD
#endif

// A function that is called rarely: kept out of line, so that it does not thin out the hot path in
// the instruction cache.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define DENIZEN_COLD __host__ __device__ __noinline__
#else
#define DENIZEN_COLD __attribute__((noinline, cold))
#endif

// A large function that is called at several places: one copy of it on the GPU, where the handlers
// of a program are expanded more than once. Behind the call stands lanes::rejoin() (lanes.hpp).
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define DENIZEN_ONCE __host__ __device__ __noinline__
#else
#define DENIZEN_ONCE
#endif

// 1 while device code is generated, else 0.
#if defined(__CUDA_ARCH__)
#define DENIZEN_ON_DEVICE 1
#else
#define DENIZEN_ON_DEVICE 0
#endif

// In front of a loop that is rarely run: not unrolled, which nvcc does to any it can count.
#if DENIZEN_ON_DEVICE
#define DENIZEN_ROLLED _Pragma("unroll 1")
#else
#define DENIZEN_ROLLED
#endif

// In front of a loop whose every turn has registers of its own: unrolled whole.
#if DENIZEN_ON_DEVICE
#define DENIZEN_UNROLL _Pragma("unroll")
#else
#define DENIZEN_UNROLL
#endif

// 1 where host code with the standard library can be compiled (everywhere but NVRTC).
#if defined(__CUDACC_RTC__)
#define DENIZEN_HOSTED 0
#else
#define DENIZEN_HOSTED 1
#endif

namespace denizen {

// Distance that keeps two words off each other's cache line; 128 because x86 fetches lines in
// pairs and because it is the L2 line of the GPU.
inline constexpr uint32_t line = 128;

// For a pointer that is used in every turn of a long loop: nvcc computes such a one anew each time,
// from a kernel's parameters, and waits for these.
template <class T>
DENIZEN_HD inline void keep_in_register([[maybe_unused]] T*& pointer)
{
#if DENIZEN_ON_DEVICE
    asm volatile("" : "+l"(pointer));
#endif
}

// Asks for the global memory at an address, which will be read soon. On a GPU: into the
// second-level cache.
DENIZEN_HD inline void prefetch([[maybe_unused]] const void* at)
{
#if DENIZEN_ON_DEVICE
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(at)));
#else
    __builtin_prefetch(at);
#endif
}

// memcpy, under the name that all three compilers know. Copies of constant size become moves.
DENIZEN_HD inline void copy_bytes(void* to, const void* from, decltype(sizeof(0)) n)
{
#if defined(__CUDACC_RTC__)
    memcpy(to, from, n);
#else
    __builtin_memcpy(to, from, n);
#endif
}

// What whole words hold. Of memory that copy_bytes() is told as void*, nvcc knows no alignment, and
// copies each byte for itself.
template <class T>
DENIZEN_HD inline T from_words(const uint32_t* words)
{
    uint32_t copy[(sizeof(T) + 3) / 4];
    for (uint32_t i = 0; i < sizeof(copy) / 4; ++i) {
        copy[i] = words[i];
    }
    T value;
    copy_bytes(&value, copy, sizeof value);
    return value;
}

// The other way: `to` has room for whole words.
template <class T>
DENIZEN_HD inline void to_words(uint32_t* to, const T& value)
{
    static_assert(sizeof(T) % 4 == 0);
    uint32_t copy[sizeof(T) / 4];
    copy_bytes(copy, &value, sizeof value);
    for (uint32_t i = 0; i < sizeof(copy) / 4; ++i) {
        to[i] = copy[i];
    }
}

// copy_bytes() where time does not matter, or of a length that is known at run time: nvcc would
// make hundreds of instructions of each such copy.
DENIZEN_COLD inline void copy_rolled(void* to, const void* from, uint32_t n)
{
#if DENIZEN_ON_DEVICE
    uint32_t i = 0;
    if (((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) & 3) == 0) {
        DENIZEN_ROLLED
        for (; i + 4 <= n; i += 4) {
            static_cast<uint32_t*>(to)[i / 4] = static_cast<const uint32_t*>(from)[i / 4];
        }
    }
    DENIZEN_ROLLED
    for (; i < n; ++i) {
        static_cast<unsigned char*>(to)[i] = static_cast<const unsigned char*>(from)[i];
    }
#else
    copy_bytes(to, from, n);
#endif
}

} // namespace denizen
