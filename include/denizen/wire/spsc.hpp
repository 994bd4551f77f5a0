// SPDX-License-Identifier: Apache-2.0
// One producer, one consumer. Each end keeps its own position in registers and looks at the
// other's only through the slots (the consumer) or the credit word (the producer, when its last
// reading has run out), so a message costs one cache-line transfer.
//
// The consumer of an MPSC ring is the same: what several producers write looks no different.
// Both ends are trivially copyable, but an end is a position: use one live copy of each.
#pragma once

#include <denizen/wire/tickets.hpp>
#include <denizen/wire/wait.hpp>

namespace denizen {

template <Scope S>
class SpscSender {
public:
    SpscSender() = default;
    DENIZEN_HD explicit SpscSender(const RingView& ring)
        : ring_(ring), place_{ring.start, ring.start}
    {
    }

    // ok, full, closed, oversize, wrong_type or peer_dead. Anything but ok: nothing was written.
    DENIZEN_HD Errc try_send(const Header& h, const void* payload)
    {
        const Errc refusal = detail::refuse_send(ring_, h);
        if (refusal != Errc::ok) {
            return refusal;
        }
        const uint32_t n = slots_for(h.length);
        if (!room(n)) {
            return Errc::full;
        }
        store_message<S>(ring_.slots, ring_.mask, place_.tail, h, payload);
        place_.tail += n;
        return Errc::ok;
    }

    // As try_send for a header's length that is L, at most 36 bytes.
    template <uint32_t L>
    DENIZEN_HD Errc try_send_short(const Header& h, const void* payload)
    {
        static_assert(L <= first_payload);
        const Errc refusal = detail::refuse_send(ring_, h);
        if (refusal != Errc::ok) {
            return refusal;
        }
        if (!room(1)) {
            return Errc::full;
        }
        store_short<S, L>(&ring_.slots[place_.tail & ring_.mask], place_.tail, h, payload);
        ++place_.tail;
        return Errc::ok;
    }

    // As try_send for a payload type of at most 36 bytes, without run-time lengths.
    template <class M>
    DENIZEN_HD Errc try_send(uint32_t destination, uint32_t sender, uint32_t type, const M& message)
    {
        static_assert(sizeof(M) <= first_payload);
        const Errc refusal = detail::refuse_send(ring_, {destination, sender, type, 0, sizeof(M)});
        return refusal != Errc::ok ? refusal : send_if_room(destination, sender, type, message);
    }

    // ok or full: as that, to a consumer that never closes its end. Nobody asks whether it has,
    // which is a look into memory that may be far.
    template <class M>
    DENIZEN_HD Errc send_if_room(uint32_t destination, uint32_t sender, uint32_t type,
                                 const M& message)
    {
        static_assert(sizeof(M) <= first_payload);
        if (!room(1)) {
            return Errc::full;
        }
        store_short<S, sizeof(M)>(&ring_.slots[place_.tail & ring_.mask], place_.tail,
                                  {destination, sender, type, 0, sizeof(M)}, &message);
        ++place_.tail;
        return Errc::ok;
    }

    // Sends messages of one type and length, `stride` bytes apart; returns how many found room.
    DENIZEN_HD uint32_t try_send_batch(const Header& h, const void* payloads, uint32_t stride,
                                       uint32_t count)
    {
        const auto* bytes = static_cast<const unsigned char*>(payloads);
        uint32_t sent = 0;
        while (sent < count &&
               try_send(h, bytes + static_cast<size_t>(stride) * sent) == Errc::ok) {
            ++sent;
        }
        return sent;
    }

    DENIZEN_HD const RingView& ring() const { return ring_; }
    DENIZEN_HD uint32_t position() const { return place_.tail; }

private:
    DENIZEN_HD bool room(uint32_t n)
    {
        return place_.template room<S>(n, ring_.capacity(), &ring_.words->credit);
    }

    RingView ring_;
    PlaceOfOne place_;
};

template <Scope S, bool TicketsShared = false>
class SpscReceiver {
public:
    SpscReceiver() = default;
    DENIZEN_HD explicit SpscReceiver(const RingView& ring)
        : ring_(ring), at_{ring.start, ring.start, 0}
    {
    }

    // ok, empty, closed, peer_dead, or oversize if the next message is longer than `room` bytes (it
    // stays in the ring and `h` tells its length).
    DENIZEN_HD Errc try_receive(Header& h, void* payload, uint32_t room)
    {
        keep_distance(at_);
        const RingState state = ring_.state();
        const Packet first = load_packet<S>(&ring_.slots[at_.head & ring_.mask].packet[0]);
        if (first.sequence != at_.head + 1) {
            at_.streak = 0;
            give_credit();
            return detail::nothing_left(
                state, [&] { return TicketsShared && load<S>(&ring_.words->tail) != at_.head; });
        }
        h = decode(first);
        if (h.length > room) {
            return Errc::oversize;
        }
        if (!load_payload<S>(ring_.slots, ring_.mask, at_.head, h.length, payload)) {
            give_credit(); // the rest of the message may be waiting for it
            return Errc::empty;
        }
        advance(at_, slots_for(h.length));
        return Errc::ok;
    }

