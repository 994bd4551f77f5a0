// SPDX-License-Identifier: Apache-2.0
// Copies from and to a device's memory beside a resident program: by way of pinned memory, on a
// stream of their own. The driver may let a copy from or to ordinary memory wait for work on the
// device.
#pragma once

#include "copy.hpp"

#include <denizen/device/chip.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <span>
#include <vector>

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
        const Copy one{const_cast<void*>(device_memory), to, bytes};
        return read({&one, 1});
    }
    bool write(void* device_memory, const void* from, size_t bytes)
    {
        const Copy one{device_memory, const_cast<void*>(from), bytes};
        return write({&one, 1});
    }

    // Many, in their order. The device is waited for whenever the staging is full, not for each: a
    // wait takes as long as a copy of 200 KB.
    bool read(std::span<const Copy> copies)
    {
        return in_batches(copies, [&](std::span<const Staged> batch) {
            for (const Staged& s : batch) {
                if (driver().memcpy_dtoh_async(s.staging, s.device, s.bytes, stream_) != success) {
                    return false;
                }
            }
            if (driver().stream_synchronize(stream_) != success) {
                return false;
            }
            for (const Staged& s : batch) {
                std::memcpy(s.host, s.staging, s.bytes);
            }
            return true;
        });
    }
    bool write(std::span<const Copy> copies)
    {
        return in_batches(copies, [&](std::span<const Staged> batch) {
            for (const Staged& s : batch) {
                std::memcpy(s.staging, s.host, s.bytes);
                if (driver().memcpy_htod_async(s.device, s.staging, s.bytes, stream_) != success) {
                    return false;
                }
            }
            return driver().stream_synchronize(stream_) == success;
        });
    }

private:
    // A copy, or a part of one that finds no room in the staging.
    struct Staged {
        std::byte* staging;
        DevicePtr device;
        std::byte* host;
        size_t bytes;
    };

    template <class Batch>
    bool in_batches(std::span<const Copy> copies, Batch&& batch)
    {
        const std::lock_guard guard(mutex_);
        const ContextScope scope(*context_);
        std::vector<Staged> staged;
        size_t filled = 0;
        const auto go = [&] {
            const bool done = staged.empty() || batch(std::span<const Staged>(staged));
            staged.clear();
            filled = 0;
            return done;
        };
        for (const Copy& c : copies) {
            for (size_t at = 0; at < c.bytes;) { // ends: each step takes at least one byte
                if (filled == staging_bytes && !go()) {
                    return false;
                }
                const size_t part = std::min(c.bytes - at, staging_bytes - filled);
                staged.push_back({staging_ + filled, reinterpret_cast<DevicePtr>(c.device) + at,
                                  static_cast<std::byte*>(c.host) + at, part});
                at += part;
                filled = std::min(staging_bytes, (filled + part + 63) / 64 * 64);
            }
        }
        return go();
    }

    const PrimaryContext* context_ = nullptr;
    Stream stream_ = nullptr;
    std::byte* staging_ = nullptr;
    std::mutex mutex_;
};

} // namespace denizen::gpu
