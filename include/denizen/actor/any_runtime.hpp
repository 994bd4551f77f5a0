// SPDX-License-Identifier: Apache-2.0
// The runtime without types: addresses, type numbers and bytes. Runtime<P> (runtime.hpp) and the
// Python package are thin faces of it; use those. Host only.
//
// Every call may be made from any thread. Every wait has a deadline; what it throws is
// denizen::Error and names the actor or ring, the limit and the way out.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/actor/detail/dead_letters.hpp>
#include <denizen/actor/detail/layout.hpp>
#include <denizen/actor/life.hpp>
#include <denizen/base/device.hpp>
#include <denizen/base/error.hpp>
#include <denizen/device/detail/breath_option.hpp>
#include <denizen/memory/arena.hpp>
#include <denizen/memory/buffer.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace denizen {

using std::chrono::nanoseconds;

struct HandlerTable; // src/actor/handlers.hpp
class FarDoor;       // far.hpp

inline constexpr uint32_t max_hosts = 1023; // of a cluster

// A compiled program.
struct Image {
    ProgramTable table{};
    std::vector<std::string> actors; // names by type number
    std::vector<std::string> messages;
    std::vector<std::string> tasks;
    // By message type: where in it its references to buffers lie, in bytes.
    std::vector<std::vector<uint32_t>> buffers;
    // CPU: runs worker `id` until it leaves.
    void (*run_worker)(const Shared&, uint32_t id) = nullptr;
    std::shared_ptr<void> library;                // keeps run_worker loaded
    std::shared_ptr<const HandlerTable> handlers; // of a program whose handlers came at run time
    // GPU: the kernel `denizen_resident` in a cubin, or a CUfunction of an ahead-of-time kernel in
    // the current context.
    std::vector<char> cubin;
    std::function<void*()> kernel;
    // GPU: AnyRuntime::exchange() will bring another kernel, which may take more registers: the
    // workers are laid out so that it finds room.
    bool to_exchange = false;

    bool runs_on_gpu() const { return !cubin.empty() || static_cast<bool>(kernel); }
};

