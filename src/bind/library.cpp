// SPDX-License-Identifier: Apache-2.0
#include "library.hpp"

#include <denizen/base/error.hpp>

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_map>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace denizen::bind {
namespace {

[[noreturn]] void refuse(const char* what, const std::string& why)
{
    throw Error(Errc::compile, std::string("cannot load ") + what + ": " + why);
}

// Memory with a descriptor that nobody can write to any more.
int sealed(std::string_view code, const char* what)
{
    constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = ::memfd_create("denizen-program", flags | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) { // a kernel before 6.3, where all such memory can be run
        fd = ::memfd_create("denizen-program", flags);
    }
    if (fd < 0) {
        refuse(what, std::string("memfd_create: ") + std::strerror(errno));
    }
    for (size_t at = 0; at < code.size();) {
        const ssize_t n = ::write(fd, code.data() + at, code.size() - at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            const std::string why = std::strerror(errno);
            ::close(fd);
            refuse(what, why);
        }
        at += static_cast<size_t>(n);
    }
    if (::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        const std::string why = std::strerror(errno);
        ::close(fd);
        refuse(what, why);
    }
    return fd;
}

struct Loaded {
    size_t hash;
    int fd; // open for ever: the loader knows what it has loaded by name, and would take another
            // program with this number for this one
    void* handle;
};

bool holds(int fd, std::string_view code)
{
    void* memory = ::mmap(nullptr, code.size(), PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    const bool same = std::memcmp(memory, code.data(), code.size()) == 0;
    ::munmap(memory, code.size());
    return same;
}

} // namespace

void* load_code(const nanobind::bytes& code, const char* what)
{
    // Never destroyed: a worker that does not return may be in the code.
    static auto& mutex = *new std::mutex;
    static auto& all = *new std::unordered_multimap<size_t, Loaded>; // by size
    const std::string_view bytes(code.c_str(), code.size());
    const size_t hash = std::hash<std::string_view>()(bytes);
    const std::lock_guard guard(mutex);
    const auto [first, last] = all.equal_range(bytes.size());
    for (auto it = first; it != last; ++it) {
        if (it->second.hash == hash && holds(it->second.fd, bytes)) {
            return it->second.handle;
        }
    }
    const int fd = sealed(bytes, what);
    void* handle = ::dlopen(("/proc/self/fd/" + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* error = ::dlerror();
        const std::string why = error != nullptr ? error : "no reason given";
        ::close(fd);
        refuse(what, why);
    }
    all.emplace(bytes.size(), Loaded{hash, fd, handle});
    return handle;
}

} // namespace denizen::bind
