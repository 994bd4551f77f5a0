// SPDX-License-Identifier: Apache-2.0
// Whether restored memory is what a worker may be let loose on. A checksum says that a file is as
// it was written, not who wrote it: every index, link, count, state and message that a worker, the
// monitor or the host would follow is followed here first, before the program is launched. Called
// by restore() alone. What an actor keeps in its own state is its program's and is not looked at.
#pragma once

#include "core.hpp"
#include "snapshot_image.hpp"

#include <denizen/actor/detail/stash.hpp>
#include <denizen/actor/life.hpp>

namespace denizen {

// One node as a snapshot has filled it.
struct NodeImage {
    const Node* node = nullptr;
    const MemoryImage* memory = nullptr;
    std::vector<Status> status; // by worker, as the next four
    std::vector<WorkerState> worker_states;
    std::vector<std::vector<ActorEntry>> actors; // of those that the host has placed
    std::vector<std::vector<ActorRecord>> actor_records;
    Board board;
};

// `memory`: of each node; it outlives what is made of it here.
std::vector<NodeImage> read_images(const AnyRuntime::Core& core,
                                   const std::vector<MemoryImage>& memory);

// A part of a node's heap that is somebody's, and who that is.
struct Extent {
    uint64_t at;
    uint64_t bytes;
    Address owner;
};

// Actors that an order in a ring is about to make.
struct Claim {
    Address first;
    uint32_t count;
    Extent states;
};

// All of it throws Errc::bad_snapshot with the file, the worker and what cannot be.
class SnapshotCheck {
public:
    SnapshotCheck(const SnapshotFile& file, AnyRuntime::Core& core,
                  const std::vector<MemoryImage>& memory)
        : file_(file), c_(core), images_(read_images(core, memory)), extents_(core.nodes.size())
    {
    }

    void check_boards();
    void check_actors();   // snapshot_check_actors.cpp, snapshot_check_workers.cpp
    void check_topics();   // the same
    void check_messages(); // snapshot_check_messages.cpp
    void check_tasks();    // snapshot_check_tasks.cpp
    // After the others, which say what is whose. What orders in rings claim is set aside for them.
    void check_heaps();

private:
    struct RingView;
    struct Flight;

    [[noreturn]] void refuse(Address worker, const std::string& what) const
    {
        file_.refuse("makes no sense: " + c_.worker_name(worker) + ' ' + what);
    }
    void require(bool good, Address worker, const char* what) const
    {
        if (!good) {
            refuse(worker, what);
        }
    }

    Address worker_of(const NodeImage& image, uint32_t w) const
    {
        return Address::actor(w, 0, image.node->shared.node);
    }
    // The state of an entry lies whole in the heap's used part, on its boundary.
    Extent state_of(const NodeImage& image, Address place, const ActorEntry& entry, uint64_t bytes,
                    uint64_t align) const;
    uint64_t state_bytes(const NodeImage& image, Address place, const ActorEntry& entry) const;

    void check_worker(const NodeImage& image, uint32_t w);
    void check_entry(const NodeImage& image, Address place, const ActorEntry& entry,
                     const ActorRecord& record);
    uint32_t check_failed(const NodeImage& image, uint32_t w) const;
    uint32_t check_ready(const NodeImage& image, uint32_t w) const;
    uint32_t check_sweeping(const NodeImage& image, uint32_t w);
    void check_stash(const NodeImage& image, uint32_t w) const;
    void check_watchers(const NodeImage& image, uint32_t w) const;
    void check_places(const NodeImage& image, uint32_t w) const;
    void check_timers(const NodeImage& image, uint32_t w) const;
    void check_guests();
    void check_own_room(const Extent& state) const;

    void check_payload(Address reader, const Header& h, uint32_t flags) const;
    void check_system(Address reader, const Header& h, const uint32_t* words);
    void check_life_order(Address reader, const Header& h, const uint32_t* words) const;
    void check_message(Address reader, const Header& h, const uint32_t* words);
    void read_outboxes(Flight& flight) const;
    void check_ring(RingView& ring, Flight& flight);

    const SnapshotFile& file_;
    AnyRuntime::Core& c_;
    std::vector<NodeImage> images_;
    std::vector<std::vector<Extent>> extents_; // by node
    std::vector<Claim> claims_;
};

} // namespace denizen
