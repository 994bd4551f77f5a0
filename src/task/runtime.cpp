// SPDX-License-Identifier: Apache-2.0
// task::TaskRuntime: hands in what the host spawns, waits for it, and reads what came of it.
#include "core.hpp"

#include <cstdio>
#include <cstring>

namespace denizen::task {

using detail::ns;

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
