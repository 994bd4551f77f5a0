// SPDX-License-Identifier: Apache-2.0
// What comes from the other hosts of a cluster, and what their loss means for those who wait.
#include "core.hpp"

#include <denizen/actor/far.hpp>

#include <algorithm>
#include <cstring>

namespace denizen {
namespace {

// A reply that a transport brought, into its cell: as a worker writes it (post.hpp).
void write_cell(const Shared& s, Address ticket, const Header& h, const void* payload)
{
    Slot* cell = s.cells + static_cast<uint64_t>(ticket.cell()) * s.cell_slots;
    const auto* bytes = static_cast<const unsigned char*>(payload);
    const uint32_t n = slots_for(h.length);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; ++i) {
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t sequence = ticket.value + i;
            if (i == 0 && k == 0) {
                continue; // last: the asker looks at it first
            }
            detail::store_part<Scope::system>(&cell[i].packet[k], bytes, h.length, at, sequence);
            at += packet_payload;
        }
    }
    store_packet<Scope::system>(&cell->packet[0], encode(h, ticket.value));
}

// An actor there has stopped, which is the last that its watcher hears of it: false, it has heard
// of the loss of the host instead.
bool is_news(FarLane& lane, const FarWatch& watch)
{
    const auto same = [&](const FarWatch& other) {
        return other.watcher == watch.watcher && other.watched == watch.watched;
    };
    const std::lock_guard guard(lane.lock);
    std::erase_if(lane.watches, same);
    std::erase_if(lane.bereft, same);
    return !lane.lost || std::none_of(lane.bereaved.begin(), lane.bereaved.end(), same);
}

} // namespace

Delivered FarDoor::deliver(uint32_t from, const Header& sent, const void* payload, bool again)
{
    const Delivered delivered = deliver_one(from, sent, payload, again);
    core_.flush_stores();
    return delivered;
}

Delivered FarDoor::deliver_one(uint32_t from, const Header& sent, const void* payload, bool again)
{
    Header given = sent;
    const bool replayed = given.flags == far_replayed && core_.far.log_bytes != 0;
    given.flags = replayed ? 0 : given.flags;
    const AnyRuntime::Core& c = core_;
    FarLane& lane = *c.far.lane[from];
    const FarFormat& format = c.far.format;
    const uint32_t length = payload_bytes(given);
    const Address address{given.destination};
    const Address sender{given.sender};
    const bool refusal =
        given.flags == flag_system && given.type == far_refusal && given.length == 0;
    const bool orders = is_order(given) && given.length == 0 && sender.value != nobody &&
                        (!is_watch(given) || c.image.table.down != no_type);
    const bool topics = is_topic_change(given) && from != own() && format.is_multicast(address);
    const bool cell = format.place_of(address) >= format.first_cell();
    bool garbage = !address.is_far() || format.host_of(address) != format.host ||
                   (sender.value != nobody && (!sender.is_far() || format.host_of(sender) != from));
    if (orders) { // to and by actors, and the threads of a host may watch
        garbage = garbage || format.place_of(address) >= format.own_threads() ||
                  format.place_of(sender) >= format.first_cell();
    } else if (refusal) {
        garbage = garbage || !cell || format.is_multicast(address);
    } else if (!topics) {
        garbage = garbage || (given.flags & ~flag_traced) != 0 ||
                  given.type >= c.image.table.messages ||
                  length != c.image.table.message[given.type].size || !c.refs(given.type).empty();
    }
    if (garbage) {
        lane.refused.fetch_add(1, std::memory_order_relaxed);
        return Delivered::refused;
    }
    if (topics) {
        return deliver_telling(from, given, payload);
    }
    if (format.is_multicast(address)) {
        return deliver_multicast(from, given, payload, again);
    }
    if (cell) {
        return deliver_reply(from, given, payload, refusal);
    }
    Header h = given;
    h.destination = format.to_short(address).value;
    if (replayed && !is_durable({h.destination})) { // it does not ask for it
        lane.delivered.fetch_add(1, std::memory_order_relaxed);
        return Delivered::yes;
    }
    const uint32_t down = c.image.table.down;
    if (!orders && !again && given.type == down && length == sizeof(Down)) {
        Down news;
        std::memcpy(&news, payload, sizeof news);
        if (news.life == static_cast<uint32_t>(Life::stopped) &&
            !is_news(lane, {given.destination, news.actor})) {
            lane.delivered.fetch_add(1, std::memory_order_relaxed);
            return Delivered::yes;
        }
    }
    switch (give_in_turn(from, h, payload, again)) {
    case Given::yes: lane.delivered.fetch_add(1, std::memory_order_relaxed); return Delivered::yes;
    case Given::no_room: return Delivered::no_room;
    default: lane.refused.fetch_add(1, std::memory_order_relaxed); return Delivered::refused;
    }
}

