// SPDX-License-Identifier: Apache-2.0
// Compiled kernels as the host gets them: a cubin that NVRTC made, or the kernels of the program
// itself. Host only; for parts that launch kernels of their own (searches, groups, the wave).
#pragma once

#include <denizen/base/error.hpp>

#include <cstddef>
#include <string>
#include <vector>

#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#endif

namespace denizen {

struct Code {
    std::vector<char> cubin;
    // The CUfunction of a kernel in the current context, where there is no cubin; null: left out.
    void* (*function)(const std::string& name) = nullptr;

    bool runs_on_gpu() const { return !cubin.empty() || function != nullptr; }
};

#if defined(__CUDACC__)
namespace detail {

struct NamedKernel {
    const char* name;
    const void* symbol;
};

// `whose`: names the kernels in an error, as in "the groups".
template <size_t n>
void* function_of(const NamedKernel (&kernels)[n], const std::string& name, const char* whose)
{
    for (const NamedKernel& kernel : kernels) {
        if (name != kernel.name) continue;
        cudaFunction_t function = nullptr;
        const cudaError_t error = cudaGetFuncBySymbol(&function, kernel.symbol);
        if (error != cudaSuccess) {
            throw Error(Errc::driver,
                        std::string("cudaGetFuncBySymbol: ") + cudaGetErrorString(error));
        }
        return function;
    }
    throw Error(Errc::bad_argument, std::string("no kernel of ") + whose + " is called " + name);
}

} // namespace detail
#endif

} // namespace denizen
