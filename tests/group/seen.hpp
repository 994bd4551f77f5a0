// SPDX-License-Identifier: Apache-2.0
// What a call threw, to compare with what others of its group got.
#pragma once

#include <denizen/base/error.hpp>

#include <string>

namespace denizen::group {

struct Seen {
    Errc code = Errc::ok;
    std::string text;
};

template <class Use>
Seen seen(Use use)
{
    try {
        use();
    } catch (const Error& error) {
        return {error.code(), error.what()};
    }
    return {};
}

} // namespace denizen::group