Delivered FarDoor::deliver(uint32_t from, const Header& h, const void* payload, bool again,
                           FarRun& run)
{
    AnyRuntime::Core& c = core_;
    const FarLane& lane = *c.far.lane[from];
    // As in give_in_turn(): nothing is aside, to go before it.
    if (run.open && h == run.header && !c.far.held && lane.count_aside == 0 &&
        write_ring(false, {run.given.destination}, run.given, payload)) {
        ++run.delivered;
        return Delivered::yes;
    }
    const Delivered delivered = deliver_one(from, h, payload, again);
    const FarFormat& format = c.far.format;
    const Address address{h.destination};
    run.open = delivered == Delivered::yes && h.flags == 0 && h.type != c.image.table.down &&
               !urgent(h) && format.place_of(address) < format.own_threads();
    if (run.open) {
        run.header = run.given = h;
        run.given.destination = format.to_short(address).value;
    }
    return delivered;
}

void FarDoor::end_run(uint32_t from, const FarRun& run)
{
    core_.flush_stores();
    if (run.delivered != 0) {
        core_.far.lane[from]->delivered.fetch_add(run.delivered, std::memory_order_relaxed);
    }
}

// Into one of the rings of an actor's worker; false: there is no room. What is urgent shares one
// with this host's own urgent messages. A GPU's are flushed by who called: after each message that
// would take as long as ten of them.
bool FarDoor::write_ring(bool hurried, Address to, const Header& h, const void* payload)
{
    const size_t ring = core_.worker_index(to);
    Port& port = hurried ? core_.ports[Sending::urgent] : core_.far.port;
    {
        const std::lock_guard held(port.lock);
        if (!port.rings.room(ring, slots_for(h.length))) {
            return false;
        }
        if (!with_length(h.length,
                         [&]<uint32_t L>() { port.rings.write_short<L>(ring, h, payload); })) {
            port.rings.write(ring, h, payload);
        }
    }
    core_.wake(to);
    return true;
}

// Or there is none: that is a dead letter.
bool FarDoor::is_durable(Address actor) const
{
    const AnyRuntime::Core& c = core_;
    const uint32_t type = c.inside(actor) ? c.type_at(c.index(actor)) : 0;
    return type == 0 || type > c.far.durable.size() || c.far.durable[type - 1];
}

Delivered FarDoor::deliver_reply(uint32_t from, const Header& given, const void* payload,
                                 bool refusal)
{
    AnyRuntime::Core& c = core_;
    FarLane& lane = *c.far.lane[from];
    const FarFormat& format = c.far.format;
    const uint32_t place = format.place_of({given.destination});
    const uint32_t cell = place & 0xffff;
    const uint32_t lap = (place & (format.first_cell() - 1)) >> FarFormat::cell_bits;
    const std::lock_guard guard(c.far.asks_lock);
    const Address ticket =
        cell < c.far.asked.size() ? c.cells.taken(cell, lap, format.laps()) : Address{0};
    if (ticket.value == 0) { // nobody waits for it
        lane.refused.fetch_add(1, std::memory_order_relaxed);
        return Delivered::refused;
    }
    c.far.asked[cell] = 0;
    Header h = given;
    h.destination = ticket.value;
    h.sender = refusal ? static_cast<uint32_t>(Errc::no_actor) | from << 8
                       : format.to_short({given.sender}).value;
    write_cell(c.nodes[0].shared, ticket, h, payload);
    lane.delivered.fetch_add(1, std::memory_order_relaxed);
    return Delivered::yes;
}

// To all who subscribe to its pattern. One that has no room holds up those behind it, and is asked
// again: `again`.
Delivered FarDoor::deliver_multicast(uint32_t from, const Header& given, const void* payload,
                                     bool again)
{
    FarLane& lane = *core_.far.lane[from];
    FarLane::Fan& fan = lane.fan[urgent(given) ? 1 : 0];
    if (!again) {
        FarTopics& topics = core_.far.topics;
        const std::lock_guard guard(topics.lock);
        const auto pattern = topics.pattern.find(given.destination);
        fan.members = pattern != topics.pattern.end() ? topics.multicast[pattern->second].members
                                                      : nullptr; // the last has left meanwhile
        fan.done = 0;
    }
    const size_t count = fan.members ? fan.members->size() : 0;
    for (; fan.done < count; ++fan.done) {
        Header h = given;
        h.destination = (*fan.members)[fan.done];
        if (give_in_turn(from, h, payload, again) == Given::no_room) {
            return Delivered::no_room;
        }
        again = false;
    }
    fan.members = nullptr;
    lane.delivered.fetch_add(1, std::memory_order_relaxed);
    return Delivered::yes;
}

