// SPDX-License-Identifier: Apache-2.0
// A message on the wire: one 64-byte slot of four packets, or several consecutive slots.
//
// clang-format off
//   first slot    [ destination | kind | sender | seq ] [ 12 B | seq ] [ 12 B | seq ] [ 12 B | seq ]
//   further slots [ 12 B | seq ] [ 12 B | seq ] [ 12 B | seq ] [ 12 B | seq ]
// clang-format on
//
// A ring gives ticket t the slot t mod capacity; every packet of that slot then carries sequence
// t + 1. Whole slots are written and awaited, also when the payload is shorter. A packet left out
// of the writing would keep its old sequence and match again 2^32 tickets later; one left out of
// the waiting could still be on its way when the slot is given to the next writer, and land on top.
#pragma once

#include <denizen/base/packet.hpp>

namespace denizen {

struct alignas(64) Slot {
    Packet packet[4];
};

static_assert(sizeof(Slot) == 64 && alignof(Slot) == 64);

inline constexpr uint32_t max_type = 1023;     // message types of one program: 10 bits
inline constexpr uint32_t max_flags = 31;      // 5 bits
inline constexpr uint32_t max_length = 65536;  // payload bytes of one message: 17 bits
inline constexpr uint32_t packet_payload = 12; // bytes
inline constexpr uint32_t first_payload = 36;  // bytes in the first slot of a message
inline constexpr uint32_t next_payload = 48;   // bytes in each further slot

// Meaning of the five flag bits is the resident runtime's; a ring only carries them.
struct Header {
    uint32_t destination = 0;
    uint32_t sender = 0;
    uint32_t type = 0;   // at most max_type
    uint32_t flags = 0;  // at most max_flags
    uint32_t length = 0; // payload bytes, at most max_length

    DENIZEN_HD bool operator==(const Header& o) const
    {
        return destination == o.destination && sender == o.sender && type == o.type &&
               flags == o.flags && length == o.length;
    }
};

DENIZEN_HD constexpr uint32_t slots_for(uint32_t length)
{
    return length <= first_payload ? 1
                                   : 1 + (length - first_payload + next_payload - 1) / next_payload;
}

DENIZEN_HD inline Packet encode(const Header& h, uint32_t sequence)
{
    return {{h.destination, h.type | h.flags << 10 | h.length << 15, h.sender}, sequence};
}

DENIZEN_HD inline Header decode(const Packet& p)
{
    return {p.word[0], p.word[2], p.word[1] & 0x3ff, p.word[1] >> 10 & 0x1f, p.word[1] >> 15};
}

namespace detail {

// Packet k of a payload of L bytes known at compile time.
template <uint32_t L>
DENIZEN_HD inline Packet pack(const unsigned char* payload, uint32_t at, uint32_t sequence)
{
    Packet p{{0, 0, 0}, sequence};
    if constexpr (L > 0) {
        if (at + packet_payload <= L) {
            copy_bytes(p.word, payload + at, packet_payload);
        } else if (at < L) {
            copy_bytes(p.word, payload + at, L - at);
        }
    }
    return p;
}

DENIZEN_HD inline Packet pack(const unsigned char* payload, uint32_t length, uint32_t at,
                              uint32_t sequence)
{
    Packet p{{0, 0, 0}, sequence};
    const uint32_t left = at < length ? length - at : 0;
    auto* bytes = reinterpret_cast<unsigned char*>(p.word);
    for (uint32_t i = 0; i < packet_payload && i < left; ++i) {
        bytes[i] = payload[at + i];
    }
    return p;
}

} // namespace detail

#if !DENIZEN_ON_DEVICE && defined(__SSE2__) && !defined(__SANITIZE_THREAD__)

namespace detail {

// Packet of the payload bytes from At on, built in a register: assembled from words in memory it
// would stall on store forwarding, four times per message.
template <uint32_t L, uint32_t At>
inline __m128i pack_register(const unsigned char* payload, uint32_t sequence)
{
    __m128i value = _mm_setzero_si128();
    if constexpr (At + 16 <= L) {
        value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(payload + At));
    } else if constexpr (At < L && L >= 16) {
        value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(payload + L - 16));
        value = _mm_srli_si128(value, static_cast<int>(At + 16 - L));
    } else if constexpr (At < L) {
        uint64_t low = 0;
        uint64_t high = 0;
        copy_bytes(&low, payload + At, L - At < 8 ? L - At : 8);
        if constexpr (L - At > 8) {
            copy_bytes(&high, payload + At + 8, L - At - 8);
        }
        value = _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
    }
    const __m128i payload_mask = _mm_set_epi32(0, -1, -1, -1);
    return _mm_or_si128(_mm_and_si128(value, payload_mask),
                        _mm_slli_si128(_mm_cvtsi32_si128(static_cast<int>(sequence)), 12));
}

