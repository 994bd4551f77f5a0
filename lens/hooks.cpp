// SPDX-License-Identifier: Apache-2.0
// The C library's functions that the lens puts itself before. Each does what the real one does;
// files and mappings that are not the driver's pass with one look into a table. None of them
// allocates: an allocator calls mmap too.
#include "attribute.hpp"
#include "environment.hpp"
#include "fault.hpp"
#include "log.hpp"
#include "objects.hpp"
#include "pages.hpp"
#include "real.hpp"
#include "recorder.hpp"
#include "session.hpp"
#include "signals.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace denizen::lens;

#define HOOK extern "C" __attribute__((visibility("default")))

namespace {

class Held {
public:
    Held() { pthread_mutex_lock(&objects_mutex); }
    ~Held() { pthread_mutex_unlock(&objects_mutex); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
};

bool is_off() { return !environment().is_on || session.is_off(); }

// The driver's device files begin a session, before the program can do anything with them.
int after_open(int fd, const char* path)
{
    if (is_off()) {
        return fd;
    }
    const int e = errno;
    if (fd < 0) {
        const char* prefix = environment().device_prefix;
        if (strncmp(path, prefix, strlen(prefix)) == 0 &&
            strcmp(path + strlen(prefix), "ctl") == 0) {
            session.no_driver(path, e);
        }
    } else {
        bool is_device;
        {
            const Held held;
            is_device = the_objects.opened(fd, path);
        }
        if (is_device) {
            session.begin();
            const Held held;
            record_open(fd, path + strlen(environment().device_prefix));
        }
    }
    errno = e;
    return fd;
}

mode_t mode_of(int flags, va_list list)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
}

#define OPEN_WITH(call, path)                                                                      \
    va_list list;                                                                                  \
    va_start(list, flags);                                                                         \
    const mode_t mode = mode_of(flags, list);                                                      \
    va_end(list);                                                                                  \
    return after_open(call, path)

// What is mapped there goes, of the driver's too.
void forget(uint64_t address, size_t bytes)
{
    const bool had_page = unmap_doorbells(address, bytes);
    if (the_objects.unmapped(address, bytes) || had_page) {
        record_unmap(address, bytes);
    }
}

void* map(void* (*call)(void*, size_t, int, int, int, off_t), void* address, size_t bytes,
          int protection, int flags, int fd, off_t offset, const void* caller)
{
    if (!session.is_on()) {
        return call(address, bytes, protection, flags, fd, offset);
    }
    if (fd < 0 || !the_objects.is_device(fd)) {
        if (flags & MAP_FIXED) { // it may replace a mapping of the driver
            const Held held;
            forget(reinterpret_cast<uint64_t>(address), bytes);
        }
        return call(address, bytes, protection, flags, fd, offset);
    }
    Mapping what;
    {
        const Held held;
        what = the_objects.expect(fd, bytes, protection, flags);
    }
    if (what.is_doorbell) {
        learn_driver_library(caller); // it takes the loader's lock: not under ours
    }
    const Held held;
    void* result = what.is_doorbell
                       ? map_doorbell(address, bytes, protection, flags, fd, offset, what)
                       : call(address, bytes, protection, flags, fd, offset);
    if (result != MAP_FAILED && what.is_known) {
        record_map(fd, result, bytes, protection, flags);
        if (!what.is_doorbell) {
            the_objects.mapped(fd, reinterpret_cast<uint64_t>(result), bytes);
        }
    }
    return result;
}

int after_dup(int from, int to)
{
    if (to >= 0 && !is_off() && (the_objects.is_device(from) || the_objects.is_device(to)) &&
        session.is_own_process()) {
        const Held held;
        record_duplicate(from, to);
        the_objects.duplicated(from, to);
    }
    return to;
}

// What the program asks to block, without the signals that a doorbell needs.
const sigset_t* unblocked(int how, const sigset_t* set, sigset_t& copy)
{
    if (!set || how == SIG_UNBLOCK || !is_taken()) {
        return set;
    }
    copy = *set;
    remove_taken(copy);
    return &copy;
}

} // namespace