// Behind what is aside.
FarDoor::Given FarDoor::give_in_turn(uint32_t from, const Header& h, const void* payload,
                                     bool again)
{
    const auto now = [&] {
        return h.flags == flag_system && is_topic_change(h) ? give_telling(h, payload)
                                                            : give(from, h, payload, again);
    };
    FarLane& lane = *core_.far.lane[from];
    if (!core_.far.held && lane.count_aside == 0) {
        return now();
    }
    const bool turn = give_aside(from);
    const Given given = turn ? now() : Given::no_room;
    if (given != Given::no_room || !core_.far.held) {
        return given;
    }
    const auto* bytes = static_cast<const unsigned char*>(payload);
    const std::lock_guard guard(lane.aside_lock);
    lane.aside.push_back({h, {bytes, bytes + h.length}});
    lane.count_aside = lane.aside.size();
    return Given::yes;
}

bool FarDoor::give_aside(uint32_t peer)
{
    FarLane& lane = *core_.far.lane[peer];
    if (lane.count_aside == 0 || core_.far.held) { // a snapshot has it where it is
        return lane.count_aside == 0;
    }
    const std::lock_guard guard(lane.aside_lock);
    bool all = true;
    while (!lane.aside.empty() && all) { // ends: one less each time, or there is no room
        const Message& m = lane.aside.front();
        const Given given = is_topic_change(m.header)
                                ? give_telling(m.header, m.payload.data())
                                : give(peer, m.header, m.payload.data(), true);
        all = given != Given::no_room;
        if (all) {
            lane.aside.pop_front();
            lane.count_aside = lane.aside.size();
        }
    }
    core_.flush_stores();
    return all;
}

bool FarDoor::none_aside(uint32_t peer) const
{
    return core_.far.held || core_.far.lane[peer]->count_aside == 0;
}

// To one actor, or this host's threads: `h` has its short address.
FarDoor::Given FarDoor::give(uint32_t from, Header h, const void* payload, bool again)
{
    AnyRuntime::Core& c = core_;
    const FarFormat& format = c.far.format;
    const Address to{h.destination};
    const Address sender{h.sender};
    const bool orders = is_order(h);
    const auto dead = [&](Reason reason, const char* why) {
        c.bury(reason, h, payload,
               c.message_name(h.type) + " from host " + std::to_string(from) + " to " +
                   c.describe(to) + ": " + why);
        if (reason != Reason::dropped && sender.is_far() &&
            format.place_of(sender) >= format.first_cell()) { // who asks is told
            FarLane& back = *c.far.lane[from];
            {
                const std::lock_guard guard(back.lock);
                back.put({{sender.value, host.value, far_refusal, flag_system, 0}, {}});
            }
            wake(from);
        }
        return Given::buried;
    };
    if (to.is_host()) {
        const std::lock_guard guard(c.egress_lock);
        if (c.backlog.size() + c.for_service.size() >= c.options.egress_slots) {
            return dead(Reason::dropped, "nobody receives what this host is sent");
        }
        const auto* bytes = static_cast<const unsigned char*>(payload);
        c.host_trace.take_stamp(h, bytes);
        c.set_aside({h, {bytes, bytes + h.length}});
        return Given::yes;
    }
    const uint8_t actor = c.inside(to) ? c.type_at(c.index(to)) : uint8_t{0};
    if (orders && actor == 0) { // it has stopped: the watcher is told at once
        if (h.type == static_cast<uint32_t>(SystemOp::watch)) {
            send_down(from, sender,
                      {format.to_far(to).value, static_cast<uint32_t>(Life::stopped), 0, 0});
        }
        return is_watch(h) ? Given::yes : Given::buried;
    }
    if (actor == 0) {
        return dead(Reason::no_actor, "no such actor");
    }
    const LifeRequest request{to.local(), is_watch(h) ? h.sender : 0, 0, 0};
    if (orders) {
        h.length = sizeof request;
        payload = &request;
    } else if (actor > c.image.table.actors || !c.image.table.can_handle(actor - 1u, h.type)) {
        return dead(Reason::wrong_type, "it has no handler for it");
    }
    if (write_ring(urgent(h), to, h, payload)) {
        return Given::yes;
    }
    c.wake(to);
    if (orders) {
        return Given::no_room;
    }
    const auto policy = static_cast<Overflow>(c.image.table.actor[actor - 1u].overflow);
    if (policy == Overflow::fail) {
        return dead(Reason::dropped, "no room, and its overflow policy is to fail");
    }
    // A GPU's records are out of reach: there the message waits.
    if (policy == Overflow::drop_oldest && !again && !c.on_gpu) {
        const Shared& s = c.nodes[to.node()].shared;
        fetch_add<Scope::system>(
            &s.actor_records[uint64_t{to.worker()} * s.actors_per_worker + to.local()].drop, 1u);
    }
    return Given::no_room;
}

