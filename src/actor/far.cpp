// SPDX-License-Identifier: Apache-2.0
#include "core.hpp"

#include <denizen/actor/detail/topics.hpp>
#include <denizen/actor/far.hpp>

#include <algorithm>
#include <cstring>

namespace denizen {
namespace {

constexpr uint64_t poll_ns = 50'000; // a GPU's workers ring no bell

void wake_thread(FarLane& lane)
{
    // Release: partner of the acquires in sleep_on_bell() and FarDoor::bell(): who has seen the
    // bell before this sleeps no more, and who sees it as it is now sees what it was rung for.
    fetch_add<Scope::system, Order::release>(&lane.bell->bell, 1u);
    futex_wake_all(&lane.bell->bell);
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
    far.duty.waiting.resize(all_workers());
    for (uint32_t h = 0; h < options.hosts; ++h) {
        far.lane.push_back(std::make_unique<FarLane>());
        far.lane[h]->bell = far_bells + h;
        far.lane[h]->head.assign(nodes.size(), {});
        far.lane[h]->credited.assign(nodes.size(), {});
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
    const char* what = f.is_multicast(a)                 ? "the subscribers"
                       : f.place_of(a) >= f.first_cell() ? "an ask"
                                                         : "address";
    std::snprintf(text, sizeof text, "%s 0x%08x of host %u", what, a.value, f.host_of(a));
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
    const uint32_t priority = image.table.message[type].priority;
    std::deque<Message>& queue = lane.queue[priority];
    const uint64_t begin = now_ns();
    Backoff wait;
    std::unique_lock held(lane.lock);
    // Ends by room, loss or the deadline.
    while (!lane.lost && (far.held || queue.size() >= far.capacity)) {
        held.unlock();
        check_alive();
        check_interrupt();
        if (now_ns() - begin > deadline_ns) {
            if (far.log_bytes != 0 && lane.log.bytes >= far.log_bytes) {
                throw Error(Errc::full, "the log of what durable actors of host " +
                                            std::to_string(peer) + " were sent is full (" +
                                            std::to_string(far.log_bytes) +
                                            " bytes since the last snapshot); save the cluster, "
                                            "or raise log_bytes");
            }
            if (far.held) {
                throw Error(Errc::full, "the lane to host " + std::to_string(peer) +
                                            " is held: a snapshot of the cluster is being taken, "
                                            "which has lasted " +
                                            seconds(now_ns() - begin));
            }
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
    Message m{{to.value, sender, type, 0, length}, {bytes, bytes + length}};
    const Header plain = m.header;
    const uint64_t stamp = host_trace.on() ? host_trace.draw() : 0;
    const uint64_t drawn_at = stamp != 0 ? now_ns() : 0;
    if (stamp != 0) {
        put_stamp(m.header, m.payload, stamp);
    }
    lane.put(std::move(m), priority == urgent);
    held.unlock();
    // Its own way, or its worker may be looking for it, and then its link's thread is not to be
    // rung for but woken.
    if (on_gpu) {
        ring_bell(&lane.bell->bell, &lane.bell->sleeping);
    } else if (!FarDuty::send(lane)) {
        wake_thread(lane);
    }
    if (stamp != 0) {
        host_trace.sent(plain, stamp, drawn_at);
    }
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
        lane.put({{watched.value, watcher.value, static_cast<uint32_t>(op), flag_system, 0}, {}});
    }
    wake_thread(lane);
    return true;
}

const FarFormat& FarDoor::format() const { return core_.far.format; }
uint32_t FarDoor::hosts() const { return core_.far.format.hosts; }
uint32_t FarDoor::own() const { return core_.far.format.host; }
uint32_t FarDoor::room() const
{
    return std::max(core_.image.table.max_message + stamp_bytes, first_payload);
}

bool FarDoor::has_urgent() const
{
    const ProgramTable& t = core_.image.table;
    return std::any_of(t.message, t.message + t.messages,
                       [](const auto& m) { return m.priority == Sending::urgent; });
}

bool FarDoor::urgent(const Header& h) const
{
    const ProgramTable& t = core_.image.table;
    return (h.flags & flag_system) == 0 && h.type < t.messages &&
           t.message[h.type].priority == Sending::urgent;
}

bool FarDoor::begun(uint32_t peer) const
{
    const FarLane& lane = *core_.far.lane[peer];
    bool found = lane.count_telling != 0 || lane.log.count_replay != 0 || lane.count_queued != 0;
    for (size_t n = 0; n < core_.nodes.size() && !found; ++n) {
        for (const bool hurried : {false, true}) {
            const FarRing ring = far_ring(core_.nodes[n].shared, peer, hurried);
            const uint32_t head = load<Scope::system>(&lane.head[n][hurried]);
            found |= load_packet<Scope::system>(&ring.slots[head & ring.mask].packet[0]).sequence ==
                     head + 1;
        }
    }
    return found;
}

bool FarDoor::take(uint32_t peer, Header& h, void* payload)
{
    FarLane& lane = *core_.far.lane[peer];
    if (lane.count_telling != 0) {
        const std::lock_guard guard(lane.lock);
        if (take_telling(peer, h, payload)) {
            count_taken(lane, h);
            return true;
        }
    }
    if (lane.log.count_replay != 0 && !lane.lost && take_replayed(peer, h, payload)) {
        lane.taken.fetch_add(1, std::memory_order_relaxed);
        return true;
    }
    for (size_t n = 0; n < core_.nodes.size(); ++n) {
        if (take_ring(peer, n, false, h, payload)) {
            return true;
        }
    }
    return take_queue(peer, false, h, payload);
}

bool FarDoor::take_urgent(uint32_t peer, Header& h, void* payload)
{
    FarLane& lane = *core_.far.lane[peer];
    if (lane.log.count_replay != 0 && !lane.lost) {
        return false; // the log goes first
    }
    for (size_t n = 0; n < core_.nodes.size(); ++n) {
        if (take_ring(peer, n, true, h, payload)) {
            return true;
        }
    }
    return lane.count_hurried != 0 && take_queue(peer, true, h, payload);
}

void FarDoor::count_taken(FarLane& lane, Header& h) const
{
    h.sender = h.sender == nobody ? nobody : core_.far.format.to_far({h.sender}).value;
    // Only who takes writes it.
    lane.taken.store(lane.taken.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// Of what a node's workers have sent.
bool FarDoor::take_ring(uint32_t peer, size_t n, bool hurried, Header& h, void* payload)
{
    FarLane& lane = *core_.far.lane[peer];
    const FarRing ring = far_ring(core_.nodes[n].shared, peer, hurried);
    uint32_t head = lane.head[n][hurried]; // only who takes changes it
    for (;;) { // ends: what is no message is passed over, and the ring is bounded
        const Packet first = load_packet<Scope::system>(&ring.slots[head & ring.mask].packet[0]);
        if (first.sequence != head + 1) {
            break;
        }
        h = decode(first);
        bool whole = false;
        if (!with_length(h.length, [&]<uint32_t L>() {
                whole =
                    load_short<Scope::system, L>(&ring.slots[head & ring.mask], head, h, payload);
            })) {
            whole = load_payload<Scope::system>(ring.slots, ring.mask, head, h.length, payload);
        }
        if (!whole) {
            break;
        }
        head += slots_for(h.length);
        // Release: partner of the acquire in waits_in(). Who sees that it is taken from the lane
        // sees what was stored before that, as that a link holds it (Pair::idle()).
        store<Scope::system, Order::release>(&lane.head[n][hurried], head);
        if (head - lane.credited[n][hurried] > ring.mask >> 2) {
            give_credit(lane, ring, n, hurried);
        }
        if ((h.flags & flag_system) != 0) {
            if (peer == own() && is_topic_change(h)) {
                TopicRequest r;
                std::memcpy(&r, payload, sizeof r);
                note_topic(static_cast<SystemOp>(h.type), r.key, r.subscriber);
                continue;
            }
            if (!is_order(h)) { // the place of one that was not sent after all
                continue;
            }
            h.length = 0; // its header says it all
            if (is_watch(h)) {
                const std::lock_guard guard(lane.lock);
                note_watch(peer, h);
            }
        } else if (!core_.refs(h.type).empty()) { // memory of this host
            core_.buffers->received(core_.refs(h.type), payload);
            core_.bury(Reason::wrong_type, h, payload,
                       core_.message_name(h.type) + " to " + core_.describe({h.destination}) +
                           ": it refers to a buffer, which is memory of this host");
            continue;
        }
        count_taken(lane, h);
        return true;
    }
    give_credit(lane, ring, n, hurried);
    return false;
}

void FarDoor::give_credit(FarLane& lane, const FarRing& ring, size_t n, bool hurried) const
{
    const uint32_t head = lane.head[n][hurried];
    if (lane.credited[n][hurried] != head) {
        // Release: partner of the acquires in draw() and post_to_host().
        store<Scope::system, Order::release>(ring.credit, head);
        lane.credited[n][hurried] = head;
    }
}

void FarDoor::give_credit(uint32_t peer)
{
    FarLane& lane = *core_.far.lane[peer];
    for (size_t n = 0; n < core_.nodes.size(); ++n) {
        for (const bool hurried : {false, true}) {
            give_credit(lane, far_ring(core_.nodes[n].shared, peer, hurried), n, hurried);
        }
    }
}

// Of what the host's threads have sent.
bool FarDoor::take_queue(uint32_t peer, bool hurried, Header& h, void* payload)
{
    FarLane& lane = *core_.far.lane[peer];
    if (lane.count_queued == 0) {
        return false;
    }
    std::deque<Message>& queue = lane.queue[hurried];
    const std::lock_guard guard(lane.lock);
    if (queue.empty()) {
        return false;
    }
    h = queue.front().header;
    const auto& bytes = queue.front().payload; // may be none, and then nowhere
    std::copy(bytes.begin(), bytes.end(), static_cast<unsigned char*>(payload));
    queue.pop_front();
    --lane.count_queued;
    if (hurried) {
        --lane.count_hurried;
    }
    if (is_watch(h)) {
        note_watch(peer, h);
    }
    count_taken(lane, h);
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
    if (lane.log.count_replay != 0 && !lane.lost) { // of a lost host's they wait for its restart
        return false;
    }
    for (size_t n = 0; n < core_.nodes.size(); ++n) {
        if (waits_in(peer, n, false) || waits_in(peer, n, true)) {
            return false;
        }
    }
    const std::lock_guard guard(lane.lock);
    return lane.queue[0].empty() && lane.queue[1].empty() && lane.telling.empty();
}

// A whole message in a node's ring; its end may be in an outbox.
bool FarDoor::waits_in(uint32_t peer, size_t n, bool hurried) const
{
    const FarRing ring = far_ring(core_.nodes[n].shared, peer, hurried);
    const uint32_t head =
        load<Scope::system, Order::acquire>(&core_.far.lane[peer]->head[n][hurried]);
    const auto there = [&](uint32_t ticket, uint32_t k, Packet& p) {
        p = load_packet<Scope::system>(&ring.slots[ticket & ring.mask].packet[k]);
        return p.sequence == ticket + 1;
    };
    Packet first;
    Packet other;
    bool whole = there(head, 0, first);
    const uint32_t packets = whole ? 4 * slots_for(decode(first).length) : 0;
    for (uint32_t i = 1; i < packets && whole; ++i) {
        whole = there(head + i / 4, i % 4, other);
    }
    return whole;
}

void FarDoor::sleep(uint32_t peer, uint32_t seen, uint64_t ns)
{
    FarLane& lane = *core_.far.lane[peer];
    const uint64_t limit = core_.on_gpu && ns > poll_ns ? poll_ns : ns;
    sleep_on_bell(&lane.bell->bell, &lane.bell->sleeping, limit,
                  [&] { return bell(peer) != seen || !empty(peer); });
}

void FarDoor::wake(uint32_t peer) { wake_thread(*core_.far.lane[peer]); }

uint32_t FarDoor::bell(uint32_t peer) const
{
    // Acquire: partner of the release in wake_thread().
    return load<Scope::system, Order::acquire>(&core_.far.lane[peer]->bell->bell);
}

void FarDoor::nap(uint32_t peer, uint32_t seen, uint64_t ns)
{
    futex_wait(&core_.far.lane[peer]->bell->bell, seen, ns);
}

bool FarDoor::is_lost(uint32_t peer) const { return core_.far.lane[peer]->lost; }

void FarDoor::recount(uint32_t peer)
{
    FarLane& lane = *core_.far.lane[peer];
    for (std::atomic<uint64_t>* count :
         {&lane.taken, &lane.delivered, &lane.refused, &lane.dead, &lane.told, &lane.heard}) {
        *count = 0;
    }
}

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

void AnyRuntime::Core::bury(Reason reason, const Header& given, const void* payload,
                            std::string text)
{
    const Header h = without_stamp(given);
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
