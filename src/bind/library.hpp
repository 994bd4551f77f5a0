// SPDX-License-Identifier: Apache-2.0
// Compiled code that Python hands over as bytes, loaded from those bytes: a file could be another
// one by the time the loader opens it.
#pragma once

#include <nanobind/nanobind.h>

namespace denizen::bind {

// A handle of dlopen(). The code stays loaded as long as the process: equal bytes give the same
// handle, so that takes no more room than there are programs. `what` is for the message of
// Errc::compile.
void* load_code(const nanobind::bytes& code, const char* what);

} // namespace denizen::bind
