// SPDX-License-Identifier: Apache-2.0
// Addresses that mean the same on every host of a cluster. Inside a host an actor keeps the short
// form of address.hpp, by which all of its own sends go; what leaves the host, and what a handler
// is told (ctx.self(), ctx.sender(), ctx.spawn()), has this one:
//   7:3 | 0:1 | host + 1 | place : place_bits
// and a place is, as the host that it is on reads it,
//   0 | worker of all nodes : rest | local : local_bits    an actor
//   0 | 1...1                                              the host's own threads
//   1 | lap : rest | 0 | cell : 15                         the reply cell of an ask
//   1 | high : rest | 1 | low : 15                         a multicast: who subscribes to one
//   pattern
// The host's number takes as many bits as the cluster has hosts.
#pragma once

#include <denizen/actor/address.hpp>

namespace denizen {

struct FarFormat {
    uint32_t hosts = 0; // of the cluster; 0: the program is of none
    uint32_t host = 0;  // which one this is
    uint32_t place_bits = 28;
    uint32_t local_bits = 0;
    uint32_t workers = 0; // of each node of this host
    uint32_t nodes = 0;

    static constexpr uint32_t cell_bits = 16;

    DENIZEN_HD constexpr uint32_t place_of(Address a) const
    {
        return a.value & ((1u << place_bits) - 1);
    }
    // Of an address that is_far(). At least `hosts` if there is no such host.
    DENIZEN_HD constexpr uint32_t host_of(Address a) const
    {
        return ((a.value & 0x0fffffffu) >> place_bits) - 1;
    }
    DENIZEN_HD constexpr uint32_t first_cell() const { return 1u << (place_bits - 1); }
    DENIZEN_HD constexpr uint32_t own_threads() const { return first_cell() - 1; }
    DENIZEN_HD constexpr uint32_t laps() const { return 1u << (place_bits - 1 - cell_bits); }

    // Multicasts: a message to one is for all who subscribe there to its pattern
    // (src/actor/far_topics).
    static constexpr uint32_t multicast_bit = 1u << (cell_bits - 1);
    DENIZEN_HD constexpr uint32_t multicasts() const { return laps() * multicast_bit; }
    DENIZEN_HD constexpr bool is_multicast(Address a) const
    {
        return a.is_far() && place_of(a) >= first_cell() && (a.value & multicast_bit) != 0;
    }
    DENIZEN_HD constexpr Address multicast(uint32_t of_host, uint32_t number) const
    {
        const uint32_t high = number / multicast_bit & (laps() - 1);
        return far(of_host, first_cell() | high << cell_bits | multicast_bit |
                                (number & (multicast_bit - 1)));
    }

    DENIZEN_HD constexpr Address far(uint32_t of_host, uint32_t place) const
    {
        return {host_node << 29 | (of_host + 1) << place_bits | place};
    }
    // The far form of an address of this host's.
    DENIZEN_HD constexpr Address to_far(Address a) const
    {
        if (a.is_reply_cell()) {
            const uint32_t lap = a.value >> cell_bits & (laps() - 1);
            return far(host, first_cell() | lap << cell_bits | a.cell());
        }
        if (a.is_far() || a.node() == nowhere.node()) {
            return a;
        }
        const uint32_t worker = a.node() * workers + a.worker();
        return far(host, a.is_host() ? own_threads() : worker << local_bits | a.local());
    }
    // The short form of an actor's or the host's far address, if it is of this host's; else `a`,
    // which a reply cell's is too: its lap is known to the host alone.
    DENIZEN_HD constexpr Address to_short(Address a) const
    {
        const uint32_t place = place_of(a);
        if (hosts == 0 || !a.is_far() || host_of(a) != host || place >= first_cell()) {
            return a;
        }
        if (place == own_threads()) {
            return denizen::host;
        }
        const uint32_t worker = place >> local_bits;
        return worker < nodes * workers
                   ? Address::actor(worker % workers, place & ((1u << local_bits) - 1),
                                    worker / workers)
                   : nowhere;
    }
};

namespace detail {

// What a handler is told of an address: out of line, so that a program that is of no cluster pays
// one comparison.
DENIZEN_COLD inline uint32_t far_form(const FarFormat& f, uint32_t address)
{
    return f.to_far({address}).value;
}

} // namespace detail

} // namespace denizen
