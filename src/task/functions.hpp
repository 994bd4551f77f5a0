// SPDX-License-Identifier: Apache-2.0
// Programs of tasks on CPU threads whose tasks are functions that are given at run time, such as
// those that Numba compiles (python/denizen/handlers): as actor/handlers.hpp for actors. A function
// gets its task, aligned to 8 and of 48 readable bytes, and its context, which it hands to the
// functions of task_calls().
#pragma once

#include <denizen/task/task_runtime.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace denizen::task {

struct Functions {
    using Run = void (*)(const void* task, void* context);

    Table table{};
    Run run[max_types] = {};
    uint32_t sum_at[max_types] = {}; // Context::sum_place() of a member `sum`, 0: it has none
};

// One type of tasks.
struct Function {
    std::string name;
    uint32_t size = 0;
    Priority priority = Priority::normal;
    uint32_t sum_offset = 0;
    uint32_t sum_bytes = 0; // 0: it has no member `sum`
    Functions::Run run = nullptr;
};

// Errc::bad_argument for more types than there may be, or one without a function.
Image functions_image(const std::vector<Function>& tasks);

// Whose tasks the worker on this thread runs from now on; null for none. For the backend.
void use_functions(const Functions* functions);

// What tasks call, by name: C functions whose first argument is the context.
std::vector<std::pair<const char*, void*>> task_calls();

} // namespace denizen::task
