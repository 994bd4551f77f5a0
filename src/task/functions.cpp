// SPDX-License-Identifier: Apache-2.0
#include "functions.hpp"

#include <denizen/base/error.hpp>
#include <denizen/task/kernel.hpp>

#include <cstring>

namespace denizen::task {
namespace {

// A worker's thread runs one program: this is how its tasks are found.
thread_local const Functions* functions = nullptr;

// A task as these functions hand it in.
struct Given {
    uint32_t type;
    const void* bytes;
};

} // namespace

namespace detail {

template <>
inline constexpr uint32_t bytes_of<Given> = max_arguments;

} // namespace detail

namespace {

// What Program<...> is to programs that are compiled. Every task runs on one thread.
struct TableProgram {
    static constexpr uint32_t classes = 3; // one for each priority
    static constexpr uint32_t slot = 64;
    static constexpr bool has_blocks = false;
    static constexpr bool has_warps = false;
    static constexpr bool has_threads = true;
    using Words = task::Words<slot>;

    static constexpr Grain grain_of_class(uint32_t) { return Grain::thread; }
    static constexpr uint32_t steal_order(uint32_t rank) { return rank; }
    static bool self_contained(uint32_t) { return false; }

    static Words encode(const Given& given, uint32_t group)
    {
        Words w{};
        w.word[0] = header(given.type, group, functions->table.class_of[given.type]);
        std::memcpy(w.word + 1, given.bytes, functions->table.size[given.type]);
        return w;
    }

    template <Grain G, class C>
    static void run(const Words& words, C& context)
    {
        if constexpr (G == Grain::thread) {
            alignas(8) unsigned char copy[48] = {};
            std::memcpy(copy, words.word + 1, max_arguments);
            context.template begin<Given>();
            functions->run[type_of(words.word[0])](copy, &context);
        }
    }
};

// What tasks call. Types come by their numbers.
struct Calls {
    using C = Context<TableProgram>;
    static C& of(void* context) { return *static_cast<C*>(context); }

    static uint32_t spawn(void* context, uint32_t type, const void* task)
    {
        return of(context).spawn(Given{type, task}) == Errc::ok;
    }
    static uint32_t spawn_on(void* context, uint32_t worker, uint32_t type, const void* task)
    {
        return of(context).spawn_on(worker, Given{type, task}) == Errc::ok;
    }
    static uint32_t when(void* context, uint32_t arrivals, uint32_t type, const void* task)
    {
        return of(context).when_raw(arrivals, Given{type, task}, functions->sum_at[type]).index;
    }
    static void arrive(void* context, uint32_t counter, uint64_t value)
    {
        of(context).arrive({counter}, value);
    }
    static void set(void* context, uint64_t promise, uint64_t value)
    {
        of(context).set(
            Promise<uint64_t>{static_cast<uint32_t>(promise), static_cast<uint32_t>(promise >> 32)},
            value);
    }
    static uint32_t cancelled(void* context) { return of(context).cancelled(); }
    static void cancel(void* context) { of(context).cancel(); }
    static void* allocate(void* context, uint64_t bytes)
    {
        return of(context).arena().allocate(bytes);
    }
    static void free(void* context, void* block) { of(context).arena().deallocate(block); }
    static uint32_t worker(void* context) { return of(context).worker(); }
    static uint32_t workers(void* context) { return of(context).workers(); }
    static uint32_t lane(void*) { return 0; }
    static uint32_t lanes(void*) { return 1; }
    static void sync(void*) {}
};

} // namespace

Image functions_image(const std::vector<Function>& tasks)
{
    if (tasks.empty() || tasks.size() > max_types) {
        throw Error(Errc::bad_argument, std::to_string(tasks.size()) +
                                            " task types; a program has 1 to " +
                                            std::to_string(max_types));
    }
    auto made = std::make_shared<Functions>();
    Image image;
    made->table.types = static_cast<uint32_t>(tasks.size());
    made->table.classes = TableProgram::classes;
    made->table.slot = TableProgram::slot;
    for (uint32_t i = 0; i < tasks.size(); ++i) {
        const Function& t = tasks[i];
        if (t.run == nullptr || t.size > max_arguments) {
            throw Error(Errc::bad_argument, "task " + t.name + " has no function, or more than " +
                                                std::to_string(max_arguments) + " bytes");
        }
        made->table.class_of[i] = static_cast<uint32_t>(t.priority);
        made->table.size[i] = t.size;
        made->run[i] = t.run;
        if (t.sum_bytes != 0) {
            made->sum_at[i] = Context<TableProgram>::sum_place(t.sum_offset, t.sum_bytes);
        }
        image.names.push_back(t.name);
    }
    image.table = made->table;
    image.run_thread = &run_thread<TableProgram>;
    image.functions = std::move(made);
    return image;
}

void use_functions(const Functions* given) { functions = given; }

std::vector<std::pair<const char*, void*>> task_calls()
{
    using C = Calls;
    const auto entry = [](const char* name, auto* function) {
        return std::pair{name, reinterpret_cast<void*>(function)};
    };
    return {
        entry("spawn", &C::spawn),     entry("spawn_on", &C::spawn_on),
        entry("when", &C::when),       entry("arrive", &C::arrive),
        entry("set", &C::set),         entry("cancelled", &C::cancelled),
        entry("cancel", &C::cancel),   entry("allocate", &C::allocate),
        entry("free", &C::free),       entry("worker", &C::worker),
        entry("workers", &C::workers), entry("lane", &C::lane),
        entry("lanes", &C::lanes),     entry("sync", &C::sync),
    };
}

} // namespace denizen::task
