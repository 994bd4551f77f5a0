// SPDX-License-Identifier: Apache-2.0
// A resident group: teams that stay on the device and do what the host posts, without a launch. The
// host writes a call as one message of four packets; the first team reads it and passes it on to
// the others through memory near them; the last team to be done says so to the host. Teams whose
// channel has no part in a call do not hold it up.
//
// The teams leave by themselves when nothing was posted for the length of the lease, or the host
// says so; whoever posts later launches them again. So nothing stays on the device when the host
// dies, and who waits for the device to be idle waits no longer than that.
#pragma once

#include <denizen/group/perform.hpp>

namespace denizen::group {

inline constexpr uint32_t posts = 16;       // calls that may be under way
inline constexpr uint32_t post_packets = 4; // of one
inline constexpr uint32_t leave_kind = 15;  // instead of a Kind: there is no more to do

struct Mailbox {
    Packet* post;      // [posts][post_packets], the host writes; number t is at t % posts
    Packet* finished;  // [3], the host reads: the number that is done; that of the first one not
                       // taken, when the teams have left; not 0 when a call has failed
    Packet* relay;     // as post; the first team writes, the others read
    uint32_t* done;    // [posts] teams that have done it, of those that take part
    uint32_t* stay;    // number to go on with, for the next launch
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

// Every thread of every team; `perform_one` does a call and says whether it went well. `shared`:
// memory of the team's, for one message.
template <class Perform>
DENIZEN_HD inline void serve(const Mailbox& box, uint32_t team, uint32_t teams, Packet* shared,
                             Perform perform_one)
{
    uint32_t number = *box.stay;
    for (;; ++number) { // ends when the host or the lease says so
        const uint32_t slot = number % posts * post_packets;
        const uint32_t i = Team::rank();
        for (uint32_t p = i; p < post_packets; p += Team::size()) {
            const Packet* const at = (team == 0 ? box.post : box.relay) + slot + p;
            Packet got = Direct::load(at);
            const uint64_t until = now_ns() + box.lease_ns;
            uint32_t looks = 0;
            // Ends with the message or one that has taken its place, or with the lease for the
            // first team, which tells the others.
            while (got.sequence != number && !later(got.sequence, number)) {
                if (++looks % 64 == 0 && team == 0 && now_ns() > until) break;
                Direct::idle(looks);
                got = Direct::load(at);
            }
            shared[p] = got;
        }
        Team::sync();
        Packet message[post_packets];
        bool leaves = false;
        bool missed = false;
        for (uint32_t p = 0; p < post_packets; ++p) {
            message[p] = shared[p];
            leaves = leaves || message[p].sequence != number; // all of a message, or nothing
            missed = missed || later(message[p].sequence, number);
        }
        leaves = leaves || (message[0].word[0] & 15) == leave_kind;
        if (teams > 1 && team == 0) {
            for (uint32_t p = i; p < post_packets; p += Team::size()) {
                // Partner: the other teams' load above. What the call refers to was there before
                // the host posted it.
                Packet passed = leaves ? Packet{{leave_kind, 0, 0}, 0} : message[p];
                passed.sequence = number;
                Direct::store(box.relay + slot + p, passed);
            }
        }
        Team::sync();         // `shared` is free again
        if (missed) continue; // it is done: without this team, which had no part in it
        if (leaves) break;
        const Call call = decode(message);
        const uint32_t part = call.channels < teams ? call.channels : teams;
        if (team >= part) continue;
        const bool good = perform_one(call);
        Team::sync();
        if (i == 0) {
            if (!good) Direct::store(box.finished + 2, Packet{{0, 0, 0}, number});
            // All results of the team, and for the last one those of the others.
            const uint32_t before =
                fetch_add<Scope::gpu, Order::acq_rel>(box.done + number % posts, 1u);
            if (before == part - 1) {
                store<Scope::gpu>(box.done + number % posts, 0u); // for the one `posts` later
                Direct::release();                                // partner: the host's load
                Direct::store(box.finished, Packet{{0, 0, 0}, number});
            }
        }
    }
    if (team == 0 && Team::rank() == 0) {
        *box.stay = number; // for the next launch
        Direct::release();
        Direct::store(box.finished + 1, Packet{{0, 0, 0}, number});
    }
}

} // namespace denizen::group
