// SPDX-License-Identifier: Apache-2.0
// A group as one of its ranks sees it, in a kernel or in a thread: where every rank's symmetric
// memory is, and how that is divided. Trivially copyable; the owner is Group (group.hpp).
//
// The memory of a rank, the same on all:
//
//   control                               poison, verdict, what was called last
//   states   [channels]                   last call and turn of each; only for the rank itself
//   headers  [channels][2][max_ranks]     one packet from each peer in every turn; a line of their
//                                         own, where no other channel is written or looked at
//   packets  [channels][2][2][ranks][n]   inbox: parity of the turn, phase, who wrote
//   stages   [channels][2][bytes]         outbox of the pulls: peers read
//   heap                                  the user's symmetric buffers
//
// The blocks (CPU: threads) of the same number on all ranks share a channel. Channels never wait
// for one another, so no collective needs a barrier of a whole grid.
#pragma once

#include <denizen/base/errc.hpp>
#include <denizen/base/packet.hpp>
#include <denizen/group/call.hpp>

namespace denizen::group {

inline constexpr uint32_t max_ranks = 8; // of one host
inline constexpr uint32_t max_channels = 256;
inline constexpr uint32_t run_packets = 32;    // next to each other in the data go by one channel
inline constexpr uint32_t most_turns = 0x8000; // of a channel, till it begins anew
static_assert(max_ranks * sizeof(Packet) <= line); // the headers of a turn

struct alignas(line) Control {
    uint32_t poison;                // 0, or the verdict: polled by everyone who waits
    alignas(line) uint32_t verdict; // rank 0's decides: the first to be written is the error of all
    alignas(line) Packet called;    // signature of the last call; its sequence is not 0
    alignas(line) uint64_t pattern[max_ranks]; // start: written by the peers
    uint64_t own;                              // start: read by the peers
};

// Why a group is poisoned, in one word.
struct Verdict {
    Errc code = Errc::ok; // peer_dead or bad_argument
    uint32_t culprit = 0; // who was waited for, or called something else
    uint32_t accuser = 0; // who found it

    DENIZEN_HD uint32_t word() const
    {
        return 1u << 31 | static_cast<uint32_t>(code) << 16 | culprit << 8 | accuser;
    }
    DENIZEN_HD static Verdict of(uint32_t word)
    {
        if (word == 0) return {};
        return {static_cast<Errc>(word >> 16 & 0x7fff), word >> 8 & 0xff, word & 0xff};
    }
};

struct Layout {
    uint32_t ranks = 0;
    uint32_t channels = 0;
    uint32_t slots = 0;       // packets of one channel, phase and peer; a multiple of run_packets
    uint32_t stage_bytes = 0; // of a channel and parity; a multiple of 16 * ranks
    uint64_t heap_bytes = 0;
    uint32_t renew = 0; // turn after which a channel begins anew; even, at most most_turns

    bool operator==(const Layout&) const = default;

    DENIZEN_HD uint64_t states() const { return sizeof(Control); }
    DENIZEN_HD uint64_t headers() const { return states() + uint64_t{channels} * line; }
    DENIZEN_HD uint64_t packets() const { return headers() + uint64_t{2} * channels * line; }
    DENIZEN_HD uint64_t inbox() const { return sizeof(Packet) * slots * ranks; } // of a phase
    DENIZEN_HD uint64_t stages() const { return packets() + 4 * channels * inbox(); }
    DENIZEN_HD uint64_t heap() const
    {
        return (stages() + 2 * uint64_t{channels} * stage_bytes + 4095) / 4096 * 4096;
    }
    DENIZEN_HD uint64_t bytes() const { return heap() + heap_bytes; }
};

// A row of the tables by which automatic calls are decided (denizen tune measures them): for
// results of at most so many bytes. The last row of a kind is for all others. A kind without rows
// goes by those of all_reduce.
struct Choice {
    uint64_t up_to = 0;
    Algorithm algorithm = Algorithm::one_shot; // see Algorithm for what it is of other kinds
    uint32_t channels = 0;
    Kind kind = Kind::all_reduce;
};
inline constexpr uint32_t max_choices = 12; // of a kind
inline constexpr uint32_t max_rows = 5 * max_choices;

} // namespace denizen::group

namespace denizen {

struct GroupRef {
    static constexpr uint32_t own_mark = 0x646e7247;

    unsigned char* memory[group::max_ranks] = {}; // of each rank, as this one reaches it
    group::Layout layout;
    uint32_t rank = 0;
    uint32_t mark = own_mark; // where an address is given for a rank's, it is looked for there
    uint64_t timeout_ns = 0;
    // The rows of all_reduce, by which whatever is automatic inside a kernel goes: few, because
    // each launch takes them along.
    group::Choice table[group::max_choices] = {};
    uint32_t choices = 0;

    // For a result of `bytes` (all_gather, all_to_all: of one rank's part).
    DENIZEN_HD const group::Choice& choice(uint64_t bytes) const
    {
        uint32_t i = 0;
        while (i + 1 < choices && bytes > table[i].up_to) ++i; // ends at the last row
        return table[i];
    }

    DENIZEN_HD uint32_t ranks() const { return layout.ranks; }
    DENIZEN_HD group::Control* control(uint32_t of) const
    {
        return reinterpret_cast<group::Control*>(memory[of]);
    }
    // The signature of the channel's last call; its sequence is the turn.
    DENIZEN_HD Packet* state(uint32_t channel) const
    {
        return reinterpret_cast<Packet*>(memory[rank] + layout.states() + uint64_t{channel} * line);
    }
    // Where `from` writes to `of`. Of the packets, how far that is into anyone's memory.
    DENIZEN_HD uint64_t inbox_offset(uint32_t channel, uint32_t turn, uint32_t phase,
                                     uint32_t from) const
    {
        return layout.packets() + (4 * channel + 2 * (turn & 1) + phase) * layout.inbox() +
               sizeof(Packet) * from * layout.slots;
    }
    DENIZEN_HD Packet* header(uint32_t of, uint32_t channel, uint32_t turn, uint32_t from) const
    {
        return reinterpret_cast<Packet*>(memory[of] + layout.headers() +
                                         (2 * uint64_t{channel} + (turn & 1)) * line) +
               from;
    }
    DENIZEN_HD Packet* inbox(uint32_t of, uint32_t channel, uint32_t turn, uint32_t phase,
                             uint32_t from) const
    {
        return reinterpret_cast<Packet*>(memory[of] + inbox_offset(channel, turn, phase, from));
    }
    DENIZEN_HD unsigned char* stage(uint32_t of, uint32_t channel, uint32_t turn) const
    {
        return memory[of] + layout.stages() +
               (2 * uint64_t{channel} + (turn & 1)) * layout.stage_bytes;
    }
    DENIZEN_HD unsigned char* heap(uint32_t of) const { return memory[of] + layout.heap(); }
};

} // namespace denizen
