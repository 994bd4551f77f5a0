// SPDX-License-Identifier: Apache-2.0
#include "recorder.hpp"

#include "environment.hpp"
#include "log.hpp"

#include <cstring>

namespace denizen::lens {
namespace {

void write(KernelCallRecord& r, const void* first = nullptr, size_t first_bytes = 0,
           const void* second = nullptr, size_t second_bytes = 0)
{
    if (!environment().record) {
        return;
    }
    const size_t n = sizeof r + padded(first_bytes) + padded(second_bytes);
    if (n > Log::longest) {
        return;
    }
    char* at = static_cast<char*>(the_log.reserve(n));
    if (!at) {
        return; // the losses are counted
    }
    r.first_bytes = static_cast<uint32_t>(first_bytes);
    r.second_bytes = static_cast<uint32_t>(second_bytes);
    // Not the header: its length is what commits.
    std::memcpy(at + sizeof(RecordHeader), reinterpret_cast<const char*>(&r) + sizeof(RecordHeader),
                sizeof r - sizeof(RecordHeader));
    if (first_bytes) {
        std::memcpy(at + sizeof r, first, first_bytes);
    }
    if (second_bytes) {
        std::memcpy(at + sizeof r + padded(first_bytes), second, second_bytes);
    }
    Log::commit(at, Kind::kernel_call, 0, n);
}

KernelCallRecord made(KernelCall call, int fd)
{
    KernelCallRecord r{};
    r.call = call;
    r.fd = fd;
    return r;
}

} // namespace

void record_open(int fd, const char* name)
{
    KernelCallRecord r = made(KernelCall::open, fd);
    write(r, name, strlen(name));
}

void record_close(int fd)
{
    KernelCallRecord r = made(KernelCall::close, fd);
    write(r);
}

void record_duplicate(int from, int to)
{
    KernelCallRecord r = made(KernelCall::duplicate, from);
    r.value[0] = static_cast<uint64_t>(to);
    write(r);
}

void record_ioctl(uint32_t number, const void* argument, size_t bytes, const void* params,
                  size_t used)
{
    KernelCallRecord r = made(KernelCall::ioctl, -1);
    r.value[0] = number;
    write(r, argument, bytes, params, params ? used : 0);
}

void record_map(int fd, const void* address, size_t bytes, int protection, int flags)
{
    KernelCallRecord r = made(KernelCall::map, fd);
    r.value[0] = reinterpret_cast<uint64_t>(address);
    r.value[1] = bytes;
    r.value[2] = static_cast<uint64_t>(protection);
    r.value[3] = static_cast<uint64_t>(flags);
    write(r);
}

void record_unmap(uint64_t address, size_t bytes)
{
    KernelCallRecord r = made(KernelCall::unmap, -1);
    r.value[0] = address;
    r.value[1] = bytes;
    write(r);
}

} // namespace denizen::lens
