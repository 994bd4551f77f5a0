// SPDX-License-Identifier: Apache-2.0
// The second pass: the records of a shard's customers, from all slices of a batch, in order,
// against what is kept of them. Customers who are new get their place in the shard's ledger here.
//
// First the records are linked, each to the next of its customer; then each lane judges chain after
// chain. So a customer's memory, which is far away, is waited for once and not for each record, and
// lanes do not wait for each other where several records are of one customer.
#pragma once

#include <denizen/transactions/detail/pass.hpp>
#include <denizen/transactions/detail/payment_history.hpp>

namespace denizen::transactions {

namespace detail {

// The records of a shard in a batch, 32 at a time, in order.
class ShardRecords {
public:
    DENIZEN_HD ShardRecords(Book& book, const View& view, uint32_t batch, uint32_t shard)
        : order_(book.order(batch)), runs_(book.runs(batch, 0)), shard_(shard),
          shards_(view.shards), count_(view.count), slices_(book.slices(view.count))
    {
        look(0);
        next_slices();
    }

    DENIZEN_HD bool more() const { return at_ < total_ || slice_ < slices_; }

    // A record for each lane; no_record: none for this one.
    DENIZEN_HD uint32_t next()
    {
        while (at_ >= total_ && slice_ < slices_) { // ends: slices do
            next_slices();
        }
        // Record r lies in the first slice up to whose end there are more than r.
        const uint32_t r = at_ + lanes::id();
        uint32_t k = 0;
        for (uint32_t step = lanes::size / 2; step > 0; step /= 2) {
            k += lanes::shuffle(upto_, k + step - 1) <= r ? step : 0;
        }
        const uint32_t in_slice = r - (lanes::shuffle(upto_, k) - lanes::shuffle(length_, k));
        const uint32_t from = lanes::shuffle(begin_, k);
        at_ += lanes::size;
        return r < total_ ? order_[from + in_slice] : no_record;
    }

private:
    // A slice for each lane. Those after them are asked for ahead.
    DENIZEN_HD void next_slices()
    {
        begin_ = ahead_begin_;
        length_ = ahead_end_ - ahead_begin_;
        slice_ += lanes::size;
        look(slice_);
        upto_ = scan(length_);
        total_ = lanes::shuffle(upto_, lanes::size - 1);
        at_ = 0;
    }
    DENIZEN_HD void look(uint32_t first)
    {
        const uint32_t slice = first + lanes::id();
        ahead_begin_ = ahead_end_ = 0;
        if (slice < slices_) {
            const uint32_t* const run = runs_ + uint64_t{slice} * shards_ + shard_;
            ahead_begin_ = shard_ == 0 ? Book::first_of(count_, slice, slices_) : run[-1];
            ahead_end_ = run[0];
        }
    }

    const uint32_t* order_;
    const uint32_t* runs_;
    uint32_t shard_;
    uint32_t shards_;
    uint32_t count_;
    uint32_t slices_;
    uint32_t slice_ = 0; // those before it have been looked at
    uint32_t at_ = 0;    // of total_ records of the slices that the lanes have
    uint32_t total_ = 0;
    uint32_t begin_ = 0; // of this lane's
    uint32_t length_ = 0;
    uint32_t upto_ = 0;
    uint32_t ahead_begin_ = 0;
    uint32_t ahead_end_ = 0;
};

// Places for those of the lanes' customers that have none.
DENIZEN_COLD bool take_places(const Book& book, Ledger& ledger, uint64_t customer, const auto& ctx)
{
    bool missing = customer != no_customer && ledger.find(customer) == nullptr;
    for (uint32_t left = lanes::ballot(missing); left != 0; left = lanes::ballot(missing)) {
        const uint64_t one = lanes::shuffle(customer, lanes::first(left));
        if (ledger.take(book.regions, one, ctx) == nullptr) {
            return false;
        }
        missing = missing && customer != one; // ends: one less a turn
    }
    return true;
}

// A shard's records, linked by customer.
class Chains {
public:
    DENIZEN_HD Chains(Book& book, const View& view, uint32_t shard, const auto& ctx)
        : book_(book), view_(view), rules_(book.rules), ledger_(book.ledger(shard)),
          links_(book.links()), scratch_(book.scratch(shard))
    {
        next_turn(ctx); // tails of who failed on the way are those of another turn
    }

    // Whether there may be one more for each lane.
    DENIZEN_HD bool have_room() const { return count_ + lanes::size <= most_chains; }

