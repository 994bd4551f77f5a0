// SPDX-License-Identifier: Apache-2.0
// The C++ face of the runtime.
//
//   denizen::Runtime<Counting> rt(denizen::Device::cpu());
//   auto counters = rt.spawn<Counter>(1000);
//   rt.send(counters[7], Tick{5});
//   Total t = rt.ask<Total>(counters[7], Ask{});
//
// In a file compiled by nvcc the program is compiled for the GPU and the CPU, else for the CPU
// only; Device::automatic() takes the best that is there.
#pragma once

#include <denizen/actor/any_runtime.hpp>
#include <denizen/actor/kernel.hpp>
#include <denizen/actor/ref.hpp>
#include <denizen/actor/telemetry.hpp>
#include <denizen/base/type_name.hpp>

#include <algorithm>
#include <cstring>

#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#endif

namespace denizen {

using namespace std::chrono_literals;

namespace detail {

// Where the references of a message type lie.
template <class M>
std::vector<uint32_t> buffer_offsets()
{
    std::vector<uint32_t> offsets(sizeof(M) / sizeof(BufferRef));
    uint32_t count = 0;
    if constexpr (refers<M>) {
        alignas(M) unsigned char bytes[sizeof(M)];
        std::fill_n(bytes, sizeof bytes, static_cast<unsigned char>(1)); // null ones are skipped
        count = list_refs(*reinterpret_cast<const M*>(bytes), offsets.data());
    }
    offsets.resize(count);
    return offsets;
}

template <class P>
struct Names;

template <class... A, class... M, class... T>
struct Names<Program<Actors<A...>, Messages<M...>, Tasks<T...>>> {
    static std::vector<std::string> actors() { return {std::string(type_name<A>())...}; }
    static std::vector<std::string> messages() { return {std::string(detail::type_name<M>())...}; }
    static std::vector<std::string> tasks() { return {std::string(type_name<T>())...}; }
    static std::vector<std::vector<uint32_t>> buffers() { return {buffer_offsets<M>()...}; }
};

#if defined(__CUDACC__)
template <class P>
__global__ void __launch_bounds__(P::most_threads, P::least_blocks)
    resident_kernel(const __grid_constant__ Shared shared)
{
    run_resident<P>(shared);
}
#endif

} // namespace detail

// The compiled program `P` for Runtime or AnyRuntime.
template <class P>
Image image_of()
{
    Image image;
    image.table = P::table();
    image.actors = detail::Names<P>::actors();
    image.messages = detail::Names<P>::messages();
    image.tasks = detail::Names<P>::tasks();
    image.buffers = detail::Names<P>::buffers();
    image.run_worker = [](const Shared& shared, uint32_t id) { run_worker<P>(shared, id); };
#if defined(__CUDACC__)
    image.kernel = []() -> void* {
        // Makes the runtime API use the context that is current, and loads the kernel now: lazy
        // loading beside a resident kernel would wait for it.
        cudaFunction_t function = nullptr;
        const cudaError_t error = cudaGetFuncBySymbol(
            &function, reinterpret_cast<const void*>(&detail::resident_kernel<P>));
        if (error != cudaSuccess) {
            throw Error(Errc::driver,
                        std::string("cudaGetFuncBySymbol: ") + cudaGetErrorString(error));
        }
        return function;
    };
#endif
    return image;
}

// What an actor has sent to the host.
template <class P>
struct Received : Message {
    std::string type; // its message type's name

    Address sender() const { return {header.sender}; }
    template <class M>
    bool is() const
    {
        static_assert(P::template message_id<M> != no_type, "not a message type of this program");
        return header.type == P::template message_id<M>;
    }
    // Throws Error: wrong_type (it is not an M).
    template <class M>
    M as() const
    {
        if (!is<M>()) {
            throw Error(Errc::wrong_type, "the message is a " + type + ", not a " +
                                              std::string(detail::type_name<M>()));
        }
        M message;
        std::memcpy(&message, payload.data(), sizeof(M));
        return message;
    }
};

template <class P>
class Runtime {
public:
    explicit Runtime(Device device = Device::automatic(), Options options = {})
        : runtime_(image_of<P>(), on(device, options))
    {
    }

