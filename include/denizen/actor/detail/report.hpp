// SPDX-License-Identifier: Apache-2.0
// Errors of the running program: counted, and the first of each kind kept for the host.
#pragma once

#include <denizen/actor/detail/layout.hpp>
#include <denizen/base/errc.hpp>

namespace denizen {

// Keeps the first error of a kind, for the host.
DENIZEN_COLD inline void keep_first(FirstError& first, const ErrorRecord& record)
{
    uint32_t none = 0;
    if (compare_exchange<Scope::gpu>(&first.set, none, 1u)) {
        first.record = record;
        // Release: partner of the monitor's acquire in scan().
        store<Scope::gpu, Order::release>(&first.set, 2u);
    }
}

// In line: whether one is kept already can be asked beside what the caller waits for.
DENIZEN_HD inline void report_error(const Shared& s, const ErrorRecord& record)
{
    Board& board = *s.board;
    add_global(&board.errors, 1);
    if (load<Scope::gpu>(&board.first.set) == 0) { // all workers' failures meet at this word
        const ErrorRecord kept = record; // a copy: what a call gets by reference is in local memory
        keep_first(board.first, kept);
    }
}

} // namespace denizen
