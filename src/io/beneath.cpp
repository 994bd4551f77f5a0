// SPDX-License-Identifier: Apache-2.0
#include "io/beneath.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace denizen::io {
namespace {

// As in <linux/openat2.h>, which older systems lack.
struct How {
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};
constexpr uint64_t no_magic_links = 2;
constexpr uint64_t no_symbolic_links = 4;
constexpr uint64_t beneath = 8;
constexpr long sys_openat2 = 437; // on every architecture

constexpr mode_t permissions = 0666; // less the process's umask

// No component may be "..": openat2 would allow one that stays below the root.
bool climbs(std::string_view path)
{
    if (path.front() == '/') {
        return true;
    }
    for (size_t begin = 0; begin <= path.size();) { // ends behind the last component
        const size_t end = std::min(path.find('/', begin), path.size());
        if (path.substr(begin, end - begin) == "..") {
            return true;
        }
        begin = end + 1;
    }
    return false;
}

int walk_to(int root, const std::string& path, int flags)
{
    int folder = root;
    size_t begin = 0;
    int fd = -1;
    for (;;) { // ends with the last component
        const size_t end = path.find('/', begin);
        const bool last = end == std::string::npos;
        const std::string name = path.substr(begin, last ? end : end - begin);
        fd = name.empty() && !last ? dup(folder)
             : last ? openat(folder, name.c_str(), flags | O_NOFOLLOW, permissions)
                    : openat(folder, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int error = errno;
        if (fd < 0 && error == ENOTDIR && !last) { // a symbolic link is no folder either
            struct stat found;
            if (fstatat(folder, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISLNK(found.st_mode)) {
                error = ELOOP;
            }
        }
        if (folder != root) {
            ::close(folder);
        }
        errno = error;
        if (fd < 0 || last) {
            return fd;
        }
        folder = fd;
        begin = end + 1;
    }
}

int open_at(int root, const std::string& path, int flags, bool walk)
{
    if (!walk) {
        How how{static_cast<uint64_t>(flags), (flags & O_CREAT) != 0 ? uint64_t{permissions} : 0,
                beneath | no_magic_links | no_symbolic_links};
        const long fd = syscall(sys_openat2, root, path.c_str(), &how, sizeof how);
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) {
            return static_cast<int>(fd);
        }
    }
    return walk_to(root, path, flags);
}

} // namespace

Error error_of(int number)
{
    switch (number) {
    case 0: return Error::none;
    case EACCES:
    case EPERM:
    case EROFS:
    case ETXTBSY: return Error::denied;
    case ELOOP:
    case EXDEV: return Error::escapes;
    case ENOENT: return Error::not_found;
    case EEXIST: return Error::exists;
    case EISDIR:
    case ENOTDIR:
    case ENXIO: return Error::not_a_file;
    case EBADF: return Error::bad_file;
    case EMFILE:
    case ENFILE: return Error::limit;
    case ENOSPC:
    case EDQUOT: return Error::no_space;
    case EFBIG: return Error::too_large;
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
    case ENOTCONN: return Error::ended;
    case ECONNREFUSED: return Error::refused;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH: return Error::timeout;
    case ECANCELED: return Error::cancelled;
    default: return Error::failed;
    }
}

Opened open_beneath(int root, const std::string& path, uint32_t mode, bool walk)
{
    Opened opened;
    if (path.empty() || path.back() == '/') {
        opened.error = path.empty() ? Error::not_found : Error::not_a_file;
        return opened;
    }
    if (climbs(path)) {
        opened.error = Error::escapes;
        return opened;
    }
    const bool writes = (mode & (mode_write | mode_append)) != 0;
    int flags = writes ? ((mode & mode_read) != 0 ? O_RDWR : O_WRONLY) : O_RDONLY;
    flags |= (mode & mode_append) != 0 ? O_APPEND : 0;
    flags |= (mode & mode_create) != 0 ? O_CREAT : 0;
    flags |= (mode & mode_exclusive) != 0 ? O_EXCL : 0;
    flags |= (mode & mode_truncate) != 0 ? O_TRUNC : 0;
    // Not blocking: a pipe without a reader must not hold the service up before it is refused.
    flags |= O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    opened.fd = open_at(root, path, flags, walk);
    if (opened.fd < 0) {
        opened.number = errno;
        opened.error = error_of(opened.number);
        return opened;
    }
    struct stat found;
    if (fstat(opened.fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        ::close(opened.fd);
        opened.fd = -1;
        opened.error = Error::not_a_file;
        return opened;
    }
    fcntl(opened.fd, F_SETFL, flags & O_APPEND);
    opened.bytes = static_cast<uint64_t>(found.st_size);
    return opened;
}

} // namespace denizen::io
