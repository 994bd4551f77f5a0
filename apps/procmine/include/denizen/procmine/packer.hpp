// SPDX-License-Identifier: Apache-2.0
// Turns a stream's events, in the order of their arrival, into messages to its cases: as many
// events of a case in one as fit, in an order in which each case finds them as they came.
#pragma once

#include <denizen/procmine/packed.hpp>

#include <array>
#include <functional>
#include <span>
#include <vector>

namespace denizen::procmine {

class Packer {
public:
    struct Message {
        std::array<uint32_t, packed::words> words;
    };

    // Messages and the addresses they go to.
    struct Batch {
        std::vector<Message> messages;
        std::vector<uint32_t> targets;
    };

    // Called by several threads at once, each with batches of its own; all of a case's come from
    // one, in order. What it throws ends the call of pack(), and what it has not seen is lost.
    using Send = std::function<void(const Batch&)>;

    // `addresses`: by case. `late`: microseconds, from 0 to below 2^62; an event may come so much
    // later than events of a later time. 0: none waits. `threads`: at most so many pack at once.
    Packer(std::vector<uint32_t> addresses, uint32_t activities, int64_t late,
           uint32_t threads = 1);

    // Events in columns of one length. Returns when all have been sent. Errc::bad_argument if the
    // lengths differ or a case or activity is out of range: then nothing was taken.
    void pack(std::span<const uint32_t> cases, std::span<const uint32_t> activities,
              std::span<const int64_t> times, const Send& send);

private:
    struct Columns {
        std::span<const uint32_t> cases;
        std::span<const uint32_t> activities;
        std::span<const int64_t> times;
    };
    // What one thread has of the events under way: it deals a part of them to all, then packs what
    // all have dealt to it.
    struct PerThread {
        std::vector<std::vector<uint32_t>> dealt; // by thread: places among the events under way
        int64_t newest = 0;                       // of its part
        Batch batch;
    };

    void pack_alone(const Columns& all, const Send& send);
    void pack_together(const Columns& all, uint32_t threads, const Send& send);
    void deal(const Columns& some, uint32_t thread, uint32_t threads);
    int64_t take_dealt(const Columns& some, uint32_t thread, uint32_t threads, int64_t newest);
    void take(const Moment& event, uint32_t one, int64_t bound, Batch& out);
    void give(Batch& out, const Send& send);
    bool append(Message& message, const Moment& event, int64_t bound) const;
    void begin(Message& message, const Moment& event, int64_t bound) const;

    std::vector<uint32_t> addresses_;
    std::vector<uint32_t> open_; // by case: its message in the batch under way, from 1; 0: none
    uint32_t activities_;
    int64_t late_;
    uint32_t threads_;
    int64_t newest_;
    std::vector<PerThread> per_thread_;
    std::vector<int64_t> newest_in_part_; // by event under way: of those up to it in its part
};

} // namespace denizen::procmine
