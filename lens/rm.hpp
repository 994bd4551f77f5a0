// SPDX-License-Identifier: Apache-2.0
// What the lens reads of the resource manager's ioctls: numbers, classes and field offsets, as
// published in the headers of NVIDIA's open kernel modules, 580.105.08 (src/common/sdk/nvidia/inc:
// nvos.h, alloc/alloc_channel.h, class/*, ctrl/ctrlc36f.h; kernel-open/nvidia/nv-ioctl-numbers.h).
// Within one major version of the driver they do not change; another one gets its own row after its
// headers were read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace denizen::lens {

namespace rm {

inline constexpr uint32_t magic = 'F'; // bits 15:8 of the request
inline constexpr uint32_t free = 0x29, control = 0x2a, alloc = 0x2b, map_memory = 0x4e, dup = 0x34,
                          transfer = 0xd3; // bits 7:0; transfer wraps another for long arguments
inline constexpr uint32_t get_work_submit_token = 0xc36f0108;
inline constexpr uint32_t doorbell_offset = 0x90; // in a usermode page (class c361 and later)
inline constexpr uint64_t page_bytes = 0x10000;
inline constexpr uint32_t gp_put = 0x8c; // in USERD

constexpr bool is_device(uint32_t c) { return c == 0x80; }
constexpr bool is_group(uint32_t c) { return c == 0xa06c; }
constexpr bool is_channel(uint32_t c) { return (c & 0xff) == 0x6f && c >= 0xa06f; }
constexpr bool is_usermode(uint32_t c) { return (c & 0xff) == 0x61 && c >= 0xc361; }
constexpr uint32_t hopper_usermode = 0xc661; // the first whose parameters choose BAR0 or BAR1

} // namespace rm

// Offsets in bytes. The forms of RM_ALLOC are told apart by the size in the request.
struct Abi {
    uint32_t major;
    struct {
        uint32_t parent, object, class_id, params, status;
    } alloc;                   // NVOS64
    uint32_t alloc_old_status; // NVOS21, else the same
    uint32_t alloc_bytes;      // of NVOS64
    struct {
        uint32_t object_parent, object, status;
    } free;
    struct {
        uint32_t object, command, params, status;
    } control;
    struct {
        uint32_t parent, object, source_client, source, status;
    } dup;
    struct {
        uint32_t device, memory, offset, length, status, fd;
    } map;
    struct {
        uint32_t gpfifo, entries, userd_memory, userd_offset, engine;
    } channel;
    uint32_t group_engine;
    uint32_t device_id;
};

inline constexpr Abi abi_table[] = {
    {580,
     {4, 8, 0xc, 0x10, 0x28},
     0x1c,
     0x30,
     {4, 8, 0xc},
     {4, 8, 0x10, 0x1c},
     {4, 8, 0xc, 0x10, 0x18},
     {4, 8, 0x10, 0x18, 0x28, 0x30},
     {8, 0x10, 0x20, 0x40, 0x80},
     0xc,
     0},
};

inline const Abi* abi_of(uint32_t major)
{
    for (const Abi& abi : abi_table) {
        if (abi.major == major) {
            return &abi;
        }
    }
    return nullptr;
}

template <class T>
T field(const void* structure, uint32_t offset)
{
    T value;
    std::memcpy(&value, static_cast<const char*>(structure) + offset, sizeof value);
    return value;
}

} // namespace denizen::lens
