// SPDX-License-Identifier: Apache-2.0
// A link's way out: the sending thread, and workers in its place (pair.hpp); and what becomes of
// what is bound for a host that is lost.
#include "pair.hpp"

#include <denizen/wire/wait.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace denizen::cluster {

// The next message of one kind goes to the wire: true, or there is none, or it has no room and
// is held.
bool Pair::send_one(Held& held, bool hurried)
{
    if (!held.holds) {
        holds_.store(true, std::memory_order_release); // before the lane is empty
        held.holds = hurried ? door_.take_urgent(host_, held.h, held.payload.data())
                             : door_.take(host_, held.h, held.payload.data());
    }
    if (!held.holds || !wire_->send(held.h, held.payload.data(), hurried)) {
        return false;
    }
    held.holds = false;
    if (door_.logged(held.h)) {
        door_.log(host_, held.h, held.payload.data());
    }
    return true;
}

// With the sender's lock: a batch of what waits. How many, and whether anything is held up. Without
// `flushes` a whole one may stay with the wire until the next, as what waits behind it does: the
// worker is in a handler that sends more, and at the latest the thread finds it after its nap.
Pair::Batch Pair::send_batch(bool flushes)
{
    Batch sent;
    const bool pauses = pause_.load(std::memory_order_acquire);
    const bool logged_out = door_.log_full(host_); // until the cluster is saved
    const bool takes = !pauses && !logged_out;
    // idle() is not to be told that one is in these hands because somebody looks.
    const bool looks = out_data_.holds || out_hurried_.holds || door_.begun(host_);
    // What is urgent waits for the log of a host that has come back (take_urgent()), also when the
    // last of it is in these hands.
    const auto replays = [&] { return out_data_.holds && (out_data_.h.flags & far_replayed) != 0; };
    for (bool more = looks; more && sent.n < batch; sent.n += more ? 1 : 0) {
        more =
            urgent_ && !replays() && (takes || out_hurried_.holds) && send_one(out_hurried_, true);
        more = more || ((takes || out_data_.holds) && send_one(out_data_, false));
    }
    const bool full = out_data_.holds || out_hurried_.holds;
    if (sent.n != 0) {
        door_.give_credit(host_);
    }
    pauses_.store(pauses && !full, std::memory_order_release);
    const bool left = (flushes || sent.n < batch) && !wire_->flush();
    holds_.store(full, std::memory_order_release);
    sent.waits = (full && !pauses) || left;
    sent.held_up = sent.waits || pauses || logged_out;
    return sent;
}

void Pair::send()
{
    const uint64_t beat_every = std::min<uint64_t>(deadline_ / 16, 100'000'000);
    uint64_t beaten = 0;
    Looking looking(spin_);
    Backoff wait;
    // The bell before all that its ringing tells of: stop_, the state, pause_. Ends by close().
    for (uint32_t bell = door_.bell(host_); !stop_.load(std::memory_order_acquire);
         bell = door_.bell(host_)) {
        std::unique_lock mine(out_lock_);
        if (state() == State::lost) {
            bury(out_data_, out_hurried_);
            mine.unlock();
            door_.sleep(host_, bell, 100'000'000);
            continue;
        }
        const Batch sent = send_batch();
        const uint64_t now = now_ns();
        if (now - beaten > beat_every) {
            wire_->beat();
            beaten = now;
        }
        const bool helped = out_turn_.helped();
        const bool spins = out_turn_.looks == 0; // else workers do, and may want this core
        const uint64_t longest = std::min(beat_every, wire_->longest_sleep());
        mine.unlock();
        if (helped) {
            door_.nap(host_, bell, std::min(longest, nap_ns));
        } else if (sent.n != 0) {
            looking.worked(now);
            wait.reset();
        } else if (sent.held_up) {
            wait.pause();
        } else if (!spins || !looking.again(now)) {
            door_.sleep(host_, bell, longest);
        }
    }
}

LinkHelp::Sent Pair::send_some()
{
    const std::unique_lock mine(out_lock_, std::try_to_lock);
    if (state() == State::lost) {
        return Sent::lost;
    }
    out_turn_.look();
    if (!mine) { // its thread is at it
        return Sent::no_room;
    }
    const Batch sent = send_batch(false);
    by_workers_ += sent.n;
    if (sent.waits) {
        wire_->pump(); // room comes with an acknowledgement, and who would read it may nap
    }
    return sent.n != 0 ? Sent::some : sent.waits ? Sent::no_room : Sent::none;
}

// What was sent and not acknowledged, what waits, and what will come.
void Pair::bury(Held& data, Held& hurried)
{
    if (!buried_) {
        buried_ = true;
        uint64_t logged = 0;
        wire_->unacknowledged(
            [&](const Header& h, const void*) { logged += door_.logged(h) ? 1 : 0; });
        wire_->unacknowledged([&](const Header& h, const void* p) {
            if (!door_.logged(h) || !door_.keep_logged(host_, --logged)) {
                door_.bury_lost(host_, h, p);
            }
        });
    }
    for (Held* held : {&hurried, &data}) {
        if (held->holds && (held->h.flags & far_replayed) != 0) {
            door_.log(host_, held->h, held->payload.data());
        } else if (held->holds) {
            door_.bury_lost(host_, held->h, held->payload.data());
        }
        held->holds = false;
    }
    while (!stop_.load(std::memory_order_acquire) && bury_one(data)) { // ends: the lane is empty
    }
    holds_.store(false, std::memory_order_release);
    if (door_.tell_lost(host_)) { // else again, when this thread has slept
        settled_.store(true, std::memory_order_release);
    }
}

// What waits in the lane of a lost host, in the sender's hands until it is a dead letter.
bool Pair::bury_one(Held& hands)
{
    if (!door_.begun(host_)) { // as in send_batch()
        return false;
    }
    holds_.store(true, std::memory_order_release); // until it is one
    unsigned char* const payload = hands.payload.data();
    if (!door_.take_urgent(host_, hands.h, payload) && !door_.take(host_, hands.h, payload)) {
        return false;
    }
    door_.bury_lost(host_, hands.h, payload);
    return true;
}

} // namespace denizen::cluster
