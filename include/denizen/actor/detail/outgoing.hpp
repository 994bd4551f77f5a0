// SPDX-License-Identifier: Apache-2.0
// A message that goes out, as packets in slots: of a short one whose length is known all at once,
// of any other each slot that there is room for. What has no room yet is parked (outbox.hpp).
#pragma once

#include <denizen/actor/detail/draw.hpp>
#include <denizen/actor/detail/outbox.hpp>

namespace denizen::detail {

// The slot of a message of L bytes, at most first_payload.
template <uint32_t L>
DENIZEN_HD inline Slot make_slot(uint32_t sequence, const Header& h, const unsigned char* bytes)
{
    Slot slot;
    slot.packet[0] = encode(h, sequence);
    for (uint32_t k = 1; k < 4; ++k) {
        slot.packet[k] = pack<L>(bytes, (k - 1) * packet_payload, sequence);
    }
    return slot;
}

// The same of a payload that lies in nine words.
DENIZEN_HD inline Slot slot_of_words(uint32_t sequence, const Header& h, const uint32_t* words)
{
    Slot slot;
    slot.packet[0] = encode(h, sequence);
    for (uint32_t k = 0; k < 3; ++k) {
        slot.packet[k + 1] = {{words[3 * k], words[3 * k + 1], words[3 * k + 2]}, sequence};
    }
    return slot;
}

// A message as the general ways take it.
struct Outgoing {
    Header h;
    const unsigned char* bytes;
    uint32_t length; // bytes there; behind these, if it is stamped here, eight of the stamp
    uint32_t words;  // bytes that can be read word by word
    uint64_t stamp;
};

// `payload`: of a short message, nine words; of a longer one, wherever it lies.
DENIZEN_HD inline Outgoing outgoing(const Header& h, const void* payload)
{
    const auto* bytes = static_cast<const unsigned char*>(payload);
    const bool aligned = (reinterpret_cast<uintptr_t>(bytes) & 3) == 0;
    const uint32_t words = h.length <= first_payload ? first_payload : aligned ? h.length : 0;
    return {h, bytes, h.length, words, 0};
}

// Whether packet `place` is three words of the payload.
DENIZEN_HD inline bool is_words(const Outgoing& m, uint32_t place)
{
    return place != 0 && place * packet_payload <= m.words;
}

// Any packet of a message, byte by byte.
DENIZEN_COLD inline Packet odd_packet(const Outgoing& m, uint32_t place, uint32_t sequence)
{
    if (place == 0) {
        return encode(m.h, sequence);
    }
    Packet p{{0, 0, 0}, sequence};
#if !DENIZEN_ON_DEVICE
    if (is_words(m, place)) { // a thread of a CPU parks most of what it sends to another host
        __builtin_memcpy(p.word, m.bytes + (place - 1) * packet_payload, packet_payload);
        return p;
    }
#endif
    uint32_t at = (place - 1) * packet_payload;
    for (uint32_t& word : p.word) {
        DENIZEN_ROLLED
        for (uint32_t shift = 0; shift < 32; shift += 8, ++at) {
            uint32_t byte = 0;
            if (at < m.length) {
                byte = m.bytes[at];
            } else if (at < m.h.length) {
                byte = static_cast<uint32_t>(m.stamp >> (at - m.length) * 8) & 0xff;
            }
            word |= byte << shift;
        }
    }
    return p;
}

// Writes the slots that there is room for, `lane` of `lanes` every so-many-th packet. `sequence`:
// of the first.
DENIZEN_COLD inline void write_parts(const Target& to, const Drawn& drawn, uint32_t sequence,
                                     const Outgoing& message, uint32_t lane, uint32_t lanes)
{
    const Target t = to; // copies, to be kept in registers
    const Outgoing m = message;
    const uint32_t ticket = drawn.ticket;
    const uint32_t end = 4 * drawn.free;
    for (uint32_t first = lane; first < end; first += 4 * lanes) {
        // All are read before one is written: what a lane reads is far away, and it waits once.
        uint32_t word[4][3] = {};
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t place = first + k * lanes;
            if (place < end && is_words(m, place)) {
                const auto* words = reinterpret_cast<const uint32_t*>(m.bytes) + 3 * (place - 1);
                for (uint32_t i = 0; i < 3; ++i) {
                    word[k][i] = words[i];
                }
            }
        }
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t place = first + k * lanes;
            if (place < end) {
                const uint32_t slot = place / 4;
                Packet p{{word[k][0], word[k][1], word[k][2]}, sequence + slot};
                if (!is_words(m, place)) {
                    p = odd_packet(m, place, sequence + slot);
                }
                write_packet(t, ticket + slot, place % 4, p);
            }
        }
    }
}

// Parks what there was no room for. With `nothing` these tickets carry a message that says so.
DENIZEN_COLD inline void park_parts(const Shared& s, uint32_t id, const Path& path,
                                    const Drawn& drawn, const Outgoing& m, uint32_t n, bool nothing)
{
    DENIZEN_ROLLED
    for (uint32_t i = drawn.free; i < n; ++i) {
        Slot kept;
        for (uint32_t k = 0; k < 4; ++k) {
            kept.packet[k] = odd_packet(m, nothing ? k : 4 * i + k, drawn.ticket + i + 1);
        }
        park(s, id, kept, path.kind, path.index, drawn.ticket + i, m.h);
    }
}

} // namespace denizen::detail
