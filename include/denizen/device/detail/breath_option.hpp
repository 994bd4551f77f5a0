// SPDX-License-Identifier: Apache-2.0
// The option `breath` of everything that keeps a resident program: how long an incarnation lasts.
#pragma once

#include <denizen/base/error.hpp>
#include <denizen/device/detail/breath.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace denizen {

// How long an incarnation lasts on a GPU unless it is said: so long, or with long handlers up to
// the second (detail::lasting_ns()).
inline constexpr std::chrono::microseconds default_breath{2000};
inline constexpr std::chrono::microseconds longest_breath{16'000};

// What an option says. Errc::bad_argument.
inline uint64_t breath_ns_of(std::optional<std::chrono::microseconds> option)
{
    const auto breath = option.value_or(default_breath);
    if (breath.count() < 0 || breath.count() > 1'000'000) {
        throw Error(Errc::bad_argument, "breath = " + std::to_string(breath.count()) +
                                            " us; use 1 to 1,000,000, or 0 for one kernel for "
                                            "ever");
    }
    return static_cast<uint64_t>(breath.count()) * 1000;
}

// Of a program on a GPU.
inline void set_breath(BreathRef& ref, std::optional<std::chrono::microseconds> option)
{
    ref.ns = breath_ns_of(option);
    ref.longest_ns = option ? ref.ns : breath_ns_of(longest_breath);
}

} // namespace denizen
