// SPDX-License-Identifier: Apache-2.0
// Scoped atomic access to plain words, over the compilers' own builtins: `__atomic_*` on the host,
// `__nv_atomic_*` (CUDA 12.9 and later) on the device. The scope only matters on the device.
// One spelling on both sides, so that the protocol ThreadSanitizer checks is the one that runs on
// the GPU, and no header that NVRTC would have to find.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen {

// Who has to agree on the order: the threads of one block, of one GPU, or of GPU and host.
enum class Scope { block, gpu, system };

enum class Order { relaxed, acquire, release, acq_rel };

#if DENIZEN_ON_DEVICE
// The device builtins want scope and order as literals, hence a macro and not a constant. Orders
// other than relaxed are a relaxed access with a fence on the side that needs it.
#define DENIZEN_SCOPED(S, builtin, ...)                                                            \
    [&] {                                                                                          \
        if constexpr ((S) == Scope::block) {                                                       \
            return builtin(__VA_ARGS__, __NV_THREAD_SCOPE_BLOCK);                                  \
        } else if constexpr ((S) == Scope::gpu) {                                                  \
            return builtin(__VA_ARGS__, __NV_THREAD_SCOPE_DEVICE);                                 \
        } else {                                                                                   \
            return builtin(__VA_ARGS__, __NV_THREAD_SCOPE_SYSTEM);                                 \
        }                                                                                          \
    }()
#endif

namespace detail {

// Device: relaxed is enough where packets carry their own arrival, or one fence stands for many
// loads, or a slot is written again by the same producer, after a credit that is only a lower bound
// (tests/model/ptx/credit_of_one.litmus). One that another producer writes again needs a fence in
// front of the credit (credit.litmus); behind it an acquire, or that no store is made before the
// branch that it depends on (credit_of_inbox.litmus). Host: ordering costs nothing on x86 and tells
// ThreadSanitizer about the reuse of what is ordered.
inline constexpr Order host_acquire = DENIZEN_ON_DEVICE ? Order::relaxed : Order::acquire;
inline constexpr Order host_release = DENIZEN_ON_DEVICE ? Order::relaxed : Order::release;

DENIZEN_HD constexpr bool acquires(Order o) { return o == Order::acquire || o == Order::acq_rel; }
DENIZEN_HD constexpr bool releases(Order o) { return o == Order::release || o == Order::acq_rel; }

#if DENIZEN_ON_DEVICE
template <Scope S>
__device__ inline void fence_if(bool wanted)
{
    if (wanted) {
        DENIZEN_SCOPED(S, __nv_atomic_thread_fence, __NV_ATOMIC_ACQ_REL);
    }
}
#else
template <Order O>
inline constexpr int order_of = O == Order::relaxed   ? __ATOMIC_RELAXED
                                : O == Order::acquire ? __ATOMIC_ACQUIRE
                                : O == Order::release ? __ATOMIC_RELEASE
                                                      : __ATOMIC_ACQ_REL;
#endif

} // namespace detail

template <Scope S, Order O = Order::relaxed, class T>
DENIZEN_HD inline T load(const T* p)
{
    static_assert(O == Order::relaxed || O == Order::acquire);
#if DENIZEN_ON_DEVICE
    return DENIZEN_SCOPED(S, __nv_atomic_load_n, const_cast<T*>(p),
                          detail::acquires(O) ? __NV_ATOMIC_ACQUIRE : __NV_ATOMIC_RELAXED);
#else
    return __atomic_load_n(p, detail::order_of<O>);
#endif
}

template <Scope S, Order O = Order::relaxed, class T>
DENIZEN_HD inline void store(T* p, T value)
{
    static_assert(O == Order::relaxed || O == Order::release);
#if DENIZEN_ON_DEVICE
    detail::fence_if<S>(detail::releases(O));
    DENIZEN_SCOPED(S, __nv_atomic_store_n, p, value, __NV_ATOMIC_RELAXED);
#else
    __atomic_store_n(p, value, detail::order_of<O>);
#endif
}

