// SPDX-License-Identifier: Apache-2.0
// SIGSEGV, SIGTRAP and SIGBUS belong to the lens once there is a doorbell page; what the program
// sets for them is kept here and gets every signal that is not the lens's.
#pragma once

#include <signal.h>

namespace denizen::lens {

// Takes the three signals, once. `handle` returns whether the signal was the lens's own.
void take_signals(bool (*handle)(int, siginfo_t*, void*));

// The program's sigaction() for one of them; false: not one of them, or not taken yet.
bool program_sigaction(int signal, const struct sigaction* action, struct sigaction* old);

// A thread that blocks SIGSEGV would be killed by its next doorbell: takes the three out of a mask.
bool is_taken();
void remove_taken(sigset_t& set);

// The calling thread gets a stack for signals if it has none, which goes with it: doorbells are
// rung on small stacks too.
void give_alternate_stack();
void take_alternate_stack();

} // namespace denizen::lens