struct Options {
    Device device;
    uint32_t nodes = 1; // GPUs, from `device` on, or groups of CPU threads; at most 5
    // Of each node, at most 2048. 0: on a GPU as many as the registers of `sms` hold, at most 8 on
    // each; on the CPU one on each core but one, which is the caller's. Description::geometry says
    // what came of it.
    uint32_t workers = 0;
    // GPU: most SMs to use; 0: half of those that no other program of this process has, or as many
    // as `workers` needs. Kernels whose blocks need a whole SM run only on the others.
    uint32_t sms = 0;
    // GPU: SMs of a partition that the program runs in, alone among the programs of this process
    // that have one; 0: it has none. A multiple of what the GPU is partitioned by (8 with compute
    // capability 9.0); then `sms` is at most that, and all of it unless it is said.
    uint32_t partition = 0;
    uint32_t host_ring_slots = 256; // host -> one worker
    // Workers -> one worker. 0: on a GPU 16,384, shared out among the nodes; 1024 on the CPU.
    uint32_t inbox_slots = 0;
    // 0: 64 and 16 on a GPU, where they lie in shared memory; 1024 and 256 on the CPU.
    uint32_t local_slots = 0;   // one worker -> itself
    uint32_t near_slots = 0;    // one worker -> one other of its cluster
    uint32_t urgent_slots = 32; // urgent messages: host -> one worker, workers -> one worker
    // SMs (CPU: workers) whose workers reach each other by near rings: a power of two, at most 16;
    // 0: 8 where the GPU has clusters, else 1, also under compute-sanitizer; 4 on the CPU.
    uint32_t cluster = 0;
    // Parked sends of one worker. 0: on a GPU a share of 2^20, from 2048 to 8192; 8192 on the CPU.
    uint32_t outbox_slots = 0;
    uint32_t egress_slots = 16384; // all workers -> host
    // Of each worker, for messages to actors that do not run. When they are used up, the worker
    // takes no more from a ring whose first message is for such an actor.
    uint32_t stash_slots = 2048;
    uint32_t watch_slots = 1024; // of each worker: who watches its actors
    // Of each worker: actors that its handlers spawn and that have not stopped, a power of two, at
    // most 65,536. 0: none if the program has no such actor types, else 256, or fewer if their
    // states would take more than 64 MiB of a node. Beside max_actors and state_bytes, which are
    // for what the host spawns.
    uint32_t spawn_room = 0;
    uint32_t timer_slots = 256; // of each worker: what handlers send later, at most 65,536
    // Of each node: tasks that handlers have spawned and no worker has begun; a power of two, at
    // most 1,048,576. There is no queue if the program has no tasks.
    uint32_t task_slots = 16384;
    uint32_t subscriptions = 1024; // to topics, of all actors: a power of two, at most 1,048,576
    uint32_t dead_letter_slots = 4096;
    uint32_t trace_slots = 0; // of each worker: trace records of 64 bytes; 0: it cannot be traced
    uint32_t asks = 4096;     // unanswered asks at a time, at most 65,536
    uint32_t max_actors = 1u << 18;
    uint64_t state_bytes = 16u << 20; // of all actors of a node together
    // Of each node's arena, if handlers allocate (`allocates` in an actor): 512 KiB to 512 GiB.
    uint64_t arena_bytes = 64u << 20;
    std::chrono::milliseconds idle{0}; // leave the GPU after this long without work; 0: stay
    // No incarnation of the kernel lives longer than that and the time of a handler; the next one
    // is queued behind it, so what waits for the whole device gets its turn. 0: one kernel for
    // ever. Unless it is said: default_breath on a GPU, and up to longest_breath where handlers are
    // long; 0 on the CPU, whose threads are in nobody's way and do the same only for tests.
    std::optional<std::chrono::microseconds> breath;
    std::chrono::milliseconds host_timeout{1000}; // GPU: leave when the host was silent for so long
    uint32_t buffers = 1024;                      // at a time, at most 16,777,216
    uint64_t pool_bytes = 64u << 20; // GPU: of the pool for buffers, taken when the first is made
    uint32_t hosts = 0;  // of the cluster that the program is of, at most max_hosts; 0: of none
    uint32_t host = 0;   // which of them this one is
    std::string restore; // a snapshot of the same program and geometry to start from; empty: none
    bool mapped = true;  // GPU: CPU-mapped device memory for the host's messages, if it can be had
    // GPU: what the program does not need of an SM's shared memory is L1, and not for kernels
    // beside it: for handlers that read much of the GPU's memory.
    bool prefer_l1 = false;
};

struct Message {
    Header header;
    std::vector<unsigned char> payload;
};

struct Stats {
    uint64_t handled = 0;      // messages handled; a reply may arrive just before it is counted
    uint64_t dead_letters = 0; // messages that no handler took, or whose handler failed
    std::array<uint64_t, reasons> dead_letters_by_reason{}; // by Reason; their sum is the above
    uint64_t stashed = 0; // messages that wait for actors that do not run; they count as handled
    uint64_t errors = 0;
    std::string first_error; // of the first node that has one
    Mode mode = Mode::starting;
    uint64_t launches = 0;     // 1, and one more for each return from being parked
    uint64_t incarnations = 0; // of the first node: kernels that have been queued, if it breathes
    Handovers handovers;       // of the first node
    std::vector<uint64_t> handled_by_worker; // node by node
    // By Route. A worker tells when it has nothing to do: behind while it works.
    uint64_t sent_by_route[routes] = {};
};

