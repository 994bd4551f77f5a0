// SPDX-License-Identifier: Apache-2.0
// A link's way in: the receiving thread, and workers in its place (pair.hpp); and how it is known
// that the other host is lost.
#include "pair.hpp"

#include <denizen/base/interrupt.hpp>
#include <denizen/wire/wait.hpp>

#include <atomic>
#include <mutex>

namespace denizen::cluster {
namespace {

constexpr uint64_t short_nap_ns = 50'000; // when a worker has not looked, until one does again
constexpr uint64_t longest_rest_ns = 100'000'000;
constexpr uint32_t most_vain = 200; // of these in a row; then the thread waits as for none

} // namespace

// What has come of one kind, urgent messages out of their turn; how many found room. `takes`:
// more than the one that is held.
uint32_t Pair::deliver_some(Held& held, bool hurried, bool takes)
{
    FarRun run;
    uint32_t n = 0;
    for (;; ++n) { // ends: by a batch, what has come, or no room
        if (!held.holds) {
            unsigned char* const to = held.payload.data();
            held.holds = takes && n < batch &&
                         (hurried ? wire_->receive_urgent(held.h, to, door_.room())
                                  : wire_->receive(held.h, to, door_.room()));
            held.again = false;
        }
        if (!held.holds) {
            break;
        }
        undelivered_.store(true, std::memory_order_release);
        held.again = door_.deliver(host_, held.h, held.payload.data(), held.again, run) ==
                     Delivered::no_room;
        if (held.again) {
            break;
        }
        held.holds = false;
        hurried ? wire_->done_urgent() : wire_->done();
    }
    door_.end_run(host_, run);
    return n;
}

// With the receiver's lock: some of what has come; how many found room.
uint32_t Pair::deliver_batch(bool takes)
{
    uint32_t n = urgent_ ? deliver_some(in_hurried_, true, takes) : 0;
    n += deliver_some(in_data_, false, takes);
    if (urgent_ && n == 0 && !in_data_.holds) { // it was the next one
        n = deliver_some(in_hurried_, true, takes);
    }
    undelivered_.store(in_data_.holds || in_hurried_.holds, std::memory_order_release);
    return n;
}

void Pair::receive()
{
    std::unique_lock mine(in_lock_);
    uint64_t signs = wire_->signs();
    uint64_t heard = now_ns();
    uint64_t looked = heard;
    Looking looking(spin_);
    uint32_t vain = 0;     // naps in a row, without anything for this thread
    bool finishes = false; // it is lost, and what had come by then is still delivered
    Backoff wait;
    // Whatever may sleep is without the lock.
    const auto without_lock = [&mine](auto&& sleep) {
        mine.unlock();
        sleep();
        mine.lock();
    };
    const auto looks_again = [&](uint64_t now) {
        bool again = false;
        without_lock([&] { again = looking.again(now); });
        return again;
    };
    while (!stop_.load(std::memory_order_acquire)) { // ends by close(), or when it is lost
        const bool lost = state() == State::lost;
        const bool aside = !door_.give_aside(host_); // nobody rings when a snapshot has been taken
        const uint32_t n = deliver_batch(!lost || finishes);
        const bool held = aside || in_data_.holds || in_hurried_.holds;
        if (lost) {
            if (n == 0 && !held) {
                break;
            }
            without_lock([&] { wait.pause(); });
            continue;
        }
        if (n != 0 && wire_->should_tell()) {
            door_.wake(host_);
        }
        const uint64_t now = now_ns();
        if (n != 0) {
            looking.worked(now);
            wait.reset();
            if (now - looked < 1'000'000 && !in_turn_.worker) {
                without_lock([] {}); // a worker may rest
                continue;
            }
        }
        looked = now;
        if (told_now_.load(std::memory_order_acquire)) {
            std::string why;
            {
                const std::lock_guard guard(lock_);
                why = told_;
            }
            finishes = true;
            end(why);
            continue;
        }
        if (const uint64_t s = wire_->signs(); s != signs) {
            signs = s;
            heard = now;
        }
        switch (wire_->end()) {
        case End::open: break;
        case End::broken: {
            const std::lock_guard guard(lock_); // resume() may have been faster
            if (state() == State::up && wire_->end() == End::broken) {
                state_.store(State::broken, std::memory_order_release);
            }
            break;
        }
        case End::gone:
            finishes = true;
            end("its process has ended");
            continue;
        case End::left: end("it has given this host up"); continue;
        case End::garbage: end("it has sent what is no message"); continue;
        }
        if (now - heard > silence_) {
            end(std::string(state() == State::broken ? "its connection broke and was not "
                                                       "restored in "
                                                     : "it has been silent for ") +
                detail::seconds(now - heard) + " (deadline " + detail::seconds(deadline_) + ")");
            continue;
        }
        const bool helped = in_turn_.helped();
        vain = helped || n != 0 ? 0 : vain + 1;
        if (vain > most_vain) { // it has left, or is in a handler for long
            in_turn_.worker.store(false, std::memory_order_relaxed);
            lent_.store(false, std::memory_order_relaxed);
        } else if (held && !in_turn_.worker) { // else it would take a core from that worker
            in_turn_.worker.store(true, std::memory_order_relaxed);
            lent_.store(true, std::memory_order_relaxed);
        }
        if (in_turn_.worker && (helped || n == 0)) {
            wire_->lie_down(false);
            without_lock([&] { wire_->rest(helped ? nap_ns : short_nap_ns); });
        } else if (n != 0) {
            without_lock([] {});
        } else if (held) {
            wire_->pump();
            without_lock([&] { wait.pause(); });
        } else if (helped || !looks_again(now)) {
            if (wire_->lie_down(true)) {
                without_lock([&] { wire_->rest(helped ? nap_ns : longest_rest_ns); });
            }
        }
    }
    heard_.store(true, std::memory_order_release);
}

bool Pair::rest()
{
    const std::lock_guard mine(in_lock_);
    const bool ends = in_turn_.worker && in_turn_.naps;
    in_turn_.worker = false;
    lent_.store(false, std::memory_order_relaxed);
    return !ends || wire_->arm();
}

// By the receiver.
void Pair::end(const std::string& why)
{
    wire_->give_up();
    std::string text = "host " + std::to_string(host_) + " was lost: " + why;
    {
        const std::lock_guard guard(lock_);
        why_ = text;
    }
    door_.lose(host_, text);
    // Release: partner of the acquires of state().
    state_.store(State::lost, std::memory_order_release);
    door_.wake(host_);
}

} // namespace denizen::cluster
