// SPDX-License-Identifier: Apache-2.0
// The bytes of a stream (stream.cpp): frames, each with whole messages.
//   magic | count | nonce | position of its first byte | how far the sender has come in the other
//   row (all before that is acknowledged) | how far the other may send | bytes | 0
#pragma once

#include "wire.hpp"

#include <cstdint>
#include <cstring>

namespace denizen::cluster {

inline constexpr uint32_t frame_magic = 0x325a4e44; // "DNZ2"
// Of a frame's messages, unless it is one longer message.
inline constexpr uint32_t most = 64u << 10;
inline constexpr uint32_t longest = 16 + longest_payload;
inline constexpr uint32_t room_in = most + 2 * longest;

struct Frame {
    uint32_t magic = 0;
    uint32_t count = 0;
    uint64_t nonce = 0;
    uint64_t position = 0;
    uint64_t arrived = 0;
    uint64_t limit = 0;
    uint32_t bytes = 0;
    uint32_t zero = 0;
};
static_assert(sizeof(Frame) == 48);

struct Head { // of a message; its payload follows, up to a multiple of 4
    uint32_t destination;
    uint32_t sender;
    uint32_t kind; // type:10 flags:5 length:17
    uint32_t zero;
};

inline uint32_t size_of(uint32_t length) { return 16 + ((length + 3) & ~3u); }

inline Header header_of(const Head& head)
{
    return {head.destination, head.sender, head.kind & 0x3ff, head.kind >> 10 & 0x1f,
            head.kind >> 15};
}

// Whether a frame's bytes are as many messages as it says.
inline bool whole_messages(const unsigned char* bytes, const Frame& f)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < f.count; ++i) {
        Head head{};
        if (f.bytes - at < sizeof head) {
            return false;
        }
        std::memcpy(&head, bytes + at, sizeof head);
        const uint32_t length = head.kind >> 15;
        if (length > longest_payload || f.bytes - at < size_of(length)) {
            return false;
        }
        at += size_of(length);
    }
    return at == f.bytes;
}

} // namespace denizen::cluster
