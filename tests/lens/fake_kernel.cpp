// SPDX-License-Identifier: Apache-2.0
// A driver of which only the kernel's side is played: the ioctls and mappings of device files in
// the folder DENIZEN_LENS_FAKE. A library that comes after the lens and before the C library, so
// the lens's "real" functions are these. Memory objects are memfds; nobody reads what is submitted.
#include "fake_kernel.hpp"

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <linux/limits.h>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

std::mutex mutex;
struct Part { // of a memory object
    uint64_t memory;
    uint64_t offset, bytes;
};
std::map<uint64_t, int> memory; // client and handle → memfd
std::map<int, Part> prepared;   // by fd
bool is_replayed = false;
std::map<uint32_t, uint32_t> channel_of; // handle → number

template <class F>
F next(const char* name)
{
    return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

bool is_fake(int fd)
{
    const char* folder = getenv("DENIZEN_LENS_FAKE");
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    char path[PATH_MAX];
    const ssize_t n = folder ? readlink(link.c_str(), path, sizeof path) : -1;
    return n > 0 &&
           std::string(path, static_cast<size_t>(n)).starts_with(std::string(folder) + "/nvidia");
}

uint64_t key(uint32_t client, uint32_t handle) { return uint64_t{client} << 32 | handle; }

// Of at least that length.
int memfd_of(uint64_t object, uint64_t bytes)
{
    auto [at, is_new] = memory.try_emplace(object, -1);
    if (is_new) {
        at->second = memfd_create("fake", 0);
    }
    struct stat s{};
    const uint64_t wanted = bytes < fake::memory_bytes ? fake::memory_bytes : bytes;
    if (fstat(at->second, &s) != 0 || (static_cast<uint64_t>(s.st_size) < wanted &&
                                       ftruncate(at->second, static_cast<off_t>(wanted)) != 0)) {
        abort();
    }
    return at->second;
}

template <class T>
T at(void* argument, size_t offset)
{
    T value;
    memcpy(&value, static_cast<char*>(argument) + offset, sizeof value);
    return value;
}

template <class T>
void put(void* argument, size_t offset, T value)
{
    memcpy(static_cast<char*>(argument) + offset, &value, sizeof value);
}

int answer(uint32_t number, size_t bytes, void* a)
{
    if (number == 0xd3) { // a wrapped one
        return answer(at<uint32_t>(a, 0) & 0xff, at<uint32_t>(a, 4), at<void*>(a, 8));
    }
    const std::lock_guard held(mutex);
    if (number == 0x4e) { // map memory
        prepared[at<int>(a, 0x30)] = {key(at<uint32_t>(a, 0), at<uint32_t>(a, 8)),
                                      at<uint64_t>(a, 0x10), at<uint64_t>(a, 0x18)};
        put<uint32_t>(a, 0x28, 0);
        return 0;
    }
    if (is_replayed) {
        return 0;
    }
    switch (number) {
    case 0x2b: // alloc; class 0xdead is refused
        if (at<uint32_t>(a, 12) % 256 == 0x6f) {
            const auto n = static_cast<uint32_t>(channel_of.size());
            channel_of[at<uint32_t>(a, 8)] = n;
        }
        put<uint32_t>(a, bytes >= 0x30 ? 0x28 : 0x1c, at<uint32_t>(a, 12) == 0xdead ? 0x1f : 0);
        return 0;
    case 0x2a: // control
        if (at<uint32_t>(a, 8) == 0xc36f0108) {
            put<uint32_t>(at<void*>(a, 16), 0, fake::token_of(channel_of[at<uint32_t>(a, 4)]));
        }
        put<uint32_t>(a, 0x1c, 0);
        return 0;
    case 0x29: put<uint32_t>(a, 0xc, 0); return 0;
    case 0x34: put<uint32_t>(a, 0x18, 0); return 0;
    default: return 0;
    }
}

void* map(void* address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    static const auto real = next<void* (*)(void*, size_t, int, int, int, off_t)>("mmap");
    if (fd >= 0 && is_fake(fd)) {
        const std::lock_guard held(mutex);
        const Part& part = prepared.at(fd);
        fd = memfd_of(part.memory, part.offset + part.bytes);
        offset = static_cast<off_t>(part.offset & ~uint64_t{0xfff});
    }
    return real(address, bytes, protection, flags, fd, offset);
}

} // namespace

extern "C" int ioctl(int fd, unsigned long request, ...) noexcept
{
    static const auto real = next<int (*)(int, unsigned long, ...)>("ioctl");
    va_list list;
    va_start(list, request);
    void* argument = va_arg(list, void*);
    va_end(list);
    return is_fake(fd) ? answer(request & 0xff, request >> 16 & 0x3fff, argument)
                       : real(fd, request, argument);
}

extern "C" void* mmap(void* a, size_t n, int protection, int flags, int fd, off_t offset) noexcept
{
    return map(a, n, protection, flags, fd, offset);
}

extern "C" void* mmap64(void* a, size_t n, int protection, int flags, int fd,
                        off64_t offset) noexcept
{
    return map(a, n, protection, flags, fd, offset);
}

void* fake::view(uint32_t handle)
{
    static const auto real = next<void* (*)(void*, size_t, int, int, int, off_t)>("mmap");
    const std::lock_guard held(mutex);
    return real(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                memfd_of(key(client, handle), memory_bytes), 0);
}

void fake::replay() { is_replayed = true; }
