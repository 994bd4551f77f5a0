// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace denizen::test {

// make test sets it, make test-deep does not.
inline bool quick()
{
    static const bool asked = std::getenv("DENIZEN_QUICK_TESTS") != nullptr;
    return asked;
}

// Less of the same under a sanitizer or an emulator, whose runs are some 5 to 50 times as long; and
// again if it has to be quick.
inline uint32_t scaled(uint32_t n)
{
#if defined(__SANITIZE_THREAD__) || defined(DENIZEN_EMULATED)
    n /= quick() ? 80 : 40;
#elif defined(__SANITIZE_ADDRESS__)
    n /= quick() ? 16 : 8;
#else
    n /= quick() ? 4 : 1;
#endif
    return std::max(n, 1u);
}

// All; but few under ThreadSanitizer in make test, where it takes seconds or is not about threads.
inline uint32_t few_under_tsan([[maybe_unused]] uint32_t few, uint32_t all)
{
#if defined(__SANITIZE_THREAD__)
    if (quick()) return few;
#endif
    return all;
}

} // namespace denizen::test
