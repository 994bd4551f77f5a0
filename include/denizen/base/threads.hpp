// SPDX-License-Identifier: Apache-2.0
// Threads of the host that start all or none: their bodies begin when the last of them has been
// created, and if one cannot be, those before it end without having begun. Host only.
#pragma once

#include <denizen/base/error.hpp>
#include <denizen/base/process.hpp>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace denizen {

class Threads {
public:
    Threads() = default;
    ~Threads() { join(); }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

    // body(0) to body(n - 1), each on a thread of its own; `role` is what an error calls them:
    // "cannot start worker thread 3 of 8: ...". After a start they must be joined before the next.
    // Throws exhausted, and then none of the bodies has run.
    template <class Body>
    void start(uint32_t n, const char* role, const Body& body)
    {
        const auto gate = std::make_shared<Gate>();
        threads_.reserve(n);
        try {
            for (uint32_t i = 0; i < n; ++i) {
                threads_.emplace_back([gate, body, i] {
                    if (gate->opens()) {
                        body(i);
                    }
                });
            }
        } catch (const std::system_error& error) {
            const size_t started = threads_.size();
            gate->set(Gate::none);
            join();
            throw Error(Errc::exhausted, std::string("cannot start ") + role + " thread" +
                                             (n == 1 ? std::string()
                                                     : " " + std::to_string(started + 1) + " of " +
                                                           std::to_string(n)) +
                                             ": " + error.code().message() + " (see ulimit -u)");
        } catch (...) { // no memory
            gate->set(Gate::none);
            join();
            throw;
        }
        gate->set(Gate::open);
    }

    bool empty() const { return threads_.empty(); }
    size_t size() const { return threads_.size(); }

    // Until all bodies have returned. In a forked child there is no thread to wait for.
    void join()
    {
        if (!process_.here()) {
            leave_behind();
        }
        for (std::thread& thread : threads_) {
            thread.join();
        }
        threads_.clear();
    }

    // The threads go on; all that their bodies use must outlive this.
    void detach()
    {
        if (!process_.here()) {
            leave_behind();
        }
        for (std::thread& thread : threads_) {
            thread.detach();
        }
        threads_.clear();
    }

private:
    // What all of them wait at until it is known whether they run.
    class Gate {
    public:
        enum State : uint8_t { shut, open, none };

        void set(State state)
        {
            {
                const std::lock_guard guard(mutex_);
                state_ = state;
            }
            changed_.notify_all();
        }
        bool opens() // ends by set()
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return state_ != shut; });
            return state_ == open;
        }

    private:
        std::mutex mutex_;
        std::condition_variable changed_;
        State state_ = shut;
    };

    // A child of a fork must neither join nor detach what are threads of its parent: the library
    // may have given their stacks to threads of the child.
    void leave_behind()
    {
        if (!threads_.empty()) {
            new std::vector<std::thread>(std::move(threads_));
        }
        threads_.clear();
    }

    std::vector<std::thread> threads_;
    Process process_;
};

} // namespace denizen
