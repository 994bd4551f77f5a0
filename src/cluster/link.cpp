// SPDX-License-Identifier: Apache-2.0
// A link's two threads over a wire, and what workers do for them.
#include <denizen/cluster/link.hpp>

#include "looking.hpp"
#include "quiet_thread.hpp"
#include "wire.hpp"

#include <denizen/base/interrupt.hpp>
#include <denizen/wire/wait.hpp>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace denizen {

void Link::resume(int socket, uint64_t, uint64_t, std::shared_ptr<UcxEnd>, const std::string&)
{
    const cluster::Descriptor closes(socket);
    throw Error(Errc::bad_argument, "only a stream is taken up again");
}

namespace {

using cluster::End;
using cluster::Looking;
using cluster::quiet_thread;
using cluster::Turn;
using cluster::Wire;

constexpr uint32_t batch = 256; // messages between two flushes
// How long a thread sleeps for which a worker looks: by then it sees that none has, as when all of
// them are in long handlers.
constexpr uint64_t nap_ns = 1'000'000;
constexpr uint64_t short_nap_ns = 50'000; // and then, until one looks again
constexpr uint64_t longest_rest_ns = 100'000'000;
constexpr uint32_t most_vain = 200; // of these in a row; then the thread waits as for none

uint64_t ns_of(std::chrono::nanoseconds t) { return static_cast<uint64_t>(t.count()); }

class Pair : public Link, private LinkHelp {
public:
    Pair(AnyRuntime& runtime, uint32_t peer, std::unique_ptr<Wire> wire, const LinkOptions& options)
        : door_(runtime.far()), host_(peer), wire_(std::move(wire)), urgent_(door_.has_urgent()),
          deadline_(ns_of(options.deadline)), silence_(deadline_ - deadline_ / 32),
          spin_(ns_of(options.spin)), out_data_(door_.room()), out_hurried_(door_.room()),
          in_data_(door_.room()), in_hurried_(door_.room()), helps_in_(spin_ >= nap_ns)
    {
        if (peer >= door_.hosts() || peer == door_.own()) {
            throw Error(Errc::bad_argument, "a link of host " + std::to_string(door_.own()) +
                                                " to host " + std::to_string(peer) + " of " +
                                                std::to_string(door_.hosts()));
        }
        if (deadline_ == 0) {
            throw Error(Errc::bad_argument, "a link's deadline is 0 ms; use 1 or more");
        }
        in_ = quiet_thread("denizen in", [this] { receive(); });
        out_ = quiet_thread("denizen out", [this] { send(); });
        door_.lend(host_, this);
    }
    ~Pair() override { Pair::close(); }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    State state() const override { return state_.load(std::memory_order_acquire); }
    std::string why() const override
    {
        const std::lock_guard guard(lock_);
        return why_;
    }
    LinkCounts counts() const override
    {
        const FarCounts c = door_.counts(host_);
        // Of a lost host's: all but what is buried. The sender says when it has seen to that.
        const uint64_t acknowledged =
            settled_.load(std::memory_order_acquire) ? c.taken - c.lost : wire_->acknowledged();
        const uint64_t looks = out_turn_.looks.load(std::memory_order_relaxed);
        return {c.taken, acknowledged, c.delivered, c.refused, c.lost, resumed_, by_workers_, looks};
    }
    bool idle() override
    {
        if (!door_.empty(host_) || holds_.load(std::memory_order_acquire) ||
            !door_.none_aside(host_)) {
            return false;
        }
        return state() == State::lost
                   ? settled_.load(std::memory_order_acquire)
                   : wire_->all_acknowledged() && !undelivered_.load(std::memory_order_acquire);
    }
    bool settled() const override
    {
        return settled_.load(std::memory_order_acquire) && heard_.load(std::memory_order_acquire);
    }
    void lose(const std::string& why) override
    {
        const std::lock_guard guard(lock_);
        if (told_.empty()) {
            told_ = why; // the receiver ends it: what it has taken by then is acknowledged
            told_now_.store(true, std::memory_order_release);
        }
    }
    uint64_t halt() override { return wire_->halt(); }
    void pause(bool on) override
    {
        pause_.store(on, std::memory_order_release);
        door_.wake(host_);
    }
    bool paused() override
    {
        return pauses_.load(std::memory_order_acquire) && wire_->all_acknowledged() &&
               !undelivered_.load(std::memory_order_acquire);
    }
    void resume(int socket, uint64_t nonce, uint64_t arrived, std::shared_ptr<UcxEnd> ucx,
                const std::string& address) override
    {
        cluster::Descriptor closes(socket);
        const std::lock_guard guard(lock_);
        if (state_ == State::lost) {
            throw Error(Errc::host_lost, why_);
        }
        wire_->resume(closes.release(), nonce, arrived, std::move(ucx), address);
        state_.store(State::up, std::memory_order_release);
        ++resumed_;
        door_.wake(host_);
    }
    void close() override
    {
        door_.lend(host_, nullptr);
        stop_.store(true, std::memory_order_release);
        door_.wake(host_);
        for (std::thread* t : {&in_, &out_}) {
            if (t->joinable()) {
                t->join();
            }
        }
    }

private:
    // By the receiver.
    void end(const std::string& why)
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

