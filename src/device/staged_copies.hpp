// SPDX-License-Identifier: Apache-2.0
// Copies from and to a device's memory beside a resident program: by way of pinned memory, on a
// stream of their own. The driver may let a copy from or to ordinary memory wait for work on the
// device.
#pragma once

#include <denizen/device/chip.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>

namespace denizen::gpu {

class StagedCopies {
public:
    static constexpr size_t staging_bytes = 256 << 10;

    // With the chip's context current.
    void open(Chip& chip, StreamPriority priority)
    {
        context_ = &chip.context();
        stream_ = chip.open_stream(priority);
        staging_ = static_cast<std::byte*>(chip.take_host(staging_bytes));
    }

    // Until the bytes are there. False if the device is lost.
    bool read(void* to, const void* device_memory, size_t bytes)
    {
        auto* out = static_cast<std::byte*>(to);
        return copy(bytes, device_memory, [&](DevicePtr there, size_t done, size_t part) {
            if (driver().memcpy_dtoh_async(staging_, there, part, stream_) != success ||
                driver().stream_synchronize(stream_) != success) {
                return false;
            }
            std::memcpy(out + done, staging_, part);
            return true;
        });
    }
    bool write(void* device_memory, const void* from, size_t bytes)
    {
        const auto* in = static_cast<const std::byte*>(from);
        return copy(bytes, device_memory, [&](DevicePtr there, size_t done, size_t part) {
            std::memcpy(staging_, in + done, part);
            return driver().memcpy_htod_async(there, staging_, part, stream_) == success &&
                   driver().stream_synchronize(stream_) == success;
        });
    }

private:
    template <class Part>
    bool copy(size_t bytes, const void* device_memory, Part&& part)
    {
        const std::lock_guard guard(mutex_);
        const ContextScope scope(*context_);
        const auto there = reinterpret_cast<DevicePtr>(device_memory);
        for (size_t done = 0; done < bytes; done += staging_bytes) {
            if (!part(there + done, done, std::min(bytes - done, staging_bytes))) {
                return false;
            }
        }
        return true;
    }

    const PrimaryContext* context_ = nullptr;
    Stream stream_ = nullptr;
    std::byte* staging_ = nullptr;
    std::mutex mutex_;
};

} // namespace denizen::gpu
