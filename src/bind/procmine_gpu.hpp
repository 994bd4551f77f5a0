// SPDX-License-Identifier: Apache-2.0
// Mining on a GPU, for the extension module: procmine_gpu.cu, which nvcc compiles where there is
// one and g++ elsewhere.
#pragma once

#include <denizen/procmine/mine.hpp>

#include <string>

namespace denizen::bind::procmine_gpu {

extern const bool compiled;

// `name`: the GPU's. Errc::no_device where it was compiled without CUDA.
procmine::Mined mine(const procmine::Events& events, int ordinal,
                     const procmine::MineOptions& options, std::string& name);

} // namespace denizen::bind::procmine_gpu
