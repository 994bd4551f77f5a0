// SPDX-License-Identifier: Apache-2.0
// Errors of the running program: counted, and the first of each kind kept for the host.
#pragma once

#include <denizen/base/error.hpp>
#include <denizen/resident/layout.hpp>

namespace denizen {

// Keeps the first error of a kind, for the host.
DENIZEN_COLD inline void keep_first(FirstError& first, const ErrorRecord& record)
{
    uint32_t none = load<Scope::gpu>(&first.set); // all workers' failures meet at this word
    if (none == 0 && compare_exchange<Scope::gpu>(&first.set, none, 1u)) {
        first.record = record;
        // Release: partner of the monitor's acquire in scan().
        store<Scope::gpu, Order::release>(&first.set, 2u);
    }
}

DENIZEN_COLD inline void report_error(const Shared& s, const ErrorRecord& record)
{
    fetch_add<Scope::gpu>(&s.board->errors, uint64_t{1});
    keep_first(s.board->first, record);
}

} // namespace denizen
