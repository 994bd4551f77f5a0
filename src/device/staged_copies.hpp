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
#include <utility>
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
    // wait takes as long as a copy of 200 KB. What is read and lies close together is one copy,
    // with what lies between: a copy takes as long as 40 KB of one.
    bool read(std::span<const Copy> copies)
    {
        return in_batches(copies, 16 << 10, [&](const Batch& batch) {
            for (const Transfer& t : batch.transfers) {
                if (driver().memcpy_dtoh_async(t.staging, t.device, t.bytes, stream_) != success) {
                    return false;
                }
            }
            if (driver().stream_synchronize(stream_) != success) {
                return false;
            }
            for (const Part& p : batch.parts) {
                std::memcpy(p.host, p.staging, p.bytes);
            }
            return true;
        });
    }
    bool write(std::span<const Copy> copies)
    {
        return in_batches(copies, 0, [&](const Batch& batch) {
            for (const Part& p : batch.parts) {
                std::memcpy(p.staging, p.host, p.bytes);
            }
            for (const Transfer& t : batch.transfers) {
                if (driver().memcpy_htod_async(t.device, t.staging, t.bytes, stream_) != success) {
                    return false;
                }
            }
            return driver().stream_synchronize(stream_) == success;
        });
    }

private:
    struct Transfer { // by the device
        std::byte* staging;
        DevicePtr device;
        size_t bytes;
        DevicePtr end() const { return device + bytes; }
    };
    struct Part { // by the host: of one copy
        std::byte* staging;
        std::byte* host;
        size_t bytes;
    };
    struct Batch { // what finds room in the staging together
        std::vector<Transfer> transfers;
        std::vector<Part> parts;
        size_t filled = 0;
    };

    // `gap`: bytes at the most between two parts of one transfer.
    template <class Do>
    bool in_batches(std::span<const Copy> copies, size_t gap, Do&& batch_by_batch)
    {
        const std::lock_guard guard(mutex_);
        const ContextScope scope(*context_);
        Batch batch;
        const auto go = [&] {
            const bool done = batch.parts.empty() || batch_by_batch(std::as_const(batch));
            batch = {};
            return done;
        };
        for (const Copy& c : copies) {
            for (size_t at = 0; at < c.bytes;) { // ends: each step takes at least one byte
                const auto device = reinterpret_cast<DevicePtr>(c.device) + at;
                const DevicePtr end = batch.transfers.empty() ? 0 : batch.transfers.back().end();
                const auto between = static_cast<size_t>(device - end);
                const bool joins = !batch.transfers.empty() && device >= end && between <= gap &&
                                   batch.filled + between < staging_bytes;
                if (joins) {
                    batch.transfers.back().bytes += between;
                    batch.filled += between;
                } else {
                    batch.filled = std::min(staging_bytes, (batch.filled + 63) / 64 * 64);
                    if (batch.filled == staging_bytes && !go()) {
                        return false;
                    }
                    batch.transfers.push_back({staging_ + batch.filled, device, 0});
                }
                const size_t part = std::min(c.bytes - at, staging_bytes - batch.filled);
                std::byte* staging = staging_ + batch.filled;
                batch.transfers.back().bytes += part;
                batch.parts.push_back({staging, static_cast<std::byte*>(c.host) + at, part});
                batch.filled += part;
                at += part;
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
