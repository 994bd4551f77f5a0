// SPDX-License-Identifier: Apache-2.0
// A channel as one rank's team uses it: turns, headers, waiting with a deadline, poison. All
// algorithms are made of it (packets.hpp, pull.hpp, push.hpp).
//
// A turn is one exchange of headers between all ranks. Turn t uses the memory of parity t & 1,
// which turn t - 2 used. It needs no barrier for that: a team begins t only after it has got the
// header of t - 1 from every peer, and each peer sent that header after its whole team had finished
// t - 2 (all() is at the end of a turn). That is why no collective ends with a barrier.
//
// A header also says what the peer calls. A packet of data carries 16 bits of the turn and 16 bits
// of a hash of the call. So if a call repeats the one before, and every peer sends packets of data,
// the packets prove as much as headers would, and the turn goes without headers.
//
// Every wait ends: by the packet, by the group's poison, or at the deadline. A team that waits
// until the deadline poisons the group. The verdict is the first word that was written into rank
// 0's control.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/group/call.hpp>
#include <denizen/group/ref.hpp>
#include <denizen/group/team.hpp>

#if DENIZEN_HOSTED
#include <denizen/base/interrupt.hpp>
#endif

namespace denizen::group {

template <class Memory = Direct>
class Channel {
    using Team = typename Memory::Team;

public:
    // Every thread of the team makes a Channel, for the channel of the team's number. `group` must
    // outlive it. Turn 0 stands for failure (go_on).
    DENIZEN_HD Channel(const GroupRef& group, uint32_t index, Memory memory = {})
        : group_(&group), memory_(memory), index_(index), signature_(*group.state(index)),
          turn_(signature_.sequence != 0 ? signature_.sequence : 2), mark_(mark_of(signature_))
    {
    }
    // Keeps the turn and the last call for the next kernel or thread. Called by every thread, at
    // the end.
    DENIZEN_HD void close()
    {
        Team::sync();
        if (Team::rank() != 0) return;
        signature_.sequence = turn_;
        *group_->state(index_) = signature_;
    }

    DENIZEN_HD const GroupRef& group() const { return *group_; }
    DENIZEN_HD const Memory& memory() const { return memory_; }
    DENIZEN_HD uint32_t index() const { return index_; }
    DENIZEN_HD uint32_t turn() const { return turn_; }
    // The sequence of this turn's packets of data.
    DENIZEN_HD uint32_t sequence() const { return mark_ | (turn_ & 0xffff); }
    // Whether this call has the signature of the call before, and its turns may go without headers.
    DENIZEN_HD bool known() const { return known_; }
    DENIZEN_HD uint32_t rank() const { return group_->rank; }
    DENIZEN_HD uint32_t ranks() const { return group_->layout.ranks; }
    // The rank `step` < ranks() behind this one, cyclically. Teams that walk their peers in this
    // order do not all access the same rank at once.
    DENIZEN_HD uint32_t peer(uint32_t step) const
    {
        const uint32_t r = rank() + step;
        return r < ranks() ? r : r - ranks();
    }

    // Before the first turn of a call.
    DENIZEN_HD bool begin(const Call& call)
    {
        const Packet signature = signature_of(call);
        const bool same = agrees(signature, signature_);
        if (!same) {
            signature_ = signature;
            mark_ = mark_of(signature);
            if (index_ == 0 && Team::rank() == 0) { // for the text of an error
                Packet called = signature;
                called.sequence = 1;
                Direct::store(&group_->control(rank())->called, called);
            }
        }
        const bool whole = turn_ < group_->layout.renew || go_on(renewed(*this));
        known_ = same && turn_ >= first_without_headers;
        return whole;
    }
    // Whether a call of this signature may go on as the last one did, without begin().
    DENIZEN_HD bool repeats(const Packet& signature) const
    {
        return agrees(signature, signature_) && turn_ >= first_without_headers &&
               turn_ < group_->layout.renew;
    }
    // After an algorithm, which works on a copy of the channel and returns the copy's turn, 0 if it
    // failed: what is only copied can be in registers.
    DENIZEN_HD bool go_on(uint32_t turn)
    {
        if (turn != 0) turn_ = turn;
        return turn != 0;
    }

