// SPDX-License-Identifier: Apache-2.0
// The payments of one account, as the search for round trips goes through them: those before a
// place of the stream, the latest first, through the ring of edges.
//
// The account's last payment may lie behind that place, as the whole batch has been judged. So each
// edge has the distances to several before it: what must not be seen is passed without a look at
// it, and memory is waited for once where a list from edge to edge waits for each.
#pragma once

#include <denizen/transactions/view.hpp>

namespace denizen::transactions {

// The distances that a new edge gets, kept while one after the other of an account's is made.
class PaymentHistory {
public:
    PaymentHistory() = default;
    DENIZEN_HD explicit PaymentHistory(const EarlierPayments& before) : before_(before) {}

    // Of the account's last edge, 1 + whose place is `last`; 0: it has none.
    DENIZEN_HD static EarlierPayments fetch(const View& view, uint64_t last)
    {
        EarlierPayments before{};
        if (within_reach(view, last)) {
            before = view.edge(last - 1).before;
        }
        return before;
    }
    static DENIZEN_HD void prefetch(const View& view, uint64_t last)
    {
        if (within_reach(view, last)) {
            denizen::prefetch(&view.edge(last - 1).before);
        }
    }

    // What an edge at `place`, behind the `last`, has before it.
    DENIZEN_HD const EarlierPayments& advance(const View& view, uint64_t last, uint64_t place)
    {
        const uint32_t gap =
            within_reach(view, last) ? static_cast<uint32_t>(place - (last - 1)) : 0;
        for (uint32_t k = edges_before; k-- > 1;) {
            before_.by[k] = gap != 0 && before_.by[k - 1] != 0 ? before_.by[k - 1] + gap : 0;
        }
        before_.by[0] = gap;
        return before_;
    }

private:
    // Whether any transaction of this batch may be led there. What is not may be another's by now.
    DENIZEN_HD static bool within_reach(const View& view, uint64_t last)
    {
        return last != 0 && (last > view.base || view.base - (last - 1) <= view.horizon);
    }

    EarlierPayments before_{};
};
static_assert(uint64_t{edges_before} * (max_horizon + max_batch) < 1ull << 32);

// Goes through an account's payments before a place of the stream, the latest first.
class PaymentsBefore {
public:
    // Of an account whose last edge is `last`, as above, for a transaction at `sequence`.
    DENIZEN_HD PaymentsBefore(const View& view, uint64_t last, uint64_t sequence)
        : view_(view), sequence_(sequence)
    {
        look(last);
    }

    // Whether there is one more, and its place.
    DENIZEN_HD bool next(uint64_t& place)
    {
        if (by_[0] == none && further_ != 0) {
            look(head_ + 1 - further_);
        }
        place = head_ - by_[0];
        const bool there = by_[0] != none && sequence_ - place <= view_.horizon;
        skip(1, true);
        return there;
    }

private:
    static constexpr uint32_t none = ~0u;
    // An edge and those it knows of, all but the last: with it the next begin. A CPU's core has no
    // use for several at a time.
    static constexpr uint32_t reach = lanes::size > 1 ? edges_before : 1;

    // The edge at `last` - 1 and those it knows of, without those that are not before sequence_.
    DENIZEN_HD void look(uint64_t last)
    {
        uint32_t behind = reach;
        while (behind == reach) { // ends: places fall until they are before sequence_
            head_ = last - 1;
            EarlierPayments before{};
            by_[0] = none;
            if (last != 0 && (head_ >= sequence_ || sequence_ - head_ <= view_.horizon)) {
                before = view_.edge(head_).before;
                by_[0] = 0;
            }
            const uint64_t too_near = head_ >= sequence_ ? head_ - sequence_ + 1 : 0;
            behind = by_[0] < too_near ? 1 : 0;
            for (uint32_t k = 1; k < reach; ++k) {
                by_[k] = before.by[k - 1] != 0 ? before.by[k - 1] : none;
                behind += by_[k] < too_near ? 1 : 0;
            }
            further_ = before.by[reach - 1];
            if (further_ == 0) {
                break;
            }
            last = head_ + 1 - further_;
        }
        for (uint32_t count = reach / 2; count > 0; count /= 2) {
            skip(count, (behind & count) != 0);
        }
        by_[0] = behind == reach ? none : by_[0];
    }

    // Takes the first `count` away, if `those`. A register has no address: all are moved.
    DENIZEN_HD void skip(uint32_t count, bool those)
    {
        for (uint32_t k = 0; k < reach; ++k) {
            const uint32_t from = k + count < reach ? by_[k + count] : none;
            by_[k] = those ? from : by_[k];
        }
    }

    const View& view_;
    uint64_t sequence_;
    uint64_t head_ = 0;    // an edge of the account
    uint32_t by_[reach]{}; // how far before it those lie that come next
    uint32_t further_ = 0; // and the one behind those; 0: there is none
};

} // namespace denizen::transactions
