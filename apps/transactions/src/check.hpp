// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace denizen::transactions {

// Errc::bad_argument, and what it should be.
void within(const std::string& what, uint64_t value, uint64_t least, uint64_t greatest);

} // namespace denizen::transactions
