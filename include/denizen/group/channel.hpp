// SPDX-License-Identifier: Apache-2.0
// A channel as one rank's team uses it: turns, headers, waiting with a deadline, poison. All
// algorithms are made of it (packets.hpp, pull.hpp).
//
// A turn is one exchange of headers between all ranks. Turn t may use the memory of parity t & 1
// again, which turn t - 2 used, without a barrier: a team begins t only after it has got the header
// of t - 1 from every peer, and each sent that after its whole team had finished t - 2 (all() is at
// the end of a turn). That is why no collective ends with a barrier.
//
// Every wait ends: by the packet, by the group's poison, or at the deadline, and then the waiter
// poisons the group. The verdict is what the first one wrote into rank 0's word.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/group/call.hpp>
#include <denizen/group/ref.hpp>
#include <denizen/group/team.hpp>

namespace denizen::group {

template <class Memory = Direct>
class Channel {
public:
    // Every thread of the team makes one, for the channel of the team's number. `group` stays where
    // it is.
    DENIZEN_HD Channel(const GroupRef& group, uint32_t index, Memory memory = {})
        : group_(group), memory_(memory), index_(index), turn_(*group.turn(index))
    {
    }
    // Keeps the count of turns for the next kernel or thread. By every thread, at the end.
    DENIZEN_HD void close()
    {
        Team::sync();
        if (Team::rank() == 0) *group_.turn(index_) = turn_;
    }

    DENIZEN_HD const GroupRef& group() const { return group_; }
    DENIZEN_HD Memory& memory() { return memory_; }
    DENIZEN_HD uint32_t index() const { return index_; }
    DENIZEN_HD uint32_t turn() const { return turn_; }
    DENIZEN_HD uint32_t rank() const { return group_.rank; }
    DENIZEN_HD uint32_t ranks() const { return group_.layout.ranks; }
    // The rank `step` < ranks() behind this one, cyclically: walked so, not all meet at the same.
    DENIZEN_HD uint32_t peer(uint32_t step) const
    {
        const uint32_t r = rank() + step;
        return r < ranks() ? r : r - ranks();
    }

    // Before the first turn of a call.
    DENIZEN_HD bool begin(const Call& call)
    {
        signature_ = signature_of(call);
        deadline_ = 0;
        if (index_ == 0 && Team::rank() == 0) { // for the text of an error
            Packet called = signature_;
            called.sequence = 1;
            Direct::store(&group_.control(rank())->called, called);
        }
        return turn_ < group_.layout.renew || renew();
    }

    // A turn without an order between data and headers: for data that are packets themselves.
    DENIZEN_HD void open_turn()
    {
        ++turn_;
        send_headers();
    }
    // Its end. False for the whole team if it failed for one of its threads.
    DENIZEN_HD bool close_turn(bool good) { return Team::all(good && take_headers()); }

    // A turn that is a barrier: what any thread of any team wrote before is seen by all after.
    DENIZEN_HD bool meet()
    {
        ++turn_;
        Team::sync();
        if (Team::rank() < ranks()) memory_.fence(); // partner: the fence behind the peers' wait
        send_headers();
        const bool good = take_headers();
        if (Team::rank() < ranks()) memory_.fence(); // partner: the fence before the peers' send
        return Team::all(good);
    }

    // Until peer `from` has written the packet of this turn. False if the group is poisoned.
    DENIZEN_HD bool wait(const Packet* p, uint32_t from, Packet& got)
    {
        if (got.sequence != turn_) got = wait_for(p, from);
        return got.sequence == turn_;
    }

    // The first accusation is the error of all ranks.
    DENIZEN_COLD void condemn(Errc code, uint32_t culprit)
    {
        uint32_t word = 0;
        const uint32_t mine = Verdict{code, culprit, rank()}.word();
        if (compare_exchange<Scope::system>(&group_.control(0)->verdict, word, mine)) word = mine;
        DENIZEN_ROLLED
        for (uint32_t r = 0; r < ranks(); ++r) {
            store<Scope::system>(&group_.control(r)->poison, word);
        }
    }

private:
    DENIZEN_HD void send_headers()
    {
        Packet header = signature_;
        header.sequence = turn_;
        DENIZEN_ROLLED
        for (uint32_t r = Team::rank(); r < ranks(); r += Team::size()) {
            if (r != rank()) memory_.store(group_.header(r, index_, turn_, rank()), header);
        }
    }

    // Any two that differ make every rank find one that differs from its own: nobody goes on.
    DENIZEN_HD bool take_headers()
    {
        DENIZEN_ROLLED
        for (uint32_t r = Team::rank(); r < ranks(); r += Team::size()) {
            if (r == rank()) continue;
            const Packet* const p = group_.header(rank(), index_, turn_, r);
            Packet got = memory_.load(p);
            if (!wait(p, r, got) || !agrees(got, r)) return false;
        }
        return true;
    }

    DENIZEN_HD bool agrees(const Packet& header, uint32_t from)
    {
        if (header.word[0] == signature_.word[0] && header.word[1] == signature_.word[1] &&
            header.word[2] == signature_.word[2]) {
            return true;
        }
        condemn(Errc::bad_argument, from);
        return false;
    }

    DENIZEN_HD DENIZEN_APART Packet wait_for(const Packet* p, uint32_t from)
    {
        Packet got = memory_.load(p);
        uint32_t looks = 0;
        while (got.sequence != turn_) { // ends: gave_up() by the deadline at the latest
            if (++looks % 64 == 0 && gave_up(from)) break;
            memory_.idle(looks);
            got = memory_.load(p);
        }
        return got;
    }

    DENIZEN_COLD bool gave_up(uint32_t from)
    {
        if (load<Scope::system>(&group_.control(rank())->poison) != 0) return true;
        DENIZEN_ROLLED
        for (uint32_t r = 0; r < ranks(); ++r) { // data may not come because the call is another
            const Packet got = memory_.load(group_.header(rank(), index_, turn_, r));
            if (r != rank() && got.sequence == turn_ && !agrees(got, r)) return true;
        }
        const uint64_t now = now_ns();
        if (deadline_ == 0) {
            deadline_ = now + group_.timeout_ns;
        } else if (now > deadline_) {
            condemn(Errc::peer_dead, from);
            return true;
        }
        return false;
    }

    // Turns are numbers of 32 bits, used up within hours: before one comes again, packets that were
    // written so long ago that it would be taken for theirs are wiped out.
    DENIZEN_COLD bool renew()
    {
        if (!meet()) return false; // everybody has read what there was
        const uint64_t packets = uint64_t{4} * group_.layout.slots * ranks();
        Packet* const all = group_.inbox(rank(), index_, 0, 0, 0);
        DENIZEN_ROLLED
        for (uint64_t i = Team::rank(); i < packets; i += Team::size()) {
            memory_.write(all + i, Packet{});
        }
        if (!meet()) return false;        // and nobody writes before all is clean
        turn_ = (turn_ & 1) == 0 ? 2 : 1; // the headers of both parities are younger than that
        return true;
    }

    const GroupRef& group_;
    Memory memory_;
    uint32_t index_;
    uint32_t turn_;
    uint64_t deadline_ = 0; // 0: nobody had to wait for long in this call
    Packet signature_{};
};

} // namespace denizen::group
