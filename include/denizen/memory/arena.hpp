// SPDX-License-Identifier: Apache-2.0
// An arena: memory from which kernels, handlers and threads allocate blocks of 16 bytes up to all
// of it, without the driver and without a lock. Host only; memory/arena/ref.hpp is what they see.
//
//   denizen::Arena arena(denizen::Device::gpu(), uint64_t{8} << 30);
//   my_kernel<<<blocks, threads>>>(arena.ref()); // auto* p = ref.allocate(64); ref.deallocate(p);
//   arena.stats().live_blocks;
//
// Beside its bytes an arena takes 1.7 % of them for its bookkeeping.
#pragma once

#include <denizen/base/device.hpp>
#include <denizen/memory/arena/ref.hpp>

#include <memory>
#include <vector>

namespace denizen {

struct ArenaStats {
    uint64_t bytes = 0;      // of the arena
    uint64_t free_bytes = 0; // in pages that serve no class
    uint64_t live_bytes = 0; // in live blocks, as rounded up to their classes
    uint64_t live_blocks = 0;
    uint64_t failed = 0;  // requests that found no room
    uint64_t refused = 0; // calls of deallocate() with what was no live block
    uint64_t moved = 0;   // pages that a class gave back
};

struct ArenaLeak { // the live blocks of one tag
    uint32_t tag = 0;
    uint64_t blocks = 0;
    uint64_t bytes = 0; // that were asked for
};

class Arena {
public:
    // `bytes` are rounded down to 32 KiB, at least 512 KiB. `guarded`: 40 bytes more for each
    // block, by which faults() and leaks() tell who misused it. Errc::bad_argument,
    // Errc::exhausted, Errc::no_device. Beside a resident program it waits until that has left.
    Arena(Device device, uint64_t bytes, bool guarded = false);
    ~Arena(); // nobody uses it any more
    Arena(Arena&&) noexcept;
    Arena& operator=(Arena&&) noexcept;

    // For its users, on the device it is on. Valid as long as the arena.
    ArenaRef ref() const;

    // At about this moment if it is in use; reads all of the bookkeeping.
    ArenaStats stats() const;
    // Everything is free again, and all counts are 0. Nobody may be using it.
    void reset();

    // While nobody is using it. Errc::bad_argument if the arena is not guarded.
    std::vector<arena::Fault> faults() const; // the first 64
    std::vector<ArenaLeak> leaks() const;     // by tag, most bytes first

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace denizen
