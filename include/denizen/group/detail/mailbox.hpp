// SPDX-License-Identifier: Apache-2.0
// A resident group: teams that stay on the device and do what the host posts, without a launch. The
// host writes a call as one message of four packets, into the device's own memory where it can, and
// all teams find it there. Where it cannot, the first team reads it in the host's memory and passes
// it on to the others. Each team that has a part in the call says to the host when it is done, in a
// word of its own: nobody counts, and so nobody waits for the others. Teams whose channel has no
// part in a call do not hold it up.
//
// The teams leave by themselves when nothing was posted for the length of the lease, or the host
// says so; whoever posts later launches them again. So nothing stays on the device when the host
// dies, and who waits for the device to be idle waits no longer than that. The first team says that
// the lease is over; each goes, when it has no message, and comes back at the number where it went.
#pragma once

#include <denizen/group/detail/perform.hpp>

namespace denizen::group {

inline constexpr uint32_t posts = 16;       // calls that may be under way
inline constexpr uint32_t post_packets = 4; // of one
inline constexpr uint32_t leave_kind = 15;  // instead of a Kind: there is no more to do

struct Mailbox {
    Packet* post;      // [posts][post_packets], the host writes; number t is at t % posts
    Packet* inbox;     // the same, as the first team reads it
    Packet* relay;     // where the others look: what the first team passes on, or the inbox too
    Packet* left;      // the host reads: number of the first one that the first team has not taken,
                       // when it has left
    Packet* failed;    // and not 0 when a call has failed
    uint32_t* done;    // [teams], and the last number that each has had a part in and done
    uint32_t* stay;    // [teams], number that each goes on with when they are launched again
    uint32_t* over;    // not 0: the lease
    uint32_t teams;    // that serve; the CPU's one does the work of all channels
    uint64_t lease_ns; // and a wait within it has the group's own deadline
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

// Of two messages' numbers; 0 is none.
DENIZEN_HD inline bool later(uint32_t number, uint32_t than)
{
    return number != 0 && static_cast<int32_t>(number - than) > 0;
}

// By a team's first warp, until message `number` is there, or one that has taken its place. False:
// the lease is over. All of a message is there, or nothing.
DENIZEN_HD inline bool take_message(const Mailbox& box, uint32_t team, uint32_t number,
                                    Packet* shared)
{
    const Packet* const at = (team == 0 ? box.inbox : box.relay) + number % posts * post_packets;
    const uint64_t until = now_ns() + box.lease_ns;
    for (uint32_t looks = 1;; ++looks) { // ends with the message, or the lease
        bool over = false; // known before the look: what the first team had, the others find
        if (looks % 64 == 0) {
            // Acquire: partner of the first team's release when it left.
            over = team == 0 ? now_ns() > until
                             : denizen::load<Scope::gpu, Order::acquire>(box.over) != 0;
        }
        bool here = true;
        for (uint32_t p = Warp::rank(); p < post_packets; p += Warp::size()) {
            shared[p] = Direct::load(at + p);
            const uint32_t got = shared[p].sequence;
            here = here && (got == number || later(got, number));
        }
        if (Warp::all(here)) return true;
        if (Warp::all(over)) return false;
        Direct::idle(looks);
    }
}

// Every thread of every team; `perform_one` does a call and says whether it went well. `shared`:
// memory of the team's, for two messages: the next one is taken while this one is still read.
template <class Perform>
DENIZEN_HD inline void serve(const Mailbox& box, uint32_t team, uint32_t teams,
                             Packet (&shared)[2 * post_packets], Perform perform_one)
{
    const bool passes_on = team == 0 && teams > 1 && box.relay != box.inbox;
    uint32_t number = box.stay[team];
    for (;; ++number) { // ends when the host or the lease says so
        Packet* const here = shared + number % 2 * post_packets;
        if (Warp::index() == 0) {
            const bool came = take_message(box, team, number, here);
            for (uint32_t p = Warp::rank(); p < post_packets; p += Warp::size()) {
                if (!came) here[p] = Packet{{leave_kind, 0, 0}, number};
                // Partner: the other teams' load. What the call refers to was there before the host
                // posted it.
                if (came && passes_on) {
                    Direct::store(box.relay + number % posts * post_packets + p, here[p]);
                }
            }
        }
        Team::sync();
        Packet message[post_packets];
        bool missed = false;
        for (uint32_t p = 0; p < post_packets; ++p) {
            message[p] = here[p];
            missed = missed || later(message[p].sequence, number);
        }
        if (missed) continue; // it is done: without this team, which had no part in it
        if ((message[0].word[0] & 15) == leave_kind) break;
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
    box.stay[team] = number;
    if (team != 0) return;
    // Release: what this team has taken, the others find before they leave.
    denizen::store<Scope::gpu, Order::release>(box.over, 1u);
    Direct::release();
    Direct::store(box.left, Packet{{0, 0, 0}, number});
}

} // namespace denizen::group
