// SPDX-License-Identifier: Apache-2.0
// Blocks that have been given back, by size class, for memory that is slow to get: page-locked or
// CPU-mapped, which the driver hands out only while no program is resident.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace denizen {

template <class Block>
class FreeList {
public:
    // A power of two from 4 KiB on, or the next multiple of 2 MiB: what is wasted is at most half
    // of a small block, 2 MiB of a large one.
    static uint64_t size_class(uint64_t bytes)
    {
        constexpr uint64_t small = 4096;
        constexpr uint64_t large = uint64_t{2} << 20;
        if (bytes <= large) {
            return bytes <= small ? small : std::bit_ceil(bytes);
        }
        return (bytes + large - 1) / large * large;
    }

    std::optional<Block> take(uint64_t size)
    {
        const auto found = blocks_.find(size);
        if (found == blocks_.end() || found->second.empty()) {
            return std::nullopt;
        }
        std::optional<Block> block(std::move(found->second.back()));
        found->second.pop_back();
        return block;
    }
    void give(uint64_t size, Block block) { blocks_[size].push_back(std::move(block)); }

    // Empties the list through `use`.
    template <class Use>
    void drain(Use&& use)
    {
        for (auto& [size, blocks] : blocks_) {
            for (Block& block : blocks) {
                use(block);
            }
        }
        blocks_.clear();
    }

private:
    std::map<uint64_t, std::vector<Block>> blocks_;
};

} // namespace denizen
