// SPDX-License-Identifier: Apache-2.0
// A fuzzer's input, piece by piece, and messages with one field or another changed by it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace denizen::fuzz {

inline void trap_unless(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

struct Input {
    const uint8_t* data;
    size_t size;

    template <class T>
    T take() // zeros behind the end
    {
        T value{};
        const size_t n = std::min(size, sizeof value);
        std::memcpy(&value, data, n);
        data += n;
        size -= n;
        return value;
    }
    uint8_t byte() { return take<uint8_t>(); }
    uint32_t word() { return take<uint32_t>(); }
};

// None to three of its words become another, near or far.
template <class Message>
void change(Message& message, Input& in)
{
    const uint32_t count = in.byte() % 4;
    for (uint32_t i = 0; i < count; ++i) {
        const size_t at = in.take<uint16_t>() % (sizeof message / 4) * 4;
        auto* const bytes = reinterpret_cast<unsigned char*>(&message) + at;
        uint32_t word = 0;
        std::memcpy(&word, bytes, sizeof word);
        switch (in.byte() % 4) {
        case 0: word = in.word(); break;
        case 1: word += in.byte(); break;
        case 2: word -= in.byte(); break;
        default: word ^= 1u << in.byte() % 32; break;
        }
        std::memcpy(bytes, &word, sizeof word);
    }
}

// How much of so many bytes is sent: mostly all.
inline size_t cut(size_t whole, Input& in)
{
    const uint8_t how = in.byte();
    return how % 8 == 1 ? in.take<uint16_t>() % (whole + 1) : whole;
}

} // namespace denizen::fuzz
