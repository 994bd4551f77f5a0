// SPDX-License-Identifier: Apache-2.0
// Typed errors. The codes exist on both sides; the exception only on the host. A message names the
// thing, the limit and the way out.
#pragma once

#include <denizen/base/errc.hpp>

#if DENIZEN_HOSTED
#include <cstdio>
#include <stdexcept>
#include <string>

namespace denizen {
namespace detail {

// "0.1 s", for the texts of errors.
inline std::string seconds(uint64_t ns)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.3g s", static_cast<double>(ns) * 1e-9);
    return text;
}

} // namespace detail

class Error : public std::runtime_error {
public:
    Error(Errc code, const std::string& what) : std::runtime_error(what), code_(code) {}
    Errc code() const { return code_; }

private:
    Errc code_;
};

} // namespace denizen
#endif
