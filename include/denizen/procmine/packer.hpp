// SPDX-License-Identifier: Apache-2.0
// Turns a stream's events, in the order of their arrival, into messages to its cases: as many
// events of a case in one as fit, in an order in which each case finds them as they came.
#pragma once

#include <denizen/procmine/packed.hpp>

#include <array>
#include <span>
#include <vector>

namespace denizen::procmine {

class Packer {
public:
    struct Message {
        std::array<uint32_t, packed::words> words;
    };

    // `addresses`: by case. `late`: microseconds, from 0 to below 2^62; an event may come so much
    // later than events of a later time. 0: none waits.
    Packer(std::vector<uint32_t> addresses, uint32_t activities, int64_t late);

    // Messages and their targets for events in columns of one length. Errc::bad_argument if the
    // lengths differ or a case or activity is out of range: then nothing was taken.
    void pack(std::span<const uint32_t> cases, std::span<const uint32_t> activities,
              std::span<const int64_t> times, std::vector<Message>& messages,
              std::vector<uint32_t>& targets);

private:
    bool append(Message& message, const Moment& event, int64_t bound) const;
    Message begin(const Moment& event, int64_t bound) const;

    std::vector<uint32_t> addresses_;
    std::vector<uint32_t> open_; // by case: its last message of this call, from 1; 0: none
    uint32_t activities_;
    int64_t late_;
    int64_t newest_ = -(int64_t{1} << 62);
};

} // namespace denizen::procmine
