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
    const uint32_t words = h.length <= first_payload ? first_payload : aligned ? h.length & ~3u : 0;
    return {h, bytes, h.length, words, 0};
}

// Packet `place` of a message, byte by byte.
DENIZEN_COLD inline Packet odd_packet(const Outgoing& m, uint32_t place, uint32_t sequence)
{
    if (place == 0) {
        return encode(m.h, sequence);
    }
    Packet p{{0, 0, 0}, sequence};
    const uint32_t first = (place - 1) * packet_payload;
    DENIZEN_ROLLED
    for (uint32_t at = first + packet_payload; at-- != first;) { // the last byte goes in first
        uint32_t byte = 0;
        if (at < m.length) {
            byte = m.bytes[at];
        } else if (at < m.h.length) {
            byte = static_cast<uint32_t>(m.stamp >> (at - m.length) * 8) & 0xff;
        }
        p.word[2] = p.word[2] << 8 | p.word[1] >> 24;
        p.word[1] = p.word[1] << 8 | p.word[0] >> 24;
        p.word[0] = p.word[0] << 8 | byte;
    }
    return p;
}

// Slot `i` of a message. Of one that can be read word by word all words are asked for before one is
// used: they are far away, and a lane waits once.
DENIZEN_COLD inline Slot slot_of(const Outgoing& m, uint32_t i, uint32_t sequence)
{
    constexpr uint32_t in_packet = packet_payload / 4; // words
    const uint32_t first = (4 * i - 1) * in_packet;    // of a header's packet: behind every end
    const uint32_t end = m.words / 4;
    Slot slot;
    if (m.words >= m.h.length || first + 4 * in_packet <= end) {
        const auto* words = reinterpret_cast<const uint32_t*>(m.bytes);
        for (uint32_t k = 0; k < 4; ++k) {
            slot.packet[k].sequence = sequence;
            for (uint32_t w = 0; w < in_packet; ++w) {
                const uint32_t at = first + k * in_packet + w;
                slot.packet[k].word[w] = 0;
                if (at < end) {
                    slot.packet[k].word[w] = words[at];
                }
            }
        }
        if (i == 0) {
            slot.packet[0] = encode(m.h, sequence);
        }
    } else {
        for (uint32_t k = 0; k < 4; ++k) {
            slot.packet[k] = odd_packet(m, 4 * i + k, sequence);
        }
    }
    return slot;
}

// Writes the slots that there is room for, `lane` of `lanes` every so-many-th. `sequence`: of the
// first.
DENIZEN_COLD inline void write_parts(const Target& to, const Drawn& drawn, uint32_t sequence,
                                     const Outgoing& message, uint32_t lane, uint32_t lanes)
{
    const Target t = to; // copies, to be kept in registers
    const Outgoing m = message;
    const Drawn at = drawn;
    DENIZEN_ROLLED
    for (uint32_t i = lane; i < at.free; i += lanes) {
        write_slot(t, at.ticket + i, slot_of(m, i, sequence + i));
    }
}

// Parks what there was no room for. With `nothing` these tickets carry a message that says so.
DENIZEN_COLD inline void park_parts(const Shared& s, uint32_t id, const Path& path,
                                    const Drawn& drawn, const Outgoing& m, uint32_t n, bool nothing)
{
    DENIZEN_ROLLED
    for (uint32_t i = drawn.free; i < n; ++i) {
        const Slot kept = slot_of(m, nothing ? 0 : i, drawn.ticket + i + 1);
        park(s, id, kept, path.kind, path.index, drawn.ticket + i, m.h);
    }
}

} // namespace denizen::detail
