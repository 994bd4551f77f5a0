// SPDX-License-Identifier: Apache-2.0
// What the files of the extension module share.
#pragma once

#include <denizen/any_runtime.hpp>

#include <nanobind/nanobind.h>

namespace denizen::bind {

using Unlocked = nanobind::gil_scoped_release;

inline nanoseconds seconds(double s)
{
    return nanoseconds(s <= 0    ? 0
                       : s > 1e9 ? static_cast<int64_t>(1e18)
                                 : static_cast<int64_t>(s * 1e9));
}

// Defines the methods about the life of actors (life.cpp).
void life(nanobind::class_<AnyRuntime>& runtime);
// Those about snapshots and migration (snapshot.cpp).
void snapshots(nanobind::class_<AnyRuntime>& runtime);
// Those about tracing (tracing.cpp).
void tracing(nanobind::class_<AnyRuntime>& runtime);

} // namespace denizen::bind
