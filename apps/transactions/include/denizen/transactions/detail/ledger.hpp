// SPDX-License-Identifier: Apache-2.0
// The customers of one shard: what is kept of each lies in blocks of an arena and never moves; an
// index, a block too, leads to it and is doubled when seven eighths are taken. Only the shard
// changes its ledger, when nobody else reads it (book.hpp); the search for round trips
// reads those of all. So nobody says in advance how many customers there will be.
//
// The arenas are the host's. It adds one, larger than all before, when a shard says that there is
// no room (shard.hpp); what a ledger had is as it was.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/bits.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/memory/arena/ref.hpp>
#include <denizen/transactions/detail/customer.hpp>

namespace denizen::transactions {

inline constexpr uint32_t max_regions = 48;

// The arenas. Their number only grows.
struct Regions {
    ArenaRef arena[max_regions];
    uint32_t count;

    // Null: none has room. The newest is asked first: it is the largest.
    DENIZEN_HD void* allocate(uint64_t bytes) const
    {
        // Acquire: partner of add().
        for (uint32_t k = load<Scope::gpu, Order::acquire>(&count); k-- > 0;) {
            if (void* const block = arena[k].allocate(bytes)) {
                return block;
            }
        }
        return nullptr;
    }
    DENIZEN_HD void deallocate(void* block) const
    {
        for (uint32_t k = load<Scope::gpu, Order::acquire>(&count); k-- > 0;) {
            if (arena[k].owns(block)) {
                arena[k].deallocate(block);
                return;
            }
        }
    }
    DENIZEN_HD void add(ArenaRef one)
    {
        arena[count] = one;
        store<Scope::gpu, Order::release>(&count, count + 1);
    }
};

// Of a ledger's index: all that a search needs of an account lies in one sector.
struct alignas(32) Entry {
    uint64_t key;  // customer + 1; 0: free
    uint64_t edge; // Customer::edge
    Customer* customer;
    uint64_t tail; // turn, chain and record that were linked last in it (judge.hpp)
};

struct CustomerBlock {
    static constexpr uint32_t customers = 24;

    CustomerBlock* next;
    alignas(32) Customer customer[customers];
};
static_assert(sizeof(Customer) % 32 == 0);
static_assert(sizeof(CustomerBlock) <= 16384 && sizeof(CustomerBlock) > 16384 - sizeof(Customer));

// An index: a hash table of entries in groups, and behind them a byte for each, of which those of a
// group are looked at together (as Abseil's tables do, https://abseil.io/about/design/swisstables):
// so an entry is nearly always found at its first look.
struct alignas(16) Index {
    static constexpr uint32_t group = 16;

    Entry* entries;
    uint32_t capacity; // a power of two, at least a group; 0: there is none yet
    uint32_t reserved;

    DENIZEN_HD static constexpr uint64_t bytes(uint32_t capacity)
    {
        return capacity * (sizeof(Entry) + 1);
    }
    DENIZEN_HD unsigned char* bytes_of_entries() const
    {
        return reinterpret_cast<unsigned char*>(entries + capacity);
    }

    // Ends at a group that is not full: an eighth of all entries are free.
    DENIZEN_HD Entry* find(uint64_t customer) const
    {
        if (capacity == 0) {
            return nullptr;
        }
        const uint64_t hash = mix(customer);
        const auto* const groups = reinterpret_cast<const Unit*>(bytes_of_entries());
        for (auto g = static_cast<uint32_t>(hash);; ++g) {
            const uint32_t begin = (g & (capacity / group - 1)) * group;
            const Unit some = groups[begin / group];
            for (uint32_t half = 0; half < 2; ++half) {
                uint64_t alike = bits::zero_fields(some.word[half] ^ ones * mark(hash), ones, 8);
                for (; alike != 0; alike &= alike - 1) {
                    Entry* const entry = entries + begin + 8 * half + bits::first(alike) / 8;
                    if (entry->key == customer + 1) {
                        return entry;
                    }
                }
            }
            if ((some.word[0] & some.word[1] & high) != high) {
                return nullptr;
            }
        }
    }

