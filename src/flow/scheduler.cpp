// SPDX-License-Identifier: Apache-2.0
// The threads of a pool. Each takes coroutines from its own queue, else from another's; it searches
// for a while, then sleeps. A coroutine that has something to do again goes to the queue of the
// thread that says so: what it waited for is in that thread's cache.
#include <denizen/flow/scheduler.hpp>

#include <denizen/base/clock.hpp>
#include <denizen/base/error.hpp>

#include "cores.hpp"
#include "run_queue.hpp"

#include <string>

namespace denizen::flow {
namespace {

constexpr uint64_t nap_ns = 50'000;
constexpr uint32_t spins = 1024;

// The worker that this thread is, and whose.
thread_local const Scheduler* at_home = nullptr;
thread_local uint32_t my_number = 0;

void futex_wake_one(uint32_t* word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

bool always(void*) { return true; }

} // namespace

void Parking::schedule() { scheduler_->push(*this); }

Scheduler::Scheduler(const std::vector<int>& cores, uint32_t most) : most_(most)
{
    if (cores.empty()) {
        throw Error(Errc::bad_argument,
                    "a scheduler without threads: name a core, or -1, for each");
    }
    for (const int core : cores) {
        refuse_core(core);
        queues_.push_back(std::make_unique<RunQueue>(most));
    }
    threads_.start(static_cast<uint32_t>(cores.size()), "scheduler",
                   [this, cores](uint32_t i) { work(i, cores[i]); });
}

Scheduler::~Scheduler()
{
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return alive_ == 0; });
    }
    leaving_.store(true, std::memory_order_release); // partner: work()
    bell_.ring();
    threads_.join();
}

void Scheduler::spawn(Coroutine coroutine)
{
    {
        const std::lock_guard lock(mutex_);
        if (alive_ == most_) {
            throw Error(Errc::full, "the scheduler has " + std::to_string(most_) +
                                        " coroutines already: make it with room for more");
        }
        alive_ += 1;
    }
    const Coroutine::Handle handle = std::exchange(coroutine.handle_, nullptr);
    auto& promise = handle.promise();
    promise.scheduler = this;
    promise.own.scheduler_ = this;
    promise.own.handle_ = handle;
    promise.own.settled_ = always;
    promise.own.home_ =
        next_home_.fetch_add(1, std::memory_order_relaxed) % static_cast<uint32_t>(queues_.size());
    push(promise.own);
}

void Scheduler::wait()
{
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return alive_ == 0; });
    if (error_) {
        std::rethrow_exception(std::exchange(error_, nullptr));
    }
}

void Scheduler::ended(std::exception_ptr error)
{
    const std::lock_guard lock(mutex_);
    if (error && !error_) {
        error_ = std::move(error);
    }
    alive_ -= 1;
    changed_.notify_all();
}

void Scheduler::push(Parking& parking)
{
    queues_[at_home == this ? my_number : parking.home_]->push(&parking);
    wake_one();
}

// A thread that searches will find it, so only when none does is one woken. Either this sees that a
// searcher has given up, or that searcher's heavy fence comes after the push and it sees the item.
void Scheduler::wake_one()
{
    light_fence();
    if (searching_.load(std::memory_order_relaxed) == 0 &&
        load<Scope::system>(&bell_.sleeping) != 0) {
        fetch_add<Scope::system, Order::release>(&bell_.rung, 1u);
        futex_wake_one(&bell_.rung);
    }
}

void Scheduler::nap(Parking& parking)
{
    const std::lock_guard lock(mutex_);
    napping_.push_back({now_ns() + nap_ns, &parking});
    napping_count_.store(static_cast<uint32_t>(napping_.size()), std::memory_order_relaxed);
}

bool Scheduler::wake_napping()
{
    if (napping_count_.load(std::memory_order_relaxed) == 0) {
        return false;
    }
    std::vector<Parking*> due;
    bool more = false;
    {
        const std::lock_guard lock(mutex_);
        const uint64_t now = now_ns();
        while (!napping_.empty() && napping_.front().until <= now) {
            due.push_back(napping_.front().parking);
            napping_.pop_front();
        }
        more = !napping_.empty();
        napping_count_.store(static_cast<uint32_t>(napping_.size()), std::memory_order_relaxed);
    }
    for (Parking* parking : due) {
        push(*parking);
    }
    return more;
}

bool Scheduler::anything() const
{
    for (const auto& queue : queues_) {
        if (queue->something()) {
            return true;
        }
    }
    return leaving_.load(std::memory_order_acquire);
}

// From its own queue, else from another's.
bool Scheduler::take(uint32_t me, Parking*& next)
{
    const auto count = static_cast<uint32_t>(queues_.size());
    for (uint32_t i = 0; i < count; ++i) {
        if (queues_[(me + i) % count]->pop(next)) {
            return true;
        }
    }
    return false;
}

void Scheduler::work(uint32_t me, int core)
{
    pin_to(core);
    at_home = this;
    my_number = me;
    uint32_t turns = 0;
    bool soon = true; // work came within own_core_ns when it was last waited for
    for (;;) {        // ends: when the scheduler goes, after its last coroutine
        Parking* next = nullptr;
        // Also a thread that always finds work looks at those who nap, now and then.
        bool found = (++turns % 64 != 0 || (wake_napping(), true)) && take(me, next);
        if (!found) {
            searching_.fetch_add(1, std::memory_order_relaxed);
            bool napping = wake_napping();
            // Whoever naps would keep a spinning thread busy for good.
            const uint32_t tries = napping ? spins / 32 : spins;
            for (uint32_t i = 0; i < tries && !found; ++i) {
                relax();
                found = take(me, next);
            }
            const uint64_t since = found ? 0 : now_ns();
            while (core >= 0 && soon && !napping && !found &&
                   now_ns() - since < own_core_ns) { // ends: so, or by work
                sched_yield();
                found = take(me, next);
            }
            const bool last = searching_.fetch_sub(1, std::memory_order_relaxed) == 1;
            if (!found) {
                napping = wake_napping();
                bell_.sleep(napping ? nap_ns : 1'000'000'000, [&] { return anything(); });
                soon = now_ns() - since < own_core_ns;
                // Whoever naps while all sleep is seen here: the sleeper above knew of it, or a
                // thread that runs put it there and looks itself before it sleeps.
                if (leaving_.load(std::memory_order_acquire)) { // partner: ~Scheduler()
                    return;
                }
                continue;
            }
            if (last && anything()) {
                wake_one(); // there is more than this thread can do
            }
        }
        next->home_ = me;
        next->resume();
    }
}

} // namespace denizen::flow
