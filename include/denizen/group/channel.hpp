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

// A channel's of some things that all channels divide up.
struct Share {
    uint32_t begin = 0;
    uint32_t end = 0;
};

template <class Memory = Direct>
class Channel {
public:
    // Every thread of the team makes one, for the channel of the team's number. `group` stays where
    // it is.
    DENIZEN_HD Channel(const GroupRef& group, uint32_t index, Memory memory = {})
        : group_(group), memory_(memory), index_(index), turn_(*group.turn(index)),
          headers_(group.layout.headers() + 2 * index * group.layout.header_bytes()),
          inboxes_(group.layout.packets() + 4 * index * group.layout.inbox())
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

    // Where `from` writes to `of` in this turn. Two phases, two turns: nothing is overwritten
    // early.
    DENIZEN_HD Packet* inbox(uint32_t of, uint32_t phase, uint32_t from) const
    {
        return reinterpret_cast<Packet*>(group_.memory[of] + inboxes_ +
                                         (2 * (turn_ & 1) + phase) * group_.layout.inbox()) +
               uint64_t{from} * group_.layout.slots;
    }

    // A program repeats its calls, and two divisions are a part of a short one: the last is kept.
    DENIZEN_HD Share share(uint32_t things, uint32_t channels)
    {
        if (things != things_ || channels != sharers_) {
            things_ = things;
            sharers_ = channels;
            share_ = {static_cast<uint32_t>(uint64_t{things} * index_ / channels),
                      static_cast<uint32_t>(uint64_t{things} * (index_ + 1) / channels)};
        }
        return share_;
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
        return turn_ < group_.layout.renew || (turn_ = renewed(*this)) != 0;
    }

    // A turn without an order between data and headers: for data that are packets themselves.
    DENIZEN_HD void open_turn() { ++turn_; }
    // After the data were sent, which others wait for, and before theirs are waited for.
    DENIZEN_HD void announce()
    {
        send_headers();
        early_ = peer_of_mine() ? memory_.load(header(rank(), Team::rank())) : Packet{};
    }
    // Its end. False for the whole team if it failed for one of its threads.
    DENIZEN_HD bool close_turn(bool good) { return Team::all(good && take_headers()); }

    // A turn that is a barrier: what any thread of any team wrote before is seen by all after.
    DENIZEN_HD bool meet()
    {
        ++turn_;
        Team::sync();
        if (Team::rank() < ranks()) memory_.fence(); // partner: the fence behind the peers' wait
        announce();
        const bool good = take_headers();
        if (Team::rank() < ranks()) memory_.fence(); // partner: the fence before the peers' send
        return Team::all(good);
    }

    // Until peer `from` has written the packet of this turn. False if the group is poisoned.
    DENIZEN_HD bool wait(const Packet* p, uint32_t from, Packet& got)
    {
        uint32_t looks = 0;
        DENIZEN_ROLLED
        while (got.sequence != turn_) { // ends: by the deadline at the latest
            if (++looks % 64 == 0) {
                deadline_ =
                    look_around(group_, memory_, index_, turn_, signature_, from, deadline_);
                if (deadline_ == gave_up) return false;
            }
            memory_.idle(looks);
            got = memory_.load(p);
        }
        return true;
    }

private:
    static constexpr uint64_t gave_up = ~uint64_t{0};

    DENIZEN_HD Packet* header(uint32_t of, uint32_t from) const
    {
        return reinterpret_cast<Packet*>(group_.memory[of] + headers_ +
                                         (turn_ & 1) * group_.layout.header_bytes()) +
               from;
    }
    DENIZEN_HD bool peer_of_mine() const
    {
        return Team::rank() < ranks() && Team::rank() != rank();
    }

    DENIZEN_HD void send_headers()
    {
        Packet header = signature_;
        header.sequence = turn_;
        DENIZEN_ROLLED
        for (uint32_t r = Team::rank(); r < ranks(); r += Team::size()) {
            if (r != rank()) memory_.store(this->header(r, rank()), header);
        }
    }

    // Any two that differ make every rank find one that differs from its own: nobody goes on.
    DENIZEN_HD bool take_headers()
    {
        DENIZEN_ROLLED
        for (uint32_t r = Team::rank(); r < ranks(); r += Team::size()) {
            if (r == rank()) continue;
            const Packet* const p = header(rank(), r);
            Packet got = r == Team::rank() ? early_ : memory_.load(p);
            if (!wait(p, r, got)) return false;
            if (!agree(got, signature_)) {
                condemn(group_, Errc::bad_argument, r);
                return false;
            }
        }
        return true;
    }

    DENIZEN_HD static bool agree(const Packet& a, const Packet& b)
    {
        return a.word[0] == b.word[0] && a.word[1] == b.word[1] && a.word[2] == b.word[2];
    }

    // Static, and all by value: a channel whose address nobody takes is kept in registers.
    // The deadline of this wait, which is set by the first who has to look; gave_up.
    DENIZEN_COLD static uint64_t look_around(const GroupRef& group, Memory memory, uint32_t index,
                                             uint32_t turn, Packet signature, uint32_t from,
                                             uint64_t deadline)
    {
        if (load<Scope::system>(&group.control(group.rank)->poison) != 0) return gave_up;
        DENIZEN_ROLLED
        for (uint32_t r = 0; r < group.ranks(); ++r) { // data may not come: the call is another
            if (r == group.rank) continue;
            const Packet got = memory.load(group.header(group.rank, index, turn, r));
            if (got.sequence == turn && !agree(got, signature)) {
                condemn(group, Errc::bad_argument, r);
                return gave_up;
            }
        }
        const uint64_t now = now_ns();
        if (deadline == 0) return now + group.timeout_ns;
        if (now <= deadline) return deadline;
        condemn(group, Errc::peer_dead, from);
        return gave_up;
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

    // Turns are numbers of 32 bits, used up within hours: before one comes again, packets that were
    // written so long ago that it would be taken for theirs are wiped out.
    // The turn to go on from, 0: poisoned.
    DENIZEN_COLD static uint32_t renewed(Channel channel)
    {
        if (!channel.meet()) return 0; // everybody has read what there was
        const uint64_t packets = uint64_t{4} * channel.group_.layout.slots * channel.ranks();
        auto* const all =
            reinterpret_cast<Packet*>(channel.group_.memory[channel.rank()] + channel.inboxes_);
        DENIZEN_ROLLED
        for (uint64_t i = Team::rank(); i < packets; i += Team::size()) {
            channel.memory_.write(all + i, Packet{});
        }
        if (!channel.meet()) return 0; // and nobody writes before all is clean
        return (channel.turn_ & 1) == 0 ? 2
                                        : 1; // the headers of both parities are younger than that
    }

    const GroupRef& group_;
    Memory memory_;
    uint32_t index_;
    uint32_t turn_;
    uint64_t headers_; // where this channel's are in every rank's memory
    uint64_t inboxes_;
    uint32_t things_ = 0;
    uint32_t sharers_ = 1;
    Share share_{};
    uint64_t deadline_ = 0; // 0: nobody had to wait for long in this call
    Packet signature_{};
    Packet early_{}; // what was seen of the header of peer Team::rank() before the data
};

} // namespace denizen::group
