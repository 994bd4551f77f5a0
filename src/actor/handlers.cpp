// SPDX-License-Identifier: Apache-2.0
#include "handlers.hpp"

#include <denizen/actor/kernel.hpp>

#include <cstring>

namespace denizen {
namespace {

// A worker's thread runs one program: this is how its handlers are found. Not of the model
// initial-exec, which spares a call for each message: with it the whole module must find room in
// what the loader has set aside for static TLS, and `import denizen` failed where it was used up.
thread_local const HandlerTable* table = nullptr;

// What Program<Actors<...>, Messages<...>> is to programs that are compiled.
template <bool Full>
struct TableProgram {
    template <class T>
    static constexpr uint32_t message_id = Full && detail::same<T, Down> ? 0 : no_type;
    static constexpr bool has_buffers = Full;
    static constexpr bool has_long_messages = true;
    static constexpr bool has_urgent = Full;
    static constexpr bool has_warp_actors = false; // a worker is one thread
    static constexpr bool has_whole_actors = false;
    static constexpr bool all_whole_actors = false;
    static constexpr bool has_blocks = false;
    static constexpr bool can_fail = Full;
    static constexpr bool has_deadlines = Full;
    static constexpr bool has_checkpoints = Full;
    static constexpr bool drops_oldest = Full;
    static constexpr bool allocates = Full;
    static constexpr bool has_overflow_policies = Full;
    static constexpr bool has_tasks = Full;
    static constexpr bool has_whole_tasks = false;

    static Overflow overflow(uint32_t actor)
    {
        return static_cast<Overflow>(table->program.actor[actor].overflow);
    }
    static Grain grain(uint32_t) { return Grain::thread; }
    static Grain task_grain(uint32_t) { return Grain::thread; }

    static void construct(uint32_t actor, void* state)
    {
        const std::vector<std::byte>& bytes = table->initial[actor];
        std::memcpy(state, bytes.data(), bytes.size());
    }

    static void begin(uint32_t actor, void* state, const void* given)
    {
        const ActorInfo& info = table->program.actor[actor];
        std::memcpy(state, given, info.size);
        if (info.restart == static_cast<uint32_t>(RestartFrom::snapshot)) {
            *checkpoint_word(state, info.size) = 0;
        }
    }

    static uint32_t failure(uint32_t actor, const void* state, uint64_t taken_ns)
    {
        const uint64_t deadline = table->deadline_ns[actor];
        if (deadline != 0 && taken_ns > deadline) {
            return failed_deadline;
        }
        const HandlerTable::Invariant holds = table->invariant[actor];
        return holds != nullptr && holds(state) == 0 ? failed_invariant : 0;
    }

    static bool checkpoint(uint32_t actor, void* state) { return copy_state(actor, state, true); }
    static bool restore(uint32_t actor, void* state) { return copy_state(actor, state, false); }

    static bool dispatch(uint32_t actor, uint32_t message, void* state, const void* payload,
                         Context<TableProgram>& context)
    {
        const HandlerTable::Handler handler = table->handler[actor][message];
        if (handler == nullptr) {
            return false;
        }
        if (table->program.message[message].size <= first_payload) {
            // Read word by word, as it may have been written, and written as it will be read: a
            // load of what two stores have written waits until these are in the cache.
            const auto* words = static_cast<const volatile uint32_t*>(payload);
            constexpr uint32_t n = first_payload / 4;
            uint64_t copy[(n + 1) / 2];
            for (uint32_t i = 0; i < n / 2; ++i) {
                const uint64_t low = words[2 * i];
                copy[i] = low | uint64_t{words[2 * i + 1]} << 32;
            }
            copy[n / 2] = words[n - 1];
            handler(state, copy, &context);
        } else {
            handler(state, payload, &context);
        }
        return true;
    }

    static uint32_t task_failed() { return table->program.task_failed; }
    static void run_task(uint32_t task, const uint32_t* words, TaskContext<TableProgram>& context)
    {
        uint64_t copy[max_task_bytes / 8];
        std::memcpy(copy, words, sizeof copy);
        table->task[task](copy, context.untyped());
    }

    static void keep_buffers(const Shared& s, uint32_t message, const void* payload)
    {
        each_buffer(message, payload,
                    [&](BufferRef ref) { detail::add_reference(s.buffers, s.buffer_count, ref); });
    }
    static void drop_buffers(const Shared& s, uint32_t message, const void* payload)
    {
        each_buffer(message, payload,
                    [&](BufferRef ref) { detail::drop_reference(s.buffers, s.buffer_count, ref); });
    }

