// SPDX-License-Identifier: Apache-2.0
// What CUDA's atomics lack, for NVRTC: the whole numbers of 8 bytes that are not unsigned long
// long, and double in atomicExch. The host's (host.hpp) take all of these.
#pragma once

#if defined(__CUDACC_RTC__)

#include <type_traits>

namespace denizen::detail {

template <class T>
concept OtherWord = std::is_integral_v<T> && sizeof(T) == 8;
template <class T>
using WordLike = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;

template <class T>
unsigned long long* as_word(T* at)
{
    return reinterpret_cast<unsigned long long*>(at);
}

} // namespace denizen::detail

template <denizen::detail::OtherWord T>
T atomicAdd(T* at, std::type_identity_t<T> value)
{
    return atomicAdd(denizen::detail::as_word(at), static_cast<unsigned long long>(value));
}
template <denizen::detail::OtherWord T>
T atomicSub(T* at, std::type_identity_t<T> value)
{
    return atomicAdd(denizen::detail::as_word(at), 0 - static_cast<unsigned long long>(value));
}
template <denizen::detail::OtherWord T>
T atomicExch(T* at, std::type_identity_t<T> value)
{
    return atomicExch(denizen::detail::as_word(at), static_cast<unsigned long long>(value));
}
template <class T>
    requires(std::is_same_v<T, double>)
T atomicExch(T* at, std::type_identity_t<T> value)
{
    return __longlong_as_double(static_cast<long long>(
        atomicExch(denizen::detail::as_word(at),
                   static_cast<unsigned long long>(__double_as_longlong(value)))));
}
template <denizen::detail::OtherWord T>
T atomicMin(T* at, std::type_identity_t<T> value)
{
    using W = denizen::detail::WordLike<T>;
    return atomicMin(reinterpret_cast<W*>(at), static_cast<W>(value));
}
template <denizen::detail::OtherWord T>
T atomicMax(T* at, std::type_identity_t<T> value)
{
    using W = denizen::detail::WordLike<T>;
    return atomicMax(reinterpret_cast<W*>(at), static_cast<W>(value));
}
template <denizen::detail::OtherWord T>
T atomicAnd(T* at, std::type_identity_t<T> value)
{
    return atomicAnd(denizen::detail::as_word(at), static_cast<unsigned long long>(value));
}
template <denizen::detail::OtherWord T>
T atomicOr(T* at, std::type_identity_t<T> value)
{
    return atomicOr(denizen::detail::as_word(at), static_cast<unsigned long long>(value));
}
template <denizen::detail::OtherWord T>
T atomicXor(T* at, std::type_identity_t<T> value)
{
    return atomicXor(denizen::detail::as_word(at), static_cast<unsigned long long>(value));
}
template <denizen::detail::OtherWord T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value)
{
    return atomicCAS(denizen::detail::as_word(at), static_cast<unsigned long long>(expected),
                     static_cast<unsigned long long>(value));
}

#endif
