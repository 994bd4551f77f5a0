// SPDX-License-Identifier: Apache-2.0
// The fault handler: accesses to shadow pages are performed on the real page.
#pragma once

#include <signal.h>

namespace denizen::lens {

// SIGSEGV, SIGBUS or SIGTRAP; false if it is not the lens's.
bool on_fault(int signal, siginfo_t* info, void* context);

} // namespace denizen::lens
