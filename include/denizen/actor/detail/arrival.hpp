// SPDX-License-Identifier: Apache-2.0
// What a worker has read of a ring: a slot's words, or those of as many slots as it has lanes. The
// rings that lie in global memory, all together, are sources.hpp's.
#pragma once

#include <denizen/actor/detail/layout.hpp>
#include <denizen/base/cluster.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/wire/slot.hpp>

namespace denizen {

// A ring that a worker reads, from its next ticket on.
struct Source {
    const Slot* slots = nullptr; // in global memory; null for a near ring,
    cluster::Address near = {};  // whose slots lie here
    uint32_t mask = 0;
    uint32_t head = 0;

    DENIZEN_HD Packet load_near(uint32_t ticket, uint32_t k) const
    {
        return cluster::load_packet(near + ((ticket & mask) * 4 + k) * sizeof(Packet));
    }
    // Packet k of a slot.
    DENIZEN_HD Packet load(uint32_t ticket, uint32_t k) const
    {
        return slots == nullptr ? load_near(ticket, k)
                                : load_packet<Scope::system>(&slots[ticket & mask].packet[k]);
    }
};

// Slots as fetched.
struct Arrival {
    Packet packet[4];
};

// A slot's payload words, sequences left out: three of the header, nine of the message.
struct Words {
    uint32_t word[12];

    DENIZEN_HD Header header() const { return decode({{word[0], word[1], word[2]}, 0}); }
};

// What is computed from these words is computed behind this. Else nvcc takes it out of a loop over
// messages, also what hardly any of them needs.
DENIZEN_HD inline void stay_here([[maybe_unused]] Words& words)
{
#if DENIZEN_ON_DEVICE
    for (uint32_t& word : words.word) {
        asm volatile("" : "+r"(word));
    }
#endif
}

namespace detail {

// The message in the slot that lies there, in the shared memory of this block; false if it is not
// whole.
DENIZEN_HD inline bool read_slot(cluster::Address slot, uint32_t expected, Words& words)
{
    bool whole = true;
    for (uint32_t k = 0; k < 4; ++k) {
        const Packet p = cluster::load_packet(slot + k * sizeof(Packet));
        whole &= p.sequence == expected;
        for (uint32_t w = 0; w < 3; ++w) {
            words.word[3 * k + w] = p.word[w];
        }
    }
    return whole;
}
// Of a near ring.
DENIZEN_HD inline bool read_slot(const Source& ring, uint32_t ticket, Words& words)
{
    return read_slot(ring.near + (ticket & ring.mask) * sizeof(Slot), ticket + 1, words);
}

} // namespace detail

#if DENIZEN_ON_DEVICE

// Lane l holds packet l % 4 of slots l / 4, 8 + l / 4, ...: one access of the warp reads 512 bytes
// in a row, which over PCIe is one request and not 32.
template <Scope S>
__device__ inline void fetch(const Source& source, Arrival& a)
{
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
        const uint32_t slot = 8 * k + lanes::id() / 4;
        a.packet[k].sequence = source.head + slot; // never the sequence expected
        if (slot <= source.mask) {
            a.packet[k] = load_packet<S>(
                &source.slots[(source.head + slot) & source.mask].packet[lanes::id() % 4]);
        }
    }
}

// Lane i gets the message of slot i, for the first n, which are returned: all whole slots that have
// arrived, counted from the head. A loop of one body: four were the longest code of a worker.
__device__ inline uint32_t words_of(const Source& source, const Arrival& a, Words& mine)
{
    uint32_t n = 0;
    DENIZEN_ROLLED
    for (uint32_t k = 0; k < 4 && n == 8 * k; ++k) {
        const uint32_t expected = source.head + 8 * k + lanes::id() / 4 + 1;
        uint32_t b = lanes::ballot(a.packet[k].sequence == expected);
        b &= b >> 2;
        b &= b >> 1; // bit 4 i: all four packets of slot 8 k + i
        n += lanes::first(~b & 0x11111111u) / 4;
        for (uint32_t p = 0; p < 4; ++p) {
            for (uint32_t w = 0; w < 3; ++w) {
                const uint32_t word =
                    lanes::shuffle(a.packet[k].word[w], 4 * (lanes::id() % 8) + p);
                mine.word[3 * p + w] = lanes::id() / 8 == k ? word : mine.word[3 * p + w];
            }
        }
    }
    return n;
}

#endif

// The first of the rings for urgent messages of other nodes. The one before it is, of a host of a
// cluster, the one that its links to the others write: what comes there is let in also while
// messages are parked, or two hosts whose rings to each other are full would wait for each other.
DENIZEN_HD inline uint32_t source_peer_urgent(const Shared& s)
{
    return source_peer + s.nodes - 1 + (s.far.hosts != 0 ? 1 : 0);
}

// How many rings a worker reads besides the near ones.
DENIZEN_HD inline uint32_t sources_of(const Shared& s)
{
    return source_peer_urgent(s) + s.nodes - 1;
}

// What a worker has taken from a ring, one message per lane.
struct Batch {
    Words words;
    bool mine = false; // this lane has one
    uint32_t n = 0;    // how many have
    Source ring;       // where several come from, in its order
};

// Collects a message over several slots into `to`, which has room for whole slots; false while some
// part is on its way.
DENIZEN_COLD inline bool gather(const Source& source, uint32_t length, unsigned char* to)
{
    const uint32_t packets = 4 * slots_for(length) - 1; // all of them: see slot.hpp
    bool complete = true;
    for (uint32_t i = lanes::id(); i < packets; i += lanes::size) {
        const uint32_t place = i + 1; // behind the header packet
        const uint32_t ticket = source.head + place / 4;
        const Packet p = source.load(ticket, place % 4);
        complete &= p.sequence == ticket + 1;
        auto* words = reinterpret_cast<uint32_t*>(to + static_cast<size_t>(i) * packet_payload);
        for (int w = 0; w < 3; ++w) {
            words[w] = p.word[w];
        }
    }
    const bool all = lanes::ballot(!complete) == 0;
    lanes::sync();
    return all;
}

} // namespace denizen
