// SPDX-License-Identifier: Apache-2.0
// Where an arena lies, as its owner sees it: memory, and a way to read and write it that does not
// wait for a resident program. Ordinary memory (host_arena.cpp) or a GPU's (gpu_arena.cpp).
#pragma once

#include <cstdint>
#include <memory>

namespace denizen {

class ArenaMemory {
public:
    virtual ~ArenaMemory() = default; // gives all of it back

    virtual uint32_t processors() const = 0; // SMs or cores
    // Errc::exhausted if there is not as much.
    virtual unsigned char* allocate(uint64_t bytes, uint64_t align) = 0;
    // Words of 8 bytes (or 4, at the end) are not torn.
    virtual void read(void* to, const void* from, uint64_t bytes) const = 0;
    virtual void write(void* to, const void* from, uint64_t bytes) const = 0;
    virtual void clear(void* at, uint64_t bytes) const = 0;
};

std::unique_ptr<ArenaMemory> make_host_arena_memory();
std::unique_ptr<ArenaMemory> make_gpu_arena_memory(int ordinal);

} // namespace denizen
