// SPDX-License-Identifier: Apache-2.0
// Moving an actor: the host finds it a place and leads it there, one actor at a time. What the
// workers do is in actor/detail/move.hpp.
#include "core.hpp"

#include <denizen/actor/detail/move.hpp>

#include <optional>

namespace denizen {

// A move that has begun is carried through, beyond the caller's deadline: what it waits for is done
// by workers, which on a loaded machine may not run for seconds. Ends earlier if the program dies.
static constexpr uint64_t carry_through_ns = 60'000'000'000;

// A reply cell for an order that is yet to be sent; given back if it never is.
class ReservedCell {
public:
    ReservedCell(Asking& asking, uint64_t deadline_ns)
        : asking_(asking), ticket_(asking.take_cell(deadline_ns))
    {
    }
    ~ReservedCell()
    {
        if (!sent_) {
            asking_.cells.give_back(ticket_);
        }
    }
    ReservedCell(const ReservedCell&) = delete;
    ReservedCell& operator=(const ReservedCell&) = delete;

    // `send` sends it off with the cell's address, or throws.
    template <class Send>
    Address use(Send&& send)
    {
        send(ticket_);
        sent_ = true;
        return ticket_;
    }

private:
    Asking& asking_;
    Address ticket_;
    bool sent_ = false;
};

// A place on this worker for an actor of this type: one that was vacated, or a new one.
Guest AnyRuntime::Core::make_place(Address worker, uint32_t actor_type, uint64_t deadline_ns)
{
    const auto bytes = static_cast<uint32_t>(round_up(stride_of(actor_type), 16));
    for (auto v = moving.vacancies.begin(); v != moving.vacancies.end(); ++v) {
        if (worker_index(v->at) == worker_index(worker) && v->bytes == bytes) {
            const Guest found = *v;
            moving.vacancies.erase(v);
            return found;
        }
    }
    const auto guard = lock_places(deadline_ns);
    Node& node = nodes[worker.node()];
    uint32_t& local = placing.next_local[worker_index(worker)];
    const uint64_t offset =
        round_up(node.heap_used, std::max<uint64_t>(image.table.actor[actor_type].align, 16));
    if (local >= actors_per_worker) {
        throw Error(Errc::exhausted, worker_name(worker) +
                                         " has no place for another actor; "
                                         "max_actors = " +
                                         std::to_string(options.max_actors) + ", raise it");
    }
    if (offset + bytes > options.state_bytes) {
        throw Error(
            Errc::exhausted,
            "an actor " + actor_name(actor_type) + " needs " + std::to_string(bytes) +
                " bytes of state on node " + std::to_string(worker.node()) + ", " +
                std::to_string(options.state_bytes - std::min(offset, options.state_bytes)) +
                " are left; raise state_bytes");
    }
    node.heap_used = offset + bytes;
    return {Address::actor(worker.worker(), local++, worker.node()), bytes, offset};
}

// Opens the actor's place there; what its home has stashed follows it.
void AnyRuntime::Core::send_move_in(Address actor, const Guest& to, ReservedCell& cell,
                                    uint64_t deadline_ns)
{
    const MoveRequest r{actor.local(), to.at.value, to.offset, 0, 0, 0};
    const Address ticket = cell.use([&](Address reply_to) {
        send_system(SystemOp::move_in, actor, reply_to, &r, sizeof r, deadline_ns,
                    Priority::urgent);
    });
    wait_reply(ticket, nullptr, 0, deadline_ns, [&] { return "moving " + describe(actor); });
}

// Takes what node `node`'s workers have sent the host until now out of their ring: what the actor
// sends from another node must not overtake it.
bool AnyRuntime::Core::hear_out(uint32_t node, uint64_t deadline_ns)
{
    uint32_t tail = 0;
    if (!nodes[node].backend->read(&tail, &nodes[node].shared.board->egress_tail, sizeof tail)) {
        check_alive();
    }
    const uint64_t begin = now_ns();
    Backoff wait;
    for (;;) { // ends when all of it has been taken, or by the deadline
        {
            const std::lock_guard guard(egress_lock);
            take_into_backlog();
            if (static_cast<int32_t>(nodes[node].egress.position() - tail) >= 0) {
                return true;
            }
        }
        check_alive();
        if (now_ns() - begin > deadline_ns) {
            return false;
        }
        wait.pause();
    }
}

// Has the actor leave its place and waits until all that it has sent from there has arrived. False:
// that took too long, and it stays; `why` says who may be in the way. Throws if it cannot move.
// `move_in`: for the order that has to follow. An actor that has left its place and finds no cell
// for it would be nowhere.
bool AnyRuntime::Core::try_move(Address actor, const Guest& next, ReservedCell& move_in,
                                uint64_t deadline_ns, uint64_t patience_ns, std::string& why)
{
    const Address from = moving.place_of(actor);
    Guest present{from, 0, 0};
    const MoveRequest r{actor.local(),          next.at.value, next.offset, next.bytes, 0,
                        ++moving.moves & 0xffff};
    const Address ticket = ReservedCell(*this, deadline_ns).use([&](Address reply_to) {
        send_system(SystemOp::move_out, actor, reply_to, &r, sizeof r, deadline_ns,
                    Priority::urgent);
    });
    const auto answered = [&](uint64_t limit_ns, LifeReport& report) {
        const uint64_t begin = now_ns();
        Backoff wait;
        Header h;
        while (!cells.arrived(ticket, h)) { // ends by the answer or patience
            if (now_ns() - begin > limit_ns) {
                return false;
            }
            drain_egress_if_full();
            check_alive();
            wait.pause();
        }
        cells.finish(ticket, h, &report, sizeof report);
        return true;
    };
    LifeReport report{};
    const bool in_time = answered(std::min(deadline_ns, patience_ns), report);
    const auto error = static_cast<Errc>(report.error);
    if (in_time && error == Errc::ok &&
        (from.node() == next.at.node() || hear_out(from.node(), deadline_ns))) {
        return true;
    }
    // Its home holds its messages: a ring with one that found no room in the stash is at a stand,
    // and an echo may be behind it. The actor goes on where it was, and that ends.
    why = stuck(100'000'000);
    const uint64_t limit_ns = why.empty() ? carry_through_ns : 5'000'000'000;
    send_move_in(actor, present, move_in, std::max(deadline_ns, limit_ns));
    if (!in_time) {
        if (!answered(std::max(deadline_ns, limit_ns), report)) {
            cells.abandon(ticket);
        }
        return false;
    }
    if (error == Errc::ok) {
        return false;
    }
    if (error == Errc::no_actor) {
        set_type(index(actor), 0);
        throw Error(Errc::no_actor, describe(actor) + " has stopped");
    }
    if (error == Errc::full) {
        throw Error(Errc::bad_argument, describe(actor) + " has timers on its worker; it can move "
                                                          "when they have fired or are cancelled");
    }
    throw Error(Errc::bad_argument, describe(actor) + " is " +
                                        to_string(static_cast<Life>(report.life)) +
                                        "; only an actor that runs can move");
}

void AnyRuntime::Core::migrate(Address actor, Address to, uint64_t deadline_ns)
{
    check_alive();
    check_actor(actor);
    if (spawned_by_handler(actor)) {
        throw Error(Errc::bad_argument, describe(actor) +
                                            " was spawned by a handler; such an actor "
                                            "stays with its worker");
    }
    const std::lock_guard guard(moving.mutex);
    const std::unique_lock alone(moving.orders);
    const auto interrupt = detail::interrupt_watch.check;
    const Interruptible never(nullptr); // but between two tries
    const uint64_t begin = now_ns();
    const uint32_t type = type_at(index(actor)) - 1u;
    const Address from = moving.place_of(actor);
    if (worker_index(from) == worker_index(to)) {
        return;
    }
    const bool home = worker_index(to) == worker_index(actor);
    const uint32_t orders = from == actor ? 2 : 3; // that are under way, or certain to follow
    if (cells.count() < orders) {
        throw Error(Errc::exhausted,
                    "moving " + describe(actor) + " takes " + std::to_string(orders) +
                        " reply cells at a time; asks = " + std::to_string(cells.count()) +
                        ", raise it");
    }
    const auto bytes = static_cast<uint32_t>(round_up(stride_of(type), 16));
    const Guest next = home ? Guest{actor, bytes, 0} : make_place(to, type, deadline_ns);
    const auto left = [&] {
        const uint64_t used = now_ns() - begin;
        return deadline_ns > used ? deadline_ns - used : 0;
    };
    std::optional<ReservedCell> move_in;
    std::optional<ReservedCell> vacate;
    try {
        if (from != actor) {
            vacate.emplace(*this, left());
        }
        move_in.emplace(*this, left());
        std::string why;
        // Ends by success or the deadline.
        for (uint64_t patience = 50'000'000;
             !try_move(actor, next, *move_in, left(), patience, why); patience *= 2) {
            if (left() == 0) {
                throw Error(Errc::timeout,
                            describe(actor) + " could not be moved within " + seconds(deadline_ns) +
                                ": " +
                                (why.empty() ? "its messages found no room in the stash (" +
                                                   std::to_string(options.stash_slots) +
                                                   " slots); raise stash_slots"
                                             : why));
            }
            const Interruptible here(interrupt);
            check_interrupt();
            move_in.emplace(*this, left()); // the last one has brought it back
        }
    } catch (...) {
        if (!home) {
            moving.vacancies.push_back(next);
        }
        throw;
    }
    send_move_in(actor, next, *move_in, std::max(left(), carry_through_ns));
    if (from != actor) {
        const MoveRequest r{from.local(), 0, 0, 0, 0, 0};
        const Address ticket = vacate->use([&](Address reply_to) {
            send_system(SystemOp::vacate, from, reply_to, &r, sizeof r, carry_through_ns,
                        Priority::urgent);
        });
        wait_reply(ticket, nullptr, 0, carry_through_ns,
                   [] { return std::string("vacating a place"); });
        moving.vacancies.push_back(moving.guests[actor.value]);
    }
    if (home) {
        moving.guests.erase(actor.value);
    } else {
        moving.guests[actor.value] = next;
    }
}

void AnyRuntime::migrate(Address actor, uint32_t worker, uint32_t node, nanoseconds deadline)
{
    const Core& c = core();
    if (node >= c.nodes.size() || worker >= c.workers) {
        throw Error(Errc::bad_argument, "worker " + std::to_string(worker) + " of node " +
                                            std::to_string(node) + "; there are " +
                                            std::to_string(c.workers) + " workers on each of " +
                                            std::to_string(c.nodes.size()) + " nodes");
    }
    core().migrate(actor, Address::actor(worker, 0, node), ns(deadline));
}

} // namespace denizen
