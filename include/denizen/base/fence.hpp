// SPDX-License-Identifier: Apache-2.0
// An asymmetric store-load fence for the host: one side pays nothing, the other a system call.
//
// It settles "I published, do you sleep?" against "I sleep, did you publish?". The sender, which is
// the hot side, runs light_fence() between its store and its load; the sleeper, which is about to
// spend microseconds anyway, runs heavy_fence() between its own. At least one of the two then sees
// the other's store. heavy_fence() is membarrier(2), which makes every running thread of the
// process pass a full barrier; where the kernel refuses it, both sides fall back to a full fence.
#pragma once

#include <denizen/base/target.hpp>

#if DENIZEN_HOSTED
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace denizen {

namespace detail {

inline bool register_membarrier()
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

// Decided before main, so that the two sides never disagree on the kind of fence.
inline const bool has_membarrier = register_membarrier();

} // namespace detail

namespace detail {

inline void full_fence()
{
#if defined(__SANITIZE_THREAD__)
    // ThreadSanitizer does not know fences; a read-modify-write is a full barrier on its targets.
    static int word;
    __atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

} // namespace detail

inline void light_fence()
{
    if (detail::has_membarrier) {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } else {
        detail::full_fence();
    }
}

inline void heavy_fence()
{
    if (detail::has_membarrier) {
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    }
    detail::full_fence();
}

} // namespace denizen
#endif
