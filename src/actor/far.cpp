// SPDX-License-Identifier: Apache-2.0
#include "core.hpp"

#include <denizen/actor/far.hpp>

#include <algorithm>
#include <cstring>

namespace denizen {
namespace {

bool is_watch(const Header& h)
{
    return h.flags == flag_system && (h.type == static_cast<uint32_t>(SystemOp::watch) ||
                                      h.type == static_cast<uint32_t>(SystemOp::unwatch));
}

constexpr uint64_t poll_ns = 50'000; // a GPU's workers ring no bell

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

} // namespace

void AnyRuntime::Core::open_far()
{
    if (options.hosts == 0) {
        return;
    }
    far.format = nodes[0].shared.far;
    far.capacity = nodes[0].shared.inbox_mask + 1;
    far.asked.assign(options.asks, 0);
    far.ticket.assign(options.asks, 0);
    for (uint32_t h = 0; h < options.hosts; ++h) {
        far.lane.push_back(std::make_unique<FarLane>());
        far.lane[h]->bell = far_bells + h;
        far.lane[h]->head.assign(nodes.size(), 0);
        far.lane[h]->credited.assign(nodes.size(), 0);
    }
}

// Options::hosts: how addresses are shared out among hosts, workers and actors.
FarFormat AnyRuntime::Core::far_format() const
{
    FarFormat f;
    if (options.hosts == 0) {
        return f;
    }
    const auto all = static_cast<uint32_t>(nodes.size()) * workers;
    f.hosts = options.hosts;
    f.host = options.host;
    f.place_bits = 28 - static_cast<uint32_t>(std::bit_width(options.hosts));
    f.workers = workers;
    f.nodes = static_cast<uint32_t>(nodes.size());
    while ((uint64_t{all} << (f.local_bits + 1)) <= f.first_cell()) {
        ++f.local_bits;
    }
    if (actors_per_worker >= 1u << f.local_bits) {
        throw Error(Errc::bad_argument,
                    "max_actors = " + std::to_string(options.max_actors) + " on " +
                        std::to_string(all) + " workers of one of " +
                        std::to_string(options.hosts) + " hosts: an address has room for " +
                        std::to_string((1u << f.local_bits) - 1) +
                        " actors of a worker, those that handlers spawn included; lower it");
    }
    return f;
}

std::string Directory::describe_far(Address a) const
{
    const FarFormat& f = nodes[0].shared.far;
    char text[64];
    std::snprintf(text, sizeof text, "%s 0x%08x of host %u",
                  f.place_of(a) >= f.first_cell() ? "an ask" : "address", a.value, f.host_of(a));
    return text;
}

void Sending::send_far(Address to, uint32_t type, uint32_t sender, const void* payload,
                       uint32_t length, uint64_t deadline_ns)
{
    if (far.format.hosts == 0 || far.format.host_of(to) >= far.format.hosts) {
        refuse(to, type);
    }
    if (!refs(type).empty()) {
        throw Error(Errc::bad_argument, message_name(type) +
                                            " refers to a buffer, which is memory of this host; "
                                            "send what is in it to another host");
    }
    check_alive();
    const uint32_t peer = far.format.host_of(to);
    FarLane& lane = *far.lane[peer];
    const uint64_t begin = now_ns();
    Backoff wait;
    std::unique_lock held(lane.lock);
    while (!lane.lost && lane.queue.size() >= far.capacity) { // ends by room, loss or the deadline
        held.unlock();
        check_alive();
        check_interrupt();
        if (now_ns() - begin > deadline_ns) {
            throw Error(Errc::full, "the lane to host " + std::to_string(peer) + " (" +
                                        std::to_string(far.capacity) +
                                        " messages) is full: that host has not kept up for " +
                                        seconds(now_ns() - begin));
        }
        wait.pause();
        held.lock();
    }
    if (lane.lost) {
        throw Error(Errc::host_lost, lane.why);
    }
    if (Address{sender}.is_reply_cell()) {
        const std::lock_guard guard(far.asks_lock);
        far.asked[Address{sender}.cell()] = peer + 1;
        far.ticket[Address{sender}.cell()] = sender;
    }
    const auto* bytes = static_cast<const unsigned char*>(payload);
    lane.queue.push_back({{to.value, sender, type, 0, length}, {bytes, bytes + length}});
    held.unlock();
    ring_bell(&lane.bell->bell, &lane.bell->sleeping);
}

// False: it is an actor of this host.
bool AnyRuntime::Core::watch_far(SystemOp op, Address watcher, Address watched)
{
    if (!watched.is_far()) {
        return false;
    }
    if (far.format.hosts == 0 || far.format.host_of(watched) >= far.format.hosts ||
        far.format.host_of(watched) == far.format.host) {
        refuse(watched, 0);
    }
    FarLane& lane = *far.lane[far.format.host_of(watched)];
    {
        const std::lock_guard guard(lane.lock);
        lane.queue.push_back(
            {{watched.value, watcher.value, static_cast<uint32_t>(op), flag_system, 0}, {}});
    }
    ring_bell(&lane.bell->bell, &lane.bell->sleeping);
    return true;
}

const FarFormat& FarDoor::format() const { return core_.far.format; }
uint32_t FarDoor::hosts() const { return core_.far.format.hosts; }
uint32_t FarDoor::own() const { return core_.far.format.host; }
uint32_t FarDoor::room() const { return core_.image.table.max_message + stamp_bytes; }

bool FarDoor::take(uint32_t peer, Header& h, void* payload)
{
    FarLane& lane = *core_.far.lane[peer];
    const FarFormat& format = core_.far.format;
    const auto finish = [&] {
        h.sender = h.sender == nobody ? nobody : format.to_far({h.sender}).value;
        lane.taken.fetch_add(1, std::memory_order_relaxed);
    };
    for (size_t n = 0; n < core_.nodes.size(); ++n) {
        const Shared& s = core_.nodes[n].shared;
        const PeerLink& link = s.peer[s.node];
        const Slot* slots = link.inboxes + static_cast<uint64_t>(peer) * core_.far.capacity;
        const uint32_t mask = core_.far.capacity - 1;
        uint32_t head = lane.head[n]; // only this thread changes it
        const auto give_credit = [&] {
            if (lane.credited[n] != head) {
                // Release: partner of the acquire in draw().
                store<Scope::system, Order::release>(
                    const_cast<uint32_t*>(link.credits) + peer * credit_stride, head);
                lane.credited[n] = head;
            }
        };
        for (;;) { // ends: what is no message is passed over, and the ring is bounded
            const Packet first = load_packet<Scope::system>(&slots[head & mask].packet[0]);
            if (first.sequence != head + 1) {
                break;
            }
            h = decode(first);
            if (!load_payload<Scope::system>(slots, mask, head, h.length, payload)) {
                break;
            }
            head += slots_for(h.length);
            store<Scope::system>(&lane.head[n], head); // empty() looks at it
            if (head - lane.credited[n] > mask >> 2) {
                give_credit();
            }
            h = without_stamp(h);
            if ((h.flags & flag_system) != 0) {
                if (!is_watch(h)) { // the place of one that was not sent after all
                    continue;
                }
                h.length = 0; // its header says it all
                const std::lock_guard guard(lane.lock);
                note_watch(peer, h);
                finish();
                return true;
            }
            if (!core_.refs(h.type).empty()) { // memory of this host
                core_.buffers->received(core_.refs(h.type), payload);
                core_.bury(Reason::wrong_type, h, payload,
                           core_.message_name(h.type) + " to " + core_.describe({h.destination}) +
                               ": it refers to a buffer, which is memory of this host");
                continue;
            }
            finish();
            return true;
        }
        give_credit();
    }
    const std::lock_guard guard(lane.lock);
    if (lane.queue.empty()) {
        return false;
    }
    h = lane.queue.front().header;
    const auto& bytes = lane.queue.front().payload; // may be none, and then nowhere
    std::copy(bytes.begin(), bytes.end(), static_cast<unsigned char*>(payload));
    lane.queue.pop_front();
    if (is_watch(h)) {
        note_watch(peer, h);
    }
    finish();
    return true;
}

// With the lane's lock.
void FarDoor::note_watch(uint32_t peer, const Header& h)
{
    FarLane& lane = *core_.far.lane[peer];
    const FarWatch w{core_.far.format.to_far({h.sender}).value, h.destination};
    if (h.type == static_cast<uint32_t>(SystemOp::unwatch)) {
        std::erase_if(lane.watches, [&](const FarWatch& o) {
            return o.watcher == w.watcher && o.watched == w.watched;
        });
    } else if (lane.lost) {
        lane.bereft.push_back(w);
    } else {
        lane.watches.push_back(w);
    }
}

bool FarDoor::empty(uint32_t peer)
{
    FarLane& lane = *core_.far.lane[peer];
    for (size_t n = 0; n < core_.nodes.size(); ++n) {
        const Shared& s = core_.nodes[n].shared;
        const uint32_t head = load<Scope::system>(&lane.head[n]);
        const Slot* slots = s.peer[s.node].inboxes + uint64_t{peer} * core_.far.capacity;
        if (load_packet<Scope::system>(&slots[head & (core_.far.capacity - 1)].packet[0])
                .sequence == head + 1) {
            return false;
        }
    }
    const std::lock_guard guard(lane.lock);
    return lane.queue.empty();
}

void FarDoor::sleep(uint32_t peer, uint64_t ns)
{
    FarLane& lane = *core_.far.lane[peer];
    const uint64_t limit = core_.on_gpu && ns > poll_ns ? poll_ns : ns;
    sleep_on_bell(&lane.bell->bell, &lane.bell->sleeping, limit, [&] { return !empty(peer); });
}

void FarDoor::wake(uint32_t peer)
{
    Bell& bell = *core_.far.lane[peer]->bell;
    fetch_add<Scope::system, Order::release>(&bell.bell, 1u);
    futex_wake_all(&bell.bell);
}

Delivered FarDoor::deliver(uint32_t from, const Header& given, const void* payload, bool again)
{
    AnyRuntime::Core& c = core_;
    FarLane& lane = *c.far.lane[from];
    const FarFormat& format = c.far.format;
    const Address address{given.destination};
    const auto done = [&] {
        lane.delivered.fetch_add(1, std::memory_order_relaxed);
        return Delivered::yes;
    };
    const auto garbage = [&] {
        lane.refused.fetch_add(1, std::memory_order_relaxed);
        return Delivered::refused;
    };
    const bool refusal =
        given.flags == flag_system && given.type == far_refusal && given.length == 0;
    const Address sender{given.sender};
    const bool watches = is_watch(given) && given.length == 0 && sender.value != nobody &&
                         c.image.table.down != no_type;
    if (!address.is_far() || format.host_of(address) != format.host ||
        (sender.value != nobody && (!sender.is_far() || format.host_of(sender) != from)) ||
        (!refusal && !watches &&
         (given.flags != 0 || given.type >= c.image.table.messages ||
          given.length != c.image.table.message[given.type].size || !c.refs(given.type).empty()))) {
        return garbage();
    }
    const uint32_t place = format.place_of(address);
    if (watches &&
        (place >= format.own_threads() || format.place_of(sender) >= format.first_cell())) {
        return garbage(); // of and by actors, and the threads of a host may watch
    }
    if (place >= format.first_cell()) { // a reply
        const uint32_t cell = place & 0xffff;
        const uint32_t lap = (place & (format.first_cell() - 1)) >> FarFormat::cell_bits;
        const std::lock_guard guard(c.far.asks_lock);
        if (cell >= c.far.asked.size()) {
            return garbage();
        }
        const Address ticket = c.cells.taken(cell, lap, format.laps());
        if (ticket.value == 0) {
            return garbage();
        }
        c.far.asked[cell] = 0;
        Header h = given;
        h.destination = ticket.value;
        h.sender = refusal ? given.sender : format.to_short(sender).value;
        if (refusal) {
            h.sender = static_cast<uint32_t>(Errc::no_actor) | from << 8;
        }
        write_cell(c.nodes[0].shared, ticket, h, payload);
        return done();
    }
    if (refusal) {
        return garbage();
    }
    const Address to = format.to_short(address);
    Header h = given;
    h.destination = to.value;
    const auto dead = [&](Reason reason, const char* why) {
        lane.refused.fetch_add(1, std::memory_order_relaxed);
        c.bury(reason, h, payload,
               c.message_name(h.type) + " from host " + std::to_string(from) + " to " +
                   c.describe(to) + ": " + why);
        if (reason != Reason::dropped && sender.is_far() &&
            format.place_of(sender) >= format.first_cell()) { // who asks is told
            FarLane& back = *c.far.lane[from];
            {
                const std::lock_guard guard(back.lock);
                back.queue.push_back({{sender.value, host.value, far_refusal, flag_system, 0}, {}});
            }
            wake(from);
        }
        return Delivered::refused;
    };
    const uint32_t down = c.image.table.down;
    if (!watches && given.type == down && given.length == sizeof(Down)) {
        Down news;
        std::memcpy(&news, payload, sizeof news);
        if (news.life == static_cast<uint32_t>(Life::stopped)) { // that was its last
            const std::lock_guard guard(lane.lock);
            std::erase_if(lane.watches, [&](const FarWatch& w) { return w.watched == news.actor; });
        }
    }
    if (to.is_host()) {
        const std::lock_guard guard(c.egress_lock);
        if (c.backlog.size() >= c.options.egress_slots) {
            return dead(Reason::dropped, "nobody receives what this host is sent");
        }
        const auto* bytes = static_cast<const unsigned char*>(payload);
        c.backlog.push_back({h, {bytes, bytes + h.length}});
        return done();
    }
    const uint8_t actor = c.inside(to) ? c.type_at(c.index(to)) : uint8_t{0};
    if (watches && actor == 0) { // it has stopped: the watcher is told at once
        if (given.type == static_cast<uint32_t>(SystemOp::watch)) {
            send_down(from, sender,
                      {given.destination, static_cast<uint32_t>(Life::stopped), 0, 0});
        }
        return done();
    }
    if (actor == 0) {
        return dead(Reason::no_actor, "no such actor");
    }
    const LifeRequest watch{to.local(), given.sender, 0, 0};
    if (watches) {
        h.length = sizeof watch;
        payload = &watch;
    } else if (actor > c.image.table.actors || !c.image.table.can_handle(actor - 1u, h.type)) {
        return dead(Reason::wrong_type, "it has no handler for it");
    }
    Port& port = c.far.port;
    const size_t w = c.worker_index(to);
    const uint32_t n = slots_for(h.length);
    {
        std::unique_lock held(port.lock);
        if (!port.rings.room(w, n)) {
            held.unlock();
            c.wake(to);
            if (watches) {
                return Delivered::no_room;
            }
            const auto policy = static_cast<Overflow>(c.image.table.actor[actor - 1u].overflow);
            if (policy == Overflow::fail) {
                return dead(Reason::dropped, "no room, and its overflow policy is to fail");
            }
            // A GPU's records are out of reach: there the message waits.
            if (policy == Overflow::drop_oldest && !again && !c.on_gpu) {
                const Shared& s = c.nodes[to.node()].shared;
                fetch_add<Scope::system>(
                    &s.actor_records[uint64_t{to.worker()} * s.actors_per_worker + to.local()].drop,
                    1u);
            }
            return Delivered::no_room;
        }
        if (!with_length(h.length,
                         [&]<uint32_t L>() { port.rings.write_short<L>(w, h, payload); })) {
            port.rings.write(w, h, payload);
        }
    }
    c.flush_stores();
    c.wake(to);
    return done();
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
    for (;;) { // ends: each turn tells one, or there is no room
        FarWatch w{};
        {
            const std::lock_guard guard(lane.lock);
            if (lane.bereft.empty()) {
                return true;
            }
            w = lane.bereft.front();
        }
        const Down news{w.watched, static_cast<uint32_t>(Life::stopped), failed_host, 0};
        if (deliver(peer, {w.watcher, w.watched, core_.image.table.down, 0, sizeof news}, &news,
                    false) == Delivered::no_room) {
            return false;
        }
        const std::lock_guard guard(lane.lock);
        lane.bereft.pop_front();
    }
}

// To one who watches an actor of this host from another.
void FarDoor::send_down(uint32_t peer, Address watcher, const Down& news)
{
    FarLane& lane = *core_.far.lane[peer];
    const auto* bytes = reinterpret_cast<const unsigned char*>(&news);
    {
        const std::lock_guard guard(lane.lock);
        lane.queue.push_back({{watcher.value, news.actor, core_.image.table.down, 0, sizeof news},
                              {bytes, bytes + sizeof news}});
    }
    wake(peer);
}

bool FarDoor::is_lost(uint32_t peer) const { return core_.far.lane[peer]->lost; }

void FarDoor::bury_lost(uint32_t peer, const Header& h, const void* payload)
{
    FarLane& lane = *core_.far.lane[peer];
    lane.dead.fetch_add(1, std::memory_order_relaxed);
    if ((h.flags & flag_system) != 0) {
        return; // a refusal: whoever asked is gone
    }
    std::string why;
    {
        const std::lock_guard guard(lane.lock);
        why = lane.why;
    }
    core_.bury(Reason::lost, h, payload,
               core_.message_name(h.type) + " to " + core_.describe({h.destination}) + ": " + why);
}

FarCounts FarDoor::counts(uint32_t peer) const
{
    const FarLane& lane = *core_.far.lane[peer];
    return {lane.taken, lane.delivered, lane.refused, lane.dead};
}

void AnyRuntime::Core::bury(Reason reason, const Header& h, const void* payload, std::string text)
{
    DeadLetter d;
    d.reason = reason;
    d.sender = {h.sender};
    d.destination = {h.destination};
    d.type = h.type;
    d.length = h.length;
    d.time_ns = now_ns() & ((uint64_t{1} << dead_time_bits) - 1);
    if (h.length != 0) {
        std::memcpy(d.payload.data(), payload, std::min(h.length, dead_payload));
    }
    d.text = std::move(text);
    const std::lock_guard guard(far.letters_lock);
    ++far.buried[static_cast<size_t>(reason)];
    if (far.letters.size() >= options.dead_letter_slots) {
        far.letters.pop_front();
        ++far.letters_lost;
    }
    far.letters.push_back(std::move(d));
}

FarDoor& AnyRuntime::far()
{
    Core& c = core();
    if (c.options.hosts == 0) {
        throw Error(Errc::bad_argument,
                    "the program is of no cluster; start it by denizen.Cluster");
    }
    return c.door;
}

} // namespace denizen
