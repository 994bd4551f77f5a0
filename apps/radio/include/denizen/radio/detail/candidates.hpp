// SPDX-License-Identifier: Apache-2.0
// The host's half of a scan by teams: from the candidates of a block, in any order, to the messages
// that the receiver would give.
#pragma once

#include <denizen/radio/detail/scan_block.hpp>
#include <denizen/radio/receiver.hpp>

#include <algorithm>
#include <span>

namespace denizen::radio {

// Gives `sink` the messages among the candidates of the block that begins at sample `begin`. `free`
// is the position after the last message, 0 before the first block; blocks come in order.
inline void believe(std::span<Candidate> candidates, uint64_t begin, Airspace& airspace,
                    uint64_t& free, const Receiver::Sink& sink)
{
    std::ranges::sort(candidates, {}, &Candidate::offset);
    for (const Candidate& c : candidates) {
        const uint64_t position = begin + c.offset;
        if (position < free) continue;
        for (uint32_t k = 0; k < c.readings; ++k) {
            const std::optional<Message> message =
                airspace.believe(c.reading[k], position, c.pulse);
            if (!message) continue;
            free = position + preamble_samples + message->frame.bits() * samples_per_bit;
            sink(*message);
            break;
        }
    }
}

} // namespace denizen::radio