    // A message that the sender has taken, and the wire had no room for; or that has come, and its
    // worker had none.
    struct Held {
        explicit Held(uint32_t room) : payload(room) {}
        Header h;
        std::vector<unsigned char> payload;
        bool holds = false;
        bool again = false; // there was no room for it before
    };

    // The next message of one kind goes to the wire: true, or there is none, or it has no room and
    // is held.
    bool send_one(Held& held, bool hurried)
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

    // With the sender's lock: a batch of what waits. How many, and whether anything is held up.
    struct Batch {
        uint32_t n = 0;
        bool held_up = false;
    };
    Batch send_batch()
    {
        Batch sent;
        const bool pauses = pause_.load(std::memory_order_acquire);
        const bool logged_out = door_.log_full(host_); // until the cluster is saved
        const bool takes = !pauses && !logged_out;
        // idle() is not to be told that one is in these hands because somebody looks.
        const bool looks = out_data_.holds || out_hurried_.holds || door_.begun(host_);
        for (bool more = looks; more && sent.n < batch; sent.n += more ? 1 : 0) {
            more = urgent_ && (takes || out_hurried_.holds) && send_one(out_hurried_, true);
            more = more || ((takes || out_data_.holds) && send_one(out_data_, false));
        }
        const bool full = out_data_.holds || out_hurried_.holds;
        pauses_.store(pauses && !full, std::memory_order_release);
        const bool waits = !wire_->flush();
        holds_.store(full, std::memory_order_release);
        sent.held_up = full || waits || pauses || logged_out;
        return sent;
    }

    void send()
    {
        const uint64_t beat_every = std::min<uint64_t>(deadline_ / 16, 100'000'000);
        uint64_t beaten = 0;
        Looking looking(spin_);
        Backoff wait;
        while (!stop_.load(std::memory_order_acquire)) { // ends by close()
            std::unique_lock mine(out_lock_);
            if (state() == State::lost) {
                bury(out_data_, out_hurried_);
                mine.unlock();
                door_.sleep(host_, 100'000'000);
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
            const uint32_t bell = door_.bell(host_);
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
                door_.sleep(host_, longest);
            }
        }
    }

    // ---- a worker's, between its rounds; and a thread's, that sends

    bool look() override
    {
        if (stop_.load(std::memory_order_relaxed) || state() == State::lost) {
            return false;
        }
        uint32_t n = 0;
        if (helps_in_) {
            in_turn_.look();
            in_turn_.worker.store(true, std::memory_order_relaxed);
            if (const std::unique_lock mine(in_lock_, std::try_to_lock); mine) {
                if (state() == State::lost) {
                    return false;
                }
                if (in_turn_.naps) {
                    wire_->disarm();
                }
                n = deliver_batch(true);
                by_workers_ += n;
                if (in_data_.holds || in_hurried_.holds) {
                    wire_->pump();
                }
            }
        }
        out_turn_.look();
        if (const std::unique_lock mine(out_lock_, std::try_to_lock); mine) {
            if (state() == State::lost) {
                return false;
            }
            const uint32_t sent = send_batch().n;
            by_workers_ += sent;
            if (n + sent != 0) {
                worked_ = now_ns();
                looks_on_ = true;
            } else if (looks_on_ && ++asked_ % 16 == 0) {
                looks_on_ = now_ns() - worked_ < spin_;
            }
            return looks_on_;
        }
        return false;
    }
    Sent send_some() override
    {
        const std::unique_lock mine(out_lock_, std::try_to_lock);
        if (state() == State::lost) {
            return Sent::lost;
        }
        out_turn_.look();
        if (!mine) { // its thread is at it
            return Sent::no_room;
        }
        const uint32_t n = send_batch().n;
        by_workers_ += n;
        const bool full = (out_data_.holds || out_hurried_.holds) && !pause_;
        return n != 0 ? Sent::some : full ? Sent::no_room : Sent::none;
    }
    bool rest() override
    {
        const std::lock_guard mine(in_lock_);
        const bool ends = in_turn_.worker && in_turn_.naps;
        in_turn_.worker = false;
        return !ends || wire_->arm();
    }

    // What was sent and not acknowledged, what waits, and what will come.
    void bury(Held& data, Held& hurried)
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
    bool bury_one(Held& hands)
    {
        if (!door_.begun(host_)) { // as in send_batch()
            return false;
        }
        holds_.store(true, std::memory_order_release); // before the lane is empty
        unsigned char* const payload = hands.payload.data();
        if (!door_.take_urgent(host_, hands.h, payload) && !door_.take(host_, hands.h, payload)) {
            return false;
        }
        door_.bury_lost(host_, hands.h, payload);
        return true;
    }