    // Spawns `count` actors over all workers; they exist when the call returns.
    template <class A>
    std::vector<Address> spawn(uint32_t count, nanoseconds deadline = 10s)
    {
        static_assert(P::template actor_id<A> != no_type, "not an actor type of this program");
        return runtime_.spawn(P::template actor_id<A>, count, deadline);
    }
    template <class A>
    Address spawn(nanoseconds deadline = 10s)
    {
        return spawn<A>(1, deadline)[0];
    }
    // Near another actor, `near(x, Near::cluster)`, or `on_node(1)`.
    template <class A>
    std::vector<Address> spawn(uint32_t count, Placement where, nanoseconds deadline = 10s)
    {
        static_assert(P::template actor_id<A> != no_type, "not an actor type of this program");
        return runtime_.spawn(P::template actor_id<A>, count, where, deadline);
    }
    // One actor with a name, by which it is found: see AnyRuntime.
    template <class A>
    Address spawn(std::string_view name, nanoseconds deadline = 10s)
    {
        static_assert(P::template actor_id<A> != no_type, "not an actor type of this program");
        return runtime_.spawn(P::template actor_id<A>, name, deadline);
    }
    Address find(std::string_view name, nanoseconds deadline = 1s)
    {
        return runtime_.find(name, deadline);
    }
    std::vector<ActorListing> actors() { return runtime_.actors(); }
    void stop(Address actor, nanoseconds deadline = 1s) { runtime_.stop(actor, deadline); }

    // Life of actors: see AnyRuntime.
    template <class A>
    std::vector<Address> create(uint32_t count, nanoseconds deadline = 10s)
    {
        static_assert(P::template actor_id<A> != no_type, "not an actor type of this program");
        return runtime_.create(P::template actor_id<A>, count, deadline);
    }
    ActorStatus inspect(Address actor, nanoseconds deadline = 1s)
    {
        return runtime_.inspect(actor, deadline);
    }
    Life state(Address actor, nanoseconds deadline = 1s) { return inspect(actor, deadline).life; }
    void pause(Address actor, nanoseconds deadline = 1s) { runtime_.pause(actor, deadline); }
    void resume(Address actor, nanoseconds deadline = 1s) { runtime_.resume(actor, deadline); }
    void restart(Address actor, nanoseconds deadline = 1s) { runtime_.restart(actor, deadline); }
    void drain(Address actor, nanoseconds deadline = 1s) { runtime_.drain(actor, deadline); }
    void checkpoint(Address actor, nanoseconds deadline = 1s)
    {
        runtime_.checkpoint(actor, deadline);
    }
    void watch(Address watcher, Address watched, nanoseconds deadline = 1s)
    {
        runtime_.watch(watcher, watched, deadline);
    }
    void unwatch(Address watcher, Address watched, nanoseconds deadline = 1s)
    {
        runtime_.unwatch(watcher, watched, deadline);
    }
    Address supervise(const std::vector<Address>& children,
                      Strategy strategy = Strategy::one_for_one, RestartBudget budget = {},
                      nanoseconds deadline = 10s)
    {
        return runtime_.supervise(children.data(), children.size(), strategy, budget, deadline);
    }
    // Topics: see AnyRuntime.
    void subscribe(Address subscriber, std::string_view pattern, nanoseconds deadline = 1s)
    {
        runtime_.subscribe(subscriber, pattern, deadline);
    }
    void unsubscribe(Address subscriber, std::string_view pattern, nanoseconds deadline = 1s)
    {
        runtime_.unsubscribe(subscriber, pattern, deadline);
    }
    template <class M>
    uint32_t publish(std::string_view topic, const M& message, nanoseconds deadline = 1s)
    {
        return runtime_.publish(topic, id<M>(), &message, sizeof(M), deadline);
    }
    DeadLetters dead_letters() { return runtime_.dead_letters(); }

    // Throws Error: full, no_actor, wrong_type, closed, peer_dead.
    template <class M>
    void send(Address to, const M& message, nanoseconds deadline = 1s)
    {
        runtime_.send(to, id<M>(), &message, sizeof(M), deadline);
    }
    template <class M>
    void send_many(const Address* to, const M* messages, size_t count, nanoseconds deadline = 60s)
    {
        runtime_.send_many(to, false, id<M>(), messages, sizeof(M), sizeof(M), count, deadline);
    }
    template <class M>
    void send_many(Address to, const M* messages, size_t count, nanoseconds deadline = 60s)
    {
        runtime_.send_many(&to, true, id<M>(), messages, sizeof(M), sizeof(M), count, deadline);
    }
    template <class A, class M>
    void broadcast(const M& message, nanoseconds deadline = 1s)
    {
        runtime_.broadcast(P::template actor_id<A>, id<M>(), &message, sizeof(M), deadline);
    }

