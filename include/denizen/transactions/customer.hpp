// SPDX-License-Identifier: Apache-2.0
// What is kept of a customer, and what its next transaction makes of it. Only the customer's shard
// calls this, in the order of the stream.
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

struct Customer {
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
    uint32_t count; // remembered
    uint32_t head;  // place of the oldest of them
    uint32_t reserved;
    uint64_t prints[history / 4]; // 16 bits of each id's hash: most ids that differ differ in them
    uint64_t ts[history];         // a ring, in order of event time
    uint64_t ids[history];

    DENIZEN_HD uint32_t place(uint32_t k) const { return (head + k) % history; }
    DENIZEN_HD static uint64_t print(uint64_t id) { return mix(id) >> 48; }

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

    DENIZEN_HD void set_print(uint32_t at, uint64_t value)
    {
        const uint32_t shift = at % 4 * 16;
        prints[at / 4] = (prints[at / 4] & ~(0xffffull << shift)) | value << shift;
    }
    DENIZEN_HD uint64_t print_at(uint32_t at) const
    {
        return prints[at / 4] >> (at % 4 * 16) & 0xffff;
    }

    DENIZEN_HD bool remembers(uint64_t id) const
    {
        constexpr uint64_t ones = 0x0001'0001'0001'0001ull;
        const uint64_t wanted = ones * print(id);
        uint64_t any = 0; // four prints at a time: one that is the same leaves a zero behind
        for (const uint64_t word : prints) {
            const uint64_t x = word ^ wanted;
            any |= (x - ones) & ~x & (ones << 15);
        }
        if (any != 0) { // the same id, or one of 65,536
            // In whatever order: the ring turns only when it is full.
            for (uint32_t k = 0; k < count; ++k) {
                if (ids[k] == id) {
                    return true;
                }
            }
        }
        return false;
    }

    // Puts it behind those of the same or an earlier time; tells the time since the one before, and
    // how many there are in the window that ends with it.
    DENIZEN_HD void remember(const Transaction& t, uint64_t window, Verdict& v)
    {
        if (count == history) {
            head = place(1);
            --count;
        }
        uint32_t k = count;
        while (k > 0 && ts[place(k - 1)] > t.ts) { // rarely: it came out of order
            const uint32_t from = place(k - 1);
            const uint32_t to = place(k);
            ts[to] = ts[from];
            ids[to] = ids[from];
            set_print(to, print_at(from));
            --k;
        }
        ts[place(k)] = t.ts;
        ids[place(k)] = t.id;
        set_print(place(k), print(t.id));
        ++count;
        v.velocity = 1;
        while (v.velocity <= k && ts[place(k - v.velocity)] + window > t.ts) {
            ++v.velocity;
        }
    }

    DENIZEN_HD Outcome admit(const Transaction& t, const Rules& rules, Verdict& v)
    {
        if (remembers(t.id)) {
            return Outcome::duplicate;
        }
        if (count != 0 && t.ts + rules.lateness_ms < ts[place(count - 1)]) {
            return Outcome::late;
        }
        if (count == history && t.ts <= ts[head]) {
            return Outcome::late;
        }
        uint32_t before = count; // the last of those not after it
        while (before > 0 && ts[place(before - 1)] > t.ts) {
            --before;
        }
        v.gap = before > 0 ? t.ts - ts[place(before - 1)] : 0;
        remember(t, rules.velocity_window_ms, v);
        return Outcome::accepted;
    }
};
static_assert(sizeof(Customer) == 664);

} // namespace denizen::transactions
