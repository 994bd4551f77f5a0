// SPDX-License-Identifier: Apache-2.0
// Programs of handlers that are compiled at run time, by Python: denizen.handlers.
#include "bind.hpp"

#include "actor/handlers.hpp"
#include "library.hpp"

#include <dlfcn.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

// Initial state, alignment, overflow, restart_from, deadline_ns, invariant, spawned by handlers.
using ActorTuple = std::tuple<nb::bytes, uint32_t, uint32_t, uint32_t, uint64_t, uint64_t, bool>;
// Size, alignment, priority, offsets of references to buffers.
using MessageTuple = std::tuple<uint32_t, uint32_t, uint32_t, std::vector<uint32_t>>;
// Actor, message, address of the function.
using HandlerTuple = std::tuple<uint32_t, uint32_t, uint64_t>;
// Size, alignment, address of the function.
using TaskTuple = std::tuple<uint32_t, uint32_t, uint64_t>;

Image image_of(std::vector<std::string> actor_names, const std::vector<ActorTuple>& actors,
               std::vector<std::string> message_names, const std::vector<MessageTuple>& messages,
               const std::vector<HandlerTuple>& handlers, const std::vector<TaskTuple>& tasks,
               std::optional<uint32_t> task_failed, bool full, bool watches, bool allocates)
{
    if (tasks.size() > max_task_types) {
        throw Error(Errc::bad_argument, std::to_string(tasks.size()) +
                                            " task types; a program has at most " +
                                            std::to_string(max_task_types));
    }
    if (actors.empty() || actors.size() > max_actor_types || messages.size() > max_message_types) {
        throw Error(Errc::bad_argument, std::to_string(actors.size()) + " actor types and " +
                                            std::to_string(messages.size()) +
                                            " message types; a program has 1 to " +
                                            std::to_string(max_actor_types) + " and at most " +
                                            std::to_string(max_message_types));
    }
    auto table = std::make_shared<HandlerTable>();
    ProgramTable& program = table->program;
    program.abi = layout_abi;
    program.actors = static_cast<uint32_t>(actors.size());
    program.messages = static_cast<uint32_t>(messages.size());
    program.down = watches ? 0 : no_type;
    program.allocates = allocates ? 1 : 0;
    program.tasks = static_cast<uint32_t>(tasks.size());
    program.task_failed = task_failed.value_or(no_type);
    for (uint32_t n = 0; n < program.tasks; ++n) {
        const auto& [size, align, function] = tasks[n];
        if (size > max_task_bytes) {
            throw Error(Errc::bad_argument, "a task of " + std::to_string(size) +
                                                " bytes; the limit is " +
                                                std::to_string(max_task_bytes));
        }
        program.task[n] = {size, align, static_cast<uint32_t>(Grain::thread), 0};
        table->task[n] = reinterpret_cast<HandlerTable::Task>(function);
    }
    table->full = full;
    for (uint32_t a = 0; a < program.actors; ++a) {
        const auto& [initial, align, overflow, restart_from, deadline_ns, invariant, spawned] =
            actors[a];
        const auto* bytes = reinterpret_cast<const std::byte*>(initial.c_str());
        table->initial[a].assign(bytes, bytes + initial.size());
        table->deadline_ns[a] = deadline_ns;
        table->invariant[a] = reinterpret_cast<HandlerTable::Invariant>(invariant);
        program.actor[a] = {static_cast<uint32_t>(initial.size()),
                            align,
                            static_cast<uint32_t>(Grain::thread),
                            overflow,
                            restart_from,
                            spawned ? 1u : 0u};
    }
    for (uint32_t m = 0; m < program.messages; ++m) {
        const auto& [size, align, priority, buffers] = messages[m];
        program.message[m] = {size, align, priority, 0};
        program.max_message = std::max(program.max_message, size);
        table->buffers[m] = buffers;
    }
    for (const auto& [actor, message, function] : handlers) {
        table->handler[actor][message] = reinterpret_cast<HandlerTable::Handler>(function);
        program.handles[actor][message / 64] |= uint64_t{1} << message % 64;
    }
    return handlers_image(std::move(table), std::move(actor_names), std::move(message_names));
}

} // namespace

void handlers(nb::module_& m)
{
    m.def("handlers_image", &image_of);
    // Addresses in a compiled library, by name: of what handlers call, and of pointers to them.
    m.def("library_symbols", [](const nb::bytes& library, const std::vector<std::string>& names) {
        void* handle = load_code(library, "the compiled program");
        nb::dict out;
        for (const std::string& name : names) {
            void* there = dlsym(handle, name.c_str());
            if (there == nullptr) {
                throw Error(Errc::compile, "the compiled library has no " + name);
            }
            out[name.c_str()] = reinterpret_cast<uint64_t>(there);
        }
        return out;
    });
    // The same for a program without a library.
    m.def("handler_calls", [](bool full) {
        nb::dict out;
        for (const auto& [name, function] : handler_calls(full)) {
            out[name] = reinterpret_cast<uint64_t>(function);
        }
        for (const auto& [name, function] : collective_calls()) {
            out[name] = reinterpret_cast<uint64_t>(function);
        }
        return out;
    });
}

} // namespace denizen::bind