    // A turn without an order between data and headers: for data that are packets themselves, or
    // have packets of their own behind them. `proven`: no headers; the call is known(), and each
    // peer sends this team at least one packet with sequence(), which it waits for.
    DENIZEN_HD void open_turn(bool proven = false)
    {
        ++turn_;
        if (!proven) send_headers();
    }
    // Its end. False for the whole team if it failed for one of its threads.
    DENIZEN_HD bool close_turn(bool good, bool proven = false) const
    {
        return Team::all(good && (proven || take_headers()));
    }

    // A turn that is a barrier: what any thread of any team wrote before is seen by all after, and
    // what it read before is read. The order, from a peer's access A to this team's access B after:
    // A, the peer's sync() of its team, its speaker's release, the header; the look that finds it,
    // the acquire, all(), B. Looks are relaxed: only the one that succeeds has a partner.
    DENIZEN_HD bool meet()
    {
        ++turn_;
        Team::sync();
        if (speaks()) memory_.release();
        send_headers();
        const bool good = take_headers();
        if (speaks()) memory_.acquire();
        return Team::all(good);
    }

    // Waits until peer `from` has written the packet of this turn. `got` is what the caller's first
    // look found, and becomes the packet. False: the group is poisoned. After an acquire() the
    // caller may read what the peer wrote before its release().
    DENIZEN_HD bool wait(const Packet* p, uint32_t from, Packet& got) const
    {
        return wait_until(sequence(), p, from, got);
    }

private:
    // A channel begins anew behind turn 1 or 2, and the headers of the two turns that said so stay
    // where they are until others are written there. Its next turns have headers, so that none is
    // left that the next time would take for its own.
    static constexpr uint32_t first_without_headers = 4;

    // What a wait needs, copied: a channel stays in registers only if nobody takes its address.
    struct Watch {
        const GroupRef& group;
        Memory memory;
        uint32_t index;
        uint32_t turn;
        uint32_t sequence; // waited for
        Packet signature;
    };

    DENIZEN_HD bool wait_until(uint32_t sequence, const Packet* p, uint32_t from, Packet& got) const
    {
        DENIZEN_ROLLED
        for (uint32_t i = 0; got.sequence != sequence && i < 16; ++i) { // mostly it is under way
            got = memory_.load(p);
        }
        if (got.sequence != sequence) {
            got = wait_for({*group_, memory_, index_, turn_, sequence, signature_}, p, from);
        }
        return got.sequence == sequence;
    }

    DENIZEN_HD static uint32_t mark_of(const Packet& signature)
    {
        return (signature.word[0] * 0x9e3779b1u ^ signature.word[1] * 0x85ebca6bu ^
                signature.word[2] * 0xc2b2ae35u) &
               0xffff0000u;
    }

    // The last threads of a team send and take its headers, each with the peer of its number: in
    // small calls they have no data to wait for.
    DENIZEN_HD static uint32_t speaker() { return Team::size() - Team::rank(); } // from 1 on
    DENIZEN_HD bool speaks() const { return speaker() < ranks(); }

    DENIZEN_HD void send_headers() const
    {
        Packet header = signature_;
        header.sequence = turn_;
        DENIZEN_ROLLED
        for (uint32_t step = speaker(); step < ranks(); step += Team::size()) {
            memory_.store(group_->header(peer(step), index_, turn_, rank()), header);
        }
    }

