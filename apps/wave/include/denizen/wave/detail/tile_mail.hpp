// SPDX-License-Identifier: Apache-2.0
// The packets of a tile: what each thread sends to the neighbours' mailboxes and finds in its own.
#pragma once

#include <denizen/wave/detail/tile_steps.hpp>

#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
#include <sched.h>
#endif

namespace denizen::wave {

template <class T, class S>
class TileMail : public TileSteps<T, S> {
protected:
    using Base = TileSteps<T, S>;
    using Base::Base;
    using Base::before;
    using Base::m_;
    using Base::members;
    using Base::neighbour;
    using Base::no_slot;
    using Base::now;
    using Base::nowhere;
    using Base::number_;
    using Base::r_;
    using Base::rank;

    static constexpr uint32_t packets = hops<T, S>();
    static constexpr uint32_t own_packets = (packets + members - 1) / members;

    // What this thread sends and receives; the same in every exchange.
    struct Mail {
        uint32_t out[own_packets][words<T>]; // elements, as in Hop; a word of nobody: element 0
        uint32_t in[own_packets][words<T>];
        uint32_t slot[own_packets]; // of all mail; none: there is no such neighbour
        uint32_t in_slot[own_packets];
    };

    DENIZEN_HD Mail mail_of() const
    {
        Mail mail;
        DENIZEN_UNROLL
        for (uint32_t r = 0; r < own_packets; ++r) {
            const uint32_t k = rank() + r * members;
            mail.slot[r] = mail.in_slot[r] = no_slot;
            if (k >= packets) continue;
            const Hop out = r_.outgoing[k];
            const Hop in = r_.incoming[k];
            DENIZEN_UNROLL
            for (uint32_t w = 0; w < words<T>; ++w) {
                // The corner beyond the shell: nobody looks at it.
                mail.out[r][w] = out.at[w] == nowhere ? 0 : out.at[w];
                mail.in[r][w] = in.at[w] == nowhere ? 0 : in.at[w];
            }
            const uint32_t to = neighbour(out.side);
            if (to != no_slot) mail.slot[r] = 2 * to * packets + out.slot;
            if (neighbour(in.side) != no_slot) {
                mail.in_slot[r] = 2 * number_ * packets + k;
            }
        }
        return mail;
    }

    DENIZEN_HD T& word_at(uint32_t at)
    {
        if constexpr (S::depth == 1) return now()[at]; // only faces travel
        return at < S::elements ? now()[at] : before()[at - S::elements];
    }

    DENIZEN_HD void send(const Mail& mail, uint32_t exchange)
    {
        const uint32_t half = exchange % 2 * packets;
        DENIZEN_UNROLL
        for (uint32_t r = 0; r < own_packets; ++r) {
            if (mail.slot[r] == no_slot) continue;
            Packet packet{{0, 0, 0}, exchange};
            T carried[words<T>] = {};
            DENIZEN_UNROLL
            for (uint32_t w = 0; w < words<T>; ++w) {
                carried[w] = word_at(mail.out[r][w]);
            }
            copy_bytes(packet.word, carried, sizeof carried);
            store_packet<Scope::gpu>(r_.mail + (mail.slot[r] + half), packet);
        }
    }

    // Asks for up to four packets at a time: their ways through L2 overlap.
    DENIZEN_HD void receive(const Mail& mail, uint32_t exchange)
    {
        constexpr uint32_t batch = own_packets < 4 ? own_packets : 4;
        const uint32_t half = exchange % 2 * packets;
        uint32_t looks = 0;
        uint64_t begun = 0;
        DENIZEN_UNROLL
        for (uint32_t first = 0; first < own_packets; first += batch) {
            uint32_t open = 0;
            DENIZEN_UNROLL
            for (uint32_t b = 0; b < batch; ++b) {
                if (first + b < own_packets && mail.in_slot[first + b] != no_slot) open |= 1u << b;
            }
            while (open != 0) { // ends with the packets, or when somebody is late
                Packet packet[batch];
                DENIZEN_UNROLL
                for (uint32_t b = 0; b < batch; ++b) {
                    if (open >> b & 1) {
                        packet[b] =
                            load_packet<Scope::gpu>(r_.mail + (mail.in_slot[first + b] + half));
                    }
                }
                DENIZEN_UNROLL
                for (uint32_t b = 0; b < batch; ++b) {
                    if ((open >> b & 1) == 0 || packet[b].sequence != exchange) continue;
                    open &= ~(1u << b);
                    T carried[words<T>];
                    copy_bytes(carried, packet[b].word, sizeof carried);
                    DENIZEN_UNROLL
                    for (uint32_t w = 0; w < words<T>; ++w) {
                        word_at(mail.in[first + b][w]) = carried[w];
                    }
                }
                if (open != 0 && give_up(looks, begun)) return;
            }
        }
    }

    DENIZEN_HD bool give_up(uint32_t& looks, uint64_t& begun)
    {
        ++looks;
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        if (looks % 16 == 0) sched_yield(); // there may be fewer cores than tiles
#endif
        if (looks % 1024 != 0) return false;
        const uint64_t time = now_ns();
        if (begun == 0) begun = time;
        if (time - begun > r_.patience_ns) store<Scope::gpu>(&r_.control->late, 1u);
        if (load<Scope::gpu>(&r_.control->late) == 0) return false;
        m_.late = 1; // the members look now and then, see Tile::proceed()
        return true;
    }
};

} // namespace denizen::wave
