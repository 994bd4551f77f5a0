// SPDX-License-Identifier: Apache-2.0
// Whether a restored queue of tasks is one that workers may take from: detail/pool.hpp.
#include "snapshot_check.hpp"

#include <denizen/actor/detail/pool.hpp>

namespace denizen {

void SnapshotCheck::check_tasks()
{
    for (const NodeImage& image : images_) {
        const Shared& s = image.node->shared;
        const Address lead = worker_of(image, 0);
        uint32_t run = 0; // as the workers count, to the lower 32 bits
        for (const Status& status : image.status) {
            run += status.tasks;
        }
        if (s.pool == nullptr) {
            require(run == 0, lead, "has run tasks that the program has not");
            continue;
        }
        const PoolWords words = image.memory->read(s.pool);
        const uint64_t capacity = s.task_mask + uint64_t{1};
        require(words.tail - words.head <= capacity, lead,
                "has more tasks waiting than there is room for");
        require(static_cast<uint32_t>(words.head) == run, lead,
                "has taken other tasks than have been run");
        const std::vector<Slot> slots = image.memory->read_all(s.tasks, capacity);
        // Ticket by ticket: those that wait, and behind them those whose places are free.
        for (uint64_t i = 0; i < capacity; ++i) {
            const uint64_t ticket = words.head + i;
            const Slot& slot = slots[ticket & s.task_mask];
            const bool waits = ticket < words.tail;
            const uint32_t wanted = detail::pool::free_for(s, ticket) + (waits ? 1 : 0);
            require(slot.packet[0].sequence == wanted, lead,
                    "has a place for a task that is neither free nor taken");
            if (waits) {
                for (const Packet& p : slot.packet) {
                    require(p.sequence == wanted, lead, "has half of a task waiting");
                }
                require(slot.packet[0].word[1] < c_.image.table.tasks, lead,
                        "has a task of no type waiting");
            }
        }
    }
}

} // namespace denizen
