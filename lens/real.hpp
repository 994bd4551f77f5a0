// SPDX-License-Identifier: Apache-2.0
// The C library's own functions, behind the hooks of hooks.cpp, and the one way to tell the user
// something.
#pragma once

#include <cstddef>
#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

namespace denizen::lens {

struct Real {
    int (*open)(const char*, int, ...);
    int (*open64)(const char*, int, ...);
    int (*openat)(int, const char*, int, ...);
    int (*openat64)(int, const char*, int, ...);
    int (*open_2)(const char*, int);
    int (*open64_2)(const char*, int);
    int (*openat_2)(int, const char*, int);
    int (*openat64_2)(int, const char*, int);
    int (*ioctl)(int, unsigned long, ...);
    void* (*mmap)(void*, size_t, int, int, int, off_t);
    void* (*mmap64)(void*, size_t, int, int, int, off64_t);
    int (*munmap)(void*, size_t);
    void* (*mremap)(void*, size_t, size_t, int, ...);
    int (*mprotect)(void*, size_t, int);
    int (*close)(int);
    int (*dup)(int);
    int (*dup2)(int, int);
    int (*dup3)(int, int, int);
    int (*fcntl)(int, int, ...);
    int (*fcntl64)(int, int, ...);
    int (*sigaction)(int, const struct sigaction*, struct sigaction*);
    sighandler_t (*signal)(int, sighandler_t);
    int (*sigprocmask)(int, const sigset_t*, sigset_t*);
    int (*pthread_sigmask)(int, const sigset_t*, sigset_t*);
    int (*pthread_create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    int (*execve)(const char*, char* const*, char* const*);
    int (*execv)(const char*, char* const*);
    int (*execvp)(const char*, char* const*);
    int (*execvpe)(const char*, char* const*, char* const*);
    int (*fexecve)(int, char* const*, char* const*);
    void (*quick_end)(int); // _exit
};

const Real& real();

// "denizen lens: TEXT" on stderr, the parts one after the other; in one write, without stdio.
void complain(const char* a, const char* b = "", const char* c = "", const char* d = "",
              const char* e = "");

} // namespace denizen::lens
