// SPDX-License-Identifier: Apache-2.0
// task::TaskRuntime: lays out the memory of tasks, hands in what the host spawns, and waits.
#include "backend.hpp"

#include "actor/port.hpp"
#include <denizen/device/residents.hpp>

#include <denizen/base/error.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/base/process.hpp>
#include <denizen/task/detail/local.hpp>
#include <denizen/wire/tickets.hpp>
#include <denizen/wire/wait.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>

namespace denizen::task {
namespace {

uint64_t ns(nanoseconds t) { return static_cast<uint64_t>(std::max<int64_t>(0, t.count())); }

void require(const char* name, uint64_t n, uint64_t least, uint64_t most, bool power = false)
{
    if (n < least || n > most || (power && !std::has_single_bit(n))) {
        throw Error(Errc::bad_argument, std::string(name) + " = " + std::to_string(n) + "; use " +
                                            (power ? "a power of two from " : "") +
                                            std::to_string(least) + " to " + std::to_string(most));
    }
}

// Takes pieces off a region one after the other.
class Carver {
public:
    template <class T>
    T* take(uint64_t count)
    {
        const size_t at = used_;
        used_ = (used_ + count * sizeof(T) + 255) / 256 * 256;
        return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
    }
    size_t used() const { return used_; }
    void at(std::byte* base) { base_ = base, used_ = 0; }

private:
    std::byte* base_ = nullptr;
    size_t used_ = 0;
};

Indices take_indices(Carver& device, uint32_t count)
{
    Indices q;
    const uint32_t places = std::bit_ceil(std::max(count, 32u));
    q.words = device.take<IndexWords>(1);
    q.cells = device.take<uint64_t>(places);
    q.mask = places - 1;
    q.shift = static_cast<uint32_t>(std::countr_zero(places));
    return q;
}

} // namespace

struct TaskRuntime::Core {
    Core(Image program, const Options& wanted) : image(std::move(program)), options(wanted)
    {
        check_options();
        make_backend();
        arena = std::make_unique<Arena>(
            on_gpu ? Device::gpu(options.device.ordinal) : Device::cpu(), options.arena_bytes);
        shared.arena = arena->ref();
        Carver host;
        Carver device;
        // Twice: without memory it counts bytes, with memory it sets pointers. So the two cannot
        // differ.
        lay_out(host, device);
        const Regions regions = backend->allocate(host.used(), device.used());
        host.at(regions.host);
        device.at(regions.device);
        lay_out(host, device);
        shared.breath.command = &shared.board->command;
        shared.breath.state = &shared.board->breath;
        fill_free(shared.free_kept, 0, kept_crates);
        Ingress ingress;
        ingress.slots = ingress_slots;
        ingress.groups = shared.groups;
        ingress.board = shared.board;
        ingress.mask = options.ingress_slots - 1;
        backend->fill(shared.ingress, &ingress, sizeof ingress);
        fill_free(shared.free_joins, 1, shared.joins); // 0 is Counter{0}: none
        free_groups.reserve(max_groups);
        for (uint32_t g = max_groups - 1; g > 0; --g) { // 0 has the tasks outside groups
            free_groups.push_back(g);
        }
        for (uint32_t a = 0; a < shared.answers; ++a) {
            free_answers.push_back(a);
        }
        backend->launch(shared);
    }

    ~Core()
    {
        if (stuck) {
            (void)arena.release(); // a task that does not return may still use it
        }
    }

    void check_options() const
    {
        require("queue_slots", options.queue_slots, 64, 1u << 16, true);
        require("arena_bytes", options.arena_bytes, 512 << 10, most_arena_bytes);
        require("counters", options.counters, 1, 1u << 24);
        require("futures", options.futures, 1, 1u << 20);
        require("port_slots", options.port_slots, 2, 1u << 20, true);
        require("ingress_slots", options.ingress_slots, 2, 1u << 20, true);
        require("workers", options.workers, 0, max_workers);
        breath_ns_of(options.breath); // checks it
    }