    // Lanes may do it side by side, each with a customer of its own. Ends at a free entry.
    DENIZEN_HD void enter(const Entry& entry) const
    {
        const uint64_t hash = mix(entry.key - 1);
        for (uint32_t at = static_cast<uint32_t>(hash) * group;; ++at) {
            Entry& place = entries[at & (capacity - 1)];
            uint64_t key = 0;
            if (compare_exchange<Scope::block>(&place.key, key, entry.key)) {
                place.edge = entry.edge;
                place.customer = entry.customer;
                bytes_of_entries()[at & (capacity - 1)] = mark(hash);
                return;
            }
        }
    }

private:
    static constexpr uint64_t ones = 0x0101'0101'0101'0101ull;
    static constexpr uint64_t high = ones << 7; // of a byte whose entry is taken

    // Not those bits that choose the group, nor those that choose the shard (book.hpp).
    DENIZEN_HD static unsigned char mark(uint64_t hash)
    {
        return static_cast<unsigned char>(0x80 | (hash >> 24 & 0x7f));
    }
};

struct alignas(128) Ledger {
    Index index;
    uint32_t taken; // customers
    uint32_t reserved;
    CustomerBlock* first; // in the order in which they came
    CustomerBlock* last;
    uint64_t turn; // number of the chains that were linked last (judge.hpp)

    DENIZEN_HD Entry* find(uint64_t customer) const
    {
        const Index there = index; // all of it by one load
        return there.find(customer);
    }

    // A new customer, by all lanes together; null if there is no room, and then nothing has
    // changed. Entries move.
    DENIZEN_COLD Entry* take(const Regions& regions, uint64_t customer, const auto& ctx)
    {
        if (taken >= index.capacity / 8 * 7 && !widen(regions, ctx)) {
            return nullptr;
        }
        if (taken % CustomerBlock::customers == 0) {
            auto* const block =
                static_cast<CustomerBlock*>(allocate(regions, sizeof(CustomerBlock), ctx));
            if (block == nullptr) {
                return nullptr;
            }
            if (ctx.lane() == 0) {
                block->next = nullptr;
                (last != nullptr ? last->next : first) = block;
                last = block;
            }
            ctx.sync();
        }
        Customer* const place = &last->customer[taken % CustomerBlock::customers];
        auto* const words = reinterpret_cast<uint64_t*>(place);
        for (uint32_t k = ctx.lane(); k < sizeof(Customer) / 8; k += ctx.lanes()) {
            words[k] = 0;
        }
        ctx.sync(); // all have read `taken`
        if (ctx.lane() == 0) {
            place->key = customer + 1;
            index.enter(Entry{customer + 1, 0, place, 0});
            ++taken;
        }
        ctx.sync();
        return find(customer);
    }

private:
    DENIZEN_HD static void* allocate(const Regions& regions, uint64_t bytes, const auto& ctx)
    {
        uint64_t at = 0;
        if (ctx.lane() == 0) {
            at = reinterpret_cast<uint64_t>(regions.allocate(bytes));
        }
        return reinterpret_cast<void*>(lanes::shuffle(at, 0));
    }

    DENIZEN_HD bool widen(const Regions& regions, const auto& ctx)
    {
        const Index old = index;
        const uint32_t size = old.capacity == 0 ? 32 : 2 * old.capacity;
        void* const memory = allocate(regions, Index::bytes(size), ctx);
        if (memory == nullptr) {
            return false;
        }
        const Index wide{static_cast<Entry*>(memory), size, 0};
        auto* const units = static_cast<Unit*>(memory);
        for (uint32_t k = ctx.lane(); k < Index::bytes(size) / sizeof(Unit); k += ctx.lanes()) {
            units[k] = Unit{};
        }
        ctx.sync();
        for (uint32_t k = ctx.lane(); k < old.capacity; k += ctx.lanes()) {
            if (old.entries[k].key != 0) {
                wide.enter(old.entries[k]);
            }
        }
        ctx.sync(); // all have read the old one
        if (ctx.lane() == 0) {
            if (old.capacity != 0) {
                regions.deallocate(old.entries);
            }
            index = wide;
        }
        ctx.sync();
        return true;
    }
};
static_assert(sizeof(Entry) == 32 && sizeof(Ledger) == 128);

} // namespace denizen::transactions
