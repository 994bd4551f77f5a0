// SPDX-License-Identifier: Apache-2.0
// A link's two threads over a wire.
#include <denizen/cluster/link.hpp>

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
using cluster::quiet_thread;
using cluster::Wire;

constexpr uint32_t batch = 256; // messages between two flushes

// How a thread that found nothing looks on before it sleeps. Where cores are fewer than threads,
// the one it waits for may need this core, so it is offered: now and then, and once before each
// sleep, which costs far more. Others that took it will want it again: if nothing has come
// meanwhile the thread sleeps, and the next time offers it at once.
class Looking {
public:
    explicit Looking(uint64_t spin) : spin_(spin), worked_(now_ns()) {}
    void worked(uint64_t now)
    {
        worked_ = now;
        offered_ = taken_ = false;
    }
    // False: it is to sleep.
    bool again(uint64_t now)
    {
        const bool over = taken_ || now - worked_ >= spin_;
        if (over && offered_) {
            return false;
        }
        if (!over && !crowded_ && ++looks_ % 64 != 0) {
            relax();
            return true;
        }
        offered_ = true;
        const Offered how = offer_core(withheld_);
        taken_ = how != Offered::kept;
        crowded_ = how == Offered::withheld ? crowded_ : taken_;
        return true;
    }

private:
    uint64_t spin_;
    uint64_t worked_;
    uint32_t looks_ = 0;
    uint32_t withheld_ = 0; // how often it is not offered
    bool crowded_ = false;  // when the core was last offered
    bool offered_ = false;  // since there was work
    bool taken_ = false;    // and others took it
};

uint64_t ns_of(std::chrono::nanoseconds t) { return static_cast<uint64_t>(t.count()); }

class Pair : public Link {
public:
    Pair(AnyRuntime& runtime, uint32_t peer, std::unique_ptr<Wire> wire, const LinkOptions& options)
        : door_(runtime.far()), host_(peer), wire_(std::move(wire)), urgent_(door_.has_urgent()),
          deadline_(ns_of(options.deadline)), silence_(deadline_ - deadline_ / 32),
          spin_(ns_of(options.spin))
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
        return {c.taken, acknowledged, c.delivered, c.refused, c.lost, resumed_};
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

    void send()
    {
        Held data(door_.room());
        Held hurried(door_.room());
        const uint64_t beat_every = std::min<uint64_t>(deadline_ / 16, 100'000'000);
        uint64_t beaten = 0;
        Looking looking(spin_);
        Backoff wait;
        while (!stop_.load(std::memory_order_acquire)) { // ends by close()
            if (state() == State::lost) {
                bury(data, hurried);
                door_.sleep(host_, 100'000'000);
                continue;
            }
            uint32_t n = 0;
            const bool pauses = pause_.load(std::memory_order_acquire);
            const bool logged_out = door_.log_full(host_); // until the cluster is saved
            const bool takes = !pauses && !logged_out;
            for (bool more = true; more && n < batch; n += more ? 1 : 0) {
                more = urgent_ && (takes || hurried.holds) && send_one(hurried, true);
                more = more || ((takes || data.holds) && send_one(data, false));
            }
            const bool full = data.holds || hurried.holds;
            pauses_.store(pauses && !full, std::memory_order_release);
            const bool waits = !wire_->flush();
            holds_.store(full, std::memory_order_release);
            const uint64_t now = now_ns();
            if (now - beaten > beat_every) {
                wire_->beat();
                beaten = now;
            }
            if (n != 0) {
                looking.worked(now);
                wait.reset();
            } else if (full || waits || pauses || logged_out) {
                wait.pause();
            } else if (!looking.again(now)) {
                door_.sleep(host_, std::min(beat_every, wire_->longest_sleep()));
            }
        }
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
        std::vector<unsigned char> payload(door_.room());
        Header h;
        while (
            !stop_.load(std::memory_order_acquire) &&
            (door_.take_urgent(host_, h, payload.data()) || door_.take(host_, h, payload.data()))) {
            door_.bury_lost(host_, h, payload.data());
        }
        holds_.store(false, std::memory_order_release);
        if (door_.tell_lost(host_)) { // else again, when this thread has slept
            settled_.store(true, std::memory_order_release);
        }
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

    void receive()
    {
        Held data(door_.room());
        Held hurried(door_.room());
        uint64_t signs = wire_->signs();
        uint64_t heard = now_ns();
        uint64_t looked = heard;
        Looking looking(spin_);
        bool finishes = false; // it is lost, and what had come by then is still delivered
        Backoff wait;
        while (!stop_.load(std::memory_order_acquire)) { // ends by close(), or when it is lost
            const bool lost = state() == State::lost;
            door_.give_aside(host_);
            const bool takes = !lost || finishes;
            uint32_t n = urgent_ ? deliver_some(hurried, true, takes) : 0;
            n += deliver_some(data, false, takes);
            if (urgent_ && n == 0 && !data.holds) { // it was the next one
                n = deliver_some(hurried, true, takes);
            }
            const bool held = data.holds || hurried.holds;
            undelivered_.store(held, std::memory_order_release);
            if (lost) {
                if (n == 0 && !held) {
                    break;
                }
                wait.pause();
                continue;
            }
            if (n != 0 && wire_->should_tell()) {
                door_.wake(host_);
            }
            const uint64_t now = now_ns();
            if (n != 0) {
                looking.worked(now);
                wait.reset();
                if (now - looked < 1'000'000) {
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
            if (n != 0) {
                continue;
            }
            if (held) {
                wire_->pump();
                wait.pause();
            } else if (!looking.again(now)) {
                wire_->rest();
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
