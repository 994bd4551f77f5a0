// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace denizen::test {

// Less of the same under a sanitizer or an emulator, whose runs are some 5 to 50 times as long.
constexpr uint32_t scaled(uint32_t n)
{
#if defined(__SANITIZE_THREAD__) || defined(DENIZEN_EMULATED)
    return n / 40 > 0 ? n / 40 : 1;
#elif defined(__SANITIZE_ADDRESS__)
    return n / 8 > 0 ? n / 8 : 1;
#else
    return n;
#endif
}

} // namespace denizen::test
