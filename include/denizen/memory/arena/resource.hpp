// SPDX-License-Identifier: Apache-2.0
// An arena on the CPU as the memory of standard containers: std::pmr::vector<int> v(&resource).
// Host only. Any number of threads may use it and its containers' memory at once.
#pragma once

#include <denizen/memory/arena/ref.hpp>

#include <memory_resource>
#include <new>

namespace denizen {

class ArenaResource final : public std::pmr::memory_resource {
public:
    // Of an arena on the CPU, which lives longer than all that is allocated here.
    explicit ArenaResource(ArenaRef arena, uint32_t tag = 0) : arena_(arena), tag_(tag) {}

private:
    // std::bad_alloc if there is no room, or for an alignment above 32 KiB.
    void* do_allocate(size_t bytes, size_t align) override
    {
        void* p = align <= arena::page_bytes
                      ? arena_.allocate_aligned(bytes, static_cast<uint32_t>(align), tag_)
                      : nullptr;
        if (p == nullptr) {
            throw std::bad_alloc();
        }
        return p;
    }
    void do_deallocate(void* p, size_t, size_t) override { arena_.deallocate(p); }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override
    {
        const auto* same = dynamic_cast<const ArenaResource*>(&other);
        return same != nullptr && same->arena_.map() == arena_.map();
    }

    ArenaRef arena_;
    uint32_t tag_;
};

} // namespace denizen
