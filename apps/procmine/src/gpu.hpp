// SPDX-License-Identifier: Apache-2.0
// device.cuh compiled once, for the extension module, the tests and the benchmark: the device code
// takes long to compile. Without nvcc the same file says that there is no GPU.
#pragma once

#include <denizen/procmine/mine.hpp>

#include <memory>
#include <string>

namespace denizen::procmine {

// Whether it was compiled with CUDA.
extern const bool gpu_compiled;

// A log on a GPU; the columns must outlive it.
class GpuLog {
public:
    // Errc::no_device without CUDA or without such a GPU. Residents have to leave meanwhile.
    GpuLog(const Events& events, int ordinal);
    ~GpuLog();
    GpuLog(const GpuLog&) = delete;
    GpuLog& operator=(const GpuLog&) = delete;

    Mined mine(const MineOptions& options);
    const std::string& device() const { return name_; }

private:
    struct Held;
    std::unique_ptr<Held> held_;
    std::string name_;
};

} // namespace denizen::procmine
