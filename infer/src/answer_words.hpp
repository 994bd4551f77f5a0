// SPDX-License-Identifier: Apache-2.0
// An answer as the device stores it into the host's memory: words that each have the request's
// number beside a float, because they come in any order, and one by one.
#pragma once

#include <denizen/infer/detail/exchange.hpp>

#include <bit>
#include <cstdint>

// ThreadSanitizer takes a load of two words for one that is not atomic.
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
#define DENIZEN_WORDS_BY_FOUR 1
#include <emmintrin.h>
#endif

namespace denizen::infer {

// The first word from `from` on, of `count`, that has not come. `words` begin with a cache line.
inline uint32_t first_missing(const detail::Word* words, uint32_t from, uint32_t count,
                              uint32_t number)
{
    uint32_t i = from;
#if defined(DENIZEN_WORDS_BY_FOUR)
    // Four at a time. Volatile: they change meanwhile. Each half of a load is a word as it was.
    const __m128i wanted = _mm_set1_epi32(static_cast<int>(number));
    for (i &= ~3u; i + 4 <= count; i += 4) {
        const auto* at = reinterpret_cast<const volatile __m128i*>(words + i);
        const __m128 two = _mm_castsi128_ps(at[0]);
        const __m128 more = _mm_castsi128_ps(at[1]);
        const __m128i numbers =
            _mm_castps_si128(_mm_shuffle_ps(two, more, _MM_SHUFFLE(3, 1, 3, 1)));
        if (_mm_movemask_epi8(_mm_cmpeq_epi32(numbers, wanted)) != 0xffff) {
            break;
        }
    }
#endif
    while (i < count && detail::number_of(load<Scope::system>(words + i)) == number) ++i;
    return i;
}

// Of words that have all come.
inline void take_floats(const detail::Word* words, uint32_t count, float* to)
{
    uint32_t i = 0;
#if defined(DENIZEN_WORDS_BY_FOUR)
    for (; i + 4 <= count; i += 4) {
        const auto* at = reinterpret_cast<const __m128i*>(words + i);
        const __m128 two = _mm_castsi128_ps(_mm_load_si128(at));
        const __m128 more = _mm_castsi128_ps(_mm_load_si128(at + 1));
        _mm_storeu_ps(to + i, _mm_shuffle_ps(two, more, _MM_SHUFFLE(2, 0, 2, 0)));
    }
#endif
    for (; i < count; ++i) {
        to[i] = std::bit_cast<float>(static_cast<uint32_t>(load<Scope::system>(words + i)));
    }
}

} // namespace denizen::infer
