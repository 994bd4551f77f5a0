// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/error.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/transactions/country.hpp>
#include <denizen/transactions/detail/customer.hpp>
#include <denizen/transactions/generate.hpp>

#include <algorithm>
#include <string>

namespace denizen::transactions {

namespace {

constexpr uint64_t second = 1000;
constexpr uint64_t minute = 60 * second;
constexpr uint64_t day = 86'400 * second;
constexpr uint64_t epoch = 1'704'067'200'000; // 2024-01-01
constexpr uint16_t homes[] = {840, 826, 276, 250, 724, 392, 76, 356};
constexpr uint16_t abroad[] = {840, 826, 276, 250, 756, 528, 124, 36};
constexpr uint16_t blocked[] = {408, 364, 104, 643, 566}; // none of these is allowed

// SplitMix64, and integers only: the same on every machine.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15ull); }
    uint64_t below(uint64_t n) { return next() % n; } // n is so small that nobody sees the bias
    uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
    template <size_t N>
    uint16_t one_of(const uint16_t (&all)[N])
    {
        return all[below(N)];
    }

private:
    uint64_t state_;
};

class Maker {
public:
    Maker(uint64_t count, const MakeOptions& o)
        : count_(count), random_(o.seed),
          customers_(o.customers != 0
                         ? o.customers
                         : static_cast<uint32_t>(std::max<uint64_t>(100, count / 100))),
          span_(o.days * day), share_(o.share)
    {
        made_.records.reserve(count);
        arrivals_.reserve(count);
    }

    Made run()
    {
        interruptibly(uint64_t{1}, uint64_t{customers_} + 1, [&](uint64_t c) {
            made_.profiles.push_back(profile(static_cast<uint32_t>(c)));
        });
        const auto wanted = static_cast<uint64_t>(share_ * static_cast<double>(count_));
        // One of each, then by weight; a case adds at most 40 records.
        for (uint32_t k = 0; k < 10; ++k) add_case(static_cast<Case>(k + 1));
        static constexpr Case weighted[] = {
            Case::smurfing,   Case::blocked, Case::blocked,      Case::blocked, Case::burst,
            Case::round_trip, Case::exposed, Case::large,        Case::late,    Case::sleeping,
            Case::duplicate,  Case::exposed, Case::out_of_order, Case::blocked, Case::round_trip};
        while (made_.records.size() + 40 < wanted) { // ends: each adds at least one
            check_interrupt();
            add_case(weighted[random_.below(std::size(weighted))]);
        }
        while (made_.records.size() < count_) {
            if (made_.records.size() % items_per_check == 0) check_interrupt();
            const uint64_t when = random_.below(span_);
            const uint64_t who = awake(when);
            add(Case::ordinary, who, anybody(who), everyday(), when);
        }
        return sorted();
    }

private:
    static bool sleeper(uint64_t customer) { return customer % 50 == 7; }
    static bool is_exposed(uint64_t customer) { return customer % 50 == 11; }

    Profile profile(uint64_t customer)
    {
        Profile p{};
        p.customer = customer;
        p.home = homes[mix(customer) % std::size(homes)];
        p.allowed = ~0ull;
        for (const uint16_t code : blocked) p.allowed &= ~(1ull << country_bit(code));
        p.flags = is_exposed(customer) ? exposed_person : 0;
        p.flags = static_cast<uint16_t>(p.flags | (customer % 40 == 3 ? enhanced_diligence : 0));
        if (customer % 20 == 5) { // a firm
            p.amount_limit = 10'000'000;
            p.velocity_limit = 20;
        }
        return p;
    }

    uint64_t anybody(uint64_t but)
    {
        const uint64_t other = 1 + random_.below(customers_ - 1);
        return other >= but ? other + 1 : other;
    }
    // Who pays at that time: nobody that sleeps.
    uint64_t awake(uint64_t when)
    {
        uint64_t who = 1 + random_.below(customers_);
        while (sleeper(who) && when > span_ / 5) { // ends: most never sleep
            who = 1 + random_.below(customers_);
        }
        return who;
    }
    // A private customer that never sleeps.
    uint64_t plain()
    {
        uint64_t who = 0;
        do {
            who = 1 + random_.below(customers_);
        } while (sleeper(who) || is_exposed(who) || who % 20 == 5); // ends: most are
        return who;
    }
    uint64_t of_kind(bool (*kind)(uint64_t))
    {
        uint64_t who = 0;
        do {
            who = 1 + random_.below(customers_);
        } while (!kind(who)); // ends: of a hundred there are two
        return who;
    }

    // 1 to 3,000 dollars in cents, mostly little.
    uint64_t everyday() { return 100 + random_.below(300) * random_.below(1000); }

