// SPDX-License-Identifier: Apache-2.0
// A step of a slab on one thread of the host.
#pragma once

#include <denizen/wave/layout.hpp>

#include <memory>

namespace denizen::wave {

// Makes `before` of the slab's planes from first to one before last into the next step. Sources,
// receivers and the ghosts of rows are the caller's.
void sweep(const Slab<float>& slab, uint32_t first, uint32_t last);
void sweep(const Slab<double>& slab, uint32_t first, uint32_t last);

// a[i] = b[i] + s a[i]: as many bytes for each element as a step for each cell. What a step is
// measured against.
void stream(float* a, const float* b, float s, size_t n);

// Zeroed memory, on pages of 2 MiB where the system gives them: with those of 4 KiB a step takes a
// fifth longer. Errc::exhausted.
std::shared_ptr<void> on_huge_pages(size_t bytes);

} // namespace denizen::wave
