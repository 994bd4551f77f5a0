// SPDX-License-Identifier: Apache-2.0
// A node's memory as a snapshot fills it, on the host: runs of bytes by the addresses that they
// have in the node's memory, and zeros everywhere else. What is restored is checked here, without a
// copy from the device, and in time that follows from how much there is, not from how much room.
#pragma once

#include <denizen/actor/detail/snapshot_file.hpp>
#include <denizen/wire/slot.hpp>

#include <algorithm>
#include <deque>

namespace denizen {

class MemoryImage {
public:
    struct Run {
        uintptr_t at; // in the node's memory
        std::span<const unsigned char> bytes;
        uintptr_t end() const { return at + bytes.size(); }
    };

    // Bytes that outlive the image, or that it keeps itself.
    void add(const void* at, std::span<const unsigned char> bytes)
    {
        runs_.push_back({reinterpret_cast<uintptr_t>(at), bytes});
    }
    void add(const void* at, std::vector<unsigned char>&& bytes)
    {
        kept_.push_back(std::move(bytes));
        add(at, std::span<const unsigned char>(kept_.back()));
    }

    // After the last add(), before anything is read. No two runs share a byte, and none is empty.
    void sort()
    {
        std::sort(runs_.begin(), runs_.end(),
                  [](const Run& a, const Run& b) { return a.at < b.at; });
    }

    // Those of a part of the memory, in the order of their addresses. None reaches out of it.
    std::span<const Run> runs(const void* memory, size_t bytes) const
    {
        const auto begin = reinterpret_cast<uintptr_t>(memory);
        return {first(begin), first(begin + bytes)};
    }

    bool zero(const void* memory, size_t bytes) const
    {
        const auto begin = reinterpret_cast<uintptr_t>(memory);
        const auto run = first(begin);
        return run == runs_.end() || run->at >= begin + bytes;
    }

    void read(void* to, const void* memory, size_t bytes) const
    {
        const auto begin = reinterpret_cast<uintptr_t>(memory);
        auto* out = static_cast<unsigned char*>(to);
        std::fill_n(out, bytes, static_cast<unsigned char>(0));
        for (auto run = first(begin); run != runs_.end() && run->at < begin + bytes; ++run) {
            const uintptr_t from = std::max(run->at, begin);
            const uintptr_t end = std::min(run->end(), begin + bytes);
            std::memcpy(out + (from - begin), run->bytes.data() + (from - run->at), end - from);
        }
    }
    template <class T>
    T read(const T* memory) const
    {
        T value;
        read(static_cast<void*>(&value), memory, sizeof value);
        return value;
    }
    template <class T>
    std::vector<T> read_all(const T* memory, size_t count) const
    {
        std::vector<T> values(count);
        if (!zero(memory, sizeof(T) * count)) {
            read(static_cast<void*>(values.data()), memory, sizeof(T) * count);
        }
        return values;
    }

    // Calls `use(index, slot)` for each slot of a ring in which any byte was restored.
    template <class Use>
    void each_slot(const Slot* ring, size_t slots, Use&& use) const
    {
        const auto begin = reinterpret_cast<uintptr_t>(ring);
        const uintptr_t end = begin + slots * sizeof(Slot);
        size_t next = 0; // those before it have been shown
        for (auto run = first(begin); run != runs_.end() && run->at < end; ++run) {
            next = std::max(next, (std::max(run->at, begin) - begin) / sizeof(Slot));
            const size_t behind =
                (std::min(run->end(), end) - begin + sizeof(Slot) - 1) / sizeof(Slot);
            for (; next < behind; ++next) {
                use(static_cast<uint32_t>(next), read(ring + next));
            }
        }
    }

private:
    // The first run that ends behind `at`.
    std::vector<Run>::const_iterator first(uintptr_t at) const
    {
        return std::upper_bound(runs_.begin(), runs_.end(), at,
                                [](uintptr_t a, const Run& r) { return a < r.end(); });
    }

    std::vector<Run> runs_;
    std::deque<std::vector<unsigned char>> kept_;
};

} // namespace denizen
