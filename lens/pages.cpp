// SPDX-License-Identifier: Apache-2.0
#include "pages.hpp"

#include "fault.hpp"
#include "log.hpp"
#include "real.hpp"
#include "signals.hpp"

#include <cerrno>
#include <sys/mman.h>

namespace denizen::lens {
namespace {

constexpr uint32_t capacity = 256; // two for each GPU and context
constinit Page pages[capacity] = {};
constinit std::atomic<uint32_t> highest{0}; // beyond it no place was ever used

} // namespace

Page* find_page(uint64_t address)
{
    const uint32_t n = highest.load(std::memory_order_acquire);
    for (uint32_t k = 0; k < n; ++k) {
        const uint64_t shadow = pages[k].shadow.load(std::memory_order_acquire);
        if (shadow && address >= shadow && address - shadow < pages[k].bytes) {
            return &pages[k];
        }
    }
    return nullptr;
}

// Under objects_mutex, as unmap_doorbells() and move_doorbells().
void* map_doorbell(void* address, size_t bytes, int protection, int flags, int fd, off_t offset,
                   const Mapping& what)
{
    uint32_t k = 0;
    while (k < capacity && pages[k].shadow.load(std::memory_order_relaxed)) {
        ++k;
    }
    if (k == capacity) {
        complain("more than 256 doorbell pages: one stays unseen");
        return real().mmap(address, bytes, protection, flags, fd, offset);
    }
    constexpr int placed = MAP_FIXED | MAP_FIXED_NOREPLACE;
    void* page = real().mmap(nullptr, bytes, protection, flags & ~placed, fd, offset);
    if (page == MAP_FAILED) {
        return MAP_FAILED;
    }
    void* shadow =
        real().mmap(address, bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (flags & placed), -1, 0);
    if (shadow == MAP_FAILED) {
        const int e = errno;
        real().munmap(page, bytes);
        errno = e;
        return MAP_FAILED;
    }
    take_signals(on_fault);
    PageRecord r{};
    r.gpu = what.gpu;
    r.class_id = what.class_id;
    r.address = reinterpret_cast<uint64_t>(shadow);
    r.real = reinterpret_cast<uint64_t>(page);
    r.bytes = static_cast<uint32_t>(bytes);
    r.bar1 = what.bar1;
    the_log.write(Kind::page, r);
    pages[k].real = r.real;
    pages[k].bytes = bytes;
    pages[k].gpu = what.gpu;
    pages[k].shadow.store(r.address, std::memory_order_release); // pairs with find_page()
    if (k >= highest.load(std::memory_order_relaxed)) {
        highest.store(k + 1, std::memory_order_release);
    }
    return shadow;
}

bool unmap_doorbells(uint64_t address, size_t bytes)
{
    bool found = false;
    for (uint32_t k = 0; k < highest.load(std::memory_order_relaxed); ++k) {
        const uint64_t shadow = pages[k].shadow.load(std::memory_order_relaxed);
        if (shadow && shadow >= address && shadow < address + bytes) {
            pages[k].shadow.store(0, std::memory_order_relaxed);
            real().munmap(reinterpret_cast<void*>(pages[k].real), pages[k].bytes);
            found = true;
        }
    }
    return found;
}

void move_doorbells(uint64_t from, size_t bytes, uint64_t to)
{
    for (uint32_t k = 0; k < highest.load(std::memory_order_relaxed); ++k) {
        const uint64_t shadow = pages[k].shadow.load(std::memory_order_relaxed);
        if (shadow && shadow >= from && shadow < from + bytes) {
            // Release, as in map_doorbell(): pairs with find_page().
            pages[k].shadow.store(to + (shadow - from), std::memory_order_release);
        }
    }
}

} // namespace denizen::lens
