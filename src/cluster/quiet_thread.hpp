// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <pthread.h>
#include <thread>
#include <utility>

namespace denizen::cluster {

// A thread that signals never interrupt: they are the program's.
template <class Run>
std::thread quiet_thread(const char* name, Run&& run)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread(std::forward<Run>(run));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread.native_handle(), name);
    return thread;
}

} // namespace denizen::cluster