    static Overflow policy_of(const Shared& s, Address to)
    {
        if constexpr (!Full) {
            return Overflow::wait;
        }
        if (to.node() != s.node) {
            return to.node() < s.nodes ? Overflow::of_peer : Overflow::wait;
        }
        if (to.worker() < s.workers && to.local() < s.actors_per_worker) {
            const ActorEntry* entry =
                s.actors + static_cast<uint64_t>(to.worker()) * s.actors_per_worker + to.local();
            const uint32_t kind = load<Scope::gpu>(&entry->kind);
            const uint32_t type = (kind & 0xff) - 1; // of a supervisor, none of the table's
            return type < table->program.actors ? overflow(type) : Overflow::wait;
        }
        return Overflow::wait;
    }

private:
    template <class Use>
    static void each_buffer(uint32_t message, const void* payload, const Use& use)
    {
        for (const uint32_t at : table->buffers[message]) {
            BufferRef ref;
            std::memcpy(&ref, static_cast<const unsigned char*>(payload) + at, sizeof ref);
            if (ref) {
                use(ref);
            }
        }
    }

    // As Program's.
    static uint32_t* checkpoint_word(void* state, uint32_t size)
    {
        return reinterpret_cast<uint32_t*>(static_cast<unsigned char*>(state) +
                                           2 * checkpoint_offset(size));
    }
    static bool copy_state(uint32_t actor, void* state, bool out)
    {
        const ActorInfo& info = table->program.actor[actor];
        if (info.restart != static_cast<uint32_t>(RestartFrom::snapshot)) {
            return false;
        }
        auto* kept = static_cast<unsigned char*>(state) + checkpoint_offset(info.size);
        auto* there = checkpoint_word(state, info.size);
        if (!out && *there == 0) {
            return false;
        }
        std::memcpy(out ? kept : state, out ? state : kept, info.size);
        *there = 1;
        return true;
    }
};

template <bool Full>
void run(const Shared& shared, uint32_t id)
{
    run_worker<TableProgram<Full>>(shared, id);
}

// What handlers call. Messages come with their type's number.
template <bool Full>
struct Calls {
    using C = Context<TableProgram<Full>>;
    static C& of(void* context) { return *static_cast<C*>(context); }