    void make_backend()
    {
        const bool gpu =
            options.device.kind == Device::Kind::gpu ||
            (options.device.kind == Device::Kind::automatic && image.kernel && gpu_present());
        on_gpu = gpu;
        backend = gpu ? make_gpu_backend(image, options) : make_cpu_backend(image, options);
    }
    void lay_out(Carver& host, Carver& device)
    {
        Shared& s = shared;
        s.workers = backend->workers();
        s.per_block = backend->per_block();
        s.classes = image.table.classes;
        s.slot = image.table.slot;
        s.deque_mask = options.queue_slots - 1;
        s.port_mask = options.port_slots - 1;
        // As many crates as the arena can have blocks of their size, so that shelves never
        // overflow.
        s.crates = kept_crates + static_cast<uint32_t>(options.arena_bytes / crate_bytes(s.slot));
        // Free joins that workers keep come on top, so that a program can use all of `counters` at
        // once.
        s.join_cache = join_cache;
        s.joins = options.counters + 1 + s.workers * join_cache;
        s.answers = options.futures;
        s.host_timeout_ns = static_cast<uint64_t>(options.host_timeout.count()) * 1'000'000;
        // CPU threads need no breath: the kernel of the operating system preempts them.
        if (on_gpu) set_breath(s.breath, options.breath);
        s.breath.workers = s.workers;
        s.breath.acked = device.take<uint32_t>(s.workers);
        s.control = host.take<Control>(1);
        s.answer = host.take<Answer>(s.answers);
        s.port = host.take<Letter>(options.port_slots);
        s.board = device.take<Board>(1);
        s.ingress = device.take<Ingress>(1);
        ingress_slots = device.take<Letter>(options.ingress_slots);
        s.groups = device.take<Group>(max_groups);
        s.deques = device.take<Deques>(s.workers);
        s.mailboxes = device.take<Mailbox>(s.workers);
        s.tally = device.take<Tally>(s.workers);
        s.free_kept = take_indices(device, kept_crates);
        for (uint32_t c = 0; c < s.classes; ++c) {
            s.shelf[c] = take_indices(device, s.crates);
        }
        s.free_joins = take_indices(device, s.joins);
        s.stranded = take_indices(device, s.joins);
        s.join = device.take<Join>(s.joins);
        s.kept = device.take<unsigned char>(uint64_t{kept_crates} * crate_bytes(s.slot));
        s.slots = device.take<unsigned char>(uint64_t{s.workers} * s.classes * options.queue_slots *
                                             s.slot);
    }

    // All indices from `first` to `end` are free.
    void fill_free(const Indices& q, uint32_t first, uint32_t end)
    {
        std::vector<uint64_t> cells(end - first);
        for (uint32_t i = first; i < end; ++i) {
            cells[i - first] = uint64_t{1} << 32 | i; // full, of lap 0
        }
        const uint32_t words[3] = {end - first, 0, end - first}; // count, head, tail
        backend->fill(q.cells, cells.data(), cells.size() * sizeof(uint64_t));
        backend->fill(q.words, words, sizeof words);
    }

    void check_alive()
    {
        if (closed) {
            throw Error(Errc::closed, "the runtime has been closed");
        }
        std::string text;
        if (const Errc e = backend->failure(text); e != Errc::ok) {
            throw Error(e, text);
        }
    }

    // Waits until done(); an error with text() after `deadline`.
    template <class Done, class Text>
    void wait_until(uint64_t deadline, Done&& done, Text&& text, Errc late = Errc::timeout)
    {
        const uint64_t begin = now_ns();
        Backoff wait;
        while (!done()) { // ends by that, by failure or the deadline
            check_alive();
            if (now_ns() - begin > deadline) {
                throw Error(late, text());
            }
            check_interrupt();
            wait.pause();
        }
    }

