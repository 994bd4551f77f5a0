// SPDX-License-Identifier: Apache-2.0
// A thread's share of a step of a slab, on the host.
#pragma once

#include <denizen/wave/detail/layout.hpp>

#include <memory>

namespace denizen::wave {

// Makes the rows from low to one before high of a plane of `before` into the next step; `far`: they
// come out of memory, not out of a cache. Sources, receivers and the ghosts of rows are the
// caller's.
void sweep(const Slab<float>& slab, uint32_t plane, uint32_t low, uint32_t high, bool far);
void sweep(const Slab<double>& slab, uint32_t plane, uint32_t low, uint32_t high, bool far);

// a[i] = b[i] + s a[i]: as many bytes for each element as a step for each cell. What a step is
// measured against.
void stream(float* a, const float* b, float s, size_t n);

// Zeroed memory, on pages of 2 MiB where the system gives them: with those of 4 KiB a step takes a
// fifth longer. Errc::exhausted.
std::shared_ptr<void> on_huge_pages(size_t bytes);

} // namespace denizen::wave
