// SPDX-License-Identifier: Apache-2.0
// Device memory that the CPU can store to: the host writes a message straight into the GPU's memory
// and the poller on the GPU finds it there, without a read across PCIe. No kernel module is needed:
// Vulkan allocates the memory device-local and host-visible, exports it as a file descriptor, and
// CUDA imports that. For the host rings of a program and the mailbox of a resident group; where
// it is not to be had they lie in pinned memory instead.
//
// Hazards:
//  - The CPU's view is write-combined. Stores leave the core late and in any order between lines:
//    follow them by sfence before anybody waits for the effect. Never read through host() on a hot
//    path: each load crosses PCIe (about a microsecond). 16-byte aligned vector stores arrive
//    whole.
//  - Destruction calls cuMemFree, which may wait for all work of the context: stop the resident
//    kernel first.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <denizen/device/driver.hpp>

namespace denizen::gpu {

class MappedMemory {
public:
    // Zero-filled memory of at least `bytes` on the CUDA device `ordinal`, whose UUID finds the
    // same device in Vulkan. Every byte is written by the CPU and read back through CUDA once
    // before the memory is handed out. nullopt with one line in *why_not where that does not work:
    // no Vulkan driver, no such memory type, a BAR too small, DENIZEN_MAPPED=0. Holds a reference
    // to the device's primary context. Takes some 10 ms where Vulkan has the GPU open (vulkan.hpp).
    static std::optional<MappedMemory> try_create(int ordinal, const Uuid& uuid, std::size_t bytes,
                                                  std::string* why_not);

    MappedMemory(MappedMemory&&) noexcept;
    MappedMemory& operator=(MappedMemory&&) noexcept;
    ~MappedMemory();

    std::byte* host() const;  // write-combined
    DevicePtr device() const; // the same bytes for kernels
    std::size_t size() const; // `bytes` rounded up to 2 MiB

private:
    struct Parts;
    explicit MappedMemory(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

// False if the user says by DENIZEN_MAPPED=0 that there is to be no such memory.
bool mapped_memory_wanted();

} // namespace denizen::gpu
