// SPDX-License-Identifier: Apache-2.0
// Where actors go, and how they come to be: a request to each worker that gets some.
#include "core.hpp"

#include <algorithm>
#include <array>

namespace denizen {
namespace {

// The workers [first, last) of one node, without [without, until).
struct Stretch {
    uint32_t first;
    uint32_t last;
    uint32_t without;
    uint32_t until;
};

// The workers that a placement names, of a node of this geometry.
Stretch workers_near(uint32_t worker, Near how, const Shared& s)
{
    const auto group = [&](uint32_t size) {
        const uint32_t begin = worker / size * size;
        return Stretch{begin, std::min(begin + size, s.workers), 0, 0};
    };
    const auto but = [](Stretch all, Stretch inner) {
        return Stretch{all.first, all.last, inner.first, inner.last};
    };
    const Stretch own = group(1);
    const Stretch sm = group(s.per_sm);
    const Stretch cluster = group(std::max(s.near, s.per_sm));
    const Stretch node{0, s.workers, 0, 0};
    switch (how) {
    case Near::worker: return own;
    case Near::sm: return but(sm, own);
    case Near::cluster: return but(cluster, sm);
    case Near::node: return cluster.last - cluster.first == s.workers ? node : but(node, cluster);
    default: return node;
    }
}

std::vector<Address> addresses_of(const Stretch& s, uint32_t node)
{
    std::vector<Address> all;
    for (uint32_t w = s.first; w < s.last; ++w) {
        if (w < s.without || w >= s.until) {
            all.push_back(Address::actor(w, 0, node));
        }
    }
    return all;
}

} // namespace

std::vector<Address> AnyRuntime::spawn(uint32_t actor_type, uint32_t count, nanoseconds deadline)
{
    Core& c = core();
    return c.spawn_anywhere(actor_type, count, ns(deadline));
}

std::vector<Address> AnyRuntime::create(uint32_t actor_type, uint32_t count, nanoseconds deadline)
{
    Core& c = core();
    return c.spawn_anywhere(actor_type, count, ns(deadline), Life::created);
}

std::vector<Address> AnyRuntime::spawn(uint32_t actor_type, uint32_t count, Placement where,
                                       nanoseconds deadline)
{
    Core& c = core();
    const Address beside = where.beside;
    if (beside.is_host() || beside.node() >= c.nodes.size() || beside.worker() >= c.workers) {
        throw Error(Errc::bad_argument,
                    "spawning near " +
                        (beside.is_host() ? "the host"
                                          : "worker " + std::to_string(beside.worker()) +
                                                " on node " + std::to_string(beside.node())) +
                        "; the program has " + std::to_string(c.nodes.size()) + " nodes of " +
                        std::to_string(c.workers) + " workers");
    }
    const Shared& s = c.nodes[beside.node()].shared;
    const std::vector<Address> among =
        addresses_of(workers_near(beside.worker(), where.how, s), beside.node());
    if (among.empty()) {
        throw Error(Errc::bad_argument,
                    c.worker_name(beside) +
                        (where.how == Near::sm
                             ? " is the only one of its SM; start more workers than SMs, or use "
                               "Near::worker or Near::cluster"
                             : " has no other SM in its cluster; start more workers or larger "
                               "clusters, or use Near::node"));
    }
    return c.spawn(actor_type, count, among, c.placing.next_near, ns(deadline));
}

// Bytes from one state of this type to the next.
uint64_t AnyRuntime::Core::stride_of(uint32_t actor_type) const
{
    const ActorInfo& info = image.table.actor[actor_type];
    // Where there are checkpoints, each lies behind its state.
    const bool twice = info.restart == static_cast<uint32_t>(RestartFrom::snapshot);
    return round_up(twice ? 2 * checkpoint_offset(info.size) + 16 : info.size,
                    std::max(info.align, 16u));
}

// Spawns over the workers `among`, from number `next` on, in turn.
std::vector<Address> AnyRuntime::Core::spawn(uint32_t actor_type, uint32_t count,
                                             const std::vector<Address>& among, size_t& next,
                                             uint64_t deadline_ns, Life life)
{
    check_alive();
    if (actor_type >= image.table.actors) {
        throw Error(Errc::bad_argument, "actor type " + std::to_string(actor_type) +
                                            " is not one of the program's " +
                                            std::to_string(image.table.actors));
    }
    const uint64_t stride = stride_of(actor_type);
    const auto guard = lock_places(deadline_ns);
    const size_t n = among.size();
    const size_t start = next % n;
    // The k-th worker from `start` on gets actors k, k + n, ...: few actors are few workers'
    // affair.
    const size_t takers = std::min<size_t>(count, n);
    const auto worker = [&](size_t k) { return among[start + k < n ? start + k : start + k - n]; };
    const auto share = [&](size_t k) {
        return static_cast<uint32_t>(count / n + (k < count % n ? 1 : 0));
    };
    std::array<uint64_t, max_nodes> heap{}; // where each node's next state goes
    std::array<uint64_t, max_nodes> need{};
    for (size_t k = 0; k < takers; ++k) {
        need[worker(k).node()] += stride * share(k);
    }
    for (size_t k = 0; k < nodes.size(); ++k) {
        heap[k] = round_up(nodes[k].heap_used, 256);
        if (heap[k] + need[k] > options.state_bytes) {
            throw Error(
                Errc::exhausted,
                std::to_string(count) + " actors " + actor_name(actor_type) + " need " +
                    std::to_string(need[k]) + " bytes of state" +
                    (nodes.size() > 1 ? " on node " + std::to_string(k) : "") + ", " +
                    std::to_string(options.state_bytes - std::min(heap[k], options.state_bytes)) +
                    " are left; raise state_bytes");
        }
    }
    for (size_t k = 0; k < takers; ++k) {
        const uint32_t taken = placing.next_local[worker_index(worker(k))];
        if (taken + static_cast<uint64_t>(share(k)) > actors_per_worker) {
            throw Error(Errc::exhausted,
                        std::to_string(count) + " actors " + actor_name(actor_type) +
                            " exceed max_actors = " + std::to_string(options.max_actors) +
                            (n == all_workers() ? ""
                                                : ": " + worker_name(worker(k)) + " has room for " +
                                                      std::to_string(actors_per_worker - taken)) +
                            "; raise it");
        }
    }
    std::vector<Address> addresses(count);
    for (size_t k = 0; k < takers; ++k) {
        const Address w = worker(k);
        uint32_t local = placing.next_local[worker_index(w)];
        for (size_t i = k; i < count; i += n) {
            addresses[i] = Address::actor(w.worker(), local++, w.node());
        }
    }
    std::vector<Address> tickets;
    for (size_t k = 0; k < takers; ++k) {
        const Address w = worker(k);
        uint64_t& at = heap[w.node()];
        const SpawnRequest r{actor_type,
                             share(k),
                             placing.next_local[worker_index(w)],
                             static_cast<uint32_t>(stride),
                             at,
                             static_cast<uint32_t>(life)};
        at += stride * r.count;
        // A program with few reply cells collects answers as it goes.
        Address ticket;
        while (!cells.take(ticket)) { // ends: each answer frees a cell
            if (tickets.empty()) {
                ticket = take_cell(deadline_ns);
                break;
            }
            wait_reply(tickets.back(), nullptr, 0, deadline_ns,
                       [] { return std::string("spawn"); });
            tickets.pop_back();
        }
        tickets.push_back(ticket);
        send_system(SystemOp::spawn, w, ticket, &r, sizeof r, deadline_ns);
    }
    for (const Address ticket : tickets) {
        wait_reply(ticket, nullptr, 0, deadline_ns, [&] {
            return "spawning " + std::to_string(count) + " actors " + actor_name(actor_type);
        });
    }
    for (const Address a : addresses) {
        set_type(index(a), actor_type + 1);
    }
    for (size_t k = 0; k < takers; ++k) {
        placing.next_local[worker_index(worker(k))] += share(k);
    }
    for (size_t k = 0; k < nodes.size(); ++k) {
        nodes[k].heap_used = need[k] == 0 ? nodes[k].heap_used : heap[k];
    }
    next = (start + count) % n;
    return addresses;
}

} // namespace denizen
