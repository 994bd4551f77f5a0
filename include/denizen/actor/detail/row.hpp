// SPDX-License-Identifier: Apache-2.0
// The messages that a lane handles in a row: all of it is in registers, and on the stack while a
// handler calls what is compiled elsewhere (on_stack.hpp).
#pragma once

#include <denizen/actor/detail/handover.hpp>
#include <denizen/base/on_stack.hpp>

namespace denizen::detail {

struct Row {
    Words now{};   // the message that is handled,
    ActorEntry of; // and its actor
    Handover next; // what it has sent to this worker, if that is handled next
};

// A worker's row, as the handlers' contexts know it, and its one place on the stack.
struct RowRef {
    Row* row = nullptr; // none: messages are handled one by one
    OnStack<Row>* away = nullptr;
};

// What is left to do for a batch.
struct Turns {
    uint32_t left = 0;   // messages that may be handled before the worker looks around further,
    uint32_t handed = 0; // and of these, handed over and handled
    uint32_t from = 0;   // where the batch was taken
    uint32_t n = 0;      // in how many lanes it has a message
    uint32_t rank = 0;   // and which of those to the same actor this lane's is
    bool mine = false;   // this lane has one,
    bool turn = false;   // which is handled now,
    bool todo = false;   // or later,
    bool waits = false;  // or has to wait
};

} // namespace denizen::detail