HOOK int open(const char* path, int flags, ...) { OPEN_WITH(real().open(path, flags, mode), path); }

HOOK int open64(const char* path, int flags, ...)
{
    OPEN_WITH(real().open64(path, flags, mode), path);
}

HOOK int openat(int folder, const char* path, int flags, ...)
{
    OPEN_WITH(real().openat(folder, path, flags, mode), path);
}

HOOK int openat64(int folder, const char* path, int flags, ...)
{
    OPEN_WITH(real().openat64(folder, path, flags, mode), path);
}

HOOK int __open_2(const char* path, int flags)
{
    return after_open(real().open_2(path, flags), path);
}

HOOK int __open64_2(const char* path, int flags)
{
    return after_open(real().open64_2(path, flags), path);
}

HOOK int __openat_2(int folder, const char* path, int flags)
{
    return after_open(real().openat_2(folder, path, flags), path);
}

HOOK int __openat64_2(int folder, const char* path, int flags)
{
    return after_open(real().openat64_2(folder, path, flags), path);
}

HOOK int ioctl(int fd, unsigned long request, ...) noexcept
{
    va_list list;
    va_start(list, request);
    void* argument = va_arg(list, void*);
    va_end(list);
    const int result = real().ioctl(fd, request, argument);
    if (result >= 0 && session.is_on() && the_objects.is_device(fd)) {
        const int e = errno;
        const Held held;
        the_objects.after_ioctl(request, argument);
        errno = e;
    }
    return result;
}

HOOK void* mmap(void* address, size_t bytes, int protection, int flags, int fd,
                off_t offset) noexcept
{
    return map(real().mmap, address, bytes, protection, flags, fd, offset,
               __builtin_return_address(0));
}

HOOK void* mmap64(void* address, size_t bytes, int protection, int flags, int fd,
                  off64_t offset) noexcept
{
    return map(real().mmap64, address, bytes, protection, flags, fd, offset,
               __builtin_return_address(0));
}

HOOK int munmap(void* address, size_t bytes) noexcept
{
    if (session.is_on()) {
        const Held held;
        forget(reinterpret_cast<uint64_t>(address), bytes);
    }
    return real().munmap(address, bytes);
}

HOOK void* mremap(void* address, size_t bytes, size_t new_bytes, int flags, ...) noexcept
{
    va_list list;
    va_start(list, flags);
    void* target = flags & MREMAP_FIXED ? va_arg(list, void*) : nullptr;
    va_end(list);
    if (!session.is_on()) {
        return real().mremap(address, bytes, new_bytes, flags, target);
    }
    const Held held;
    void* result = real().mremap(address, bytes, new_bytes, flags, target);
    if (result != MAP_FAILED) {
        const auto from = reinterpret_cast<uint64_t>(address);
        const auto to = reinterpret_cast<uint64_t>(result);
        if (to != from) { // what lay there before is gone
            forget(to, new_bytes);
        }
        move_doorbells(from, bytes, to);
        the_objects.moved(from, bytes, to);
    }
    return result;
}

HOOK int mprotect(void* address, size_t bytes, int protection) noexcept
{
    if (find_page(reinterpret_cast<uint64_t>(address))) {
        return 0; // nobody may open a shadow
    }
    return real().mprotect(address, bytes, protection);
}

HOOK int close(int fd)
{
    if (!is_off() && the_objects.is_device(fd) && session.is_own_process()) {
        const Held held;
        record_close(fd);
        the_objects.closed(fd);
    }
    return real().close(fd);
}

HOOK int dup(int fd) noexcept { return after_dup(fd, real().dup(fd)); }
HOOK int dup2(int from, int to) noexcept { return after_dup(from, real().dup2(from, to)); }
HOOK int dup3(int from, int to, int flags) noexcept
{
    return after_dup(from, real().dup3(from, to, flags));
}

