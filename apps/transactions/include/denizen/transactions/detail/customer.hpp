// SPDX-License-Identifier: Apache-2.0
// What is kept of a customer, and what its next transaction makes of it. Only the customer's shard
// changes this, in the order of the stream.
#pragma once

#include <denizen/base/bits.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/transactions/record.hpp>

namespace denizen::transactions {

// Memory is copied by these, whatever lies in it.
struct alignas(16) [[gnu::may_alias]] Unit {
    uint64_t word[2];
};

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
struct alignas(16) Verdict {
    uint64_t gap;      // ms since the customer's transaction before it in event time
    uint32_t velocity; // transactions in the window, this one included
    uint16_t fired;    // bits of rules
    uint8_t outcome;   // Outcome
    uint8_t reserved;
};
static_assert(sizeof(Verdict) == 16);

// What nearly every record of a customer is held against.
struct CustomerState {
    uint64_t key; // customer + 1
    uint64_t allowed;
    uint64_t amount_limit;
    uint64_t exposed_limit;
    uint64_t dormant_ms;
    uint32_t velocity_limit;
    uint16_t home;
    uint16_t flags;
    uint32_t known; // has a profile
    uint32_t reserved;
    // From here on: what records change.
    uint32_t count;   // remembered
    uint32_t head;    // place of the oldest of them
    uint64_t newest;  // event time of the last of them
    uint64_t latest;  // event time of those that paid another account, the greatest
    uint64_t edge;    // 1 + sequence of the last of those
    uint64_t applied; // 1 + sequence of the last record that was looked at

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

struct alignas(16) Seen {
    uint64_t ts;
    uint64_t id;
};

// In whole sectors of memory, 32 bytes each, where it lies in a CustomerBlock (ledger.hpp).
struct alignas(16) Customer : CustomerState {
    uint64_t prints[history / 4]; // 16 bits of each id's hash: most ids that differ differ in them
    Seen seen[history];           // a ring, in order of event time
};
static_assert(sizeof(CustomerState) == 96 && sizeof(Customer) == 672);

// A customer that a lane has loaded while its records are judged, one after the other: what nearly
// each of them needs is in registers, the rest is written where it lies. write_back() at the end.
class LoadedCustomer {
public:
    CustomerState state{};

    // What is in it, as it comes from memory: nothing waits for it until it is looked at.
    struct Pending {
        Customer* customer = nullptr;
        Unit unit[(sizeof(CustomerState) + sizeof(Customer::prints)) / sizeof(Unit)]{};
    };
    DENIZEN_HD static Pending fetch(Customer* c)
    {
        Pending pending;
        pending.customer = c;
        for (uint32_t k = 0; k < units; ++k) {
            pending.unit[k] = reinterpret_cast<const Unit*>(c)[k];
        }
        return pending;
    }

    LoadedCustomer() = default;
    DENIZEN_HD explicit LoadedCustomer(const Pending& pending) : customer_(pending.customer)
    {
        copy_bytes(&state, pending.unit, sizeof state);
        copy_bytes(prints_, pending.unit + units_state, sizeof prints_);
    }

    DENIZEN_HD void write_back() const
    {
        Pending back;
        copy_bytes(back.unit, &state, sizeof state);
        copy_bytes(back.unit + units_state, prints_, sizeof prints_);
        for (uint32_t k = units_unchanged; k < units; ++k) {
            reinterpret_cast<Unit*>(customer_)[k] = back.unit[k];
        }
    }

