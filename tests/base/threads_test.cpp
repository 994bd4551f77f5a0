// SPDX-License-Identifier: Apache-2.0
// Threads that start all or none, with a pthread_create that fails when it is told to.
#include <denizen/base/threads.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

using namespace denizen;

namespace {

std::atomic<int> can_be_created{-1}; // threads from now on; -1: any number

} // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument)
{
    using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static Create* const real = reinterpret_cast<Create*>(dlsym(RTLD_NEXT, "pthread_create"));
    int left = can_be_created.load();
    while (left > 0 && !can_be_created.compare_exchange_weak(left, left - 1)) { // ends: it is taken
    }
    return left == 0 ? EAGAIN : real(thread, attributes, run, argument);
}

namespace {

TEST(Threads, AllRun)
{
    for (uint32_t round = 0; round < 200; ++round) {
        std::atomic<uint32_t> ran{0};
        Threads threads;
        threads.start(4, "worker", [&](uint32_t i) { ran.fetch_add(1u << 8 * i); });
        threads.join();
        EXPECT_EQ(ran.load(), 0x01010101u);
        EXPECT_TRUE(threads.empty());
    }
}

TEST(Threads, NoneRunsIfOneCannotBeCreated)
{
    for (int k = 0; k < 8; ++k) {
        std::atomic<uint32_t> ran{0};
        Threads threads;
        can_be_created = k;
        try {
            threads.start(8, "worker", [&](uint32_t) { ran.fetch_add(1); });
            ADD_FAILURE() << "it has started with " << k << " threads";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::exhausted);
            EXPECT_EQ(std::string(error.what()),
                      "cannot start worker thread " + std::to_string(k + 1) +
                          " of 8: Resource temporarily unavailable (see ulimit -u)");
        }
        can_be_created = -1;
        EXPECT_EQ(ran.load(), 0u);
        EXPECT_TRUE(threads.empty());
        threads.start(8, "worker", [&](uint32_t) { ran.fetch_add(1); }); // it can be used on
        threads.join();
        EXPECT_EQ(ran.load(), 8u);
    }
}

TEST(Threads, OneIsNotCounted)
{
    Threads threads;
    can_be_created = 0;
    try {
        threads.start(1, "keeper", [](uint32_t) {});
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()), "cannot start keeper thread: Resource temporarily "
                                             "unavailable (see ulimit -u)");
    }
    can_be_created = -1;
}

// What a forked child does with the threads of its parent is nothing.
TEST(Threads, AreLeftToTheParent)
{
    std::atomic<bool> end{false};
    Threads threads;
    threads.start(2, "worker", [&](uint32_t) {
        while (!end) { // ends below
            std::this_thread::yield();
        }
    });
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        threads.join();
// These have no threads after such a fork.
#if !defined(__SANITIZE_THREAD__) && !defined(DENIZEN_EMULATED)
        Threads own;
        own.start(2, "worker", [](uint32_t) {});
        own.join();
#endif
        _exit(threads.empty() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    end = true;
    threads.join();
}

TEST(Process, IsTheOneOfTheObject)
{
    const Process process;
    process.check("the thing");
    const pid_t child = fork();
    if (child == 0) {
        try {
            process.check("the thing");
        } catch (const Error& error) {
            const bool said = std::string(error.what())
                                  .find("the thing belongs to another "
                                        "process") == 0;
            _exit(error.code() == Errc::closed && said && Process().here() ? 0 : 1);
        }
        _exit(2);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(process.here());
}

} // namespace