inline void store_register(Packet* p, __m128i value)
{
    asm volatile(DENIZEN_MOVDQA " %1, %0" : "=m"(*p) : "x"(value) : "memory"); // as store_packet
}

inline __m128i load_register(const Packet* p)
{
    __m128i value;
    asm volatile(DENIZEN_MOVDQA " %1, %0" : "=x"(value) : "m"(*p) : "memory"); // as load_packet
    return value;
}

// The same as pack_register with a length known at run time only.
inline __m128i pack_register(const unsigned char* payload, uint32_t length, uint32_t at,
                             uint32_t sequence)
{
    __m128i value = _mm_setzero_si128();
    if (at + 16 <= length) {
        value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(payload + at));
    } else if (at >= 4 && at + packet_payload == length) {
        value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(payload + at - 4));
        value = _mm_srli_si128(value, 4);
    } else {
        uint64_t low = 0;
        uint64_t high = 0;
        for (uint32_t i = at; i < length; ++i) {
            (i - at < 8 ? low : high) |= uint64_t{payload[i]} << (i - at) % 8 * 8;
        }
        value = _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
    }
    const __m128i payload_mask = _mm_set_epi32(0, -1, -1, -1);
    return _mm_or_si128(_mm_and_si128(value, payload_mask),
                        _mm_slli_si128(_mm_cvtsi32_si128(static_cast<int>(sequence)), 12));
}

template <Scope S>
inline void store_part(Packet* p, const unsigned char* payload, uint32_t length, uint32_t at,
                       uint32_t sequence)
{
    store_register(p, pack_register(payload, length, at, sequence));
}

} // namespace detail

// Writes a message of L <= 36 bytes into the slot of its ticket.
template <Scope S, uint32_t L>
inline void store_short(Slot* slot, uint32_t ticket, const Header& h, const void* payload)
{
    static_assert(L <= first_payload);
    const auto* bytes = static_cast<const unsigned char*>(payload);
    const uint32_t sequence = ticket + 1;
    const Packet head = encode(h, sequence);
    detail::store_register(&slot->packet[0],
                           _mm_set_epi32(static_cast<int>(sequence), static_cast<int>(head.word[2]),
                                         static_cast<int>(head.word[1]),
                                         static_cast<int>(head.word[0])));
    detail::store_register(&slot->packet[1], detail::pack_register<L, 0>(bytes, sequence));
    detail::store_register(&slot->packet[2], detail::pack_register<L, 12>(bytes, sequence));
    detail::store_register(&slot->packet[3], detail::pack_register<L, 24>(bytes, sequence));
}

// Reads a message of L <= 36 bytes from the slot of its ticket; false if it has not arrived whole.
// Whether its header says L is the caller's to check. The payload is put together in registers and
// stored in aligned pieces of 16 bytes: whoever reads it next would stall on overlapping ones.
template <Scope S, uint32_t L>
inline bool load_short(const Slot* slot, uint32_t ticket, Header& h, void* payload)
{
    static_assert(L <= first_payload);
    // The last packet first: it is the last one written, so it spares most looks at half a slot.
    const __m128i c = detail::load_register(&slot->packet[3]);
    const __m128i head = detail::load_register(&slot->packet[0]);
    const __m128i a = detail::load_register(&slot->packet[1]);
    const __m128i b = detail::load_register(&slot->packet[2]);
    const __m128i found = _mm_unpackhi_epi64(_mm_unpackhi_epi32(head, a), _mm_unpackhi_epi32(b, c));
    const __m128i sequence = _mm_set1_epi32(static_cast<int>(ticket + 1));
    if (_mm_movemask_epi8(_mm_cmpeq_epi32(found, sequence)) != 0xffff) {
        return false;
    }
    Packet first;
    __builtin_memcpy(&first, &head, sizeof first);
    h = decode(first);
    auto* bytes = static_cast<unsigned char*>(payload);
    if constexpr (L > 0) {
        const __m128i words = // a0 a1 a2 b0
            _mm_unpacklo_epi64(a, _mm_unpacklo_epi32(_mm_unpackhi_epi64(a, a), b));
        __builtin_memcpy(bytes, &words, L < 16 ? L : 16);
    }
    if constexpr (L > 16) {
        const __m128i words = _mm_unpacklo_epi64(_mm_srli_si128(b, 4), c); // b1 b2 c0 c1
        __builtin_memcpy(bytes + 16, &words, L < 32 ? L - 16 : 16);
    }
    if constexpr (L > 32) {
        const __m128i words = _mm_srli_si128(c, 8); // c2
        __builtin_memcpy(bytes + 32, &words, L - 32);
    }
    return true;
}

