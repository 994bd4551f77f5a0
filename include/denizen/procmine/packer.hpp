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

    // Messages and the addresses they go to. All of a case's are in one batch.
    struct Batch {
        std::vector<Message> messages;
        std::vector<uint32_t> targets;
    };

    // `addresses`: by case. `late`: microseconds, from 0 to below 2^62; an event may come so much
    // later than events of a later time. 0: none waits. `threads`: at most so many pack at once.
    Packer(std::vector<uint32_t> addresses, uint32_t activities, int64_t late,
           uint32_t threads = 1);

    // Events in columns of one length. Errc::bad_argument if the lengths differ or a case or
    // activity is out of range: then nothing was taken.
    std::vector<Batch> pack(std::span<const uint32_t> cases, std::span<const uint32_t> activities,
                            std::span<const int64_t> times);

private:
    void pack_some(std::span<const uint32_t> cases, std::span<const uint32_t> activities,
                   std::span<const int64_t> times, uint32_t thread, uint32_t threads, Batch& out);
    bool append(Message& message, const Moment& event, int64_t bound) const;
    void begin(Message& message, const Moment& event, int64_t bound) const;

    std::vector<uint32_t> addresses_;
    std::vector<uint32_t> open_; // by case: its last message of this call, from 1; 0: none
    uint32_t activities_;
    int64_t late_;
    uint32_t threads_;
    int64_t newest_ = -(int64_t{1} << 62);
};

} // namespace denizen::procmine
