// SPDX-License-Identifier: Apache-2.0
// A request's floats as packets of a slot. Write-combined memory across PCIe keeps no order between
// two lines, and a line may leave in several pieces. So each packet has the request's number: it is
// stored, and read, at once, whatever was sent before or after it. A number for each line would ask
// that its pieces arrive at once. One behind a fence would ask that a running kernel sees two
// writes of the host in their order, which not every GPU promises, and would wait until the lines
// have left.
#pragma once

#include <denizen/base/packet.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace denizen::infer {

// Three in each packet, with the request's number. A packet is made in a register: one whose parts
// were stored in memory, and that is loaded as a whole, would wait for those stores.
inline void write_floats(Packet* to, const std::byte* from, uint32_t floats, uint32_t number)
{
    uint32_t i = 0;
#if defined(__SSE2__)
    const __m128i three = _mm_set_epi32(0, -1, -1, -1);
    const __m128i tag = _mm_set_epi32(static_cast<int>(number), 0, 0, 0);
    for (; i + 4 <= floats; i += 3) { // the fourth that is read is the next packet's first
        const __m128i four =
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + size_t{i} * 4));
        Packet p;
        const __m128i raw = _mm_or_si128(_mm_and_si128(four, three), tag);
        std::memcpy(&p, &raw, sizeof p);
        store_packet<Scope::system>(to++, p);
    }
#endif
    for (; i < floats; i += 3) {
        Packet p = {{0, 0, 0}, number};
        std::memcpy(p.word, from + size_t{i} * 4, std::min(floats - i, 3u) * size_t{4});
        store_packet<Scope::system>(to++, p);
    }
}

} // namespace denizen::infer
