// SPDX-License-Identifier: Apache-2.0
// What a program keeps for the other hosts of its cluster: a lane for each, the asks that wait for
// them, and the dead letters of the host's side (workers have a ring of their own for theirs).
#pragma once

#include "port.hpp"

#include <denizen/actor/any_runtime.hpp>
#include <denizen/actor/far.hpp>

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace denizen {

struct FarWatch {
    uint32_t watcher; // far addresses, both
    uint32_t watched;
};

struct FarLane {
    std::mutex lock;           // of the queue, `why`, and the watches
    std::deque<Message> queue; // from the host's threads, with short addresses
    std::atomic<bool> lost{false};
    std::string why;
    std::vector<FarWatch> watches; // of actors there, by actors and threads here
    std::deque<FarWatch> bereft;   // the host was lost, and they have not been told yet
    Bell* bell = nullptr;
    std::vector<uint32_t> head;     // by node: the next ticket of its ring
    std::vector<uint32_t> credited; // and what its workers know of that
    std::atomic<uint64_t> taken{0}, delivered{0}, refused{0}, dead{0};
};

struct FarLanes {
    FarFormat format;
    std::vector<std::unique_ptr<FarLane>> lane; // by host
    uint32_t capacity = 0;                      // of a queue, and slots of a ring
    Port port;                                  // the workers' rings for what comes from them

    std::mutex asks_lock;
    std::vector<uint32_t> asked;  // by cell: the host that is to answer, + 1
    std::vector<uint32_t> ticket; // and the ask's address

    std::mutex letters_lock;
    std::deque<DeadLetter> letters;
    uint64_t letters_lost = 0; // overwritten
    std::array<uint64_t, reasons> buried{};
};

} // namespace denizen
