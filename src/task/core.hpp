// SPDX-License-Identifier: Apache-2.0
// What a runtime of tasks consists of: its memory, which it lays out in regions of the host and of
// the device, the backend whose workers run there, and what threads of the host share.
#pragma once

#include "backend.hpp"

#include "actor/port.hpp"
#include "base/round_up.hpp"

#include <denizen/base/error.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/base/process.hpp>
#include <denizen/device/residents.hpp>
#include <denizen/task/detail/local.hpp>
#include <denizen/wire/tickets.hpp>
#include <denizen/wire/wait.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <deque>
#include <mutex>

namespace denizen::task {
namespace detail {

inline uint64_t ns(nanoseconds t) { return static_cast<uint64_t>(std::max<int64_t>(0, t.count())); }

inline void require(const char* name, uint64_t n, uint64_t least, uint64_t most, bool power = false)
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
        used_ = round_up(used_ + count * sizeof(T), 256);
        return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
    }
    size_t used() const { return used_; }
    void at(std::byte* base) { base_ = base, used_ = 0; }

private:
    std::byte* base_ = nullptr;
    size_t used_ = 0;
};

inline Indices take_indices(Carver& device, uint32_t count)
{
    Indices q;
    const uint32_t places = std::bit_ceil(std::max(count, 32u));
    q.words = device.take<IndexWords>(1);
    q.cells = device.take<uint64_t>(places);
    q.mask = places - 1;
    q.shift = static_cast<uint32_t>(std::countr_zero(places));
    return q;
}

} // namespace detail

struct TaskRuntime::Core {
    Core(Image program, const Options& wanted) : image(std::move(program)), options(wanted)
    {
        check_options();
        make_backend();
        arena = std::make_unique<Arena>(
            on_gpu ? Device::gpu(options.device.ordinal) : Device::cpu(), options.arena_bytes);
        shared.arena = arena->ref();
        detail::Carver host;
        detail::Carver device;
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
        detail::require("queue_slots", options.queue_slots, 64, 1u << 16, true);
        detail::require("arena_bytes", options.arena_bytes, 512 << 10, most_arena_bytes);
        detail::require("counters", options.counters, 1, 1u << 24);
        detail::require("futures", options.futures, 1, 1u << 20);
        detail::require("port_slots", options.port_slots, 2, 1u << 20, true);
        detail::require("ingress_slots", options.ingress_slots, 2, 1u << 20, true);
        detail::require("workers", options.workers, 0, max_workers);
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
    void lay_out(detail::Carver& host, detail::Carver& device)
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
        s.free_kept = detail::take_indices(device, kept_crates);
        for (uint32_t c = 0; c < s.classes; ++c) {
            s.shelf[c] = detail::take_indices(device, s.crates);
        }
        s.free_joins = detail::take_indices(device, s.joins);
        s.stranded = detail::take_indices(device, s.joins);
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

} // namespace denizen::task
