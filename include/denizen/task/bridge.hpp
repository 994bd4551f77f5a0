// SPDX-License-Identifier: Apache-2.0
// Carries what tasks reply to actors: task::Context::reply() puts a message into a ring in host
// memory, and a thread of the host sends it on to the actor's runtime.
//
//   denizen::task::Runtime<Fibs> tasks;
//   denizen::Runtime<Askers> actors;
//   denizen::task::Bridge<Answer, decltype(tasks), decltype(actors)> bridge(tasks, actors);
//
// Close the bridge before the runtimes. A reply that the actors' ring has no room for waits here,
// and those behind it in theirs; a task that finds that full is told.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/base/error.hpp>
#include <denizen/wire/wait.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace denizen::task {

template <class M, class Tasks, class Actors>
class Bridge {
public:
    Bridge(Tasks& tasks, Actors& actors)
        : tasks_(tasks), actors_(actors), thread_([this] { carry(); })
    {
    }
    Bridge(const Bridge&) = delete;
    Bridge& operator=(const Bridge&) = delete;
    ~Bridge() { stop(); }

    uint64_t carried() const { return carried_.load(std::memory_order_relaxed); }

    // Stops when what had been replied by now has been carried or cannot be. Throws what the
    // runtimes threw meanwhile.
    void close()
    {
        stop();
        if (const std::optional<Error> error = std::exchange(error_, std::nullopt)) {
            throw *error;
        }
    }

private:
    void stop()
    {
        stopping_.store(true, std::memory_order_release);
        if (thread_.joinable()) {
            thread_.join();
        }
    }

    void carry()
    {
        try {
            Backoff wait;
            for (;;) { // ends by stop(), once nothing is left, or by an error
                // Acquire, and before the look: what was replied before stop() is found.
                const bool last = stopping_.load(std::memory_order_acquire);
                M message;
                uint32_t to = 0;
                if (tasks_.receive(message, to)) {
                    deliver(Address{to}, message);
                    wait.reset();
                } else if (last) {
                    return;
                } else {
                    wait.pause();
                }
            }
        } catch (const Error& error) {
            error_ = error;
        }
    }

    void deliver(Address to, const M& message)
    {
        for (;;) { // ends when the actors have room, or by stop()
            try {
                actors_.send(to, message, std::chrono::milliseconds(100));
                carried_.fetch_add(1, std::memory_order_relaxed);
                return;
            } catch (const Error& error) {
                if (error.code() != Errc::full || stopping_.load(std::memory_order_relaxed)) {
                    throw;
                }
            }
        }
    }

    Tasks& tasks_;
    Actors& actors_;
    std::atomic<bool> stopping_{false};
    std::atomic<uint64_t> carried_{0};
    std::optional<Error> error_; // the thread's, until it is joined
    std::thread thread_;
};

} // namespace denizen::task
