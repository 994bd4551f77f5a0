// SPDX-License-Identifier: Apache-2.0
// The process an object belongs to: a forked child has its memory, and none of its threads.
#include <denizen/base/process.hpp>

#include <pthread.h>

namespace denizen::detail {

std::atomic<uint32_t> forks{0};

namespace {

const int counting = pthread_atfork(nullptr, nullptr, [] {
    forks.fetch_add(1, std::memory_order_relaxed); // the child's only thread is here
});

} // namespace

} // namespace denizen::detail