// A message that no handler took, or whose handler failed.
struct DeadLetter {
    Reason reason = Reason::no_actor;
    uint32_t code = 0; // of the failure, if that is the reason
    Address sender;
    Address destination;
    uint32_t type = 0;
    uint32_t length = 0;                               // bytes of the message
    uint32_t worker = 0;                               // whose it was
    uint64_t time_ns = 0;                              // the device's clock, modulo 2^53
    std::array<unsigned char, dead_payload> payload{}; // the message's first bytes
    std::string text; // "Add to actor Counter #17 of worker 3: its handler failed with code 7"
};

struct DeadLetters {
    std::vector<DeadLetter> letters; // in the order in which they died
    uint64_t lost = 0;               // overwritten before they were read, ever
};

// What Runtime::inspect() tells of an actor.
struct ActorStatus {
    Life life = Life::stopped;
    uint32_t incarnation = 0; // 1, and one more for each restart
    uint32_t failure = 0;     // code of the last failure
    uint32_t stashed = 0;     // messages that wait for it
    Address supervisor{nobody};
    bool supervised() const { return supervisor.value != nobody; }
};

// One of what AnyRuntime::actors() lists.
struct ActorListing {
    Address address;
    std::string type;  // "supervisor" for one
    std::string name;  // empty: it has none
    uint32_t node = 0; // where it is: after a migration not where its address says
    uint32_t worker = 0;
    Life life = Life::running;
};

// How many restarts a supervisor gives its children, in any stretch of time of this length. One
// more, and it escalates.
struct RestartBudget {
    uint32_t max_restarts = 3; // at most 4096, or unlimited
    nanoseconds window = std::chrono::seconds(5);

    static constexpr uint32_t unlimited = ~0u;
};

struct Description {
    std::string device; // "NVIDIA H100 80GB HBM3" or "CPU"
    bool on_gpu = false;
    int ordinal = 0; // of the first node's GPU
    uint32_t nodes = 1;
    uint32_t workers = 0;         // of each node
    uint32_t cluster = 1;         // SMs (CPU: workers) whose workers share near rings
    uint32_t per_sm = 1;          // workers of one SM
    uint32_t worker_threads = 1;  // GPU: 32, or those of a block if actors take whole blocks
    uint32_t partition = 0;       // GPU: SMs of the program's partition; 0: it has none
    std::string geometry;         // why it is these workers, in one line
    uint64_t shared_bytes = 0;    // GPU: shared memory taken of each of these SMs
    std::string host_ring_memory; // "mapped", "pinned" or "host"
    std::string why_not_mapped;   // where it is not "mapped" on a GPU
    uint64_t device_bytes = 0;
    uint64_t host_bytes = 0;
    double start_ms = 0;
};

// Where actors are spawned, seen from another actor: with its worker; on the other workers of its
// SM; on the other SMs of its cluster; on its node outside its cluster (if there is nothing
// outside: anywhere on the node); or anywhere on its node.
enum class Near { worker, sm, cluster, node, whole_node };

struct Placement {
    Address beside;
    Near how = Near::worker;
};

inline Placement near(Address beside, Near how = Near::worker) { return {beside, how}; }
inline Placement on_node(uint32_t node) { return {Address::actor(0, 0, node), Near::whole_node}; }

struct Telemetry; // telemetry.hpp
struct Trace;     // the same

class AnyRuntime {
public:
    struct Core; // src/actor/core.hpp

    AnyRuntime(Image image, const Options& options);
    ~AnyRuntime(); // close(1 s) without throwing
    AnyRuntime(const AnyRuntime&) = delete;
    AnyRuntime& operator=(const AnyRuntime&) = delete;

    const Image& image() const;
    const Description& description() const;

