// SPDX-License-Identifier: Apache-2.0
#include "watched.hpp"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <dlfcn.h>

namespace {

thread_local bool is_watched __attribute__((tls_model("local-exec"))) = false;
std::atomic<uint32_t> count{0};

void called()
{
    if (is_watched) {
        count.fetch_add(1, std::memory_order_relaxed);
    }
}

template <class F>
F next(const char* name)
{
    return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

} // namespace

Watched::Watched() { is_watched = true; }
Watched::~Watched() { is_watched = false; }
uint32_t Watched::calls() { return count.load(std::memory_order_relaxed); }

// The C library's own names for its allocator: dlsym allocates, so it cannot be asked for these.
extern "C" {
void* __libc_malloc(size_t);
void __libc_free(void*);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) { return called(), __libc_malloc(n); }
void free(void* p) { called(), __libc_free(p); }
void* calloc(size_t n, size_t each) { return called(), __libc_calloc(n, each); }
void* realloc(void* p, size_t n) { return called(), __libc_realloc(p, n); }
void* memalign(size_t to, size_t n) { return called(), __libc_memalign(to, n); }
void* aligned_alloc(size_t to, size_t n) { return called(), __libc_memalign(to, n); }
int posix_memalign(void** p, size_t to, size_t n)
{
    called();
    *p = __libc_memalign(to, n);
    return *p ? 0 : ENOMEM;
}

int vfprintf(FILE* file, const char* format, va_list list)
{
    called();
    return next<int (*)(FILE*, const char*, va_list)>("vfprintf")(file, format, list);
}
int fprintf(FILE* file, const char* format, ...)
{
    va_list list;
    va_start(list, format);
    const int n = vfprintf(file, format, list);
    va_end(list);
    return n;
}
int printf(const char* format, ...)
{
    va_list list;
    va_start(list, format);
    const int n = vfprintf(stdout, format, list);
    va_end(list);
    return n;
}
size_t fwrite(const void* data, size_t each, size_t n, FILE* file)
{
    called();
    return next<size_t (*)(const void*, size_t, size_t, FILE*)>("fwrite")(data, each, n, file);
}
int fputs(const char* text, FILE* file)
{
    called();
    return next<int (*)(const char*, FILE*)>("fputs")(text, file);
}
int puts(const char* text)
{
    called();
    return next<int (*)(const char*)>("puts")(text);
}
int fflush(FILE* file)
{
    called();
    return next<int (*)(FILE*)>("fflush")(file);
}
}
