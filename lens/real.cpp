// SPDX-License-Identifier: Apache-2.0
#include "real.hpp"

#include <cstring>
#include <dlfcn.h>
#include <initializer_list>
#include <unistd.h>

namespace denizen::lens {
namespace {

constinit Real table{};
constinit bool is_filled = false;

template <class F>
void find(F& f, const char* name)
{
    f = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

} // namespace

// Filled by the constructor of this library, or by a hook that another library's constructor calls
// before; the values are the same each time, so that two threads may do it at once.
__attribute__((constructor(101))) void fill_real()
{
    if (__atomic_load_n(&is_filled, __ATOMIC_ACQUIRE)) {
        return;
    }
    find(table.open, "open");
    find(table.open64, "open64");
    find(table.openat, "openat");
    find(table.openat64, "openat64");
    find(table.open_2, "__open_2");
    find(table.open64_2, "__open64_2");
    find(table.openat_2, "__openat_2");
    find(table.openat64_2, "__openat64_2");
    find(table.ioctl, "ioctl");
    find(table.mmap, "mmap");
    find(table.mmap64, "mmap64");
    find(table.munmap, "munmap");
    find(table.mremap, "mremap");
    find(table.mprotect, "mprotect");
    find(table.close, "close");
    find(table.dup, "dup");
    find(table.dup2, "dup2");
    find(table.dup3, "dup3");
    find(table.fcntl, "fcntl");
    find(table.fcntl64, "fcntl64");
    find(table.sigaction, "sigaction");
    find(table.signal, "signal");
    find(table.sigprocmask, "sigprocmask");
    find(table.pthread_sigmask, "pthread_sigmask");
    find(table.pthread_create, "pthread_create");
    find(table.execve, "execve");
    find(table.execv, "execv");
    find(table.execvp, "execvp");
    find(table.execvpe, "execvpe");
    find(table.fexecve, "fexecve");
    find(table.quick_end, "_exit");
    __atomic_store_n(&is_filled, true, __ATOMIC_RELEASE); // pairs with the acquire above
}

const Real& real()
{
    if (!__atomic_load_n(&is_filled, __ATOMIC_ACQUIRE)) {
        fill_real();
    }
    return table;
}

void complain(const char* a, const char* b, const char* c, const char* d, const char* e)
{
    char line[512] = "denizen lens: ";
    size_t n = strlen(line);
    for (const char* part : {a, b, c, d, e}) {
        for (; *part && n + 1 < sizeof line; ++part) {
            line[n++] = *part;
        }
    }
    line[n++] = '\n';
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line, n);
}

} // namespace denizen::lens
