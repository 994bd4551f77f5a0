// SPDX-License-Identifier: Apache-2.0
// Changes to the sections of a snapshot, as an input of a fuzzer lists them.
#pragma once

#include <actor/victim.hpp>

namespace denizen::fuzz {

struct Change { // 12 bytes of the input
    uint8_t section;
    uint8_t how;
    uint16_t at;
    uint32_t value;
    uint32_t other;
};
static_assert(sizeof(Change) == 12);

inline void apply(const Change& c, test::Parts& parts)
{
    test::Bytes& bytes = parts.sections[c.section % parts.sections.size()].second;
    if (bytes.size() < 8 || c.how % 16 == 0) { // another length
        bytes.resize(c.at % (bytes.size() + 80));
        return;
    }
    const size_t place = (uint64_t{c.at} << 8 | c.how) % (bytes.size() / 4) * 4;
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + place, sizeof word);
    switch (c.how % 8) {
    case 1: word = c.value; break;
    case 2: word += c.value % 16; break;
    case 3: word -= c.value % 16; break;
    case 4: word ^= 1u << c.value % 32; break;
    case 5: word = c.value % 256; break;
    case 6: std::memcpy(&word, bytes.data() + c.value % (bytes.size() / 4) * 4, sizeof word); break;
    default: bytes[place + c.value % 4] ^= static_cast<uint8_t>(1 << c.other % 8); return;
    }
    std::memcpy(bytes.data() + place, &word, sizeof word);
}

// Up to eight of them.
inline void apply_all(const uint8_t* data, size_t size, test::Parts& parts)
{
    for (size_t at = 0; at + sizeof(Change) <= size && at < 8 * sizeof(Change);
         at += sizeof(Change)) {
        Change c;
        std::memcpy(&c, data + at, sizeof c);
        apply(c, parts);
    }
}

} // namespace denizen::fuzz
