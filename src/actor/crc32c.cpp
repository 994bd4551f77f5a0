// SPDX-License-Identifier: Apache-2.0
#include "crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace denizen {
namespace {

constexpr uint32_t polynomial = 0x82f63b78; // 0x1EDC6F41, bits reflected

constexpr std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc & 1) != 0 ? crc >> 1 ^ polynomial : crc >> 1;
        }
        t[byte] = crc;
    }
    return t;
}();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t by_instruction(const void* bytes, size_t n,
                                                          uint32_t before)
{
    const auto* p = static_cast<const unsigned char*>(bytes);
    uint64_t crc = ~before;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        std::memcpy(&word, p, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    auto rest = static_cast<uint32_t>(crc);
    for (; n > 0; --n, ++p) {
        rest = _mm_crc32_u8(rest, *p);
    }
    return ~rest;
}
#endif

} // namespace

uint32_t crc32c_by_table(const void* bytes, size_t n, uint32_t before)
{
    const auto* p = static_cast<const unsigned char*>(bytes);
    uint32_t crc = ~before;
    for (; n > 0; --n, ++p) {
        crc = table[(crc ^ *p) & 0xff] ^ crc >> 8;
    }
    return ~crc;
}

uint32_t crc32c(const void* bytes, size_t n, uint32_t before)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        return by_instruction(bytes, n, before);
    }
#endif
    return crc32c_by_table(bytes, n, before);
}

} // namespace denizen
