// SPDX-License-Identifier: Apache-2.0
// The host's runtime of tasks without types: it knows words, group numbers and bytes. Users take
// task::Runtime<P> (runtime.hpp), which adds the types. Host only. Every call may be made from any
// thread. Every wait has a deadline. Errors are denizen::Error and name the limit and the way out.
#pragma once

#include <denizen/actor/any_runtime.hpp>
#include <denizen/memory/arena.hpp>
#include <denizen/task/detail/layout.hpp>

namespace denizen::task {

struct Functions; // src/task/functions.hpp

struct Image {
    Table table{};
    std::vector<std::string> names; // by type number
    // CPU: runs worker `id`, or the monitor if there is no such worker, until it leaves.
    void (*run_thread)(const Shared&, uint32_t id) = nullptr;
    std::shared_ptr<const Functions> functions; // CPU: what run_thread calls, if it is of a table
    std::function<void*()> kernel;              // GPU: a CUfunction in the current context
};

struct Options {
    Device device;
    uint32_t workers = 0; // CPU: threads, 0: one per core. GPU: warps on each SM, 0: 24, the most
    uint32_t sms = 0;     // GPU: blocks, one for each SM; 0: all that no runtime has taken before
    uint32_t queue_slots = 512; // tasks in each deque: a power of two, 64 to 65,536
    // The arena has tasks that find no room in a deque, the host's tasks on their way, and what
    // tasks allocate. 512 KiB to 63 GiB.
    uint64_t arena_bytes = uint64_t{64} << 20;
    uint32_t counters = 1u << 18;  // at a time, at most 2^24
    uint32_t futures = 4096;       // unread at a time, at most 2^20
    uint32_t port_slots = 4096;    // the host's tasks on their way: a power of two
    uint32_t ingress_slots = 4096; // actors' tasks on their way: a power of two
    // GPU: an incarnation of the kernel ends after that long and the rest of the tasks that then
    // run. The next one is queued behind it, so work that waits for the whole device gets its turn.
    // 0: one kernel for ever. Not set: default_breath, and up to longest_breath if tasks are long.
    std::optional<std::chrono::microseconds> breath;
    std::chrono::milliseconds host_timeout{1000}; // GPU: leave when the host was silent for so long
};

struct Stats {
    uint64_t run = 0; // tasks. A worker adds to it when it has nothing to do, so it may be behind
    uint64_t batches = 0;
    uint64_t steals = 0;
    uint64_t stolen = 0;
    uint64_t crates = 0;
    uint64_t letters = 0;
    uint64_t spilled = 0;
    uint64_t joins = 0;
    uint64_t looks = 0;
    uint64_t refused = 0; // spawns that found the arena full
    uint64_t launches = 0;
    uint64_t incarnations = 0; // kernels that have been queued, if it breathes
    Handovers handovers;
    std::vector<uint64_t> run_by_worker;
};

struct Ended {
    Cancelled cancelled = Cancelled::no;
    uint64_t dropped = 0; // tasks of the group that were not run
};

class TaskRuntime {
public:
    TaskRuntime(Image image, const Options& options);
    ~TaskRuntime(); // close(1 s) without throwing
    TaskRuntime(const TaskRuntime&) = delete;
    TaskRuntime& operator=(const TaskRuntime&) = delete;

    uint32_t workers() const;
    bool on_gpu() const;
    const std::string& device() const;

    // Hands in `count` tasks of `words` words each (at most 12); the first word is the header.
    // Errc::full if the port has no room within the deadline: the text says how many were taken.
    // A caller who hands in more tasks part by part says for that text how many came before these
    // and how many come after.
    void spawn(const uint32_t* tasks, uint32_t words, uint64_t count, nanoseconds deadline,
               uint64_t before = 0, uint64_t after = 0);

    // The ring by which actors on the same device hand tasks in (ref.hpp). Valid as long as this.
    Ingress* ingress() const;

    // A group of tasks: what its tasks spawn belongs to it. Errc::exhausted if 63 are open.
    uint32_t open_group(nanoseconds lifetime);
    void cancel(uint32_t group);
    // Waits until no task of the group runs or can run. Errc::timeout, closed, peer_dead.
    Ended wait(uint32_t group, nanoseconds deadline);
    void close_group(uint32_t group); // the group must have ended

    // Opens a place for a result. Returns its number and its sequence.
    std::pair<uint32_t, uint32_t> open_answer();
    bool answered(uint32_t answer, uint32_t sequence, uint32_t bytes) const;
    // Errc::timeout if it does not come.
    void read_answer(uint32_t answer, uint32_t sequence, void* to, uint32_t bytes,
                     nanoseconds deadline);
    void close_answer(uint32_t answer, uint32_t sequence);

    Stats stats();
    // The arena that tasks see as ctx.arena(). Its ref() serves actors, kernels and threads on the
    // same device, too. Valid as long as this runtime.
    const Arena& arena() const;
    void close(nanoseconds timeout);

private:
    struct Core;
    Core& core() const; // throws closed in a forked child

    std::unique_ptr<Core> core_;
};

} // namespace denizen::task
