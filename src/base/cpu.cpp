// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/cpu.hpp>
#include <denizen/base/error.hpp>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace denizen {

bool cpu_keeps_packets_whole()
{
#if defined(__SANITIZE_THREAD__) || defined(DENIZEN_WITHOUT_LSE2)
    return true;
#elif defined(__aarch64__)
    constexpr unsigned long uscat = 1ul << 25; // HWCAP_USCAT, which older headers lack
    return (getauxval(AT_HWCAP) & uscat) != 0;
#else
    return __builtin_cpu_supports("avx") != 0;
#endif
}

void check_cpu(bool whole)
{
    if (whole) {
        return;
    }
#if defined(__aarch64__)
    throw Error(Errc::no_device,
                "this CPU reads 16 bytes in two accesses (no FEAT_LSE2, Armv8.4), and would tear "
                "packets; compile denizen and all that use it with "
                "-DDENIZEN_WITHOUT_LSE2");
#else
    throw Error(
        Errc::no_device,
        "this CPU may read 16 bytes in two accesses (no AVX), and would tear packets; use a "
        "newer one");
#endif
}

} // namespace denizen