    // If the signatures of two ranks differ, every rank finds one that differs from its own. So no
    // rank goes on.
    DENIZEN_HD bool take_headers() const
    {
        DENIZEN_ROLLED
        for (uint32_t step = speaker(); step < ranks(); step += Team::size()) {
            const uint32_t r = peer(step);
            const Packet* const p = group_->header(rank(), index_, turn_, r);
            Packet got = memory_.load(p);
            if (!wait_until(turn_, p, r, got)) return false;
            if (!agrees(got, signature_)) {
                condemn(*group_, Errc::bad_argument, r);
                return false;
            }
        }
        return true;
    }

    DENIZEN_HD static bool agrees(const Packet& header, const Packet& signature)
    {
        return header.word[0] == signature.word[0] && header.word[1] == signature.word[1] &&
               header.word[2] == signature.word[2];
    }

    // The first accusation is the error of all ranks.
    DENIZEN_COLD static void condemn(const GroupRef& group, Errc code, uint32_t culprit)
    {
        uint32_t word = 0;
        const uint32_t mine = Verdict{code, culprit, group.rank}.word();
        if (compare_exchange<Scope::system>(&group.control(0)->verdict, word, mine)) word = mine;
        DENIZEN_ROLLED
        for (uint32_t r = 0; r < group.ranks(); ++r) {
            store<Scope::system>(&group.control(r)->poison, word);
        }
    }

    DENIZEN_HD DENIZEN_APART static Packet wait_for(const Watch watch, const Packet* p,
                                                    uint32_t from)
    {
        Packet got = watch.memory.load(p);
        uint64_t deadline = 0;
        // Ends: gave_up() by the deadline at the latest.
        for (uint32_t looks = 1; got.sequence != watch.sequence; ++looks) {
            if (looks % 64 == 0 && gave_up(watch, from, deadline)) break;
            watch.memory.idle(looks);
            got = watch.memory.load(p);
        }
        return got;
    }

    DENIZEN_COLD static bool gave_up(const Watch& watch, uint32_t from, uint64_t& deadline)
    {
        const GroupRef& g = watch.group;
        if (load<Scope::system>(&g.control(g.rank)->poison) != 0) return true;
        DENIZEN_ROLLED
        for (uint32_t r = 0; r < g.ranks(); ++r) { // data may not come because the call is another
            const Packet got = watch.memory.load(g.header(g.rank, watch.index, watch.turn, r));
            if (r != g.rank && got.sequence == watch.turn && !agrees(got, watch.signature)) {
                condemn(g, Errc::bad_argument, r);
                return true;
            }
        }
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        try {
            check_interrupt();
        } catch (...) { // the call is half done: the others hear so at once
            condemn(g, Errc::closed, g.rank);
            throw;
        }
#endif
        const uint64_t now = now_ns();
        if (deadline == 0) {
            deadline = now + g.timeout_ns;
        } else if (now > deadline) {
            condemn(g, Errc::peer_dead, from);
            return true;
        }
        return false;
    }

    // A packet carries 16 bits of its turn. Before these repeat, this wipes out packets that are so
    // old that they would be taken for new ones. (A call of more turns than that writes all of its
    // packets in each turn.) Returns the turn to go on from, 0 if the group is poisoned.
    DENIZEN_COLD static uint32_t renewed(Channel channel)
    {
        if (!channel.meet()) return 0; // everybody has read what there was
        const GroupRef& g = channel.group();
        const uint64_t packets = uint64_t{4} * g.layout.slots * g.ranks();
        Packet* const all = g.inbox(g.rank, channel.index_, 0, 0, 0);
        DENIZEN_ROLLED
        for (uint64_t i = Team::rank(); i < packets; i += Team::size()) {
            channel.memory_.write(all + i, Packet{});
        }
        if (!channel.meet()) return 0;           // and nobody writes before all is clean
        return (channel.turn_ & 1) == 0 ? 2 : 1; // of the parity of the headers' last turn
    }

    const GroupRef* group_;
    Memory memory_;
    uint32_t index_;
    Packet signature_; // of the last call
    uint32_t turn_;
    uint32_t mark_; // a hash of it: the upper half of sequence()
    bool known_ = false;
};

} // namespace denizen::group
