// SPDX-License-Identifier: Apache-2.0
// A type's name as it is written in the program, for errors and reports. Host only.
#pragma once

#include <denizen/base/target.hpp>

#if DENIZEN_HOSTED
#include <string_view>

namespace denizen::detail {

// "Counter" out of the compiler's name for this function.
template <class T>
constexpr std::string_view type_name()
{
    std::string_view name = __PRETTY_FUNCTION__;
    name = name.substr(name.find("T = ") + 4);
    return name.substr(0, name.find_first_of(";]"));
}

} // namespace denizen::detail
#endif
