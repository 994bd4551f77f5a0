// SPDX-License-Identifier: Apache-2.0
#include "pages.hpp"

#include "environment.hpp"
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
constinit bool are_trapping = false;        // of those that can be opened

void log_page(const Page& page)
{
    PageRecord r{};
    r.gpu = page.gpu;
    r.class_id = page.class_id;
    r.address = page.shadow.load(std::memory_order_relaxed);
    r.real = page.real;
    r.bytes = static_cast<uint32_t>(page.bytes);
    r.bar1 = page.bar1;
    the_log.write(Kind::page, r);
}

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
    const bool sleeps = environment().sockets[0] != '\0';
    void* shadow =
        sleeps ? real().mmap(address, bytes, protection, flags, fd, offset)
               : real().mmap(address, bytes, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (flags & placed), -1, 0);
    if (shadow == MAP_FAILED) {
        const int e = errno;
        real().munmap(page, bytes);
        errno = e;
        return MAP_FAILED;
    }
    take_signals(on_fault);
    pages[k].real = reinterpret_cast<uint64_t>(page);
    pages[k].bytes = bytes;
    pages[k].gpu = what.gpu;
    pages[k].class_id = what.class_id;
    pages[k].bar1 = what.bar1;
    pages[k].protection = sleeps ? protection : 0;
    pages[k].shadow.store(reinterpret_cast<uint64_t>(shadow),
                          std::memory_order_release); // pairs with find_page()
    log_page(pages[k]);
    if (k >= highest.load(std::memory_order_relaxed)) {
        highest.store(k + 1, std::memory_order_release);
    }
    if (sleeps && are_trapping) { // after it is known: its first store may come at once
        real().mprotect(shadow, bytes, PROT_NONE);
    }
    return shadow;
}

const char* set_traps(bool on)
{
    are_trapping = on;
    for (uint32_t k = 0; k < highest.load(std::memory_order_relaxed); ++k) {
        void* shadow = reinterpret_cast<void*>(pages[k].shadow.load(std::memory_order_relaxed));
        if (shadow && pages[k].protection &&
            real().mprotect(shadow, pages[k].bytes, on ? PROT_NONE : pages[k].protection) != 0) {
            return "a doorbell page cannot be protected";
        }
    }
    return nullptr;
}

void log_pages()
{
    for (uint32_t k = 0; k < highest.load(std::memory_order_relaxed); ++k) {
        if (pages[k].shadow.load(std::memory_order_relaxed)) {
            log_page(pages[k]);
        }
    }
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
