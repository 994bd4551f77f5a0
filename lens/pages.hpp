// SPDX-License-Identifier: Apache-2.0
// Doorbell pages and their shadows: the driver library holds the address of a page that nobody may
// touch, the real mapping lies elsewhere and is never given out, so that no store gets past the
// lens.
#pragma once

#include "objects.hpp"

#include <atomic>

namespace denizen::lens {

struct Page {
    std::atomic<uint64_t> shadow; // 0: free
    uint64_t real;
    uint64_t bytes;
    uint32_t gpu;
    uint32_t class_id;
    uint32_t bar1;  // as PageRecord
    int protection; // of a shadow that can be opened: 0 where it never is
};

// Maps the device's page out of sight and returns its shadow, or MAP_FAILED with errno. Where the
// lens sleeps (attach.hpp) the shadow is the device's page, too, mapped twice, and nothing traps
// until set_traps(true).
void* map_doorbell(void* address, size_t bytes, int protection, int flags, int fd, off_t offset,
                   const Mapping& what);

// All shadows trap, or none does. Under objects_mutex. nullptr, or why one could not be changed.
const char* set_traps(bool on);
void log_pages(); // PageRecords, for a log that begins late

// The page that holds an address; nullptr if none does. Safe in a signal handler.
Page* find_page(uint64_t address);

// The shadows inside [address, address + bytes) are about to be unmapped: so are their pages.
// Whether there were any.
bool unmap_doorbells(uint64_t address, size_t bytes);

// The shadows inside [from, from + bytes) now lie at `to`: what is behind them does not move.
void move_doorbells(uint64_t from, size_t bytes, uint64_t to);

} // namespace denizen::lens
