// SPDX-License-Identifier: Apache-2.0
// What the three passes over a batch share: how they end, sums over lanes.
// A pass asks of its context only lanes, sync() and send() of alerts, and of `fails`, a call with
// the number of records that are done, whether to fail here: a drill (Drill in messages.hpp).
#pragma once

#include <denizen/base/lanes.hpp>
#include <denizen/transactions/messages.hpp>
#include <denizen/transactions/view.hpp>

namespace denizen::transactions {

enum class End {
    done,
    failed, // on the way, as `fails` had it
    full    // no room for a customer: to be done again, when there is
};

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