    // The header of the next message, if it has arrived; the message stays.
    DENIZEN_HD bool peek(Header& h)
    {
        const Packet first = load_packet<S>(&ring_.slots[at_.head & ring_.mask].packet[0]);
        h = decode(first);
        if (first.sequence != at_.head + 1) {
            at_.streak = 0;
            return false;
        }
        return true;
    }

    // Receives the next message if it has arrived, is of `type` and has L bytes (at most 36), with
    // no run-time lengths: ok, empty, or wrong_type (it stays, `h` tells what it is).
    template <uint32_t L>
    DENIZEN_HD Errc try_receive_short(uint32_t type, Header& h, void* payload)
    {
        return receive_short<L>(at_, type, h, payload);
    }

    // The same again and again, meanwhile with this end's position in registers: hands each to
    // `use(header, payload)`, which does not throw. `found` tells what ended it: ok (there are
    // `count`), empty or wrong_type. Returns how many.
    template <uint32_t L, class Use>
    DENIZEN_HD uint32_t receive_short_batch(uint32_t type, uint32_t count, Errc& found, Use&& use)
    {
        Place at = at_;
        Header h;
        unsigned char bytes[L == 0 ? 1 : L];
        found = Errc::ok;
        uint32_t received = 0;
        for (; received < count; ++received) {
            found = receive_short<L>(at, type, h, bytes);
            if (found != Errc::ok) {
                break;
            }
            use(h, static_cast<const unsigned char*>(bytes));
        }
        at_ = at;
        return received;
    }

    // Receives messages of at most 36 bytes and hands them to `use(header, payload)`, at most
    // `count`; returns how many. Stops in front of a longer message.
    template <class Use>
    DENIZEN_HD uint32_t receive_batch(uint32_t count, Use&& use)
    {
        unsigned char payload[first_payload] = {};
        Header h;
        uint32_t received = 0;
        while (received < count && try_receive(h, payload, first_payload) == Errc::ok) {
            use(h, static_cast<const unsigned char*>(payload));
            ++received;
        }
        return received;
    }

    // Tells the producer how far the consumer has come. Done by itself every quarter of the ring
    // and whenever the ring is found empty.
    DENIZEN_HD void give_credit() { give_credit(at_); }

    DENIZEN_HD const RingView& ring() const { return ring_; }
    DENIZEN_HD uint32_t position() const { return at_.head; }

private:
    struct Place {
        uint32_t head = 0;
        uint32_t credited = 0;
        uint32_t streak = 0; // messages since the ring was last found empty or looked ahead
    };

    // A consumer at its producer's heels takes every cache line out of the producer's hands while
    // it is being written, and both crawl at two misses per message. So after a run of messages
    // without a gap it looks a little ahead; if the producer is not there yet it is given about a
    // microsecond to get away ("temporal slipping": Giacomoni et al., FastForward, PPoPP 2008).
    // Three to four times the throughput between distant cores. A consumer that finds its ring
    // empty now and then never waits, nor does one of a ring so small that the producer would fill
    // it.
    DENIZEN_HD void keep_distance([[maybe_unused]] Place& at) const
    {
#if !DENIZEN_ON_DEVICE && DENIZEN_HOSTED
        constexpr uint32_t run = 8;
        constexpr uint32_t pauses = 40;
        if (at.streak < run) {
            return;
        }
        at.streak = 0;
        const uint32_t ahead = at.head + run;
        if (ring_.mask < 255 ||
            load_packet<S>(&ring_.slots[ahead & ring_.mask].packet[3]).sequence == ahead + 1) {
            return;
        }
        for (uint32_t i = 0; i < pauses; ++i) {
            relax();
        }
#endif
    }

    template <uint32_t L>
    DENIZEN_HD Errc receive_short(Place& at, uint32_t type, Header& h, void* payload) const
    {
        keep_distance(at);
        unsigned char bytes[L == 0 ? 1 : L];
        if (!load_short<S, L>(&ring_.slots[at.head & ring_.mask], at.head, h, bytes)) {
            at.streak = 0;
            give_credit(at);
            return Errc::empty;
        }
        if (h.type != type || h.length != L) {
            return Errc::wrong_type;
        }
        copy_bytes(payload, bytes, L);
        advance(at, 1);
        return Errc::ok;
    }

    DENIZEN_HD void advance(Place& at, uint32_t n) const
    {
        ++at.streak;
        at.head += n;
        if (at.head - at.credited > ring_.mask >> 2) {
            give_credit(at);
        }
    }

    DENIZEN_HD void give_credit(Place& at) const
    {
        if (at.credited != at.head) {
            // Release: partner of the producer's acquire.
            store<S, Order::release>(&ring_.words->credit, at.head);
            at.credited = at.head;
        }
    }

    RingView ring_;
    Place at_;
};

} // namespace denizen