    void check_group(uint32_t g) const
    {
        if (g >= max_groups) {
            throw Error(Errc::bad_argument, "there is no group " + std::to_string(g));
        }
    }

    // Tells the monitor about a group and waits until it has heard. With the lock.
    void order()
    {
        // Ctrl-C waits: its check may call this runtime, whose lock is held (base/interrupt.hpp).
        const Interruptible never(nullptr);
        Control& c = *shared.control;
        const uint32_t number = ++orders;
        // Release: partner of the monitor's acquire.
        store<Scope::system, Order::release>(&c.group_orders, number);
        backend->wake_monitor();
        wait_until(
            10'000'000'000,
            [&] { return load<Scope::system, Order::acquire>(&c.group_seen) == number; },
            [] {
                return std::string("the tasks' monitor does not answer: it may be held off its "
                                   "processor by a task that does not return");
            });
    }

    Process process; // that the workers are of
    Image image;
    Options options;
    std::unique_ptr<Arena> arena; // outlives the workers
    std::unique_ptr<Backend> backend;
    Shared shared;
    Letter* ingress_slots = nullptr;
    std::atomic<bool> actors_spawn{false}; // or may
    bool on_gpu = false;
    bool closed = false;
    bool stuck = false;

    SpinLock port_lock;
    PlaceOfOne port; // with the lock

    std::mutex groups_lock;
    std::vector<uint32_t> free_groups;
    uint32_t submitted[max_groups] = {}; // tasks handed in, ever; with the port's lock
    uint32_t orders = 0;

