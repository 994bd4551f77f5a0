// SPDX-License-Identifier: Apache-2.0
// How the lanes of a worker read a ring together: fetch some slots in front of the head, see how
// many have arrived whole, and hand each lane one message.
#pragma once

#include <denizen/base/lanes.hpp>
#include <denizen/wire/slot.hpp>

namespace denizen {

// A ring that a worker consumes.
struct Source {
    const Slot* slots = nullptr;
    uint32_t mask = 0;
    uint32_t head = 0;
    uint32_t credited = 0;
    uint32_t width = 1; // slots looked at in one round: grows with what arrives
    uint32_t* credit = nullptr;
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

#if DENIZEN_ON_DEVICE

// Lane l holds packet l % 4 of slots l / 4, 8 + l / 4, ...: one access of the warp reads 512 bytes
// in a row, which over PCIe is one request and not 32. Eight slots are the common case; the others'
// code lies apart.

// Starts reading the next `width` slots.
template <Scope S>
__device__ inline void fetch(const Source& source, Arrival& a)
{
    const uint32_t place = lanes::id() / 4;
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
        const uint32_t slot = 8 * k + place;
        a.packet[k].sequence = source.head + slot; // never the sequence expected
        if (k == 0 || __builtin_expect(source.width > 8, false)) {
            if (slot < source.width) {
                a.packet[k] = load_packet<S>(
                    &source.slots[(source.head + slot) & source.mask].packet[lanes::id() % 4]);
            }
        }
    }
}

// Whether this lane's first packet has arrived.
__device__ inline bool begins(const Source& source, const Arrival& a)
{
    return a.packet[0].sequence == source.head + lanes::id() / 4 + 1;
}

// How many whole slots have arrived, counted from the head.
__device__ inline uint32_t arrived(const Source& source, const Arrival& a)
{
    uint32_t n = 0;
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
        if (k == 0 || __builtin_expect(n == 8 * k, false)) {
            const uint32_t expected = source.head + 8 * k + lanes::id() / 4 + 1;
            uint32_t b = lanes::ballot(a.packet[k].sequence == expected);
            b &= b >> 2;
            b &= b >> 1; // bit 4 i: all four packets of slot 8 k + i
            n += lanes::first(~b & 0x11111111u) / 4;
        }
    }
    return n;
}

// Lane i gets the message of slot i, for the first n.
__device__ inline Words words_of(const Arrival& a, uint32_t n)
{
    Words mine{};
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
        if (k == 0 || __builtin_expect(8 * k < n, false)) {
            for (uint32_t p = 0; p < 4; ++p) {
                for (uint32_t w = 0; w < 3; ++w) {
                    const uint32_t word =
                        lanes::shuffle(a.packet[k].word[w], 4 * (lanes::id() % 8) + p);
                    if (k == 0 || lanes::id() / 8 == k) {
                        mine.word[3 * p + w] = word;
                    }
                }
            }
        }
    }
    return mine;
}

#else

template <Scope S>
DENIZEN_HD inline void fetch(const Source& source, Arrival& a)
{
    const Slot& slot = source.slots[source.head & source.mask];
    for (int k = 0; k < 4; ++k) {
        a.packet[k] = load_packet<S>(&slot.packet[k]);
    }
}

DENIZEN_HD inline bool begins(const Source& source, const Arrival& a)
{
    return a.packet[0].sequence == source.head + 1;
}

DENIZEN_HD inline uint32_t arrived(const Source& source, const Arrival& a)
{
    for (const Packet& p : a.packet) {
        if (p.sequence != source.head + 1) {
            return 0;
        }
    }
    return 1;
}

DENIZEN_HD inline Words words_of(const Arrival& a, uint32_t)
{
    Words mine;
    for (uint32_t p = 0; p < 4; ++p) {
        for (uint32_t w = 0; w < 3; ++w) {
            mine.word[3 * p + w] = a.packet[p].word[w];
        }
    }
    return mine;
}

#endif

// Settles how many slots to fetch next time: twice as many after a full house, half as many when
// most came in vain.
DENIZEN_HD inline void adapt(Source& source, uint32_t n)
{
    if (n == source.width) {
        source.width = source.width * 2 > lanes::size ? lanes::size : source.width * 2;
    } else if (n * 2 < source.width) {
        source.width = source.width > 1 ? source.width / 2 : 1;
    }
}

// Collects a message over several slots into `to`, which has room for whole slots; false while some
// part is on its way.
DENIZEN_HD inline bool gather(const Source& source, uint32_t length, unsigned char* to)
{
    const uint32_t packets = 4 * slots_for(length) - 1; // all of them: see slot.hpp
    bool complete = true;
    for (uint32_t i = lanes::id(); i < packets; i += lanes::size) {
        const uint32_t place = i + 1; // behind the header packet
        const uint32_t ticket = source.head + place / 4;
        const Packet p =
            load_packet<Scope::system>(&source.slots[ticket & source.mask].packet[place % 4]);
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
