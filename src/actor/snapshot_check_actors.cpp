// SPDX-License-Identifier: Apache-2.0
// Whether what a snapshot says of actors can be: their places, lives, supervisors, guests and
// subscriptions. A file is not believed: a wrong index in it would be an access out of bounds, on a
// GPU.
#include "snapshot_check.hpp"

#include <denizen/actor/detail/topics.hpp>
#include <denizen/actor/supervisor.hpp>

#include <set>

namespace denizen {

using detail::Supervisor;

std::vector<NodeImage> read_images(const AnyRuntime::Core& core,
                                   const std::vector<MemoryImage>& memory)
{
    std::vector<NodeImage> images;
    for (const Node& node : core.nodes) {
        const Shared& s = node.shared;
        NodeImage image;
        image.node = &node;
        image.memory = &memory[s.node];
        image.status = image.memory->read_all(s.status, s.workers);
        image.worker_states = image.memory->read_all(s.worker_states, s.workers);
        image.board = image.memory->read(s.board);
        for (uint32_t w = 0; w < s.workers; ++w) {
            const uint32_t n =
                core.placing.next_local[core.worker_index(Address::actor(w, 0, s.node))];
            const size_t first = w * static_cast<size_t>(s.actors_per_worker);
            image.actors.push_back(image.memory->read_all(s.actors + first, n));
            image.actor_records.push_back(image.memory->read_all(s.actor_records + first, n));
        }
        images.push_back(std::move(image));
    }
    return images;
}

void SnapshotCheck::check_boards()
{
    for (const NodeImage& image : images_) {
        const Board& b = image.board;
        const Address lead = worker_of(image, 0);
        uint32_t jammed = 0;
        for (const Status& s : image.status) {
            jammed += s.outbox != 0 ? 1 : 0;
        }
        require(b.jammed == jammed, lead, "counts other workers with a full outbox than there are");
        // What is saved has been taken off its processor, and has not been stopped by an error.
        require(b.command <= static_cast<uint32_t>(Command::leave), lead, "has been told to stop");
        require(b.fatal.set == 0, lead, "tells of an error that has stopped the program");
        require(b.first.set == 0 || b.first.set == 2, lead, "tells of half an error");
    }
}

// ---- actors

Extent SnapshotCheck::state_of(const NodeImage& image, Address place, const ActorEntry& entry,
                               uint64_t bytes, uint64_t align) const
{
    const unsigned char* heap = image.node->shared.heap;
    const auto at = static_cast<uint64_t>(static_cast<unsigned char*>(entry.state) - heap);
    const uint64_t used = image.node->heap_used;
    if (entry.state == nullptr || at > used || bytes > used - at) {
        refuse(place, "has actor #" + std::to_string(place.local()) +
                          " whose state lies outside of the heap's used part");
    }
    // Batches of actors begin at multiples of 256.
    if (at % std::min<uint64_t>(align, 256) != 0) {
        refuse(place, "has actor #" + std::to_string(place.local()) +
                          " whose state is not aligned to " + std::to_string(align));
    }
    return {at, bytes, place};
}

// Of what the entry's kind says, children of a supervisor and checkpoints too.
uint64_t SnapshotCheck::state_bytes(const NodeImage& image, Address place,
                                    const ActorEntry& entry) const
{
    if (entry.kind != 0 && entry.type() < c_.image.table.actors) {
        return c_.stride_of(entry.type());
    }
    state_of(image, place, entry, sizeof(Supervisor), alignof(Supervisor));
    const auto sup = image.memory->read(static_cast<const Supervisor*>(entry.state));
    require(sup.max_restarts <= max_restart_budget || sup.max_restarts == unlimited_restarts, place,
            "has a supervisor with a budget of more restarts than there may be");
    require(sup.strategy <= static_cast<uint32_t>(Strategy::escalate), place,
            "has a supervisor of no known strategy");
    require(sup.next <= sup.end && sup.end <= sup.children, place,
            "has a supervisor that gives orders to children it has not");
    const auto order = static_cast<SystemOp>(sup.order);
    require(sup.next == sup.end || order == SystemOp::stop || order == SystemOp::pause ||
                order == SystemOp::resume || order == SystemOp::restart ||
                order == SystemOp::suspend,
            place, "has a supervisor that gives an order which is none");
    return detail::supervisor_bytes(sup.children, sup.max_restarts);
}

void SnapshotCheck::check_entry(const NodeImage& image, Address place, const ActorEntry& entry,
                                const ActorRecord& record)
{
    const auto what = [&](const char* text) {
        return "has actor #" + std::to_string(place.local()) + ' ' + text;
    };
    const auto need = [&](bool good, const char* text) {
        if (!good) {
            refuse(place, what(text));
        }
    };
    need(record.supervisor == nobody || c_.inside({record.supervisor}),
         "whose supervisor is outside of the program");
    need(record.listed <= 1, "that is in the list of those catching up more than once");
    if (entry.kind == 0) {
        need(record.life == static_cast<uint32_t>(Life::stopped) || record.life == 0,
             "that lives and has no entry");
        need(entry.self == 0 || c_.inside({entry.self}), "whose address is outside of the program");
        return;
    }
    const uint32_t type = entry.type();
    need(type < c_.image.table.actors || type == supervisor_type, "of no type of the program");
    need(entry.kind >> 8 == record.life && record.life <= static_cast<uint32_t>(Life::moved) &&
             record.life != static_cast<uint32_t>(Life::stopped),
         "whose entry and record tell of different lives");
    need(c_.inside({entry.self}), "whose address is outside of the program");
    const uint8_t known = c_.type_at(c_.index(place));
    need(known == 0 || known == type + 1, "of another type than the host knows");
    if (record.life == static_cast<uint32_t>(Life::moved)) {
        const Address to{record.forward};
        need(c_.inside(to), "that has moved outside of the program");
        const std::vector<ActorRecord>& there = images_[to.node()].actor_records[to.worker()];
        need(to.local() < there.size() &&
                 there[to.local()].life != static_cast<uint32_t>(Life::moved),
             "that has moved to where nobody is");
    }
    const uint64_t align =
        type == supervisor_type ? alignof(Supervisor) : c_.image.table.actor[type].align;
    const uint64_t bytes = state_bytes(image, place, entry);
    extents_[place.node()].push_back(
        state_of(image, place, entry, bytes, std::max<uint64_t>(align, 16)));
}

// What the host knows of those that have moved: each place is one actor's, or free.
void SnapshotCheck::check_guests()
{
    std::set<uint32_t> places;
    const auto take = [&](const Guest& g) {
        if (g.at.local() >= images_[g.at.node()].actors[g.at.worker()].size() ||
            !places.insert(g.at.value).second) {
            refuse(g.at, "has a place for guests that is not one");
        }
    };
    const auto take_room = [&](const Guest& g) {
        require(g.offset % 16 == 0 && g.bytes % 16 == 0, g.at, "has a place that is not aligned");
        extents_[g.at.node()].push_back({g.offset, g.bytes, g.at});
    };
    for (const auto& [address, guest] : c_.moving.guests) {
        require(c_.inside({address}), guest.at, "has a guest from outside of the program");
        take(guest);
        const NodeImage& image = images_[guest.at.node()];
        const ActorEntry& entry = image.actors[guest.at.worker()][guest.at.local()];
        if (entry.kind == 0) { // it has stopped
            take_room(guest);
            continue;
        }
        const uint8_t known = c_.type_at(c_.index({address}));
        const bool same =
            entry.self == address &&
            static_cast<unsigned char*>(entry.state) == image.node->shared.heap + guest.offset &&
            (known == 0 || known == entry.type() + 1);
        require(same && entry.type() < c_.image.table.actors &&
                    guest.bytes == round_up(c_.stride_of(entry.type()), 16),
                guest.at, "has another guest than the host knows");
    }
    for (const Guest& g : c_.moving.vacancies) {
        take(g);
        const NodeImage& image = images_[g.at.node()];
        const ActorRecord& record = image.actor_records[g.at.worker()][g.at.local()];
        require(image.actors[g.at.worker()][g.at.local()].kind == 0 && record.listed == 0 &&
                    record.next_failed == 0 && record.stashed == 0 && record.watchers == 0 &&
                    record.life == 0,
                g.at, "has somebody in a place that is free");
        take_room(g);
    }
}

void SnapshotCheck::check_actors()
{
    for (const NodeImage& image : images_) {
        for (uint32_t w = 0; w < image.status.size(); ++w) {
            check_worker(image, w);
        }
    }
    check_guests();
}

// The states of actors that handlers have spawned lie each in its place, and no others there.
void SnapshotCheck::check_own_room(const Extent& state) const
{
    const Shared& s = c_.nodes[state.owner.node()].shared;
    const uint32_t w = state.owner.worker();
    const uint64_t all = uint64_t{s.workers} * s.spawn_room * s.spawn_stride;
    const uint64_t own = (uint64_t{w} * s.spawn_room + state.owner.local()) * s.spawn_stride;
    const bool spawned = c_.spawned_by_handler(state.owner);
    if (spawned ? state.at != own || state.bytes > s.spawn_stride : state.at < all) {
        refuse(state.owner, "has actor #" + std::to_string(state.owner.local()) +
                                " whose state is not in its place");
    }
}

// No two states share a byte.
void SnapshotCheck::check_heaps()
{
    for (const Claim& claim : claims_) {
        Node& node = c_.nodes[claim.first.node()];
        uint32_t& local = c_.placing.next_local[c_.worker_index(claim.first)];
        require(claim.first.local() >= local, claim.first, "is told twice to make one actor");
        local = claim.first.local() + claim.count;
        extents_[claim.first.node()].push_back(claim.states);
        node.heap_used = std::max(node.heap_used, claim.states.at + claim.states.bytes);
    }
    for (std::vector<Extent>& all : extents_) {
        std::sort(all.begin(), all.end(),
                  [](const Extent& a, const Extent& b) { return a.at < b.at; });
        for (size_t i = 0; i < all.size(); ++i) {
            check_own_room(all[i]);
            const uint64_t used = c_.nodes[all[i].owner.node()].heap_used;
            const uint64_t end = i + 1 < all.size() ? std::min(used, all[i + 1].at) : used;
            if (all[i].at > end || all[i].bytes > end - all[i].at) {
                refuse(all[i].owner, "has actor #" + std::to_string(all[i].owner.local()) +
                                         " whose state reaches into that of another, or out of "
                                         "the heap's used part");
            }
        }
    }
}

// ---- topics

void SnapshotCheck::check_topics()
{
    using detail::TopicEntry;
    for (const NodeImage& image : images_) {
        const Shared& s = image.node->shared;
        const Address lead = worker_of(image, 0);
        const TopicBoard board = image.memory->read(s.topics);
        const std::vector<Subscription> table =
            image.memory->read_all(s.subscriptions, s.subscription_mask + size_t{1});
        uint32_t count[detail::topic_kinds] = {};
        uint32_t used = 0;
        for (const Subscription& entry : table) {
            const Packet& a = entry.packet[0];
            const Packet& b = entry.packet[1];
            const TopicKey key{{a.word[0], a.word[1], a.word[2], b.word[0]}};
            require(a.sequence == b.sequence, lead, "has half a subscription");
            require(b.word[2] <= static_cast<uint32_t>(TopicEntry::filled), lead,
                    "has a subscription in no known state");
            if (static_cast<TopicEntry>(b.word[2]) == TopicEntry::filled) {
                require(key.valid(), lead, "has a subscription to no topic");
                ++count[detail::kind_of(key)];
                ++used;
            }
        }
        uint32_t kinds = 0;
        uint32_t longer[std::size(board.longer)] = {};
        for (uint32_t k = 0; k < detail::topic_kinds; ++k) {
            require(count[k] == board.count[k], lead, "counts other subscriptions than there are");
            if (count[k] != 0) {
                kinds |= 1u << std::min(k, detail::some_longer);
                const uint32_t length = k - 1;
                longer[length / 32 % std::size(longer)] |=
                    k > detail::whole_topic ? 1u << length % 32 : 0;
            }
        }
        require(used == board.used && kinds == board.kinds &&
                    std::equal(std::begin(longer), std::end(longer), board.longer),
                lead, "counts other subscriptions than there are");
        for (const TopicKey& aim : board.aim) {
            require(aim.valid(), lead, "aims at no topic");
        }
    }
}

} // namespace denizen
