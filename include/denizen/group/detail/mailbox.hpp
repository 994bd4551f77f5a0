// SPDX-License-Identifier: Apache-2.0
// A resident group: teams that stay on the device and do what the host posts, without a launch. The
// host writes a call as one message of four packets. If it can, it writes into the device's own
// memory, where all teams find the message. If it cannot, the first team reads the message in the
// host's memory and passes it on to the others. Each team that takes part in a call reports its end
// to the host in a word of its own. No counter is shared, so no team waits for another to report.
// Teams whose channel takes no part in a call do not hold it up.
//
// The teams leave when nothing was posted for the length of the lease, or when the host says so.
// They come back when something is posted. On a GPU each incarnation of the teams also ends with
// its breath (device/detail/term.hpp), and its successor goes on. So nothing stays on the device
// when the host dies, and work that waits for the device waits no longer than a breath.
//
// All teams of a rank leave before the same call, the cut. Without a cut there would be a deadlock.
// Suppose that of rank A the first team is in a call and the second has left, while of rank B the
// second is in that call and the first has left. Each rank's successor then waits for the team that
// is still in the call, and that team waits for the other rank's successor. With a cut in each
// rank, take the earliest call that any team is in: each peer's teams are in it too, or all of that
// peer's teams leave before it. (tests/model/cut.pml)
//
//  1. A team comes to the end when it sees between two calls that the time is over: that of the
//     breath, or the lease, which the first team watches for all. It adds itself to the number of
//     teams that have come. The cut becomes its next call's number, if that is greater.
//  2. It goes on looking for messages. While not all teams have come it may take any message, and
//     then raises the cut behind it. So no team waits for another that has not come yet.
//  3. When all teams have come, the cut stands. Each does the calls that are left before the cut,
//  and
//     leaves.
#pragma once

#include <denizen/device/detail/term.hpp>
#include <denizen/group/detail/perform.hpp>

