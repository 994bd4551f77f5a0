// SPDX-License-Identifier: Apache-2.0
// Programs on CPU threads whose handlers are functions that are given at run time, such as those
// that Numba compiles (python/denizen/handlers). What a compiler would know of their actors and
// messages is a table here, so no C++ compiler is needed where they run.
//
// A handler gets its state, the message and its context, which it hands to the functions of
// handler_calls(): they do what Context does. Of a short message 36 bytes can be read, aligned to
// 8; so must they be of one that it sends.
#pragma once

#include <denizen/actor/any_runtime.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace denizen {

struct HandlerTable {
    using Handler = void (*)(void* state, const void* message, void* context);
    using Invariant = uint32_t (*)(const void* state); // 0: it does not hold
    using Task = void (*)(const void* task, void* context);

    ProgramTable program{};
    Handler handler[max_actor_types][max_message_types] = {};
    Invariant invariant[max_actor_types] = {};
    Task task[max_task_types] = {};
    uint64_t deadline_ns[max_actor_types] = {};      // 0: none
    std::vector<std::byte> initial[max_actor_types]; // state of a new actor
    std::vector<uint32_t> buffers[max_message_types];
    // Whether anything is declared that costs each message a little: failures, deadlines,
    // checkpoints, policies, urgent messages, buffers, watches, tasks. Down is then message 0 or
    // none.
    bool full = false;
};

// The table must be complete: it stays as it is. Errc::bad_argument names a handler without a
// function.
Image handlers_image(std::shared_ptr<const HandlerTable> table, std::vector<std::string> actors,
                     std::vector<std::string> messages);

// Whose handlers the workers on this thread run from now on; null for none. For the backend.
void use_handlers(const HandlerTable* table);

// What handlers call, by name: C functions whose first argument is the context.
std::vector<std::pair<const char*, void*>> handler_calls(bool full);

} // namespace denizen
