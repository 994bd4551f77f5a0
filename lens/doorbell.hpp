// SPDX-License-Identifier: Apache-2.0
// What is logged at a doorbell: the entries that a channel's GP_PUT has passed since the last one,
// and in full mode the pushbuffer segments that they name. Runs in the fault handler, before the
// store.
#pragma once

#include "instruction.hpp"
#include "pages.hpp"

namespace denizen::lens {

// At registers `at` `token` was about to be stored; `none` for a store whose value could not be
// seen.
void log_doorbell(const Page& page, uint32_t token, const Registers& at);

} // namespace denizen::lens