    // Throws Error: timeout, wrong_type (the reply is not an R), and what send throws.
    template <class R, class M>
    R ask(Address to, const M& message, nanoseconds deadline = 1s)
    {
        R reply;
        const Header h =
            runtime_.ask(to, id<M>(), &message, sizeof(M), &reply, sizeof(R), deadline);
        if (h.type != id<R>()) {
            throw Error(Errc::wrong_type, "the reply is a " + runtime_.image().messages[h.type] +
                                              ", not a " + runtime_.image().messages[id<R>()]);
        }
        return reply;
    }
    template <class R, class M>
    std::vector<R> ask_many(const std::vector<Address>& to, const M& message,
                            nanoseconds deadline = 10s)
    {
        std::vector<R> replies(to.size());
        runtime_.ask_many(to.data(), false, id<M>(), &message, sizeof(M), 0, to.size(), id<R>(),
                          replies.data(), sizeof(R), sizeof(R), deadline);
        return replies;
    }

    // The next message that an actor sent to the host. Throws Error: timeout, closed.
    Received<P> receive(nanoseconds deadline = 1s)
    {
        Message message = runtime_.receive(deadline);
        const std::string& type = runtime_.image().messages[message.header.type];
        return {std::move(message), type};
    }
    // For those who expect an M. Throws Error: wrong_type too; what came is lost then.
    template <class M>
    M receive(nanoseconds deadline = 1s)
    {
        return receive(deadline).template as<M>();
    }
    // Messages of type M that have arrived, at most `count`; does not wait.
    template <class M>
    size_t receive_many(M* messages, size_t count, Address* senders = nullptr)
    {
        return runtime_.receive_many(id<M>(), messages, sizeof(M), sizeof(M), count, senders);
    }

    // Memory that messages can refer to; see AnyRuntime.
    Buffer buffer(uint64_t bytes, BufferKind kind = BufferKind::device)
    {
        return runtime_.buffer(bytes, kind);
    }
    Buffer wrap(void* pointer, uint64_t bytes, std::shared_ptr<void> owner = {})
    {
        return runtime_.wrap(pointer, bytes, std::move(owner));
    }
    BufferStats buffers() { return runtime_.buffers(); }
    // For tasks and kernels on the same device, which send to a node's actors by it; see
    // AnyRuntime.
    ActorsRef<P> ref(uint32_t node = 0) const { return ActorsRef<P>(runtime_.gate(node)); }
    // What handlers have as ctx.arena(); see AnyRuntime.
    const Arena& arena(uint32_t node = 0) const { return runtime_.arena(node); }

    void drain(nanoseconds deadline = 60s) { runtime_.drain(deadline); }
    void pause(nanoseconds deadline = 1s) { runtime_.pause(deadline); }
    void resume() { runtime_.resume(); }
    void park(nanoseconds deadline = 1s) { runtime_.park(deadline); }
    bool parked() const { return runtime_.parked(); }
    Stats stats() { return runtime_.stats(); }
    void observe(bool on) { runtime_.observe(on); }
    Telemetry telemetry() { return runtime_.telemetry(); }
    void trace(bool on) { runtime_.trace(on); }
    Trace take_trace() { return runtime_.take_trace(); }
    std::string stuck(nanoseconds at_least = 1s) { return runtime_.stuck(at_least); }
    const Description& description() const { return runtime_.description(); }
    void migrate(Address actor, uint32_t worker, uint32_t node = 0, nanoseconds deadline = 10s)
    {
        runtime_.migrate(actor, worker, node, deadline);
    }
    void save(const std::string& path, nanoseconds deadline = 10s)
    {
        runtime_.save(path, deadline);
    }
    void save_actor(Address actor, const std::string& path, nanoseconds deadline = 10s)
    {
        runtime_.save_actor(actor, path, deadline);
    }
    void load_actor(Address actor, const std::string& path, nanoseconds deadline = 10s)
    {
        runtime_.load_actor(actor, path, deadline);
    }
    void close(nanoseconds timeout = 5s) { runtime_.close(timeout); }

    AnyRuntime& untyped() { return runtime_; }

    template <class M>
    static constexpr uint32_t id()
    {
        static_assert(P::template message_id<M> != no_type, "not a message type of this program");
        return P::template message_id<M>;
    }

private:
    static Options on(Device device, Options options)
    {
        options.device = device;
        return options;
    }

    AnyRuntime runtime_;
};

} // namespace denizen