    // What has come of one kind, urgent messages out of their turn; how many found room. `takes`:
    // more than the one that is held.
    uint32_t deliver_some(Held& held, bool hurried, bool takes)
    {
        for (uint32_t n = 0;; ++n) { // ends: by a batch, what has come, or no room
            if (!held.holds) {
                unsigned char* const to = held.payload.data();
                held.holds = takes && n < batch &&
                             (hurried ? wire_->receive_urgent(held.h, to, door_.room())
                                      : wire_->receive(held.h, to, door_.room()));
                held.again = false;
            }
            if (!held.holds) {
                return n;
            }
            undelivered_.store(true, std::memory_order_release);
            held.again =
                door_.deliver(host_, held.h, held.payload.data(), held.again) == Delivered::no_room;
            if (held.again) {
                return n;
            }
            held.holds = false;
            hurried ? wire_->done_urgent() : wire_->done();
        }
    }

    // With the receiver's lock: some of what has come; how many found room.
    uint32_t deliver_batch(bool takes)
    {
        uint32_t n = urgent_ ? deliver_some(in_hurried_, true, takes) : 0;
        n += deliver_some(in_data_, false, takes);
        if (urgent_ && n == 0 && !in_data_.holds) { // it was the next one
            n = deliver_some(in_hurried_, true, takes);
        }
        undelivered_.store(in_data_.holds || in_hurried_.holds, std::memory_order_release);
        return n;
    }

    void receive()
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
            door_.give_aside(host_);
            const uint32_t n = deliver_batch(!lost || finishes);
            const bool held = in_data_.holds || in_hurried_.holds;
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
                    detail::seconds(now - heard) + " (deadline " + detail::seconds(deadline_) +
                    ")");
                continue;
            }
            const bool helped = in_turn_.helped();
            vain = helped || n != 0 ? 0 : vain + 1;
            if (vain > most_vain) { // it has left, or is in a handler for long
                in_turn_.worker.store(false, std::memory_order_relaxed);
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

    FarDoor& door_;
    uint32_t host_;
    std::unique_ptr<Wire> wire_;
    const bool urgent_; // some of the program's messages are
    uint64_t deadline_;
    // After which the other host is lost. The rest of the deadline is this thread's, which looks
    // every some ms: by its end it is known.
    uint64_t silence_;
    uint64_t spin_;
    std::atomic<State> state_{State::up};
    std::atomic<bool> stop_{false};
    std::atomic<bool> holds_{false};       // the sender may have a message in its hands
    std::atomic<bool> undelivered_{false}; // and the receiver
    std::atomic<bool> pause_{false};
    std::atomic<bool> pauses_{false}; // and the sender has seen it, and holds nothing
    std::atomic<uint64_t> resumed_{0};
    std::atomic<uint64_t> by_workers_{0};
    // Each direction is its thread's or a worker's in turn, behind its lock.
    std::mutex out_lock_;
    Turn out_turn_;
    Held out_data_;
    Held out_hurried_;
    std::mutex in_lock_;
    Turn in_turn_;
    Held in_data_;
    Held in_hurried_;
    // Workers receive, too. Not where threads are to sleep soon: then cores are fewer than threads,
    // and a thread that is woken is given one before a worker that looks.
    const bool helps_in_;
    // Of the workers, behind the sender's lock.
    uint64_t worked_ = 0;
    uint32_t asked_ = 0;
    bool looks_on_ = false;
    bool buried_ = false;
    std::atomic<bool> settled_{false};
    std::atomic<bool> heard_{false}; // the receiver has given out all that had come
    mutable std::mutex lock_;
    std::string why_;
    std::string told_; // by lose()
    std::atomic<bool> told_now_{false};
    std::thread in_;
    std::thread out_;
};

cluster::IsUrgent urgent_of(AnyRuntime& runtime)
{
    FarDoor& door = runtime.far();
    return door.has_urgent() ? [&door](const Header& h) { return door.urgent(h); }
                             : cluster::IsUrgent();
}

} // namespace

std::unique_ptr<Link> Link::rings(AnyRuntime& runtime, uint32_t peer, int memory, int socket,
                                  bool first, const LinkOptions& options)
{
    return std::make_unique<Pair>(
        runtime, peer, cluster::make_rings(memory, socket, first, urgent_of(runtime)), options);
}

std::unique_ptr<Link> Link::stream(AnyRuntime& runtime, uint32_t peer, int socket, uint64_t nonce,
                                   const LinkOptions& options, std::shared_ptr<UcxEnd> ucx,
                                   const std::string& address)
{
    return std::make_unique<Pair>(
        runtime, peer,
        cluster::make_stream(socket, nonce, std::move(ucx), address, urgent_of(runtime)), options);
}

} // namespace denizen
