// SPDX-License-Identifier: Apache-2.0
// The owner of an arena: where its memory comes from, its first state, and what can be read from
// its bookkeeping. The allocator itself is include/denizen/memory/arena/.
#include <denizen/memory/arena.hpp>

#include "arena_memory.hpp"
#include <denizen/device/residents.hpp>

#include <denizen/base/error.hpp>

#include <algorithm>
#include <bit>
#include <map>
#include <string>

namespace denizen {
namespace {

using namespace arena;

constexpr uint64_t least_pages = 16;
constexpr uint64_t most_pages = uint64_t{1} << 24;

template <class T>
T* place(unsigned char*& at, uint64_t count)
{
    T* const here = reinterpret_cast<T*>(at);
    at += (count * sizeof(T) + line - 1) / line * line;
    return here;
}

// The bookkeeping's parts from `at` on; returns their end.
unsigned char* lay_out(Map& map, unsigned char* at)
{
    map.tally = place<Tally>(at, 1);
    map.magazine = place<Magazine>(at, map.magazines);
    map.slots = place<uint32_t>(at, uint64_t{map.magazines} * size_classes * magazine_words);
    map.sets = place<uint64_t>(at, uint64_t{1 + size_classes} * map.shape.words());
    map.kinds = place<uint32_t>(at, uint64_t{map.pages} + map.pages % 2); // read as words of 8
    map.listed = place<uint64_t>(at, map.pages);
    map.words = place<Word>(at, uint64_t{map.pages} * page_words);
    return at;
}

// One for each processor of the device, fewer where the arena is so small that what they hold
// would be much of it.
uint32_t magazines_for(uint64_t pages, uint32_t processors)
{
    return static_cast<uint32_t>(std::clamp<uint64_t>(pages / 256, 1, processors));
}

} // namespace

struct Arena::State {
    std::unique_ptr<ArenaMemory> memory;
    Map map;
    Map* shared = nullptr; // the same, where the arena's users are
    unsigned char* book = nullptr;
    uint64_t book_bytes = 0;

    std::vector<uint32_t> kinds() const
    {
        std::vector<uint32_t> all(map.pages + map.pages % 2);
        memory->read(all.data(), map.kinds, all.size() * sizeof all[0]);
        return all;
    }

    // Calls use(page, kind, word index in the page, live blocks of that word).
    template <class Use>
    void each_live(Use&& use) const
    {
        const std::vector<uint32_t> kind = kinds();
        constexpr uint32_t some = 4096;
        std::vector<Word> words(uint64_t{some} * page_words);
        for (uint32_t first = 0; first < map.pages; first += some) {
            const uint32_t end = std::min(first + some, map.pages);
            if (std::all_of(&kind[first], &kind[first] + (end - first),
                            [](uint32_t k) { return k == 0; })) {
                continue;
            }
            memory->read(words.data(), map.words + uint64_t{first} * page_words,
                         uint64_t{end - first} * page_words * sizeof(Word));
            for (uint32_t page = first; page < end; ++page) {
                const uint32_t k = kind[page];
                if ((k & run_kind) != 0) {
                    use(page, k, 0, 1u);
                } else if (k != 0) {
                    for (uint32_t w = 0; w < words_of(k - 1); ++w) {
                        const Word word = words[uint64_t{page - first} * page_words + w];
                        // A page that is just changing hands: its words are of another class.
                        if (class_in(word) == k - 1) {
                            use(page, k, w, all_free(k - 1) & ~free_of(word));
                        }
                    }
                }
            }
        }
    }