    // Spawns `count` actors of a type over all workers of all nodes, in turn; returns their
    // addresses once they exist. Errc::exhausted if they exceed max_actors or state_bytes.
    std::vector<Address> spawn(uint32_t actor_type, uint32_t count, nanoseconds deadline);
    // As above, over the workers that the placement names. Errc::bad_argument if there are none.
    std::vector<Address> spawn(uint32_t actor_type, uint32_t count, Placement where,
                               nanoseconds deadline);
    // One actor with a name, by which find() finds it as long as it lives, also after a snapshot
    // was restored. Errc::bad_argument if another that lives has that name, or if it is empty or
    // longer than 255 bytes.
    Address spawn(uint32_t actor_type, std::string_view name, nanoseconds deadline);
    // The address of the actor of this name. Errc::no_actor if there is none.
    Address find(std::string_view name, nanoseconds deadline);
    // All actors that have not stopped, worker by worker, also those that handlers have spawned,
    // and supervisors. As read while they go on.
    std::vector<ActorListing> actors();
    // Ends an actor; returns once no handler of it runs any more. Later messages are dead letters.
    void stop(Address actor, nanoseconds deadline);

    // ---- life of actors (src/actor/life.cpp). Each returns once it has been done.

    // As spawn, but the actors are only created: their messages wait until resume(), for instance
    // until they have a supervisor.
    std::vector<Address> create(uint32_t actor_type, uint32_t count, nanoseconds deadline);
    // What an actor is doing. Errc::no_actor if there never was one at this address.
    ActorStatus inspect(Address actor, nanoseconds deadline);
    // Its messages wait from now on, in order, until resume or restart. Errc::failed if it has
    // failed, Errc::bad_argument if it is draining. Done to a supervisor, this and the next three
    // are passed on to all of its children, which takes a moment.
    void pause(Address actor, nanoseconds deadline);
    // Goes on, also after a failure, with the state it has; what waited is handled first.
    void resume(Address actor, nanoseconds deadline);
    // Its state is re-created, whatever it was doing; what waited is handled first.
    void restart(Address actor, nanoseconds deadline);
    // Stops it when all that had been sent to it before has been handled. Later messages are dead
    // letters.
    void drain(Address actor, nanoseconds deadline);
    // Keeps a copy of its state for restarts. Its type declares restart_from = snapshot
    // (Errc::bad_argument).
    void checkpoint(Address actor, nanoseconds deadline);
    // `watcher` (an actor, or the host) gets a Down when `watched` stops, fails or is restarted; at
    // once if it has stopped already. Errc::exhausted if the table of watches is full.
    void watch(Address watcher, Address watched, nanoseconds deadline);
    void unwatch(Address watcher, Address watched, nanoseconds deadline);
    // Makes a supervisor of these children, actors or supervisors, that have none yet; returns its
    // address. Their order is the one of Strategy::rest_for_one.
    Address supervise(const Address* children, size_t count, Strategy strategy,
                      const RestartBudget& budget, nanoseconds deadline);
    // The dead letters since the last call.
    DeadLetters dead_letters();

    // ---- topics (src/actor/topics.cpp)

    // `subscriber` (an actor, or the host, which gets it by receive()) gets what is published from
    // now on to a topic, "market/EURUSD", or to all that begin so, "market/" followed by a '*';
    // once for each of its subscriptions that match. It ends when the actor stops. Errc::exhausted
    // if the table of subscriptions is full; Errc::bad_argument if that is no topic: 1 to 255
    // bytes.
    void subscribe(Address subscriber, std::string_view pattern, nanoseconds deadline);
    void unsubscribe(Address subscriber, std::string_view pattern, nanoseconds deadline);
    // Sends a message to all subscribers of a topic, and returns to how many once that is done. The
    // host's publications reach an actor in their order, but in none with what it is sent directly.
    // After Errc::timeout it may still happen.
    uint32_t publish(std::string_view topic, uint32_t type, const void* payload, uint32_t length,
                     nanoseconds deadline);

