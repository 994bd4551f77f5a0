// SPDX-License-Identifier: Apache-2.0
// The digest of a topic's text: BLAKE2s (RFC 7693) with 14 bytes of output and no key. One such
// digest stands for one text: 2^56 texts would have to be tried to find two that share theirs.
// python/denizen/handlers/topic_key.py makes the same.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen::detail {

inline constexpr uint32_t topic_digest_bytes = 14;

// The state of RFC 7693, section 3.2.
struct Blake2s {
    uint32_t h[8] = {};
    uint32_t v[16] = {};
    uint32_t m[16] = {};

    static DENIZEN_HD constexpr uint32_t initial(uint32_t i)
    {
        constexpr uint32_t iv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
        return iv[i];
    }
    static DENIZEN_HD constexpr uint32_t rotate(uint32_t x, uint32_t n)
    {
        return x >> n | x << (32 - n);
    }
    // Words of the message in round r: 16 hexadecimal digits, the first the lowest.
    static DENIZEN_HD constexpr uint64_t order(uint32_t r)
    {
        constexpr uint64_t sigma[10] = {0xfedcba9876543210, 0x357b20c16df984ae, 0x491763eadf250c8b,
                                        0x8f04a562ebcd1397, 0xd386cb1efa427509, 0x91ef57d438b0a6c2,
                                        0xb8293670a4def15c, 0xa2684f05931ce7bd, 0x5a417d2c803b9ef6,
                                        0x0dc3e9bf5167482a};
        return sigma[r];
    }
    DENIZEN_HD constexpr void mix(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t x,
                                  uint32_t y)
    {
        v[a] = v[a] + v[b] + x;
        v[d] = rotate(v[d] ^ v[a], 16);
        v[c] = v[c] + v[d];
        v[b] = rotate(v[b] ^ v[c], 12);
        v[a] = v[a] + v[b] + y;
        v[d] = rotate(v[d] ^ v[a], 8);
        v[c] = v[c] + v[d];
        v[b] = rotate(v[b] ^ v[c], 7);
    }
    // `bytes`: of the text so far, with this block.
    DENIZEN_HD constexpr void compress(uint32_t bytes, bool last)
    {
        DENIZEN_ROLLED
        for (uint32_t i = 0; i < 8; ++i) {
            v[i] = h[i];
            v[i + 8] = initial(i);
        }
        v[12] ^= bytes;
        v[14] = last ? ~v[14] : v[14];
        DENIZEN_ROLLED
        for (uint32_t r = 0; r < 10; ++r) {
            const uint64_t at = order(r);
            DENIZEN_ROLLED
            for (uint32_t g = 0; g < 8; ++g) { // four columns, then four diagonals
                const uint32_t slant = g / 4;
                const uint32_t i = g % 4;
                mix(i, 4 + (i + slant) % 4, 8 + (i + 2 * slant) % 4, 12 + (i + 3 * slant) % 4,
                    m[at >> 8 * g & 15], m[at >> (8 * g + 4) & 15]);
            }
        }
        DENIZEN_ROLLED
        for (uint32_t i = 0; i < 8; ++i) {
            h[i] ^= v[i] ^ v[i + 8];
        }
    }
};

// Fourteen bytes into the first three words and the low half of the fourth; the rest of it is zero.
template <class Char>
DENIZEN_COLD constexpr void topic_digest(const Char* text, uint32_t length, uint32_t (&word)[4])
{
    Blake2s b;
    DENIZEN_ROLLED
    for (uint32_t i = 0; i < 8; ++i) {
        b.h[i] = Blake2s::initial(i);
    }
    b.h[0] ^= 0x01010000 ^ topic_digest_bytes;
    uint32_t begin = 0;
    do { // ends: 64 bytes further each time
        const uint32_t end = length - begin < 64 ? length : begin + 64;
        DENIZEN_ROLLED
        for (uint32_t& each : b.m) {
            each = 0;
        }
        DENIZEN_ROLLED
        for (uint32_t i = begin; i < end; ++i) {
            b.m[(i - begin) / 4] |= static_cast<uint32_t>(static_cast<unsigned char>(text[i]))
                                    << 8 * (i % 4);
        }
        b.compress(end, end == length);
        begin = end;
    } while (begin < length);
    for (uint32_t i = 0; i < 4; ++i) {
        word[i] = i < 3 ? b.h[i] : b.h[i] & 0xffff;
    }
}

} // namespace denizen::detail