#else

// Writes a message of L <= 36 bytes into the slot of its ticket.
template <Scope S, uint32_t L>
DENIZEN_HD inline void store_short(Slot* slot, uint32_t ticket, const Header& h,
                                   const void* payload)
{
    static_assert(L <= first_payload);
    const auto* bytes = static_cast<const unsigned char*>(payload);
    const uint32_t sequence = ticket + 1;
    store_packet<S>(&slot->packet[0], encode(h, sequence));
    store_packet<S>(&slot->packet[1], detail::pack<L>(bytes, 0, sequence));
    store_packet<S>(&slot->packet[2], detail::pack<L>(bytes, 12, sequence));
    store_packet<S>(&slot->packet[3], detail::pack<L>(bytes, 24, sequence));
}

// Reads a message of L <= 36 bytes from the slot of its ticket; false if it has not arrived whole.
// Whether its header says L is the caller's to check.
template <Scope S, uint32_t L>
DENIZEN_HD inline bool load_short(const Slot* slot, uint32_t ticket, Header& h, void* payload)
{
    static_assert(L <= first_payload);
    Packet p[4];
    for (int k = 0; k < 4; ++k) {
        p[k] = load_packet<S>(&slot->packet[k]);
        if (p[k].sequence != ticket + 1) {
            return false;
        }
    }
    h = decode(p[0]);
    auto* bytes = static_cast<unsigned char*>(payload);
    for (uint32_t at = 0; at < L; at += packet_payload) {
        copy_bytes(bytes + at, p[1 + at / packet_payload].word,
                   L - at < packet_payload ? L - at : packet_payload);
    }
    return true;
}

namespace detail {

// Writes one packet of a payload whose length is known at run time only.
template <Scope S>
DENIZEN_HD inline void store_part(Packet* p, const unsigned char* payload, uint32_t length,
                                  uint32_t at, uint32_t sequence)
{
    store_packet<S>(p, pack(payload, length, at, sequence));
}

} // namespace detail

#endif

// Writes a message of any length into the slots of its tickets, first to last. Every ticket from
// `ticket` to `ticket + slots_for(h.length) - 1` must be the caller's and free.
template <Scope S>
DENIZEN_HD inline void store_message(Slot* slots, uint32_t mask, uint32_t ticket, const Header& h,
                                     const void* payload)
{
    const auto* bytes = static_cast<const unsigned char*>(payload);
    const uint32_t n = slots_for(h.length);
    uint32_t at = 0;
    for (uint32_t s = 0; s < n; ++s) {
        Slot& slot = slots[(ticket + s) & mask];
        const uint32_t sequence = ticket + s + 1;
        for (uint32_t k = 0; k < 4; ++k) {
            if (s == 0 && k == 0) {
                store_packet<S>(&slot.packet[0], encode(h, sequence));
            } else {
                detail::store_part<S>(&slot.packet[k], bytes, h.length, at, sequence);
                at += packet_payload;
            }
        }
    }
}

// Reads the payload behind a header that has arrived, and waits for no one: false if some packet of
// the message is still on its way. The writer has its tickets, so it arrives without anything the
// reader has to do, except giving back the credit it holds.
template <Scope S>
DENIZEN_HD inline bool load_payload(const Slot* slots, uint32_t mask, uint32_t ticket,
                                    uint32_t length, void* payload)
{
    auto* bytes = static_cast<unsigned char*>(payload);
    const uint32_t n = slots_for(length);
    uint32_t at = 0;
    for (uint32_t s = 0; s < n; ++s) {
        const Slot& slot = slots[(ticket + s) & mask];
        for (uint32_t k = s == 0 ? 1 : 0; k < 4; ++k, at += packet_payload) {
            const Packet p = load_packet<S>(&slot.packet[k]);
            if (p.sequence != ticket + s + 1) {
                return false;
            }
            if (at + packet_payload <= length) {
                copy_bytes(bytes + at, p.word, packet_payload);
            } else {
                const auto* tail = reinterpret_cast<const unsigned char*>(p.word);
                for (uint32_t i = 0; at + i < length; ++i) {
                    bytes[at + i] = tail[i];
                }
            }
        }
    }
    return true;
}

// Fills `capacity` slots with sequences that no ticket from `start` on expects.
inline void clear_slots(Slot* slots, uint32_t capacity, uint32_t start)
{
    for (uint32_t i = 0; i < capacity; ++i) {
        const uint32_t ticket = start + i;
        for (Packet& p : slots[ticket & (capacity - 1)].packet) {
            p = {{0, 0, 0}, ticket + 1 - capacity};
        }
    }
}

} // namespace denizen
