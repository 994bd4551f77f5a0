// SPDX-License-Identifier: Apache-2.0
// The customers of one shard: what is kept of each lies in blocks of an arena and never moves; an
// open-addressed index, a block too, leads to it and is doubled when seven eighths are taken. Only
// the shard changes its ledger, when nobody else reads it (book.hpp); the search for round trips
// reads those of all. So nobody says in advance how many customers there will be.
//
// The arenas are the host's. It adds one, larger than all before, when a shard says that there is
// no room (shard.hpp); what a ledger had is as it was.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/memory/arena/ref.hpp>
#include <denizen/transactions/customer.hpp>

namespace denizen::transactions {

// Memory is copied by these.
struct alignas(16) Unit {
    uint64_t word[2];
};

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
    uint64_t tail; // Ledger::turn << record_bits | the record linked last in it (judge.hpp)
};

struct Block {
    static constexpr uint32_t customers = 24;

    Block* next;
    alignas(32) Customer customer[customers];
};
static_assert(sizeof(Customer) % 32 == 0);
static_assert(sizeof(Block) <= 16384 && sizeof(Block) > 16384 - sizeof(Customer));

struct alignas(128) Ledger {
    Entry* entries;
    uint32_t capacity; // of the index, a power of two; 0: there is none yet
    uint32_t taken;    // customers
    Block* first;      // in the order in which they came
    Block* last;
    uint64_t turn; // number of the chains that were linked last (judge.hpp)

    DENIZEN_HD Entry* find(uint64_t customer) const
    {
        if (capacity == 0) {
            return nullptr;
        }
        // Several are asked for together: on a GPU each is far away, and lanes wait for the one
        // that needs the most. Ends at a free entry: an eighth of them is.
        constexpr uint32_t abreast = lanes::size > 1 ? 4 : 1;
        for (auto at = static_cast<uint32_t>(mix(customer));; at += abreast) {
            uint64_t keys[abreast];
            for (uint32_t k = 0; k < abreast; ++k) {
                keys[k] = entries[(at + k) & (capacity - 1)].key;
            }
            for (uint32_t k = 0; k < abreast; ++k) {
                if (keys[k] == customer + 1) {
                    return &entries[(at + k) & (capacity - 1)];
                }
                if (keys[k] == 0) {
                    return nullptr;
                }
            }
        }
    }

    // A new customer, by all lanes together; null if there is no room, and then nothing has
    // changed. Entries move.
    DENIZEN_COLD Entry* take(const Regions& regions, uint64_t customer, const auto& ctx)
    {
        if (taken >= capacity / 8 * 7 && !widen(regions, ctx)) {
            return nullptr;
        }
        if (taken % Block::customers == 0) {
            auto* const block = static_cast<Block*>(allocate(regions, sizeof(Block), ctx));
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
        Customer* const place = &last->customer[taken % Block::customers];
        auto* const words = reinterpret_cast<uint64_t*>(place);
        for (uint32_t k = ctx.lane(); k < sizeof(Customer) / 8; k += ctx.lanes()) {
            words[k] = 0;
        }
        ctx.sync(); // all have read `taken`
        if (ctx.lane() == 0) {
            place->key = customer + 1;
            enter(entries, capacity, Entry{customer + 1, 0, place, 0});
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

    // Lanes may do it side by side. Ends at a free entry.
    DENIZEN_HD static void enter(Entry* to, uint32_t size, const Entry& entry)
    {
        for (auto at = static_cast<uint32_t>(mix(entry.key - 1));; ++at) {
            Entry& place = to[at & (size - 1)];
            uint64_t key = 0;
            if (compare_exchange<Scope::block>(&place.key, key, entry.key)) {
                place.edge = entry.edge;
                place.customer = entry.customer;
                return;
            }
        }
    }

    DENIZEN_HD bool widen(const Regions& regions, const auto& ctx)
    {
        const uint32_t size = capacity == 0 ? 32 : 2 * capacity;
        auto* const to = static_cast<Entry*>(allocate(regions, size * sizeof(Entry), ctx));
        if (to == nullptr) {
            return false;
        }
        auto* const units = reinterpret_cast<Unit*>(to);
        for (uint32_t k = ctx.lane(); k < size * (sizeof(Entry) / sizeof(Unit)); k += ctx.lanes()) {
            units[k] = Unit{};
        }
        ctx.sync();
        for (uint32_t k = ctx.lane(); k < capacity; k += ctx.lanes()) {
            if (entries[k].key != 0) {
                enter(to, size, entries[k]);
            }
        }
        ctx.sync(); // all have read the old one
        if (ctx.lane() == 0) {
            if (capacity != 0) {
                regions.deallocate(entries);
            }
            entries = to;
            capacity = size;
        }
        ctx.sync();
        return true;
    }
};
static_assert(sizeof(Entry) == 32 && sizeof(Ledger) == 128);

} // namespace denizen::transactions
