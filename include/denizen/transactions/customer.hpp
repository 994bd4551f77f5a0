// SPDX-License-Identifier: Apache-2.0
// What is kept of a customer, and what its next transaction makes of it. Only the customer's shard
// changes this, in the order of the stream.
#pragma once

#include <denizen/transactions/record.hpp>

namespace denizen::transactions {

// Transactions that are remembered of a customer: the last by event time. Velocity saturates here.
inline constexpr uint32_t history = 32;

DENIZEN_HD constexpr uint64_t mix(uint64_t x) // SplitMix64's finalizer
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

enum class Outcome : uint8_t {
    accepted = 0,
    late,      // older than the watermark, or than everything remembered
    duplicate, // the customer's transaction of this id is remembered
    invalid,
};
inline constexpr uint32_t outcomes = 4;

struct Customer;

// What the second pass finds out about a record; the third adds round trips and tells.
struct Verdict {
    uint64_t gap;       // ms since the customer's transaction before it in event time
    Customer* customer; // of accepted records
    uint32_t velocity;  // transactions in the window, this one included
    uint16_t fired;     // bits of rules
    uint8_t outcome;    // Outcome
    uint8_t reserved;
};
static_assert(sizeof(Verdict) == 24);

// What nearly every record of a customer is held against.
struct Standing {
    uint64_t key;     // customer + 1
    uint64_t applied; // 1 + sequence of the last record that was looked at
    uint64_t edge;    // 1 + sequence of the last one that paid another account
    uint64_t latest;  // event time of those, the greatest
    uint64_t allowed;
    uint64_t amount_limit;
    uint64_t exposed_limit;
    uint64_t dormant_ms;
    uint32_t velocity_limit;
    uint16_t home;
    uint16_t flags;
    uint32_t known; // has a profile
    uint32_t reserved;
    uint32_t count;  // remembered
    uint32_t head;   // place of the oldest of them
    uint64_t newest; // event time of the last of them

    DENIZEN_HD uint32_t place(uint32_t k) const { return (head + k) % history; }

    DENIZEN_HD void set(const Profile& p)
    {
        allowed = p.allowed;
        amount_limit = p.amount_limit;
        exposed_limit = p.exposed_limit;
        dormant_ms = p.dormant_ms;
        velocity_limit = p.velocity_limit;
        home = p.home;
        flags = p.flags;
        known = 1;
    }
};

// In whole sectors of memory, 32 bytes each, where it lies in a Block (ledger.hpp).
struct alignas(16) Customer : Standing {
    uint64_t prints[history / 4]; // 16 bits of each id's hash: most ids that differ differ in them
    uint64_t ts[history];         // a ring, in order of event time
    uint64_t ids[history];
};
static_assert(sizeof(Standing) == 96 && sizeof(Customer) == 672);

// A customer in a lane's hand while its records are judged, one after the other: what nearly each
// of them needs is in registers, the rest is written where it lies. put_back() at the end.
class Hand {
public:
    Standing standing{};

    Hand() = default;
    DENIZEN_HD explicit Hand(Customer& c) : standing(c), lies_(&c)
    {
        for (uint32_t k = 0; k < words; ++k) {
            prints_[k] = c.prints[k];
        }
    }

    DENIZEN_HD void put_back() const
    {
        lies_->applied = standing.applied;
        lies_->edge = standing.edge;
        lies_->latest = standing.latest;
        lies_->count = standing.count;
        lies_->head = standing.head;
        lies_->newest = standing.newest;
        for (uint32_t k = 0; k < words; ++k) {
            lies_->prints[k] = prints_[k];
        }
    }
    DENIZEN_HD Customer* customer() const { return lies_; }

    // Remembers a record unless it is late or a duplicate; then it tells the time since the one
    // before it and how many there are in the window that ends with it.
    DENIZEN_HD Outcome admit(const Transaction& t, const Rules& rules, Verdict& v)
    {
        Standing& s = standing;
        if (remembers(t.id)) {
            return Outcome::duplicate;
        }
        uint32_t k = s.count; // how many are not after it
        if (k != 0 && t.ts <= s.newest) {
            if (t.ts + rules.lateness_ms < s.newest ||
                (k == history && t.ts <= lies_->ts[s.head])) {
                return Outcome::late;
            }
            while (k > 0 && lies_->ts[s.place(k - 1)] > t.ts) {
                --k;
            }
        }
        if (k == s.count) { // as nearly all: nothing that is far away is needed
            v.gap = k == 0 ? 0 : t.ts - s.newest;
        } else {
            v.gap = k == 0 ? 0 : t.ts - lies_->ts[s.place(k - 1)];
        }
        if (s.count == history) { // the oldest is not after it
            s.head = s.place(1);
            --s.count;
            --k;
        }
        insert(k, t);
        v.velocity = 1;
        if (k != 0 && v.gap < rules.velocity_window_ms) {
            do { // ends: k are before it
                ++v.velocity;
            } while (v.velocity <= k &&
                     lies_->ts[s.place(k - v.velocity)] + rules.velocity_window_ms > t.ts);
        }
        return Outcome::accepted;
    }

private:
    static constexpr uint32_t words = history / 4;

    DENIZEN_HD static uint64_t print(uint64_t id) { return mix(id) >> 48; }

    // A register has no address: each word is looked at.
    DENIZEN_HD uint64_t print_at(uint32_t at) const
    {
        uint64_t word = 0;
        for (uint32_t k = 0; k < words; ++k) {
            word = k == at / 4 ? prints_[k] : word;
        }
        return word >> (at % 4 * 16) & 0xffff;
    }
    DENIZEN_HD void set_print(uint32_t at, uint64_t value)
    {
        const uint32_t shift = at % 4 * 16;
        for (uint32_t k = 0; k < words; ++k) {
            const uint64_t with = (prints_[k] & ~(0xffffull << shift)) | value << shift;
            prints_[k] = k == at / 4 ? with : prints_[k];
        }
    }

    DENIZEN_HD bool remembers(uint64_t id) const
    {
        constexpr uint64_t ones = 0x0001'0001'0001'0001ull;
        const uint64_t wanted = ones * print(id);
        uint64_t any = 0; // four prints at a time: one that is the same leaves a zero behind
        for (const uint64_t word : prints_) {
            const uint64_t x = word ^ wanted;
            any |= (x - ones) & ~x & (ones << 15);
        }
        if (any != 0) { // the same id, or one of 65,536
            // In whatever order: the ring turns only when it is full.
            for (uint32_t k = 0; k < standing.count; ++k) {
                if (lies_->ids[k] == id) {
                    return true;
                }
            }
        }
        return false;
    }

    // As number k; those behind it, rarely any, move.
    DENIZEN_HD void insert(uint32_t k, const Transaction& t)
    {
        Standing& s = standing;
        for (uint32_t j = s.count; j > k; --j) {
            const uint32_t from = s.place(j - 1);
            const uint32_t to = s.place(j);
            lies_->ts[to] = lies_->ts[from];
            lies_->ids[to] = lies_->ids[from];
            set_print(to, print_at(from));
        }
        const uint32_t at = s.place(k);
        lies_->ts[at] = t.ts;
        lies_->ids[at] = t.id;
        set_print(at, print(t.id));
        s.newest = k == s.count ? t.ts : s.newest;
        ++s.count;
    }

    Customer* lies_ = nullptr;
    uint64_t prints_[words]{};
};

} // namespace denizen::transactions