    // Accepts a message, waiting for room until the deadline (Errc::full).
    void send(Address to, uint32_t type, const void* payload, uint32_t length,
              nanoseconds deadline);
    // `count` messages of one type: message i at payloads + i * stride, to to[i], or all to to[0]
    // if `to_one`. On an error the message tells how many were accepted before it.
    void send_many(const Address* to, bool to_one, uint32_t type, const void* payloads,
                   uint32_t length, size_t stride, size_t count, nanoseconds deadline);
    void broadcast(uint32_t actor_type, uint32_t type, const void* payload, uint32_t length,
                   nanoseconds deadline);

    // Sends and waits for the reply; writes at most `room` bytes of it and returns its header.
    Header ask(Address to, uint32_t type, const void* payload, uint32_t length, void* reply,
               uint32_t room, nanoseconds deadline);
    // `count` asks, as many as possible under way at a time. Reply i goes to replies + i *
    // reply_stride and must be of `reply_type` and `reply_length`.
    void ask_many(const Address* to, bool to_one, uint32_t type, const void* payloads,
                  uint32_t length, size_t stride, size_t count, uint32_t reply_type, void* replies,
                  uint32_t reply_length, size_t reply_stride, nanoseconds deadline);

    // An ask in two steps, for callers that wait for many things.
    Address ask_begin(Address to, uint32_t type, const void* payload, uint32_t length,
                      nanoseconds deadline);
    bool ask_ready(Address ticket) const;
    Header ask_end(Address ticket, void* reply, uint32_t room, nanoseconds deadline);
    void ask_abandon(Address ticket);
    // What errors call an actor: its type, number and worker, or its address and host.
    std::string error_name(Address actor) const;

    // The next message that an actor sent to the host.
    Message receive(nanoseconds deadline);
    // Up to `count` messages of one type that have arrived, `stride` bytes apart, without waiting.
    // Stops in front of a message of another type. Senders' addresses go to `senders` unless null.
    size_t receive_many(uint32_t type, void* payloads, uint32_t length, size_t stride, size_t count,
                        Address* senders);

    // For a service of the host (io/service.hpp). From now on messages of these types that actors
    // send to the host wait for served(), and receive() does not see them; with none, as before.
    // Errc::bad_argument if there is a service.
    void serve(const std::vector<uint32_t>& types);
    // The next of them, without waiting, and the memory of the buffers that it refers to, in its
    // fields' order (null for one that is stale). False if none has arrived. It moves what arrived
    // before it for receive() to host memory, as long as that is at most egress_slots messages.
    bool served(Message& message, std::vector<std::shared_ptr<Storage>>& memory);

    // Memory that messages can refer to: the runtime's own (its content is undefined), or somebody
    // else's, which `owner` keeps alive and the workers must be able to reach. On a GPU the first
    // buffer of a kind, and one for which the pool has to grow, takes the programs of this process
    // off the GPU for a moment. Errc::exhausted.
    Buffer buffer(uint64_t bytes, BufferKind kind = BufferKind::device);
    Buffer wrap(void* pointer, uint64_t bytes, std::shared_ptr<void> owner);
    // Frees closed buffers that no message refers to any more (so do the two calls above, close()
    // of a buffer, and drain()), and tells how many there are.
    BufferStats buffers();

    // Where tasks and kernels on the same device send to a node's actors: see actor/ref.hpp. Valid
    // as long as this. Errc::bad_argument for a program with `idle`, which they do not bring back,
    // or if there is no such node.
    const Gate* gate(uint32_t node = 0) const;
    // What handlers on a node have as ctx.arena(): its statistics, and its ref() for kernels, tasks
    // and threads on the same device. Valid as long as this. Errc::bad_argument if no actor of the
    // program allocates, or if there is no such node.
    const Arena& arena(uint32_t node = 0) const;

    // Returns once nothing is under way: every message sent before the call and every message these
    // caused has been handled, and whatever other threads sent meanwhile. Messages that have been
    // set aside for actors that do not run (Stats::stashed) are not under way. Beside threads that
    // send all the time that moment may not come (Errc::timeout).
    void drain(nanoseconds deadline);
    // Handlers stop between two messages; what is sent meanwhile waits in the rings.
    void pause(nanoseconds deadline);
    void resume();
    // Leaves the GPU now; the next send brings the program back. Nothing on the CPU, where idle
    // workers sleep by themselves.
    void park(nanoseconds deadline);
    bool parked() const;