HOOK int fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void* argument = va_arg(list, void*);
    va_end(list);
    const int result = real().fcntl(fd, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? after_dup(fd, result) : result;
}

HOOK int fcntl64(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    void* argument = va_arg(list, void*);
    va_end(list);
    const int result = real().fcntl64(fd, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? after_dup(fd, result) : result;
}

HOOK int sigaction(int signal, const struct sigaction* action, struct sigaction* old) noexcept
{
    if (program_sigaction(signal, action, old)) {
        return 0;
    }
    return real().sigaction(signal, action, old);
}

HOOK sighandler_t signal(int number, sighandler_t handler) noexcept
{
    struct sigaction action{};
    struct sigaction old{};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    if (program_sigaction(number, &action, &old)) {
        return old.sa_handler;
    }
    return real().signal(number, handler);
}

HOOK int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept
{
    sigset_t copy;
    return real().sigprocmask(how, unblocked(how, set, copy), old);
}

HOOK int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept
{
    sigset_t copy;
    return real().pthread_sigmask(how, unblocked(how, set, copy), old);
}

namespace {

struct Start {
    void* (*run)(void*);
    void* argument;
};

void* run_thread(void* pointer)
{
    const Start start = *static_cast<Start*>(pointer);
    free(pointer);
    if (is_taken()) { // the mask is its maker's, which may be from before the first doorbell page
        sigset_t none_blocked;
        sigemptyset(&none_blocked);
        sigset_t mask;
        real().pthread_sigmask(SIG_BLOCK, &none_blocked, &mask);
        remove_taken(mask);
        real().pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    }
    give_alternate_stack();
    void* result = nullptr;
    pthread_cleanup_push([](void*) { take_alternate_stack(); }, nullptr);
    result = start.run(start.argument);
    pthread_cleanup_pop(1);
    return result;
}

} // namespace

HOOK int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                        void* argument) noexcept
{
    if (is_off()) {
        return real().pthread_create(thread, attributes, run, argument);
    }
    auto* start = static_cast<Start*>(malloc(sizeof(Start)));
    if (!start) {
        return EAGAIN;
    }
    *start = {run, argument};
    const int e = real().pthread_create(thread, attributes, run_thread, start);
    if (e != 0) {
        free(start);
    }
    return e;
}

// What is in the log reaches the file before the process image goes; it may also stay, if exec
// fails.
HOOK int execve(const char* path, char* const* arguments, char* const* variables) noexcept
{
    the_log.flush();
    return real().execve(path, arguments, variables);
}

HOOK int execv(const char* path, char* const* arguments) noexcept
{
    the_log.flush();
    return real().execv(path, arguments);
}

HOOK int execvp(const char* file, char* const* arguments) noexcept
{
    the_log.flush();
    return real().execvp(file, arguments);
}

HOOK int execvpe(const char* file, char* const* arguments, char* const* variables) noexcept
{
    the_log.flush();
    return real().execvpe(file, arguments, variables);
}

HOOK int fexecve(int fd, char* const* arguments, char* const* variables) noexcept
{
    the_log.flush();
    return real().fexecve(fd, arguments, variables);
}

HOOK void _exit(int status)
{
    session.end();
    real().quick_end(status);
    __builtin_unreachable();
}

HOOK void _Exit(int status) noexcept { _exit(status); }

// The CUDA driver calls this when CUDA_INJECTION64_PATH names this library: at the start of cuInit,
// before it opens a device file.
HOOK int InitializeInjection()
{
    const char* why = nullptr;
    if (!is_off() && !subscribe(why)) {
        session.note(why);
    }
    return 1;
}

namespace {

__attribute__((constructor(103))) void begin()
{
    if (environment().is_on) {
        pthread_atfork([] { pthread_mutex_lock(&objects_mutex); },
                       [] { pthread_mutex_unlock(&objects_mutex); },
                       [] {
                           pthread_mutex_unlock(&objects_mutex);
                           session.in_child();
                       });
    }
}

__attribute__((destructor)) void end() { session.end(); }

} // namespace