    // Puts a record for each lane, number i, behind the others of its customer. False: one of the
    // customers is new, and none has been linked.
    DENIZEN_HD bool link(uint32_t i, const Transaction& t, const auto& ctx)
    {
        const bool right = i != no_record && valid(t);
        Entry* const entry = right ? ledger_.find(t.customer) : nullptr;
        if (lanes::ballot(right && entry == nullptr) != 0) {
            return false;
        }
        if (i != no_record && !right) {
            Verdict v{};
            v.outcome = static_cast<uint8_t>(Outcome::invalid);
            view_.verdicts[i] = v;
        }
        const uint32_t place =
            entry == nullptr ? ~0u : static_cast<uint32_t>(entry - ledger_.index.entries);
        const uint32_t alike = lanes::match(place);
        const uint32_t above = alike & ~lanes::below() & ~(1u << lanes::id());
        const uint32_t next = lanes::shuffle(i, above != 0 ? lanes::first(above) : lanes::id());
        const bool first = entry != nullptr && (alike & lanes::below()) == 0;
        const uint64_t tail = first ? entry->tail : 0;
        const bool begins = first && tail >> (chain_bits + record_bits) != turn_;
        const uint32_t beginning = lanes::ballot(begins);
        uint32_t chain = static_cast<uint32_t>(tail >> record_bits) & (most_chains - 1);
        const uint32_t more = lanes::popcount(alike);
        ctx.sync(); // all have read the tail
        if (begins) {
            Customer* const customer = entry->customer;
            chain = count_ + lanes::popcount(beginning & lanes::below());
            scratch_.heads[chain] = {customer, entry->edge, place, i, more, 0};
            for (uint32_t at = 0; at < sizeof(CustomerState) + sizeof(Customer::prints); at += 32) {
                prefetch(reinterpret_cast<const unsigned char*>(customer) + at);
            }
            PaymentHistory::prefetch(view_, entry->edge);
        } else if (first) {
            fetch_add<Scope::block>(&scratch_.heads[chain].length, more);
            links_[tail & max_batch] = i;
        }
        chain = lanes::shuffle(chain, lanes::first(alike));
        if (entry != nullptr) {
            links_[i] = above != 0 ? next : no_record;
            if (above == 0) {
                entry->tail = (turn_ << chain_bits | chain) << record_bits | i;
            }
        }
        count_ += lanes::popcount(beginning);
        ctx.sync();
        return true;
    }

    // Judges all that have been linked. False: it failed on the way.
    DENIZEN_HD bool judge(const auto& ctx, auto&& fails)
    {
        const Head* const heads = in_turn(ctx);
        uint32_t taken = 0; // chains
        CurrentChain current;
        PendingChain pending; // while the one before it is judged
        for (;;) {            // ends: chains do
            // To a CPU's core nothing is so far away that it is asked for ahead.
            if constexpr (lanes::size == 1) {
                if (current.i == no_record && taken < count_) {
                    current = CurrentChain(fetch(heads[taken++]));
                }
            } else {
                if (current.i == no_record) {
                    current = CurrentChain(pending);
                    pending.i = no_record;
                }
                const uint32_t idle = lanes::ballot(pending.i == no_record);
                const uint32_t k = taken + lanes::popcount(idle & lanes::below());
                if (pending.i == no_record && k < count_) {
                    pending = fetch(heads[k]);
                }
                taken += lanes::popcount(idle);
            }
            const uint32_t busy = lanes::ballot(current.i != no_record);
            if (busy == 0 && lanes::ballot(pending.i != no_record) == 0) {
                break;
            }
            const bool failed = fails(judged_);
            judged_ += lanes::popcount(busy);
            if (current.i != no_record) {
                const uint32_t i = current.i;
                const Transaction t = record(current.staged);
                current.i = current.next;
                if (current.i != no_record) { // asked for now, while this one is judged
                    current.staged = view_.fetch(current.i);
                    current.next = links_[current.i];
                }
                if (!failed) {
                    judge_one(current.customer, current.history, t, i);
                }
                if (current.i == no_record || failed) {
                    current.customer.write_back();
                    ledger_.index.entries[current.entry].edge = current.customer.state.edge;
                }
            }
            ctx.sync();
            if (failed) {
                return false;
            }
        }
        count_ = 0;
        next_turn(ctx);
        return true;
    }

    // A place for the customer of each lane's record that has none; false if there is no room for
    // one. No chain is left: entries move.
    DENIZEN_HD bool take_places(uint32_t i, const Transaction& t, const auto& ctx)
    {
        const bool right = i != no_record && valid(t);
        return detail::take_places(book_, ledger_, right ? t.customer : no_customer, ctx);
    }

private:
    // A chain whose memory has been asked for, and the one that a lane judges.
    struct PendingChain {
        uint32_t i = no_record; // the record to be judged, and
        uint32_t next = 0;      // the one after it
        uint32_t entry = 0;
        Staged staged{}; // record i
        EarlierPayments before{};
        LoadedCustomer::Pending customer;
    };
    struct CurrentChain {
        uint32_t i = no_record;
        uint32_t next = 0;
        uint32_t entry = 0;
        Staged staged{};
        PaymentHistory history;
        LoadedCustomer customer;

