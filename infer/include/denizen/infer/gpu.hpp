// SPDX-License-Identifier: Apache-2.0
// A resident model on a GPU.
//
//   Engine m(model, {.streams = 32, .format = Format::bf16}, on_gpu(0));
//
// C++ that nvcc compiles brings the kernels with it; else they come as a cubin.
#pragma once

#include <denizen/base/code.hpp>
#include <denizen/device/detail/breath_option.hpp>
#include <denizen/infer/chip.hpp>
#include <denizen/infer/detail/kernels.hpp>
#include <denizen/infer/engine.hpp>

#include <chrono>
#include <memory>
#include <optional>

namespace denizen::infer {

// The kernels, as nvcc compiled them into this file; none elsewhere.
#if defined(__CUDACC__)
namespace detail {

static inline void* resident_kernel(const std::string& name)
{
    const denizen::detail::NamedKernel kernels[] = {
        {"near_fp32", reinterpret_cast<const void*>(&denizen_infer_near_fp32)},
        {"near_bf16", reinterpret_cast<const void*>(&denizen_infer_near_bf16)},
        {"near_fp16", reinterpret_cast<const void*>(&denizen_infer_near_fp16)},
        {"far_fp32", reinterpret_cast<const void*>(&denizen_infer_far_fp32)},
        {"far_bf16", reinterpret_cast<const void*>(&denizen_infer_far_bf16)},
        {"far_fp16", reinterpret_cast<const void*>(&denizen_infer_far_fp16)},
    };
    return denizen::detail::function_of(kernels, name, "resident models");
}

} // namespace detail

static inline Code compiled_code() { return {{}, &detail::resident_kernel}; }
#else
inline Code compiled_code() { return {}; }
#endif

// For one Engine. No kernel lasts longer than `breath`, so that what waits for the whole device
// gets its turn; 0: one kernel for as long as the model stays. Unless it is said: default_breath.
// Throws no_device for a GPU that is not there or older than compute capability 8.0, bad_argument.
std::unique_ptr<Chip> on_gpu(int ordinal, const Code& code = compiled_code(),
                             std::optional<std::chrono::microseconds> breath = {});

} // namespace denizen::infer