    // Remembers a record unless it is late or a duplicate; then it tells the time since the one
    // before it and how many there are in the window that ends with it.
    DENIZEN_HD Outcome admit(const Transaction& t, const Rules& rules, Verdict& v)
    {
        CustomerState& s = state;
        if (remembers(t.id)) {
            return Outcome::duplicate;
        }
        uint32_t k = s.count; // how many are not after it
        if (k != 0 && t.ts <= s.newest) {
            if (t.ts + rules.lateness_ms < s.newest ||
                (k == history && t.ts <= customer_->seen[s.head].ts)) {
                return Outcome::late;
            }
            while (k > 0 && customer_->seen[s.place(k - 1)].ts > t.ts) {
                --k;
            }
        }
        if (k == s.count) { // as nearly all: nothing that is far away is needed
            v.gap = k == 0 ? 0 : t.ts - s.newest;
        } else {
            v.gap = k == 0 ? 0 : t.ts - customer_->seen[s.place(k - 1)].ts;
            window_ = unknown; // it may begin too late for this one
        }
        if (s.count == history) { // the oldest is not after it
            window_ = window_ == s.head ? unknown : window_;
            s.head = s.place(1);
            --s.count;
            --k;
        }
        insert(k, t);
        v.velocity = 1 + (v.gap < rules.velocity_window_ms ? within(k, t.ts, rules) : 0);
        if (v.velocity == 1) {
            window_ = s.place(k);
            window_ts_ = t.ts;
        }
        return Outcome::accepted;
    }

private:
    static constexpr uint32_t words = history / 4;
    static constexpr uint32_t units_unchanged = 3; // by any record
    static constexpr uint32_t units_state = sizeof(CustomerState) / sizeof(Unit);
    static constexpr uint32_t units = units_state + words / 2;

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
        uint32_t alike = 0; // places; four at a time: a print that is the same leaves a zero behind
        for (uint32_t k = 0; k < words; ++k) {
            const uint64_t zeros = bits::zero_fields(prints_[k] ^ wanted, ones, 16);
            // The product has these four bits side by side, as its highest.
            alike |= static_cast<uint32_t>(zeros * 0x0000'2000'4000'8001ull >> 60) << 4 * k;
        }
        for (; alike != 0; alike &= alike - 1) { // the same id, or one of 65,536
            // In whatever order: the ring turns only when it is full.
            const uint32_t at = lanes::first(alike);
            if (at < state.count && customer_->seen[at].id == id) {
                return true;
            }
        }
        return false;
    }

    // How many of the first k are in the window that ends at `ts`: the last of them, so that few
    // need to be looked at, each of which is far away; of a burst none, while its first is in it.
    DENIZEN_HD uint32_t within(uint32_t k, uint64_t ts, const Rules& rules)
    {
        constexpr uint32_t abreast = lanes::size > 1 ? 3 : 1;
        uint32_t before = 0; // these are older, and those from `from` on are not
        uint32_t from = k;
        if (window_ != unknown) {
            const uint32_t first = (window_ - state.head) % history;
            if (window_ts_ + rules.velocity_window_ms > ts) {
                return k - first;
            }
            before = first + 1;
        }
        while (before < from) { // ends: one of them moves
            const uint32_t begin = before;
            const uint32_t end = from;
            const uint32_t each = (end - begin) / (abreast + 1);
            const auto at = [begin, each](uint32_t j) { // rises with j
                return each == 0 ? begin + j : begin + (j + 1) * each;
            };
            uint64_t seen[abreast];
            for (uint32_t j = 0; j < abreast; ++j) {
                seen[j] = at(j) < end ? customer_->seen[state.place(at(j))].ts : most;
            }
            for (uint32_t j = 0; j < abreast; ++j) {
                const bool inside = seen[j] + rules.velocity_window_ms > ts;
                before = at(j) < end && !inside ? at(j) + 1 : before;
                if (at(j) < from && inside) {
                    from = at(j);
                    window_ = state.place(from);
                    window_ts_ = seen[j];
                }
            }
        }
        return k - from;
    }

    // As number k; those behind it, rarely any, move.
    DENIZEN_HD void insert(uint32_t k, const Transaction& t)
    {
        CustomerState& s = state;
        for (uint32_t j = s.count; j > k; --j) {
            const uint32_t from = s.place(j - 1);
            const uint32_t to = s.place(j);
            customer_->seen[to] = customer_->seen[from];
            set_print(to, print_at(from));
        }
        const uint32_t at = s.place(k);
        customer_->seen[at] = Seen{t.ts, t.id};
        set_print(at, print(t.id));
        s.newest = k == s.count ? t.ts : s.newest;
        ++s.count;
    }

    static constexpr uint32_t unknown = ~0u;

    Customer* customer_ = nullptr;
    uint64_t prints_[words]{};
    uint32_t window_ = unknown; // place of the first in the window of the last record
    uint64_t window_ts_ = 0;    // and its event time
};

} // namespace denizen::transactions
