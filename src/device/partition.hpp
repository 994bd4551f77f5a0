// SPDX-License-Identifier: Apache-2.0
// A partition of a GPU's SMs: a green context of the device's primary context. A kernel runs on
// these SMs alone if its stream is of the partition. Memory, modules and every other stream are the
// primary context's. Two partitions of this process share no SM.
//
// Hazard: a kernel on any other stream may run on these SMs, too. They are kept from other
// partitions only.
#pragma once

#include <denizen/device/driver.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace denizen::gpu {

// A device's SMs in groups of which partitions are made.
struct Split;

// Made and destroyed as a Chip is: with the mutex of residents() held.
class Partition {
public:
    // Of a device whose primary context is kept. Errc::bad_argument if the device has no partition
    // of so many SMs, Errc::exhausted if other partitions leave too few, Errc::no_device if the
    // driver knows none.
    Partition(const DeviceInfo& info, uint32_t sms);
    ~Partition(); // after its streams
    Partition(const Partition&) = delete;
    Partition& operator=(const Partition&) = delete;

    Stream open_stream(int priority) const;

private:
    std::shared_ptr<Split> split_;
    std::vector<std::size_t> groups_; // of the split
    GreenContext context_ = nullptr;
};

} // namespace denizen::gpu