    static uint32_t send(void* context, uint32_t to, uint32_t type, const void* message)
    {
        const MessageInfo& info = table->program.message[type];
        const auto priority = static_cast<Priority>(info.priority);
        return of(context).send_raw(Address{to}, type, info.size, priority, message);
    }
    // Of a message that has at most 36 bytes and no buffers, which the compiler has seen to.
    static uint32_t send_later(void* context, uint64_t ns, uint32_t repeats, uint32_t to,
                               uint32_t type, const void* message)
    {
        const MessageInfo& info = table->program.message[type];
        const uint64_t every_ns = repeats == 0 ? 0 : static_cast<int64_t>(ns) > 0 ? ns : 1;
        return of(context)
            .send_later_raw(ns, every_ns, Address{to}, type, info.size,
                            static_cast<Priority>(info.priority), message)
            .value;
    }
    // A worker of the CPU has one lane.
    static uint32_t send_each(void* context, uint32_t to, uint32_t mine, uint32_t type,
                              const void* message)
    {
        return mine == 0 ? 1 : send(context, to, type, message);
    }
    static uint32_t spawn(void* context, uint32_t type, const void* state)
    {
        return of(context).spawn_raw(type, state).value;
    }
    static uint32_t spawn_task(void* context, uint32_t type, const void* task)
    {
        return of(context).spawn_task_raw(type, table->program.task[type].size, task);
    }
    static void* allocate(void* context, uint64_t bytes)
    {
        return of(context).arena().allocate(bytes);
    }
    static void free(void* context, void* block) { of(context).arena().deallocate(block); }
    static void fence(void* context) { of(context).fence(); }
    static uint32_t cancel(void* context, uint32_t timer) { return of(context).cancel({timer}); }
    static uint32_t publish(void* context, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3,
                            uint32_t type, const void* message)
    {
        const MessageInfo& info = table->program.message[type];
        const auto priority = static_cast<Priority>(info.priority);
        return of(context).publish_raw(TopicKey{{w0, w1, w2, w3}}, nullptr, type, info.size,
                                       priority, message);
    }
    static uint32_t publish_long(void* context, const void* topic, uint32_t type,
                                 const void* message)
    {
        const MessageInfo& info = table->program.message[type];
        const auto& given = *static_cast<const LongTopic*>(topic);
        const auto priority = static_cast<Priority>(info.priority);
        return of(context).publish_raw(given.key, given.text, type, info.size, priority, message);
    }
    static void subscribe(void* context, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
    {
        of(context).subscribe(pattern(w0, w1, w2, w3));
    }
    static void unsubscribe(void* context, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
    {
        of(context).unsubscribe(pattern(w0, w1, w2, w3));
    }
    static void stop(void* context, uint32_t actor) { of(context).stop({actor}); }
    static void pause(void* context, uint32_t actor) { of(context).pause({actor}); }
    static void resume(void* context, uint32_t actor) { of(context).resume({actor}); }
    static void restart(void* context, uint32_t actor) { of(context).restart({actor}); }
    static void drain(void* context, uint32_t actor) { of(context).drain({actor}); }
    static void watch(void* context, uint32_t actor) { of(context).watch({actor}); }
    static void unwatch(void* context, uint32_t actor) { of(context).unwatch({actor}); }
    static void fail(void* context, uint32_t code) { of(context).fail(code); }
    static void checkpoint(void* context) { of(context).checkpoint(); }
    // The address of a buffer's memory, 0 if it is gone; its bytes go to `bytes`.
    static void* data(void* context, uint64_t ref, uint32_t align, uint64_t* bytes)
    {
        switch (align) {
        case 1: return span(of(context).template data<uint8_t>({ref}), bytes);
        case 2: return span(of(context).template data<uint16_t>({ref}), bytes);
        case 4: return span(of(context).template data<uint32_t>({ref}), bytes);
        default: return span(of(context).template data<uint64_t>({ref}), bytes);
        }
    }
    static uint32_t keep(void* context, uint64_t ref) { return of(context).keep({ref}); }
    static void release(void* context, uint64_t ref) { of(context).release({ref}); }
    static uint32_t self(void* context) { return of(context).self().value; }
    static uint32_t sender(void* context) { return of(context).sender().value; }
    static uint32_t worker(void* context) { return of(context).worker(); }
    static uint32_t workers(void* context) { return of(context).workers(); }
    static uint32_t node(void* context) { return of(context).node(); }
    static uint32_t lane(void*) { return 0; }
    static uint32_t lanes(void*) { return 1; }
    static void sync(void*) {}
    static uint64_t now_ns(void* context) { return of(context).now_ns(); }

private:
    static TopicPattern pattern(uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
    {
        TopicPattern p;
        p.key = TopicKey{{w0, w1, w2, w3}};
        return p;
    }
    template <class T>
    static void* span(const BufferSpan<T>& found, uint64_t* bytes)
    {
        *bytes = found.size() * sizeof(T);
        return found.data;
    }
};

template <bool Full>
std::vector<std::pair<const char*, void*>> list()
{
    using C = Calls<Full>;
    const auto entry = [](const char* name, auto* function) {
        return std::pair{name, reinterpret_cast<void*>(function)};
    };
    std::vector<std::pair<const char*, void*>> all{
        entry("send", &C::send),
        entry("publish", &C::publish),
        entry("publish_long", &C::publish_long),
        entry("subscribe", &C::subscribe),
        entry("unsubscribe", &C::unsubscribe),
        entry("stop", &C::stop),
        entry("pause", &C::pause),
        entry("resume", &C::resume),
        entry("restart", &C::restart),
        entry("drain", &C::drain),
        entry("unwatch", &C::unwatch),
        entry("self", &C::self),
        entry("sender", &C::sender),
        entry("worker", &C::worker),
        entry("workers", &C::workers),
        entry("node", &C::node),
        entry("lane", &C::lane),
        entry("lanes", &C::lanes),
        entry("sync", &C::sync),
        entry("now_ns", &C::now_ns),
        entry("send_later", &C::send_later),
        entry("cancel", &C::cancel),
        entry("send_each", &C::send_each),
        entry("spawn", &C::spawn),
        entry("fence", &C::fence),
    };
    if constexpr (Full) {
        all.push_back(entry("watch", &C::watch));
        all.push_back(entry("fail", &C::fail));
        all.push_back(entry("checkpoint", &C::checkpoint));
        all.push_back(entry("data", &C::data));
        all.push_back(entry("keep", &C::keep));
        all.push_back(entry("release", &C::release));
        all.push_back(entry("spawn_task", &C::spawn_task));
        all.push_back(entry("allocate", &C::allocate));
        all.push_back(entry("free", &C::free));
    }
    return all;
}

} // namespace

Image handlers_image(std::shared_ptr<const HandlerTable> given, std::vector<std::string> actors,
                     std::vector<std::string> messages)
{
    const ProgramTable& program = given->program;
    for (uint32_t a = 0; a < program.actors; ++a) {
        for (uint32_t m = 0; m < program.messages; ++m) {
            if (program.can_handle(a, m) != (given->handler[a][m] != nullptr)) {
                throw Error(Errc::bad_argument,
                            "actor " + actors[a] + " has no function for " + messages[m]);
            }
        }
    }
    for (uint32_t n = 0; n < program.tasks; ++n) {
        if (given->task[n] == nullptr) {
            throw Error(Errc::bad_argument, "task " + std::to_string(n) + " has no function");
        }
    }
    Image image;
    image.table = program;
    image.run_worker = given->full ? &run<true> : &run<false>;
    image.actors = std::move(actors);
    image.messages = std::move(messages);
    image.handlers = std::move(given);
    return image;
}

void use_handlers(const HandlerTable* given) { table = given; }

std::vector<std::pair<const char*, void*>> handler_calls(bool full)
{
    return full ? list<true>() : list<false>();
}

} // namespace denizen
