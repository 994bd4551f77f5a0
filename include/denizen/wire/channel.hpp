// SPDX-License-Identifier: Apache-2.0
// The owner of a ring in host memory, and its blocking ends: wait policies, deadlines, and errors
// that name the ring. Ends built from `view()` in place of sender() and receiver() do the same
// protocol without names and waits, on either side.
//
//   Channel<Spsc> orders("orders", 4096);
//   auto tx = orders.sender();                  auto rx = orders.receiver();
//   tx.send(header, &order, 100ms);             Header h = rx.receive(&order, sizeof order, 100ms);
#pragma once

#include <denizen/base/error.hpp>
#include <denizen/wire/mpmc.hpp>
#include <denizen/wire/mpsc.hpp>
#include <denizen/wire/wait.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace denizen {

struct Spsc {
    using Sender = SpscSender<Scope::system>;
    using Receiver = SpscReceiver<Scope::system>;
    static void clear(Slot* s, uint32_t n, uint32_t start) { clear_slots(s, n, start); }
};

struct Mpsc {
    using Sender = MpscSender<Scope::system>;
    using Receiver = MpscReceiver<Scope::system>;
    static void clear(Slot* s, uint32_t n, uint32_t start) { clear_slots(s, n, start); }
};

struct Mpmc {
    using Sender = MpmcSender<Scope::system>;
    using Receiver = MpmcReceiver<Scope::system>;
    static void clear(Slot* s, uint32_t n, uint32_t start) { clear_mpmc_slots(s, n, start); }
};

class Park;

namespace detail {

// A deadline in the past is one that has passed.
inline uint64_t nanoseconds_of(std::chrono::nanoseconds d)
{
    return d.count() < 0 ? 0 : static_cast<uint64_t>(d.count());
}

// `ring "orders" (4096 slots)`
inline std::string ring_name(const std::string& name, const RingView& ring)
{
    return "ring \"" + name + "\" (" + std::to_string(ring.capacity()) + " slots)";
}

[[noreturn]] inline void throw_ring_error(Errc code, const std::string& name, const RingView& ring,
                                          const Header& h, uint64_t waited_ns)
{
    const std::string who = ring_name(name, ring);
    switch (code) {
    case Errc::full:
        throw Error(code, who + " is full: its consumer has not moved for " + seconds(waited_ns) +
                              "; wait longer, drain it faster or make it larger");
    case Errc::empty:
        throw Error(Errc::timeout,
                    who + " is empty: its producers sent nothing for " + seconds(waited_ns));
    case Errc::closed: throw Error(code, who + " is closed");
    case Errc::oversize:
        throw Error(code, who + ": a message of " + std::to_string(h.length) + " bytes takes " +
                              std::to_string(slots_for(h.length)) +
                              " slots; the limit is half the ring and " +
                              std::to_string(max_length) +
                              " bytes: make the ring larger or send a reference to a buffer");
    case Errc::wrong_type:
        throw Error(code, who + ": message type " + std::to_string(h.type) +
                              " is out of range, the limit is " + std::to_string(max_type));
    case Errc::peer_dead:
        throw Error(code, who + ": the " +
                              (ring.state() == RingState::producer_dead ? "producer" : "consumer") +
                              " is gone; close the ring and open a new one");
    default: throw Error(code, who + ": " + to_string(code));
    }
}

} // namespace detail

// Waits on the ring's bell; the only policy that lets an idle consumer use no CPU.
class Park {
public:
    template <class Published>
    void pause(const RingView& ring, uint64_t left_ns, Published&& published)
    {
        if (++tries_ <= 256) {
            relax();
        } else {
            sleep_on_bell(&ring.words->bell, &ring.words->sleeping, left_ns, published);
        }
    }
    void reset() { tries_ = 0; }

private:
    uint32_t tries_ = 0;
};

template <class Kind>
class ChannelSender {
public:
    ChannelSender(const RingView& ring, std::shared_ptr<const std::string> name)
        : end_(ring), name_(std::move(name))
    {
    }

    Errc try_send(const Header& h, const void* payload)
    {
        const Errc code = end_.try_send(h, payload);
        if (code == Errc::ok) {
            ring_bell(&end_.ring().words->bell, &end_.ring().words->sleeping);
        }
        return code;
    }

