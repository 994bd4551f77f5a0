// SPDX-License-Identifier: Apache-2.0
#include "opening.hpp"

#include "mapped.hpp"
#include "vulkan.hpp"

#include <denizen/base/error.hpp>
#include <denizen/device/primary_context.hpp>
#include <denizen/device/residents.hpp>

#include <cstdint>
#include <mutex>
#include <string>

namespace denizen::gpu {

Opening::Opening(int first, int count, bool mapped)
{
    try {
        thread_.start(1, "opening", [this, first, count, mapped](uint32_t) {
            try {
                open(first, count, mapped);
            } catch (const Error&) { // said by who needs the GPU
            }
        });
    } catch (const Error&) { // no thread: the GPU is opened when it is needed
    }
}

Opening::~Opening() { end(); }

void Opening::end()
{
    thread_.join();
    devices_.clear();
    contexts_.clear();
}

namespace {

// One of this process. Its context is open, and Vulkan's start beside it might wait for what runs.
bool has_program(int ordinal)
{
    const std::lock_guard guard(residents().mutex);
    return residents().taken(ordinal) != 0;
}

} // namespace

void Opening::open(int first, int count, bool mapped)
{
    if (!driver_present()) return;
    for (int i = first; i < first + count && i < device_count(); ++i) {
        if (has_program(i)) continue;
        const DeviceInfo info = device_info(i);
        contexts_.emplace_back(info);
        std::string why_not;
        if (mapped && mapped_memory_wanted()) {
            devices_.push_back(VulkanDevice::of(info.uuid, why_not));
        }
    }
}

} // namespace denizen::gpu