    std::mutex answers_lock;
    std::deque<uint32_t> free_answers;
    // Closed before they came: a late result must not hit the next promise.
    std::vector<std::pair<uint32_t, uint32_t>> given_up;
    uint32_t last_sequence = 0;
};

TaskRuntime::TaskRuntime(Image image, const Options& options)
    : core_(std::make_unique<Core>(std::move(image), options))
{
}

TaskRuntime::~TaskRuntime()
{
    if (!core_->process.here()) {
        (void)core_.release(); // what its threads hold is not this process's
        return;
    }
    const Interruptible never(nullptr);
    try {
        close(std::chrono::seconds(1));
    } catch (const Error& e) {
        std::fprintf(stderr, "denizen: %s\n", e.what());
    }
}

TaskRuntime::Core& TaskRuntime::core() const
{
    core_->process.check("the runtime of tasks");
    return *core_;
}

uint32_t TaskRuntime::workers() const { return core_->shared.workers; }
bool TaskRuntime::on_gpu() const { return core_->on_gpu; }
const std::string& TaskRuntime::device() const { return core_->backend->device(); }

void TaskRuntime::spawn(const uint32_t* tasks, uint32_t words, uint64_t count, nanoseconds deadline,
                        uint64_t before, uint64_t after)
{
    Core& c = core();
    c.check_alive();
    const Shared& s = c.shared;
    const uint32_t capacity = s.port_mask + 1;
    uint64_t done = 0;
    while (done < count) { // ends when all are handed in, or by the deadline of a full port
        {
            const std::lock_guard guard(c.port_lock);
            while (done < count) {
                // Its acquire: partner of the monitor's release.
                if (!c.port.room<Scope::system>(1, capacity, &s.control->port_head)) {
                    break;
                }
                const uint32_t* task = tasks + done * words;
                Letter& letter = s.port[c.port.tail & s.port_mask];
                for (uint32_t k = 0; k < 4; ++k) {
                    Packet p{{0, 0, 0}, c.port.tail + 1};
                    for (uint32_t i = 0; i < 3 && 3 * k + i < words; ++i) {
                        p.word[i] = task[3 * k + i];
                    }
                    store_packet<Scope::system>(&letter.packet[k], p);
                }
                ++c.submitted[group_of(task[0])];
                ++c.port.tail;
                ++done;
            }
        }
        c.backend->wake_monitor();
        if (done < count) {
            c.wait_until(
                ns(deadline),
                [&] {
                    const std::lock_guard guard(c.port_lock);
                    return c.port.room<Scope::system>(1, capacity, &s.control->port_head);
                },
                [&] {
                    return "the port of tasks is full (" + std::to_string(capacity) + " slots); " +
                           std::to_string(before + done) + " of " +
                           std::to_string(before + count + after) + " were taken";
                },
                Errc::full);
        }
    }
}

Ingress* TaskRuntime::ingress() const
{
    core().actors_spawn.store(true, std::memory_order_relaxed);
    return core().shared.ingress;
}

uint32_t TaskRuntime::open_group(nanoseconds lifetime)
{
    Core& c = core();
    c.check_alive();
    // One order at a time: the monitor reads all that this one says before it answers, so the words
    // of a group need no other lock.
    const std::lock_guard guard(c.groups_lock);
    if (c.free_groups.empty()) {
        throw Error(Errc::exhausted,
                    "all " + std::to_string(max_groups - 1) + " groups are open; close some");
    }
    const uint32_t g = c.free_groups.back();
    c.free_groups.pop_back();
    HostGroup& group = c.shared.control->group[g];
    store<Scope::system>(&group.lifetime_ns, ns(lifetime));
    store<Scope::system>(&group.cancel, 0u);
    store<Scope::system>(&group.open, c.orders + 1);
    c.order();
    return g;
}

void TaskRuntime::cancel(uint32_t group)
{
    Core& c = core();
    c.check_alive();
    c.check_group(group);
    const std::lock_guard guard(c.groups_lock);
    store<Scope::system>(&c.shared.control->group[group].cancel, 1u);
    c.order();
}

Ended TaskRuntime::wait(uint32_t group, nanoseconds deadline)
{
    Core& c = core();
    c.check_alive();
    c.check_group(group);
    const GroupReport& report = c.shared.control->report[group];
    // The report says how many of the group's tasks the monitor has taken in, and how many of these
    // are not over. None under way is the end only if it has taken in all that was handed in
    // before.
    uint32_t all = 0;
    {
        const std::lock_guard guard(c.port_lock);
        all = c.submitted[group];
    }
    // Tasks that actors spawn go past the host's port, so `all` does not count them.
    if (c.actors_spawn.load(std::memory_order_relaxed)) {
        const std::lock_guard guard(c.groups_lock);
        c.order(); // what they have handed in by now is in the report
    }
    c.backend->wake_monitor();
    c.wait_until(
        ns(deadline),
        [&] {
            // Acquire: partner of the monitor's release.
            const uint64_t word = load<Scope::system, Order::acquire>(&report.word);
            return static_cast<uint32_t>(word) == 0 &&
                   static_cast<int32_t>(static_cast<uint32_t>(word >> 32) - all) >= 0;
        },
        [&] {
            return (group == 0 ? std::string("tasks") : "tasks of group " + std::to_string(group)) +
                   " still run or can run after " + denizen::detail::seconds(ns(deadline));
        });
    return {static_cast<Cancelled>(load<Scope::system>(&report.cancelled)),
            load<Scope::system>(&report.dropped)};
}

void TaskRuntime::close_group(uint32_t group)
{
    if (!core_->process.here()) {
        return;
    }
    const std::lock_guard guard(core().groups_lock);
    core().free_groups.push_back(group);
}

std::pair<uint32_t, uint32_t> TaskRuntime::open_answer()
{
    Core& c = core();
    c.check_alive();
    const std::lock_guard guard(c.answers_lock);
    if (c.free_answers.empty()) { // those given up whose result has come after all are free again
        std::erase_if(c.given_up, [&](const auto& closed) {
            const Packet p = load_packet<Scope::system>(&c.shared.answer[closed.first].packet[0]);
            if (p.sequence != closed.second) {
                return false;
            }
            c.free_answers.push_back(closed.first);
            return true;
        });
    }
    if (c.free_answers.empty()) {
        throw Error(Errc::exhausted, "all " + std::to_string(c.shared.answers) +
                                         " futures are in use; read some, or raise futures");
    }
    const uint32_t answer = c.free_answers.front(); // the one unused for longest
    c.free_answers.pop_front();
    c.last_sequence += c.last_sequence + 1 == 0 ? 2 : 1; // never 0, which an unused cell has
    return {answer, c.last_sequence};
}

bool TaskRuntime::answered(uint32_t answer, uint32_t sequence, uint32_t bytes) const
{
    const Answer& a = core().shared.answer[answer];
    for (uint32_t k = 0; k == 0 || 12 * k < bytes; ++k) {
        if (load_packet<Scope::system>(&a.packet[k]).sequence != sequence) {
            return false;
        }
    }
    return true;
}

void TaskRuntime::read_answer(uint32_t answer, uint32_t sequence, void* to, uint32_t bytes,
                              nanoseconds deadline)
{
    Core& c = core();
    c.wait_until(
        ns(deadline), [&] { return answered(answer, sequence, bytes); },
        [&] {
            return "no task has set the result within " + denizen::detail::seconds(ns(deadline));
        });
    uint32_t words[12];
    for (uint32_t k = 0; k < 4; ++k) {
        const Packet p = load_packet<Scope::system>(&c.shared.answer[answer].packet[k]);
        std::memcpy(words + 3 * k, p.word, 12);
    }
    std::memcpy(to, words, bytes);
}

void TaskRuntime::close_answer(uint32_t answer, uint32_t sequence)
{
    if (!core_->process.here()) {
        return;
    }
    Core& c = core();
    const std::lock_guard guard(c.answers_lock);
    const Packet p = load_packet<Scope::system>(&c.shared.answer[answer].packet[0]);
    if (p.sequence == sequence) {
        c.free_answers.push_back(answer);
    } else {
        c.given_up.emplace_back(answer, sequence);
    }
}

const Arena& TaskRuntime::arena() const { return *core().arena; }

Stats TaskRuntime::stats()
{
    Core& c = core();
    Stats stats;
    stats.launches = c.backend->launches();
    stats.incarnations = c.backend->incarnations();
    stats.handovers = denizen::detail::read(c.shared.control->handovers);
    std::vector<Tally> tallies(c.shared.workers);
    uint64_t refused = 0; // and above it Board::stopped: words of 8 bytes are read
    if (!c.backend->read(tallies.data(), c.shared.tally, tallies.size() * sizeof(Tally)) ||
        !c.backend->read(&refused, &c.shared.board->refused, sizeof refused)) {
        return stats;
    }
    for (const Tally& t : tallies) {
        const auto count = [&](Count what) { return t.count[static_cast<uint32_t>(what)]; };
        stats.run += count(Count::run);
        stats.batches += count(Count::batches);
        stats.steals += count(Count::steals);
        stats.stolen += count(Count::stolen);
        stats.crates += count(Count::crates);
        stats.letters += count(Count::letters);
        stats.spilled += count(Count::spilled);
        stats.joins += count(Count::joins);
        stats.looks += count(Count::looks);
        stats.run_by_worker.push_back(count(Count::run));
    }
    stats.refused = static_cast<uint32_t>(refused);
    return stats;
}

void TaskRuntime::close(nanoseconds timeout)
{
    if (!core_->process.here()) {
        return; // a forked child has nothing to close
    }
    Core& c = core();
    if (c.closed) {
        return;
    }
    c.closed = true;
    if (!c.backend->stop(ns(timeout))) {
        c.stuck = true;
        throw Error(Errc::stuck, "a task does not return: its worker was left behind after " +
                                     denizen::detail::seconds(ns(timeout)));
    }
}

} // namespace denizen::task
