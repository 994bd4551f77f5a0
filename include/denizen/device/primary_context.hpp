// SPDX-License-Identifier: Apache-2.0
// A device's primary context, which all of CUDA in this process shares: kept while this lives.
//
// Hazard: releasing it the last time destroys what was taken in it, and waits for what runs there.
// Memory, streams and modules go first, and what cannot be given back has its context abandoned.
#pragma once

#include <denizen/device/driver.hpp>

#include <utility>

namespace denizen::gpu {

class PrimaryContext {
public:
    PrimaryContext() = default; // none
    explicit PrimaryContext(const DeviceInfo& info)
    {
        check(driver().device_get(&device_, info.ordinal), "cuDeviceGet");
        check(driver().primary_ctx_retain(&context_, device_), "cuDevicePrimaryCtxRetain",
              info.name);
    }
    PrimaryContext(PrimaryContext&& other) noexcept
        : device_(other.device_), context_(std::exchange(other.context_, nullptr))
    {
    }
    PrimaryContext& operator=(PrimaryContext&& other) noexcept
    {
        std::swap(device_, other.device_);
        std::swap(context_, other.context_);
        return *this;
    }
    ~PrimaryContext() { release(); }

    Device device() const { return device_; }
    operator Context() const { return context_; } // for ContextScope and the driver's calls

    // Before the end of its life.
    void release() noexcept
    {
        if (context_ != nullptr) {
            driver().primary_ctx_release(device_); // of a dead context: an error, and no harm
            context_ = nullptr;
        }
    }
    // It stays until the process ends: for memory that a stuck program may still write.
    void abandon() noexcept { context_ = nullptr; }

private:
    Device device_ = 0;
    Context context_ = nullptr;
};

} // namespace denizen::gpu
