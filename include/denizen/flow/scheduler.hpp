// SPDX-License-Identifier: Apache-2.0
// Coroutines on a pool of threads that steal from each other: M of them on N cores, a suspended one
// costs no thread. A Flowgraph runs the blocks of a Pool on one; it can be used alone:
//
//   flow::Coroutine echo(flow::AsyncChannel<int>& from, flow::AsyncChannel<int>& to) {
//       for (int x; co_await from.receive(x);) to.send(x);
//       to.close();
//   }
//   flow::Scheduler scheduler({0, 1});      // two threads, pinned to these cores
//   scheduler.spawn(echo(a, b));
//   scheduler.wait();
//
// Why not a library's: what is needed is a queue per thread with stealing, pinned threads, and a
// wake-up that costs a busy receiver's sender one instruction. Asio's thread_pool has one locked
// queue and pins nothing; the reference implementation of std::execution is not packaged, and its
// schedulers allocate an operation per wake-up; oneTBB suspends tasks by blocking their threads.
#pragma once

#include <denizen/base/threads.hpp>
#include <denizen/flow/detail/parking.hpp>

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace denizen::flow {

// A function that a Scheduler runs: it ends with co_return, and what it throws comes out of
// Scheduler::wait(). It owns its frame until it is spawned.
class Coroutine {
public:
    struct promise_type;
    using Handle = std::coroutine_handle<promise_type>;

    explicit Coroutine(Handle handle) : handle_(handle) {}
    Coroutine(Coroutine&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Coroutine& operator=(Coroutine&&) = delete;
    ~Coroutine()
    {
        if (handle_) {
            handle_.destroy();
        }
    }

private:
    friend class Scheduler;
    Handle handle_;
};

class RunQueue; // src/flow/run_queue.hpp

class Scheduler {
public:
    // A thread for each entry, pinned to that core (-1: to none), and room for `most` coroutines at
    // a time. Throws bad_argument for no entry, and for a core that this process may not use.
    explicit Scheduler(const std::vector<int>& cores, uint32_t most = 1024);
    // Waits until all coroutines have ended.
    ~Scheduler();
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;

    // Runs it, beginning soon. From any thread. Throws full.
    void spawn(Coroutine coroutine);
    // Until all coroutines have ended; throws what the first of them threw that threw.
    void wait();

    uint32_t threads() const { return static_cast<uint32_t>(threads_.size()); }

private:
    friend class Parking;
    template <class Settled>
    friend class Until;
    friend struct Coroutine::promise_type;
    friend struct Yield;
    friend struct Nap;

    struct Napping {
        uint64_t until;
        Parking* parking;
    };

    void push(Parking& parking);
    void nap(Parking& parking);
    void ended(std::exception_ptr error);
    void work(uint32_t me, int core);
    bool take(uint32_t me, Parking*& next);
    bool anything() const;
    void wake_one();
    bool wake_napping(); // true if any goes on sleeping

    std::vector<std::unique_ptr<RunQueue>> queues_; // one per thread
    uint32_t most_;
    Bell bell_; // of the threads that have nothing to do
    std::atomic<uint32_t> searching_{0};
    std::atomic<uint32_t> napping_count_{0};
    std::atomic<uint32_t> next_home_{0};
    std::atomic<bool> leaving_{false};

    std::mutex mutex_; // guards what follows
    std::condition_variable changed_;
    std::deque<Napping> napping_; // by time
    uint32_t alive_ = 0;
    std::exception_ptr error_;

    Threads threads_;
};

struct Coroutine::promise_type {
    struct Final {
        bool await_ready() noexcept { return false; }
        void await_suspend(Handle handle) noexcept
        {
            Scheduler* scheduler = handle.promise().scheduler;
            std::exception_ptr error = std::move(handle.promise().error);
            handle.destroy();
            scheduler->ended(std::move(error));
        }
        void await_resume() noexcept {}
    };

    Coroutine get_return_object() { return Coroutine(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    Final final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }

    Scheduler* scheduler = nullptr;
    Parking own; // for its begin, for yield and for naps
    std::exception_ptr error;
};

// co_await Until(parking, settled): suspended until settled() is true. It is asked at once (unless
// the caller has just `looked`) and after each notification, by one thread at a time.
template <class Settled>
class Until {
public:
    Until(Parking& parking, Settled settled, bool looked = false)
        : parking_(parking), settled_(std::move(settled)), looked_(looked)
    {
    }

    bool await_ready() { return !looked_ && settled_(); }
    bool await_suspend(Coroutine::Handle handle)
    {
        parking_.scheduler_ = handle.promise().scheduler;
        parking_.handle_ = handle;
        parking_.settled_ = [](void* settled) { return (*static_cast<Settled*>(settled))(); };
        parking_.argument_ = &settled_;
        return parking_.suspend();
    }
    void await_resume() {}

protected:
    Parking& parking_;
    Settled settled_;
    bool looked_;
};

// co_await Yield(): the others of the thread's queue first.
struct Yield {
    bool await_ready() { return false; }
    void await_suspend(Coroutine::Handle handle)
    {
        handle.promise().scheduler->push(handle.promise().own);
    }
    void await_resume() {}
};

// co_await Nap(): goes on after 50 us or a little more.
struct Nap {
    bool await_ready() { return false; }
    void await_suspend(Coroutine::Handle handle)
    {
        handle.promise().scheduler->nap(handle.promise().own);
    }
    void await_resume() {}
};

} // namespace denizen::flow
