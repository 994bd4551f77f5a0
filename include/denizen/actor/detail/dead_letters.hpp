// SPDX-License-Identifier: Apache-2.0
// Dead letters: messages that no handler took, or whose handler failed. Each is counted by its
// reason and written to a ring in host memory, from where Runtime::dead_letters() reads it.
//
// Workers draw tickets and never wait: a new letter overwrites the oldest. Every packet carries its
// ticket, so the reader tells a whole letter from one that is being written or was overwritten.
#pragma once

#include <denizen/actor/detail/report.hpp>
#include <denizen/base/clock.hpp>

namespace denizen {

enum class Reason : uint32_t {
    no_actor = 0, // the address names none
    stopped,      // it names one that has stopped
    wrong_type,   // the actor has no handler for the message
    failed,       // its handler failed (the effects may be partial), or the actor had failed before
    dropped,      // the oldest of a full mailbox, by the actor's overflow policy
    oversize,     // longer than any message of the program
    lost          // bound for a host of the cluster that was lost: it may have been handled there
};
inline constexpr uint32_t reasons = 7;
inline constexpr uint32_t dead_payload = 24; // bytes of the message that are kept

DENIZEN_HD inline const char* to_string(Reason reason)
{
    switch (reason) {
    case Reason::no_actor: return "no actor";
    case Reason::stopped: return "stopped";
    case Reason::wrong_type: return "wrong type";
    case Reason::failed: return "failed";
    case Reason::dropped: return "dropped";
    case Reason::oversize: return "oversize";
    case Reason::lost: return "lost";
    }
    return "unknown";
}

// Twelve words in the four packets of a slot:
//   type:10 reason:4 length:18 | sender | destination | code | time and worker:2 | payload:6
struct DeadWords {
    uint32_t word[12];
};

// The device clock keeps its low 53 bits: 104 days, and only differences mean anything.
inline constexpr uint32_t dead_time_bits = 53;

namespace detail {

// The first words of a payload, side by side. There are as many; the reader cuts them to the
// length.
DENIZEN_HD inline void keep_first_words(uint32_t* to, const void* payload)
{
    constexpr uint32_t words = dead_payload / 4;
    if ((reinterpret_cast<uintptr_t>(payload) & 3) == 0) {
        for (uint32_t i = 0; i < words; ++i) {
            to[i] = static_cast<const uint32_t*>(payload)[i];
        }
        return;
    }
    uint32_t copy[words]; // not `to`: what a call gets by reference is in local memory
    copy_rolled(copy, payload, sizeof copy);
    for (uint32_t i = 0; i < words; ++i) {
        to[i] = copy[i];
    }
}

} // namespace detail

// Called by one lane of worker `id`. `payload`: of a short message, nine words; null if it is not
// at hand.
DENIZEN_COLD inline void bury(const Shared& s, uint32_t id, Reason reason, uint32_t code,
                              const Header& h, const void* payload)
{
    // First, so that it comes while the rest is done: the other lanes of the batch wait.
    const uint32_t ticket = fetch_add<Scope::gpu>(&s.board->dead_tail, 1u);
    Slot& slot = s.dead[ticket & s.dead_mask];
    Status& status = s.status[id];
    add_global(&status.dead_letters, 1);
    add_global(&status.dead_by_reason[static_cast<uint32_t>(reason)], 1);
    if (reason != Reason::dropped) { // that one is the actor's own wish
        const Errc errc = reason == Reason::wrong_type ? Errc::wrong_type
                          : reason == Reason::failed   ? Errc::failed
                          : reason == Reason::oversize ? Errc::oversize
                                                       : Errc::no_actor;
        report_error(s, {static_cast<uint32_t>(errc), id, h.destination, h.type, h.sender});
    }
    DeadWords w{};
    const uint64_t place = (now_ns() & ((uint64_t{1} << dead_time_bits) - 1)) |
                           static_cast<uint64_t>(id) << dead_time_bits;
    w.word[0] = h.type | static_cast<uint32_t>(reason) << 10 | payload_bytes(h) << 14;
    w.word[1] = h.sender;
    w.word[2] = h.destination;
    w.word[3] = code;
    w.word[4] = static_cast<uint32_t>(place);
    w.word[5] = static_cast<uint32_t>(place >> 32);
    if (payload != nullptr) {
        detail::keep_first_words(w.word + 6, payload);
    }
    for (uint32_t k = 0; k < 4; ++k) {
        store_packet<Scope::system>(
            &slot.packet[k], {{w.word[3 * k], w.word[3 * k + 1], w.word[3 * k + 2]}, ticket + 1});
    }
}

} // namespace denizen
