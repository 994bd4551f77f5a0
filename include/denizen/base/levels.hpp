// SPDX-License-Identifier: Apache-2.0
// DENIZEN_LEVELS makes the compiler emit a function once for each level of x86-64; the loader picks
// the one for the machine. For the files whose loops become vectors.
#pragma once

// Sanitizers cannot run in what picks the version before the program starts. Clang cannot combine
// versions with `flatten`.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) &&             \
    !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#if __GNUC__ < 12
#define DENIZEN_LEVELS __attribute__((target_clones("avx2", "default")))
#else
#define DENIZEN_LEVELS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
#else
#define DENIZEN_LEVELS
#endif
