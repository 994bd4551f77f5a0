// SPDX-License-Identifier: Apache-2.0
// Lists of types: where a type stands in one, and a call for the type at an index.
#pragma once

#include <denizen/actor/detail/program_table.hpp>

namespace denizen::detail {

template <class, class>
inline constexpr bool same = false;
template <class T>
inline constexpr bool same<T, T> = true;

template <uint32_t I, class T, class... Ts>
struct Nth {
    using type = typename Nth<I - 1, Ts...>::type;
};
template <class T, class... Ts>
struct Nth<0, T, Ts...> {
    using type = T;
};

// Calls f<T>() for the T at `index` of the list. A switch, and no comparison with one type after
// the other: each of those cost a lone warp some 80 cycles, also behind the one that was found.
template <class... T>
struct Select {
    template <uint32_t From = 0, class F>
    DENIZEN_HD static void at(uint32_t index, const F& f)
    {
#define DENIZEN_CASE(i)                                                                            \
    case From + i:                                                                                 \
        if constexpr (From + i < sizeof...(T)) {                                                   \
            f.template operator()<typename Nth<From + i, T...>::type>();                           \
        }                                                                                          \
        return;
        switch (index) {
            DENIZEN_CASE(0)
            DENIZEN_CASE(1)
            DENIZEN_CASE(2)
            DENIZEN_CASE(3)
            DENIZEN_CASE(4)
            DENIZEN_CASE(5)
            DENIZEN_CASE(6)
            DENIZEN_CASE(7)
        default:
            if constexpr (From + 8 < sizeof...(T)) {
                at<From + 8>(index, f);
            }
        }
#undef DENIZEN_CASE
    }
};

template <class T, class... Ts>
DENIZEN_HD constexpr uint32_t index_of()
{
    uint32_t index = 0;
    uint32_t found = no_type;
    ((same<T, Ts> ? void(found = index) : void(), ++index), ...);
    return found;
}

} // namespace denizen::detail