void FarDoor::lose(uint32_t peer, const std::string& why)
{
    FarLanes& lanes = core_.far;
    FarLane& lane = *lanes.lane[peer];
    {
        const std::lock_guard guard(lane.lock);
        if (lane.lost) {
            return;
        }
        lane.why = why;
        lane.lost = true;
        lane.bereft.insert(lane.bereft.end(), lane.watches.begin(), lane.watches.end());
        lane.watches.clear();
        lane.orphaned.swap(lane.theirs);
        lane.telling.clear();
        lane.count_telling = 0;
    }
    const std::lock_guard guard(lanes.asks_lock);
    for (uint32_t cell = 0; cell < lanes.asked.size(); ++cell) {
        if (lanes.asked[cell] == peer + 1) {
            lanes.asked[cell] = 0;
            const Address ticket{lanes.ticket[cell]};
            write_cell(core_.nodes[0].shared, ticket,
                       {ticket.value, static_cast<uint32_t>(Errc::host_lost) | peer << 8,
                        far_refusal, flag_system, 0},
                       nullptr);
        }
    }
}

bool FarDoor::tell_lost(uint32_t peer)
{
    FarLane& lane = *core_.far.lane[peer];
    if (!forget_multicasts(peer)) {
        return false;
    }
    for (;;) { // ends: each turn tells one, or there is no room
        FarWatch w{};
        {
            const std::lock_guard guard(lane.lock);
            if (lane.bereft.empty()) {
                return true;
            }
            w = lane.bereft.front();
            lane.bereft.pop_front();
            lane.bereaved.push_back(w); // so its stop, if that comes now, is none
        }
        const Down news{w.watched, static_cast<uint32_t>(Life::stopped), failed_host, 0};
        if (give_in_turn(peer,
                         {core_.far.format.to_short({w.watcher}).value, w.watched,
                          core_.image.table.down, 0, sizeof news},
                         &news, false) == Given::no_room) {
            const std::lock_guard guard(lane.lock);
            lane.bereaved.pop_back(); // only this adds to them
            lane.bereft.push_front(w);
            return false;
        }
        core_.flush_stores();
    }
}

uint64_t FarDoor::renew(uint32_t peer)
{
    FarTopics& topics = core_.far.topics;
    FarLane& lane = *core_.far.lane[peer];
    std::vector<FarWatch> bereaved;
    {
        const std::scoped_lock guard(topics.lock, lane.lock);
        lane.lost = false;
        lane.why.clear();
        lane.fan[0] = lane.fan[1] = {};
        lane.orphaned.merge(lane.theirs);
        lane.theirs.clear();
        lane.telling.clear();
        for (const auto& [address, pattern] : topics.pattern) {
            lane.telling[address] = {true, pattern};
        }
        lane.count_telling = lane.telling.size();
        bereaved.swap(lane.bereaved);
    }
    const uint64_t replayed = replay(peer);
    Backoff wait;
    while (!forget_multicasts(peer)) { // ends: worker 0 reads its ring
        wait.pause();
    }
    for (const FarWatch& w : bereaved) {
        const Down news{w.watched, static_cast<uint32_t>(Life::running), 0, 0};
        while (deliver(peer, {w.watcher, w.watched, core_.image.table.down, 0, sizeof news}, &news,
                       false) == Delivered::no_room) { // ends: the watcher's worker reads its ring
            wait.pause();
        }
        const std::lock_guard guard(lane.lock);
        lane.put({{w.watched, core_.far.format.to_short({w.watcher}).value,
                   static_cast<uint32_t>(SystemOp::watch), flag_system, 0},
                  {}});
    }
    recount(peer);
    return replayed;
}

// To one who watches an actor of this host from another.
void FarDoor::send_down(uint32_t peer, Address watcher, const Down& news)
{
    FarLane& lane = *core_.far.lane[peer];
    const auto* bytes = reinterpret_cast<const unsigned char*>(&news);
    {
        const std::lock_guard guard(lane.lock);
        lane.put({{watcher.value, news.actor, core_.image.table.down, 0, sizeof news},
                  {bytes, bytes + sizeof news}});
    }
    wake(peer);
}

} // namespace denizen