    void need_guards(const char* what) const
    {
        if (map.guarded == 0) {
            throw Error(Errc::bad_argument, std::string("the arena is not guarded: there are no ") +
                                                what + " to tell; make it with guarded = true");
        }
    }
};

Arena::Arena(Device device, uint64_t bytes, bool guarded) : state_(std::make_unique<State>())
{
    const uint64_t pages = bytes / page_bytes;
    if (pages < least_pages || pages > most_pages) {
        throw Error(Errc::bad_argument, "an arena of " + std::to_string(bytes) + " bytes: it has " +
                                            std::to_string(least_pages * page_bytes) + " to " +
                                            std::to_string(most_pages * page_bytes) + " bytes");
    }
    State& s = *state_;
    const bool on_gpu = device.kind == Device::Kind::gpu ||
                        (device.kind == Device::Kind::automatic && gpu_present());
    s.memory = on_gpu ? make_gpu_arena_memory(device.ordinal) : make_host_arena_memory();
    s.map.pages = static_cast<uint32_t>(pages);
    s.map.guarded = guarded ? 1 : 0;
    s.map.shape = PageSetShape::of(s.map.pages);
    s.map.magazines = magazines_for(pages, s.memory->processors());
    const uint64_t quota = pages * page_bytes / 64 / size_classes / s.map.magazines;
    s.map.quota_shift = static_cast<uint32_t>(std::bit_width(quota)) - 1;

    Map measure = s.map;
    const uint64_t book = reinterpret_cast<uint64_t>(lay_out(measure, nullptr));
    s.book_bytes = book + (sizeof(Map) + line - 1) / line * line;
    s.book = s.memory->allocate(s.book_bytes, line);
    s.map.base = s.memory->allocate(pages * page_bytes, page_bytes);
    s.shared = reinterpret_cast<Map*>(lay_out(s.map, s.book));
    reset();
}

Arena::~Arena() = default;
Arena::Arena(Arena&&) noexcept = default;
Arena& Arena::operator=(Arena&&) noexcept = default;

ArenaRef Arena::ref() const { return ArenaRef(state_->shared); }

void Arena::reset()
{
    State& s = *state_;
    s.memory->clear(s.book, s.book_bytes);
    std::vector<uint64_t> set(s.map.shape.words());
    const auto fill = [&set](uint32_t from, uint32_t bits) {
        for (uint32_t i = 0; i < bits; ++i) {
            set[from + i / 64] |= uint64_t{1} << i % 64;
        }
    };
    const PageSetShape& shape = s.map.shape;
    fill(0, s.map.pages);
    fill(shape.leaves, shape.leaves);
    fill(shape.leaves + shape.mids, shape.mids);
    s.memory->write(s.map.sets, set.data(), set.size() * sizeof set[0]);
    s.memory->write(&s.map.tally->free_pages, &s.map.pages, sizeof s.map.pages);
    s.memory->write(s.shared, &s.map, sizeof s.map);
}

ArenaStats Arena::stats() const
{
    const State& s = *state_;
    ArenaStats stats;
    stats.bytes = s.map.bytes();
    std::vector<uint64_t> leaves(s.map.shape.leaves);
    s.memory->read(leaves.data(), s.map.sets, leaves.size() * sizeof leaves[0]);
    for (const uint64_t leaf : leaves) {
        stats.free_bytes += static_cast<uint64_t>(std::popcount(leaf)) * page_bytes;
    }
    s.each_live([&](uint32_t, uint32_t kind, uint32_t, uint32_t live) {
        const bool run = (kind & run_kind) != 0;
        const auto blocks = static_cast<uint64_t>(std::popcount(live));
        stats.live_blocks += blocks;
        stats.live_bytes +=
            run ? uint64_t{kind & ~run_kind} * page_bytes : blocks * class_bytes(kind - 1);
    });
    s.memory->read(&stats.failed, &s.map.tally->failed, sizeof stats.failed);
    s.memory->read(&stats.refused, &s.map.tally->refused, sizeof stats.refused);
    s.memory->read(&stats.moved, &s.map.tally->moved, sizeof stats.moved);
    return stats;
}

std::vector<Fault> Arena::faults() const
{
    const State& s = *state_;
    s.need_guards("faults");
    Tally tally;
    static_assert(sizeof tally % 8 == 0);
    s.memory->read(&tally, s.map.tally, sizeof tally);
    return {tally.fault, tally.fault + std::min(tally.faults, faults_kept)};
}

std::vector<ArenaLeak> Arena::leaks() const
{
    const State& s = *state_;
    s.need_guards("leaks");
    std::map<uint32_t, ArenaLeak> by_tag;
    s.each_live([&](uint32_t page, uint32_t kind, uint32_t w, uint32_t live) {
        const bool run = (kind & run_kind) != 0;
        for (; live != 0; live &= live - 1) {
            const uint32_t block = w * word_blocks + bits::first(live);
            GuardHeader header;
            s.memory->read(
                &header, s.map.base + page * page_bytes + (run ? 0 : block * class_bytes(kind - 1)),
                sizeof header);
            // Overwritten: the tag may be anything, but the block is there.
            const bool whole = header.sum == sum_of(header);
            ArenaLeak& leak = by_tag[whole ? header.tag : 0];
            leak.tag = whole ? header.tag : 0;
            leak.blocks += 1;
            leak.bytes += whole ? header.bytes : 0;
        }
    });
    std::vector<ArenaLeak> leaks;
    for (const auto& [tag, leak] : by_tag) {
        leaks.push_back(leak);
    }
    std::stable_sort(leaks.begin(), leaks.end(),
                     [](const ArenaLeak& a, const ArenaLeak& b) { return a.bytes > b.bytes; });
    return leaks;
}

} // namespace denizen