    void add(Case what, uint64_t who, uint64_t dest, uint64_t amount, uint64_t when,
             uint64_t delay = 0, uint16_t country = 0)
    {
        if (made_.records.size() == count_) return;
        Transaction t{};
        const uint64_t number = made_.records.size();
        t.id = mix(number * 2 + 1);
        t.customer = who;
        t.dest = dest;
        t.amount = amount;
        const uint16_t home = made_.profiles[who - 1].home;
        t.country = country != 0 ? country : random_.below(20) == 0 ? random_.one_of(abroad) : home;
        t.type = static_cast<uint8_t>(random_.below(6));
        t.currency = 1;
        t.flags = static_cast<uint32_t>(what);
        t.ts = epoch + when;
        t.device_hash = static_cast<uint32_t>(mix(who));
        t.address_hash = static_cast<uint32_t>(mix(who) >> 32);
        t.reference = number;
        made_.records.push_back(t);
        arrivals_.push_back(t.ts + delay);
    }

    void add_case(Case what)
    {
        const uint64_t when = random_.below(span_ - day);
        const uint64_t who = plain();
        switch (what) {
        case Case::smurfing:
            for (uint64_t n = random_.between(4, 8), k = 0; k < n; ++k)
                add(what, who, anybody(who), random_.between(905'000, 1'000'000),
                    when + random_.below(30 * minute));
            break;
        case Case::burst:
            for (uint64_t n = random_.between(12, 35), k = 0; k < n; ++k)
                add(what, who, anybody(who), everyday(), when + random_.below(30 * minute));
            break;
        case Case::large:
            add(what, who, anybody(who), random_.between(1'000'001, 8'000'000), when);
            break;
        case Case::blocked:
            add(what, who, anybody(who), everyday(), when, 0, random_.one_of(blocked));
            break;
        case Case::exposed: {
            const uint64_t person = of_kind(is_exposed);
            add(what, person, anybody(person), random_.between(500'001, 2'000'000), when);
            break;
        }
        case Case::round_trip: round_trip(when); break;
        case Case::sleeping: {
            const uint64_t one = of_kind(sleeper);
            add(Case::ordinary, one, anybody(one), everyday(), random_.below(span_ / 5));
            add(what, one, anybody(one), random_.between(100'000, 900'000),
                span_ - 1 - random_.below(span_ / 20));
            break;
        }
        case Case::out_of_order:
            add(what, who, anybody(who), everyday(), when, 20 * second);
            add(Case::ordinary, who, anybody(who), everyday(), when + 10 * second);
            break;
        case Case::late:
            add(what, who, anybody(who), everyday(), when, 20 * minute);
            add(Case::ordinary, who, anybody(who), everyday(), when + 10 * minute);
            break;
        case Case::duplicate: {
            add(Case::ordinary, who, anybody(who), everyday(), when);
            if (made_.records.size() == count_) break;
            Transaction again = made_.records.back();
            again.flags = static_cast<uint32_t>(what);
            made_.records.push_back(again);
            arrivals_.push_back(again.ts + random_.between(second, 5 * minute));
            break;
        }
        case Case::ordinary: break;
        }
    }

    void round_trip(uint64_t when)
    {
        const uint64_t hops = random_.between(2, 4);
        uint64_t account[4] = {};
        for (uint64_t k = 0; k < hops; ++k) {
            do {
                account[k] = plain();
            } while (std::find(account, account + k, account[k]) != account + k); // ends: many
        }
        const uint64_t amount = random_.between(100'000, 900'000);
        for (uint64_t k = 0; k < hops; ++k) {
            when += random_.between(minute, 60 * minute);
            add(Case::round_trip, account[k], account[(k + 1) % hops],
                amount - amount / 100 * random_.below(10), when);
        }
    }

    Made sorted()
    {
        std::vector<uint32_t> order;
        order.reserve(made_.records.size());
        interruptibly(size_t{0}, made_.records.size(),
                      [&](size_t k) { order.push_back(static_cast<uint32_t>(k)); });
        uint32_t looks = 0;
        std::sort(order.begin(), order.end(), [this, &looks](uint32_t a, uint32_t b) {
            if (++looks % items_per_check == 0) check_interrupt();
            return arrivals_[a] != arrivals_[b] ? arrivals_[a] < arrivals_[b] : a < b;
        });
        std::vector<Transaction> records;
        records.reserve(order.size());
        interruptibly(size_t{0}, order.size(),
                      [&](size_t k) { records.push_back(made_.records[order[k]]); });
        made_.records = std::move(records);
        return std::move(made_);
    }

    uint64_t count_;
    Random random_;
    uint32_t customers_;
    uint64_t span_;
    double share_;
    Made made_;
    std::vector<uint64_t> arrivals_;
};

} // namespace

Made make(uint64_t count, const MakeOptions& o)
{
    const auto refuse = [](const std::string& what, const std::string& use) {
        throw Error(Errc::bad_argument, what + "; use " + use);
    };
    if (count < least_made || count > 1ull << 31) {
        refuse(std::to_string(count) + " records", "1000 to 2147483648: every case is among them");
    }
    if (o.customers != 0 && o.customers < 100) {
        refuse("customers = " + std::to_string(o.customers), "100 or more");
    }
    if (o.days < 300 || o.days > 36'500) {
        refuse("days = " + std::to_string(o.days), "300 to 36500: accounts sleep for 200");
    }
    if (!(o.share >= 0 && o.share <= 1)) refuse("share is not of a whole", "0 to 1");
    return Maker(count, o).run();
}

} // namespace denizen::transactions
