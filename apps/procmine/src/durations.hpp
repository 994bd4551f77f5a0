// SPDX-License-Identifier: Apache-2.0
// The durations of one edge as a thread meets them: pieces of large blocks, which are neither moved
// nor given back one by one, so that keeping a duration is one store.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace denizen::procmine {

struct Freed {
    void operator()(void* memory) const { std::free(memory); }
};

// Memory that is written once from end to end: in large pages where the system has them, for a
// page fault takes as long as a hundred events. Not filled.
template <class T>
using Pages = std::unique_ptr<T[], Freed>;

template <class T>
Pages<T> pages(size_t count)
{
    constexpr size_t large = size_t{1} << 21;
    size_t bytes = std::max<size_t>(count * sizeof(T), 64);
    const size_t to = bytes < large ? 64 : large;
    bytes = (bytes + to - 1) / to * to;
    void* memory = std::aligned_alloc(to, bytes);
    if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__)
    if (to == large) (void)madvise(memory, bytes, MADV_HUGEPAGE); // a wish: it may say no
#endif
    return Pages<T>(static_cast<T*>(memory));
}

// Where a thread's pieces come from: memory it is given, else its own.
class Blocks {
public:
    // It must outlive the pieces. What is left of the memory before is not used.
    void give(std::span<uint64_t> memory)
    {
        if (memory.size() > room_.size()) room_ = memory;
    }

    std::span<uint64_t> take(size_t count)
    {
        if (count > room_.size()) {
            blocks_.push_back(pages<uint64_t>(block));
            room_ = {blocks_.back().get(), block};
        }
        const std::span<uint64_t> piece = room_.first(count);
        room_ = room_.subspan(count);
        return piece;
    }

    static constexpr size_t largest = 4096; // values of a piece

private:
    static constexpr size_t block = size_t{1} << 18; // 2 MiB

    std::vector<Pages<uint64_t>> blocks_;
    std::span<uint64_t> room_;
};

class Durations {
public:
    void add(uint64_t duration, Blocks& blocks)
    {
        if (at_ == end_) grow(blocks);
        *at_++ = duration;
    }

    // Calls use(piece) with all of them.
    template <class Use>
    void each(Use&& use) const
    {
        for (size_t i = 0; i < pieces_.size(); ++i) {
            const std::span<const uint64_t> piece = pieces_[i];
            const bool last = i + 1 == pieces_.size();
            use(last ? piece.first(piece.size() - static_cast<size_t>(end_ - at_)) : piece);
        }
    }

private:
    void grow(Blocks& blocks)
    {
        const size_t count =
            pieces_.empty() ? 16 : std::min(2 * pieces_.back().size(), Blocks::largest);
        pieces_.push_back(blocks.take(count));
        at_ = pieces_.back().data();
        end_ = at_ + count;
    }

    uint64_t* at_ = nullptr;
    uint64_t* end_ = nullptr;
    std::vector<std::span<uint64_t>> pieces_;
};

} // namespace denizen::procmine