    // GPU: the same program, compiled otherwise, takes over from one incarnation of the kernel to
    // the next. Actors, messages and their order are as before. Throws Errc::bad_argument for
    // another program, without a breath, on the CPU, or where it finds no room; what ran goes on.
    // Nothing once the runtime is closed.
    void exchange(const Image& image);

    Stats stats();
    // Whether the durations of handlers are measured; off at first. When the call returns, every
    // worker measures (or has stopped) except those in a handler of more than 0.1 s. Each call
    // with true begins a new search for the slowest handlers; the histograms and counts go on.
    void observe(bool on);
    // What all workers count, their queues, and what they are doing, without stopping them; see
    // telemetry.hpp. Errc::closed after close.
    Telemetry telemetry();
    // Whether messages are traced: each one sent from now on carries a stamp of a hybrid logical
    // clock (base/hlc.hpp), and its sending and its handling leave a record. When the call returns,
    // every worker does so, or has stopped, with the exceptions of observe(). Messages keep their
    // order and none is lost, but each costs more. Errc::bad_argument if Options::trace_slots is 0.
    void trace(bool on);
    // The records since the last call, without stopping the program. A worker's ring keeps
    // trace_slots of them: call this often enough.
    Trace take_trace();
    // The worker that has been in one handler for longest, as text with actor, message and seconds,
    // if longer than `at_least`. Else who has kept a breath from ending for as long, at least a
    // tenth of a second and at most one, for which this call waits. Else it is empty.
    std::string stuck(nanoseconds at_least);

    // Takes a running actor to another worker, with the messages that wait for it, and returns when
    // it is there. It keeps its address, and nobody who sends to it or hears from it need know:
    // each message is handled once, and those from one actor to another in their order. What is
    // sent to it goes by way of the worker where it was born.
    void migrate(Address actor, uint32_t worker, uint32_t node, nanoseconds deadline);

    // Writes the whole program to a file, as it is between two messages of each worker: no message
    // under way is lost or doubled in it. Then the program goes on. Options::restore takes it back.
    // The file appears in one step: a process that dies here leaves the last one.
    // A host of a cluster is saved while it is held: see hold().
    void save(const std::string& path, nanoseconds deadline);
    // From now on no worker of a host runs, and none of its threads sends to another one, until
    // let_go(). Once all hosts of a cluster are held and what was between them has arrived, they
    // are of one moment. Errc::timeout: a handler has not come to its end.
    void hold(nanoseconds deadline);
    void let_go();
    // The same for the state of one actor, between two of its messages; load_actor() gives it to an
    // actor of the same type. Errc::bad_snapshot: of another type, or altered.
    void save_actor(Address actor, const std::string& path, nanoseconds deadline);
    void load_actor(Address actor, const std::string& path, nanoseconds deadline);

    // The door to the other hosts of the program's cluster: see far.hpp. Errc::bad_argument if it
    // is of none.
    FarDoor& far();

    // Drains, stops and frees. If a handler does not return in time: Errc::stuck with its worker,
    // actor, message and seconds; a GPU program's context is then torn down (with it every other
    // use of the GPU in this process, until the process is started anew), a CPU worker's thread is
    // left behind. Harmless when called again.
    void close(nanoseconds timeout);

private:
    LifeReport order(SystemOp op, Address actor, uint32_t value, uint32_t rank,
                     nanoseconds deadline);
    void demand(SystemOp op, Address actor, uint32_t value, nanoseconds deadline);

    Core& core() const; // throws closed in a forked child

    std::unique_ptr<Core> core_;
};

} // namespace denizen