// The read-modify-write of `p` by `value` that both sides have as `name`.
#if DENIZEN_ON_DEVICE
#define DENIZEN_READ_MODIFY_WRITE(name)                                                            \
    detail::fence_if<S>(detail::releases(O));                                                      \
    const T before = DENIZEN_SCOPED(S, __nv_atomic_##name, p, value, __NV_ATOMIC_RELAXED);         \
    detail::fence_if<S>(detail::acquires(O));                                                      \
    return before
#else
#define DENIZEN_READ_MODIFY_WRITE(name) return __atomic_##name(p, value, detail::order_of<O>)
#endif

// Returns the value before the addition.
template <Scope S, Order O = Order::relaxed, class T>
DENIZEN_HD inline T fetch_add(T* p, T value)
{
    DENIZEN_READ_MODIFY_WRITE(fetch_add);
}

// To a word in global memory whose value nobody asks for: the device goes on at once. (For all it
// knows fetch_add's 64-bit word may be shared memory, so it waits for what comes back.)
template <Order O = Order::relaxed>
DENIZEN_HD inline void add_global(uint64_t* p, uint64_t value)
{
#if DENIZEN_ON_DEVICE
    static_assert(!detail::acquires(O));
    detail::fence_if<Scope::gpu>(detail::releases(O));
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(p)),
                 "l"(value)
                 : "memory");
#else
    fetch_add<Scope::gpu, O>(p, value);
#endif
}

// Returns the word before; it becomes `value`.
template <Scope S, Order O = Order::relaxed, class T>
DENIZEN_HD inline T exchange(T* p, T value)
{
    DENIZEN_READ_MODIFY_WRITE(exchange_n);
}

// Sets the bits of `value`; returns the word before.
template <Scope S, Order O = Order::relaxed, class T>
DENIZEN_HD inline T fetch_or(T* p, T value)
{
    DENIZEN_READ_MODIFY_WRITE(fetch_or);
}

// Keeps the bits of `value` and clears the others; returns the word before.
template <Scope S, Order O = Order::relaxed, class T>
DENIZEN_HD inline T fetch_and(T* p, T value)
{
    DENIZEN_READ_MODIFY_WRITE(fetch_and);
}

// Raises the word to `value` if that is greater; returns the value before.
template <Scope S, Order O = Order::relaxed, class T>
DENIZEN_HD inline T fetch_max(T* p, T value)
{
#if DENIZEN_ON_DEVICE
    DENIZEN_READ_MODIFY_WRITE(fetch_max);
#else
    // Hosts have no such instruction (Armv8.1 apart). A relaxed or acquire maximum that would not
    // raise the word is a load; a release has to write in any case.
    T before = __atomic_load_n(p, detail::order_of < detail::acquires(O) ? Order::acquire
                                                                         : Order::relaxed >);
    while (before < value ||
           detail::releases(O)) { // ends: a failure means that another has written
        if (__atomic_compare_exchange_n(
                p, &before, before < value ? value : before, false, detail::order_of<O>,
                detail::order_of < detail::acquires(O) ? Order::acquire : Order::relaxed >)) {
            break;
        }
    }
    return before;
#endif
}

// Lowers the word to `value` if that is less; returns the value before.
template <Scope S, class T>
DENIZEN_HD inline T fetch_min(T* p, T value)
{
#if DENIZEN_ON_DEVICE
    return DENIZEN_SCOPED(S, __nv_atomic_fetch_min, p, value, __NV_ATOMIC_RELAXED);
#else
    T before = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (value < before) { // ends: a failure means that another has lowered it
        if (__atomic_compare_exchange_n(p, &before, value, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            break;
        }
    }
    return before;
#endif
}

// Strong compare-exchange; on failure `expected` becomes the value found.
template <Scope S, Order O = Order::relaxed, class T>
DENIZEN_HD inline bool compare_exchange(T* p, T& expected, T desired)
{
#if DENIZEN_ON_DEVICE
    detail::fence_if<S>(detail::releases(O));
    const bool exchanged = DENIZEN_SCOPED(S, __nv_atomic_compare_exchange_n, p, &expected, desired,
                                          false, __NV_ATOMIC_RELAXED, __NV_ATOMIC_RELAXED);
    detail::fence_if<S>(detail::acquires(O));
    return exchanged;
#else
    constexpr Order on_failure = detail::acquires(O) ? Order::acquire : Order::relaxed;
    return __atomic_compare_exchange_n(p, &expected, desired, false, detail::order_of<O>,
                                       detail::order_of<on_failure>);
#endif
}

#undef DENIZEN_READ_MODIFY_WRITE
#undef DENIZEN_SCOPED

} // namespace denizen
