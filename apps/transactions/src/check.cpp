// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

#include <denizen/base/error.hpp>
#include <denizen/transactions/stage.hpp>

namespace denizen::transactions {

void within(const std::string& what, uint64_t value, uint64_t least, uint64_t greatest)
{
    if (value < least || value > greatest) {
        throw Error(Errc::bad_argument, what + " = " + std::to_string(value) + "; use " +
                                            std::to_string(least) + " to " +
                                            std::to_string(greatest));
    }
}

void check(const Rules& r)
{
    constexpr uint64_t money = most / 128; // so that no product overflows
    within("amount_limit", r.amount_limit, 1, money);
    within("exposed_limit", r.exposed_limit, 1, money);
    within("dormant_amount", r.dormant_amount, 0, most);
    within("dormant_ms", r.dormant_ms, 1, most);
    within("velocity_window_ms", r.velocity_window_ms, 1, most);
    within("circular_window_ms", r.circular_window_ms, 1, most);
    within("circular_amount", r.circular_amount, 0, most);
    within("lateness_ms", r.lateness_ms, 0, most);
    within("velocity_limit", r.velocity_limit, 1, history - 1);
    within("structuring_percent", r.structuring_percent, 1, 100);
    within("structuring_velocity", r.structuring_velocity, 1, history);
    within("circular_hops", r.circular_hops, 2, 4);
    within("circular_percent", r.circular_percent, 0, 100);
    if ((r.enabled & ~all_rules) != 0) {
        throw Error(Errc::bad_argument, "enabled has bits beyond those of rules 1 to 7");
    }
}

void check(const Profile& p)
{
    const std::string of = " of customer " + std::to_string(p.customer);
    if (p.customer == no_customer) {
        throw Error(Errc::bad_argument, "a profile's customer is 2^64 - 1, which is nobody's");
    }
    within("amount_limit" + of, p.amount_limit, 0, most / 128);
    within("exposed_limit" + of, p.exposed_limit, 0, most / 128);
    within("dormant_ms" + of, p.dormant_ms, 0, most);
    within("velocity_limit" + of, p.velocity_limit, 0, history - 1);
    within("flags" + of, p.flags, 0, exposed_person | enhanced_diligence);
}

} // namespace denizen::transactions
