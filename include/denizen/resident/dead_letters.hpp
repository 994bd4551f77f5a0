// SPDX-License-Identifier: Apache-2.0
// Dead letters: messages that no handler took, or whose handler failed. Each is counted by its
// reason and written to a ring in host memory, from where Runtime::dead_letters() reads it.
//
// Workers draw tickets and never wait: the oldest letters are overwritten. Every packet carries its
// ticket, so that the reader knows a letter that was overwritten, or is being written, from a whole
// one.
#pragma once

#include <denizen/base/clock.hpp>
#include <denizen/resident/report.hpp>

namespace denizen {

enum class Reason : uint32_t {
    no_actor = 0, // the address names none
    stopped,      // it names one that has stopped
    wrong_type,   // the actor has no handler for the message
    failed,       // its handler failed (the effects may be partial), or the actor had failed before
    dropped,      // the oldest of a full mailbox, by the actor's overflow policy
    oversize      // longer than any message of the program
};
inline constexpr uint32_t reasons = 6;
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

// The first bytes of a payload, word by word where that can be: 24 turns of a loop would be more
// than all else that bury() does.
DENIZEN_HD inline void keep_first_bytes(uint32_t* to, const unsigned char* payload, uint32_t length)
{
    const bool aligned = (reinterpret_cast<uintptr_t>(payload) & 3) == 0;
    uint32_t at = 0; // bytes kept
    for (; at + 4 <= dead_payload && at + 4 <= length && aligned; at += 4) {
        to[at / 4] = reinterpret_cast<const uint32_t*>(payload)[at / 4];
    }
    DENIZEN_ROLLED
    for (; at < dead_payload && at < length; ++at) {
        to[at / 4] |= static_cast<uint32_t>(payload[at]) << at % 4 * 8;
    }
}

} // namespace detail

// Called by one lane of worker `id`. `payload` may be null if it is not at hand.
DENIZEN_COLD inline void bury(const Shared& s, uint32_t id, Reason reason, uint32_t code,
                              const Header& h, const void* payload)
{
    fetch_add<Scope::gpu>(&s.status[id].dead_letters, uint64_t{1});
    fetch_add<Scope::gpu>(&s.status[id].dead_by_reason[static_cast<uint32_t>(reason)], uint64_t{1});
    if (reason != Reason::dropped) { // that one is the actor's own wish
        const Errc errc = reason == Reason::wrong_type ? Errc::wrong_type
                          : reason == Reason::failed   ? Errc::failed
                          : reason == Reason::oversize ? Errc::oversize
                                                       : Errc::no_actor;
        report_error(s, {static_cast<uint32_t>(errc), id, h.destination, h.type, h.sender});
    }
    const uint32_t length = payload_bytes(h);
    DeadWords w{};
    const uint64_t place = (now_ns() & ((uint64_t{1} << dead_time_bits) - 1)) |
                           static_cast<uint64_t>(id) << dead_time_bits;
    w.word[0] = h.type | static_cast<uint32_t>(reason) << 10 | length << 14;
    w.word[1] = h.sender;
    w.word[2] = h.destination;
    w.word[3] = code;
    w.word[4] = static_cast<uint32_t>(place);
    w.word[5] = static_cast<uint32_t>(place >> 32);
    if (payload != nullptr) {
        detail::keep_first_bytes(w.word + 6, static_cast<const unsigned char*>(payload), length);
    }
    const uint32_t ticket = fetch_add<Scope::gpu>(&s.board->dead_tail, 1u);
    Slot& slot = s.dead[ticket & s.dead_mask];
    for (uint32_t k = 0; k < 4; ++k) {
        store_packet<Scope::system>(
            &slot.packet[k], {{w.word[3 * k], w.word[3 * k + 1], w.word[3 * k + 2]}, ticket + 1});
    }
}

} // namespace denizen