    // Sends or throws Error: full once `deadline` has passed without room, closed, oversize,
    // wrong_type, peer_dead.
    template <class Wait = Backoff>
    void send(const Header& h, const void* payload,
              std::chrono::nanoseconds deadline = std::chrono::seconds(1), Wait wait = {})
    {
        const uint64_t limit = detail::nanoseconds_of(deadline);
        uint64_t moved = now_ns();
        const uint64_t begin = moved;
        uint32_t credit = progress();
        Errc code = try_send(h, payload);
        while (code == Errc::full) { // ends: by room or by the deadline
            const uint64_t now = now_ns();
            if (progress() != credit) {
                credit = progress();
                moved = now;
            }
            if (now - begin >= limit) {
                detail::throw_ring_error(code, *name_, end_.ring(), h, now - moved);
            }
            wait.pause();
            code = try_send(h, payload);
        }
        if (code != Errc::ok) {
            detail::throw_ring_error(code, *name_, end_.ring(), h, 0);
        }
    }

private:
    // Some word that changes whenever the consumer moves, for the error's text.
    uint32_t progress() const
    {
        const RingWords& w = *end_.ring().words;
        return load<Scope::system>(&w.credit) + load<Scope::system>(&w.head);
    }

    typename Kind::Sender end_;
    std::shared_ptr<const std::string> name_;
};

template <class Kind>
class ChannelReceiver {
public:
    ChannelReceiver(const RingView& ring, std::shared_ptr<const std::string> name)
        : end_(ring), name_(std::move(name))
    {
    }

    Errc try_receive(Header& h, void* payload, uint32_t room)
    {
        return end_.try_receive(h, payload, room);
    }

    // Receives or throws Error: timeout once `deadline` has passed, closed when the ring is closed
    // and drained, peer_dead, oversize if `room` bytes do not hold the message (it stays).
    template <class Wait = Backoff>
    Header receive(void* payload, uint32_t room,
                   std::chrono::nanoseconds deadline = std::chrono::seconds(1), Wait wait = {})
    {
        Header h;
        const uint64_t limit = detail::nanoseconds_of(deadline);
        const uint64_t begin = now_ns();
        Errc code = end_.try_receive(h, payload, room);
        while (code == Errc::empty) { // ends: by a message or by the deadline
            const uint64_t waited = now_ns() - begin;
            if (waited >= limit) {
                detail::throw_ring_error(code, *name_, end_.ring(), h, waited);
            }
            if constexpr (requires { wait.pause(); }) {
                wait.pause();
            } else {
                wait.pause(end_.ring(), limit - waited, [&] {
                    code = end_.try_receive(h, payload, room);
                    return code != Errc::empty;
                });
                if (code != Errc::empty) {
                    break;
                }
            }
            code = end_.try_receive(h, payload, room);
        }
        if (code == Errc::oversize) {
            throw Error(code, detail::ring_name(*name_, end_.ring()) + ": the next message has " +
                                  std::to_string(h.length) + " bytes, the buffer " +
                                  std::to_string(room) + "; it stays in the ring");
        }
        if (code != Errc::ok) {
            detail::throw_ring_error(code, *name_, end_.ring(), h, 0);
        }
        return h;
    }

private:
    typename Kind::Receiver end_;
    std::shared_ptr<const std::string> name_;
};

// Owns slots and words in host memory. Its ends must not outlive it.
template <class Kind>
class Channel {
public:
    // `slots`: capacity, a power of two from 2 to 2^20. `start`: the first ticket (tests start near
    // 2^32 to see the sequence wrap).
    Channel(std::string name, uint32_t slots, uint32_t start = 0)
        : name_(std::make_shared<const std::string>(std::move(name)))
    {
        if (slots < 2 || slots > 1u << 20 || !std::has_single_bit(slots)) {
            throw Error(Errc::bad_argument, "ring \"" + *name_ + "\": " + std::to_string(slots) +
                                                " slots; use a power of two from 2 to 1048576");
        }
        slots_ = std::make_unique<Slot[]>(slots);
        words_ = std::make_unique<RingWords>();
        words_->tail = words_->head = words_->credit = start;
        Kind::clear(slots_.get(), slots, start);
        view_ = {slots_.get(), slots - 1, start, words_.get()};
    }

    ChannelSender<Kind> sender() const { return {view_, name_}; }
    ChannelReceiver<Kind> receiver() const { return {view_, name_}; }
    const RingView& view() const { return view_; }

    // After close() senders are refused; receivers drain what is there, then are told. Close when
    // the senders have returned: one that passed its check just before may be accepted and never
    // received.
    void close() { set(RingState::closed); }
    // Told by whoever knows that one side is gone (a worker that failed, a process that died).
    void producer_died() { set(RingState::producer_dead); }
    void consumer_died() { set(RingState::consumer_dead); }

private:
    void set(RingState state)
    {
        store<Scope::system, Order::release>(&words_->state, static_cast<uint32_t>(state));
        fetch_add<Scope::system, Order::release>(&words_->bell, 1u);
        futex_wake_all(&words_->bell);
    }

    std::shared_ptr<const std::string> name_;
    std::unique_ptr<Slot[]> slots_;
    std::unique_ptr<RingWords> words_;
    RingView view_;
};

} // namespace denizen