namespace denizen::group {

inline constexpr uint32_t posts = 16;       // calls that may be under way
inline constexpr uint32_t post_packets = 4; // of one
inline constexpr uint32_t leave_kind = 15;  // instead of a Kind: there is no more to do,
inline constexpr uint32_t cut_kind = 14;    // or not in this incarnation

// What an incarnation of the teams leaves to the next one, and how it comes to its end. It lies in
// device memory, and begins as 0 but for the number, which begins as 1.
struct Stay {
    uint32_t number; // the first call that none has taken
    uint32_t reserved;
    uint64_t since_ns; // when the first team did the last call
    uint64_t cut;      // of this incarnation: cut, and in the low half how many teams have come
};

struct Mailbox {
    Packet* post;      // [posts][post_packets], the host writes; number t is at t % posts
    Packet* inbox;     // the same, as the first team reads it
    Packet* relay;     // where the others look: what the first team passes on, or the inbox too
    Packet* left;      // the host reads: number of the first call that no team has taken, when all
                       // have left
    Packet* failed;    // and not 0 when a call has failed
    uint32_t* done;    // [teams], and the last number that each has had a part in and done
    Stay* stay;        //
    uint32_t teams;    // that serve; the CPU's one does the work of all channels
    uint64_t lease_ns; // and a wait within it has the group's own deadline
    TermRef term;      // of this incarnation
};

DENIZEN_HD inline void encode(const Call& call, uint32_t number, Packet (&to)[post_packets])
{
    const uint64_t words[6] = {
        static_cast<uint64_t>(call.kind) | static_cast<uint64_t>(call.type) << 4 |
            static_cast<uint64_t>(call.op) << 8 | static_cast<uint64_t>(call.algorithm) << 12 |
            static_cast<uint64_t>(call.root) << 16 | static_cast<uint64_t>(call.channels) << 32,
        call.count,
        reinterpret_cast<uint64_t>(call.in),
        reinterpret_cast<uint64_t>(call.out),
        call.in_place,
        call.out_place};
    for (uint32_t i = 0; i < post_packets; ++i) {
        for (uint32_t w = 0; w < 3; ++w) {
            const uint32_t at = 3 * i + w;
            to[i].word[w] = static_cast<uint32_t>(words[at / 2] >> (at % 2 * 32));
        }
        to[i].sequence = number;
    }
}

DENIZEN_HD inline Call decode(const Packet (&from)[post_packets])
{
    uint64_t words[6] = {};
    for (uint32_t at = 0; at < 12; ++at) {
        words[at / 2] |= uint64_t{from[at / 3].word[at % 3]} << (at % 2 * 32);
    }
    Call call;
    call.kind = static_cast<Kind>(words[0] & 15);
    call.type = static_cast<Type>(words[0] >> 4 & 15);
    call.op = static_cast<Op>(words[0] >> 8 & 15);
    call.algorithm = static_cast<Algorithm>(words[0] >> 12 & 15);
    call.root = static_cast<uint32_t>(words[0] >> 16 & 0xffff);
    call.channels = static_cast<uint32_t>(words[0] >> 32);
    call.count = words[1];
    call.in = reinterpret_cast<const void*>(words[2]);
    call.out = reinterpret_cast<void*>(words[3]);
    call.in_place = words[4];
    call.out_place = words[5];
    return call;
}

// Whether message `number` is later than message `than`. 0 is no number.
DENIZEN_HD inline bool later(uint32_t number, uint32_t than)
{
    return number != 0 && static_cast<int32_t>(number - than) > 0;
}

// The times that a team's first warp watches.
struct Watch {
    uint64_t until_ns = 0; // the incarnation's
    uint64_t since_ns = 0; // when the last call was done
    uint32_t first = 0;    // number that the team went on with
    bool come = false;     // step 1 is done
};

// Step 1, one thread.
DENIZEN_HD inline void come_to_end(const Mailbox& box, uint32_t number)
{
    uint64_t word = load<Scope::gpu>(&box.stay->cut);
    uint64_t next = 0;
    do { // ends: a failure means that another team has come, or taken a message
        const auto cut = static_cast<uint32_t>(word >> 32);
        const auto come = static_cast<uint32_t>(word);
        const bool raises = come == 0 || static_cast<int32_t>(number - cut) > 0;
        next = uint64_t{raises ? number : cut} << 32 | (come + 1);
    } while (!compare_exchange<Scope::gpu>(&box.stay->cut, word, next));
}

// Step 2, one thread: whether call `number`, which is there, is for this incarnation.
DENIZEN_HD inline bool may_take(const Mailbox& box, uint32_t teams, uint32_t number)
{
    uint64_t word = load<Scope::gpu>(&box.stay->cut);
    while (true) { // ends: a failure means that another team has come, or raised the cut
        const auto cut = static_cast<uint32_t>(word >> 32);
        const auto come = static_cast<uint32_t>(word);
        if (static_cast<int32_t>(cut - number) > 0) return true;
        if (come == teams) return false;
        const uint64_t next = uint64_t{number + 1} << 32 | come;
        if (compare_exchange<Scope::gpu>(&box.stay->cut, word, next)) return true;
    }
}

// Called by a team's first warp. Whether message `number` is there, whole, or a later one that has
// taken its place.
DENIZEN_HD inline bool look_for(const Packet* at, uint32_t number, Packet* shared)
{
    bool here = true;
    for (uint32_t p = Warp::rank(); p < post_packets; p += Warp::size()) {
        shared[p] = Direct::load(at + p);
        const uint32_t got = shared[p].sequence;
        here = here && (got == number || later(got, number));
    }
    return Warp::all(here);
}

// Steps 1 to 3: waits until message `number` is there. False: the team leaves before it.
DENIZEN_HD inline bool take_at_end(const Mailbox& box, uint32_t team, uint32_t teams,
                                   uint32_t number, const Packet* at, Packet* shared, Watch& watch)
{
    const bool says = Warp::rank() == 0;
    if (!watch.come) {
        watch.come = true;
        if (says && team == 0) denizen::detail::leave_if_asked(box.term);
        if (says) come_to_end(box, number);
    }
    // Ends with the message, or when all teams have come, which each does after its call at most.
    for (uint32_t looks = 1;; ++looks) {
        if (look_for(at, number, shared)) {
            return Warp::all(!says || may_take(box, teams, number));
        }
        const uint64_t end = uint64_t{number} << 32 | teams;
        if (Warp::all(!says || load<Scope::gpu>(&box.stay->cut) == end)) return false;
        Direct::idle(looks);
    }
}

// Called by a team's first warp. Waits until message `number` is there. False: the team leaves
// before it.
DENIZEN_HD inline bool take_message(const Mailbox& box, uint32_t team, uint32_t teams,
                                    uint32_t number, Packet* shared, Watch& watch)
{
    const Packet* const at = (team == 0 ? box.inbox : box.relay) + number % posts * post_packets;
    const uint64_t begin = now_ns();
    if (number != watch.first) watch.since_ns = begin; // a call was done
    bool over = Warp::all(watch.come || begin > watch.until_ns);
    for (uint32_t looks = 1; !over; ++looks) { // ends with the message, the breath, or the lease
        if (looks % 64 == 0) {
            const uint64_t now = now_ns();
            over = now > watch.until_ns;
            if (team != 0) {
                over = over || denizen::detail::leaves_gpu(box.term);
            } else if (now - watch.since_ns > box.lease_ns) {
                if (Warp::rank() == 0) denizen::detail::leave_gpu(box.term, Leave::idle);
                over = true;
            } else if (box.term.ns == 0 && looks % 1024 == 0) { // else at the end of each breath
                if (Warp::rank() == 0) denizen::detail::leave_if_asked(box.term);
                Warp::sync();
                over = denizen::detail::leaves_gpu(box.term);
            }
        }
        if (look_for(at, number, shared)) return true;
        over = Warp::all(over);
        Direct::idle(looks);
    }
    return take_at_end(box, team, teams, number, at, shared, watch);
}

// A lane that has loaded packet `p` of message `number`: the other teams get it. What the call
// refers to was there before the host posted it, and is there for them: acquire, the host's
// partner; release, partner of the acquire of those that load it (tests/model/ptx/relay.litmus).
DENIZEN_HD inline void pass_on(const Mailbox& box, uint32_t number, uint32_t p,
                               const Packet& packet)
{
    Direct::acquire();
    Direct::release();
    Direct::store(box.relay + number % posts * post_packets + p, packet);
}

// A team's first warp, as an incarnation begins.
DENIZEN_HD inline Watch begin_watch(const Mailbox& box, uint32_t team)
{
    Watch watch;
    if (Warp::rank() == 0) denizen::detail::begin_term(box.term, team == 0);
    Warp::sync();
    watch.until_ns = box.term.ns == 0 ? ~uint64_t{0}
                                      : load<Scope::gpu>(&denizen::detail::own(box.term).until_ns);
    // The first team's is what counts, and it alone writes it.
    watch.since_ns = team == 0 && box.term.successor != 0 ? box.stay->since_ns : now_ns();
    return watch;
}

// One thread of each team that leaves before call `number`.
DENIZEN_HD inline void end_stay(const Mailbox& box, uint32_t team, uint32_t number,
                                const Watch& watch)
{
    if (team == 0) box.stay->since_ns = watch.since_ns;
    if (!denizen::detail::is_last_to_leave(box.term, team == 0)) return;
    box.stay->number = number;
    box.stay->cut = 0;
    if (denizen::detail::leaves_gpu(box.term)) Direct::store(box.left, Packet{{0, 0, 0}, number});
    denizen::detail::tell_end(box.term);
}

// Every thread of every team; `perform_one` does a call and says whether it went well. `shared`:
// memory of the team's, for two messages: the next one is taken while this one is still read.
template <class Perform>
DENIZEN_HD inline void serve(const Mailbox& box, uint32_t team, uint32_t teams,
                             Packet (&shared)[2 * post_packets], Perform perform_one)
{
    if (denizen::detail::came_too_late(box.term)) {
        if (team == 0 && Team::rank() == 0) denizen::detail::tell_too_late(box.term);
        return;
    }
    const bool passes_on = team == 0 && teams > 1 && box.relay != box.inbox;
    Watch watch;
    if (Warp::index() == 0) watch = begin_watch(box, team);
    uint32_t number = box.stay->number;
    watch.first = number;
    uint32_t kind = 0;
    for (;; ++number) { // ends when the host, the lease or the breath says so
        Packet* const here = shared + number % 2 * post_packets;
        if (Warp::index() == 0) {
            const bool came = take_message(box, team, teams, number, here, watch);
            Warp::sync();
            for (uint32_t p = Warp::rank(); p < post_packets; p += Warp::size()) {
                if (!came) here[p] = Packet{{cut_kind, 0, 0}, number};
                if (came && passes_on) pass_on(box, number, p, here[p]);
            }
            // What lay at these addresses in an earlier call may be in the L1 still.
            if (Warp::rank() == 0) Direct::acquire();
        }
        Team::sync();
        Packet message[post_packets];
        bool missed = false;
        for (uint32_t p = 0; p < post_packets; ++p) {
            message[p] = here[p];
            missed = missed || later(message[p].sequence, number);
        }
        if (missed) continue; // it is done: without this team, which had no part in it
        kind = message[0].word[0] & 15;
        if (kind >= cut_kind) break;
        const Call call = decode(message);
        if (team >= call.channels) continue;
        const bool good = perform_one(call);
        Team::sync();
        if (Team::rank() == 0) {
            if (!good) Direct::store(box.failed, Packet{{0, 0, 0}, number});
            Direct::release(); // the team's results; partner: the host's load
            store<Scope::system, denizen::detail::host_release>(box.done + team, number);
        }
    }
    if (Team::rank() != 0) return;
    if (team == 0 && kind == leave_kind) denizen::detail::leave_gpu(box.term, Leave::stopped);
    end_stay(box, team, number, watch);
}

} // namespace denizen::group
