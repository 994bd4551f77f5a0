// SPDX-License-Identifier: Apache-2.0
// What the three passes over a batch share: how they end, how they read records, sums over lanes.
// A pass asks of its context only lanes, sync() and send() of alerts, and of `fails`, a call with
// the number of records that are done, whether to fail here: a drill (Drill in messages.hpp).
#pragma once

#include <denizen/base/lanes.hpp>
#include <denizen/transactions/country.hpp>
#include <denizen/transactions/messages.hpp>

namespace denizen::transactions {

enum class End {
    done,
    failed, // on the way, as `fails` had it
    full    // no room for a customer: to be done again, when there is
};

// The half of a record that is looked at; the rest is not set. On a GPU by words of 16 bytes.
DENIZEN_HD inline Transaction read_record(const void* from)
{
    Transaction t;
#if DENIZEN_ON_DEVICE
    Unit units[4];
    for (uint32_t k = 0; k < 4; ++k) {
        units[k] = static_cast<const Unit*>(from)[k];
    }
    copy_bytes(&t, units, sizeof units);
#else
    copy_bytes(&t, from, sizeof(Staged));
#endif
    return t;
}
DENIZEN_HD inline Transaction record_of(Book& book, uint32_t batch, uint32_t i)
{
    return book.geometry.staged != 0 ? read_record(&book.staged(batch)[i])
                                     : read_record(&book.flight(batch).records[i]);
}

DENIZEN_HD inline uint32_t country_of(const Book& book, const Transaction& t)
{
    return t.country < country_codes ? book.bits[t.country] : other_countries;
}

// Inclusive sum over the lanes.
DENIZEN_HD inline uint32_t scan(uint32_t value)
{
    for (uint32_t step = 1; step < lanes::size; step *= 2) {
        const uint32_t other =
            lanes::shuffle(value, (lanes::id() + lanes::size - step) % lanes::size);
        value += lanes::id() >= step ? other : 0;
    }
    return value;
}

} // namespace denizen::transactions