        CurrentChain() = default;
        DENIZEN_HD explicit CurrentChain(const PendingChain& a)
            : i(a.i), next(a.next), entry(a.entry), staged(a.staged), history(a.before),
              customer(a.customer)
        {
        }
    };

    DENIZEN_HD PendingChain fetch(const Head head) const
    {
        return {head.record,
                links_[head.record],
                head.entry,
                view_.fetch(head.record),
                PaymentHistory::fetch(view_, head.edge),
                LoadedCustomer::fetch(head.customer)};
    }

    // The chains in the order in which they are judged. On a GPU the longest first: begun last, it
    // would keep one lane busy when all others are done.
    DENIZEN_HD const Head* in_turn(const auto& ctx) const
    {
        if constexpr (lanes::size == 1) {
            return scratch_.heads;
        } else {
            constexpr uint32_t longest = 16; // these are all alike
            constexpr uint32_t each = most_chains / lanes::size;
            uint32_t length[each];
            uint32_t place[each];
            for (uint32_t j = 0; j < each; ++j) {
                const uint32_t k = j * lanes::size + ctx.lane();
                const uint32_t records = k < count_ ? scratch_.heads[k].length : 0;
                length[j] = records < longest ? records : longest;
                place[j] = 0;
            }
            uint32_t placed = 0;
            DENIZEN_ROLLED
            for (uint32_t some = longest; some > 0; --some) {
                for (uint32_t j = 0; j < each; ++j) {
                    const uint32_t those = lanes::ballot(length[j] == some);
                    place[j] = length[j] == some ? placed + lanes::popcount(those & lanes::below())
                                                 : place[j];
                    placed += lanes::popcount(those);
                }
            }
            for (uint32_t j = 0; j < each; ++j) {
                if (length[j] != 0) {
                    scratch_.in_turn[place[j]] = scratch_.heads[j * lanes::size + ctx.lane()];
                }
            }
            ctx.sync();
            return scratch_.in_turn;
        }
    }

    DENIZEN_HD void judge_one(LoadedCustomer& customer, PaymentHistory& history,
                              const Transaction& t, uint32_t i) const
    {
        const uint64_t sequence = view_.base + i;
        CustomerState& c = customer.state;
        if (c.applied > sequence) {
            return; // this shard has been here before it failed, or found no room
        }
        c.applied = sequence + 1;
        Verdict v{};
        const Outcome outcome = customer.admit(t, rules_, v);
        v.outcome = static_cast<uint8_t>(outcome);
        if (outcome == Outcome::accepted) {
            v.fired = static_cast<uint16_t>(fired_rules(t, c, rules_, country_of(book_, t), v));
            if (t.customer != t.dest) {
                c.latest = t.ts > c.latest ? t.ts : c.latest;
                view_.edge(sequence) = Edge{Payment{t.dest, t.ts, t.amount, c.latest},
                                            history.advance(view_, c.edge, sequence)};
                c.edge = sequence + 1;
            }
        }
        view_.verdicts[i] = v;
    }

    DENIZEN_HD void next_turn(const auto& ctx)
    {
        turn_ = ledger_.turn + 1;
        ctx.sync(); // all have read it
        if (ctx.lane() == 0) {
            ledger_.turn = turn_;
        }
        ctx.sync();
    }

    Book& book_;
    const View view_;
    const Rules rules_; // by value: what is written could be the book's head, for all it seems
    Ledger& ledger_;
    uint32_t* links_;
    Scratch& scratch_;
    uint64_t turn_ = 0;
    uint32_t count_ = 0;  // chains
    uint32_t judged_ = 0; // records
};

} // namespace detail

DENIZEN_HD inline End judge(Book& book, uint32_t batch, uint32_t shard, auto& ctx, auto&& fails)
{
    const View view(book, batch);
    detail::ShardRecords records(book, view, batch, shard);
    detail::Chains chains(book, view, shard, ctx);
    // The number of one record is asked for, the record before it, and the one before is linked.
    uint32_t following = records.next();
    uint32_t i = no_record;
    Staged staged{};
    for (bool last = false; !last;) { // ends: the shard's records do
        last = !records.more() && lanes::ballot(following != no_record) == 0;
        const uint32_t number = last ? no_record : records.next();
        Staged ahead{};
        if (following != no_record) {
            ahead = view.fetch(following);
        }
        const Transaction t = record(staged);
        while (!chains.have_room() || !chains.link(i, t, ctx)) { // ends: then there is, and it does
            if (!chains.judge(ctx, fails)) {
                return End::failed;
            }
            if (!chains.take_places(i, t, ctx)) {
                return End::full;
            }
        }
        i = following;
        staged = ahead;
        following = number;
    }
    return chains.judge(ctx, fails) ? End::done : End::failed;
}

} // namespace denizen::transactions
