// SPDX-License-Identifier: Apache-2.0
// What a program keeps for the other hosts of its cluster: a lane for each, the asks that wait for
// them, and the dead letters of the host's side (workers have a ring of their own for theirs).
#pragma once

#include "port.hpp"

#include <denizen/actor/any_runtime.hpp>
#include <denizen/actor/detail/crossing.hpp>
#include <denizen/actor/far.hpp>
#include <denizen/actor/topic.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace denizen {

struct FarWatch {
    uint32_t watcher; // far addresses, both
    uint32_t watched;
};

inline bool is_watch(const Header& h)
{
    return h.flags == flag_system && (h.type == static_cast<uint32_t>(SystemOp::watch) ||
                                      h.type == static_cast<uint32_t>(SystemOp::unwatch));
}

inline bool is_order(const Header& h) // watches are some
{
    return h.flags == flag_system && crosses_hosts(static_cast<SystemOp>(h.type));
}

bool is_topic_change(const Header& h); // far_topics.cpp

// Who subscribes here to one pattern, and the address by which other hosts publish to them.
struct FarMulticast {
    Address address;
    std::shared_ptr<const std::vector<uint32_t>> members; // short addresses, in their order
};

struct FarTopics {
    struct Less {
        bool operator()(const TopicKey& a, const TopicKey& b) const
        {
            return std::lexicographical_compare(a.word, a.word + 4, b.word, b.word + 4);
        }
    };
    std::mutex lock; // may be held when a lane's is taken
    std::map<TopicKey, FarMulticast, Less> multicast;
    std::map<uint32_t, TopicKey> pattern; // by the multicast's address
    uint32_t next = 0;                    // number of the next multicast
};

// What another host is still to be told of a multicast here.
struct FarTelling {
    bool there; // or it is no more
    TopicKey pattern;
};

// What was sent to durable actors of one host, with far addresses: far_log.cpp. The link's sending
// thread adds to it.
struct FarLog {
    struct Sent {
        Message message;
        bool again; // after the host was started again
    };
    mutable std::mutex lock;
    std::deque<Sent> sent;
    std::deque<Message> replay; // to be sent again; these are in no log meanwhile
    size_t marked = 0;          // of `sent`: in the snapshot that is being written
    std::atomic<uint64_t> bytes{0};
    std::atomic<size_t> count_replay{0};
};

// One of a node's rings for what goes to another host: that for data, or that for urgent messages.
struct FarRing {
    Slot* slots;
    uint32_t mask;
    const uint32_t* tail; // in the node's memory
    const uint32_t* credit_seen;
    uint32_t* credit;
};

inline FarRing far_ring(const Shared& s, uint32_t peer, bool urgent)
{
    const PeerLink& link = s.peer[s.node];
    const size_t word = size_t{urgent ? s.far.hosts + peer : peer} * credit_stride;
    const uint32_t mask = urgent ? s.urgent_mask : s.inbox_mask;
    const size_t before = urgent ? size_t{s.far.hosts} * (s.inbox_mask + 1) : 0;
    return {link.inboxes + before + size_t{peer} * (mask + 1), mask, link.tails + word,
            link.tails + word + 1, const_cast<uint32_t*>(link.credits) + word};
}

struct FarLanes;

// Who sees to the links, of the workers: detail/link_duty.hpp. One at a time, so that they do not
// take each other's cache lines; another takes over from one that has not looked for a while.
struct FarDuty : LinkDuty {
    explicit FarDuty(FarLanes& of) : LinkDuty{&FarDuty::see}, lanes(of) {}

    static bool see(LinkDuty& duty, uint32_t node, uint32_t worker, Duty what);

    bool look(uint32_t me);
    bool make_room(uint64_t patience_ns);
    bool rest(uint32_t me);
    static bool send(FarLane& lane);

    FarLanes& lanes;
    std::atomic<uint32_t> holder{0}; // the worker that does, + 1
    std::atomic<uint32_t> looks{0};  // its
    struct alignas(64) Waiting {     // one that finds another in its place
        uint32_t seen = 0;           // of `looks`
        uint32_t passed = 0;         // its own looks
        uint32_t same = 0;           // of these, those that found no change
    };
    std::vector<Waiting> waiting; // by worker
};

struct FarLane {
    std::mutex lock; // of the queues, `why`, the watches, and the topics
    // From the host's threads, with short addresses, by Priority.
    std::deque<Message> queue[2];
    std::atomic<size_t> count_hurried{0};       // of the urgent ones
    std::atomic<size_t> count_queued{0};        // of both
    void put(Message&& m, bool hurried = false) // with the lock
    {
        queue[hurried].push_back(std::move(m));
        count_hurried = queue[1].size();
        count_queued = queue[0].size() + queue[1].size();
    }
    std::atomic<bool> lost{false};
    std::string why;
    std::vector<FarWatch> watches;          // of actors there, by actors and threads here
    std::deque<FarWatch> bereft;            // the host was lost, and they have not been told yet
    std::vector<FarWatch> bereaved;         // they have been told
    std::map<uint32_t, FarTelling> telling; // by multicast
    std::atomic<size_t> count_telling{0};
    std::map<uint32_t, TopicKey> theirs;   // the multicasts there that this host publishes to
    std::map<uint32_t, TopicKey> orphaned; // of a lost host: the lead is to forget these
    std::atomic<uint64_t> told{0},
        heard{0}; // of multicasts here to that host, and of its to this one
    // A message to a multicast that some of its members have got, by Priority. Only who delivers
    // looks at it.
    struct Fan {
        std::shared_ptr<const std::vector<uint32_t>> members;
        size_t done = 0;
    } fan[2];
    std::mutex aside_lock;
    std::deque<Message> aside; // to actors here, with short addresses: see give_aside()
    std::atomic<size_t> count_aside{0};
    FarLog log;
    Bell* bell = nullptr;
    // The link that workers see to, and how many are at it.
    std::atomic<LinkHelp*> help{nullptr};
    std::atomic<uint32_t> helpers{0};
    // By node, and of each by Priority: the next ticket of its ring, and what its workers know of
    // that.
    std::vector<std::array<uint32_t, 2>> head;
    std::vector<std::array<uint32_t, 2>> credited;
    std::atomic<uint64_t> taken{0}, delivered{0}, refused{0}, dead{0};
};

struct FarLanes {
    FarFormat format;
    std::vector<std::unique_ptr<FarLane>> lane; // by host
    uint32_t capacity = 0;                      // of a queue, and slots of a ring
    Port port;                                  // the workers' rings for what comes from them
    FarTopics topics;
    FarDuty duty{*this};
    std::vector<bool> durable;          // by actor type
    std::vector<bool> logs;             // by message type: a durable actor handles it
    uint64_t log_bytes = 0;             // of a lane's log at most; 0: nothing is durable
    std::atomic<bool> logs_open{false}; // for a snapshot, which needs all that is under way
    std::atomic<bool> held{false};      // for a snapshot: no thread of this host sends to another

    std::mutex asks_lock;
    std::vector<uint32_t> asked;  // by cell: the host that is to answer, + 1
    std::vector<uint32_t> ticket; // and the ask's address

    std::mutex letters_lock;
    std::deque<DeadLetter> letters;
    uint64_t letters_lost = 0; // overwritten
    std::array<uint64_t, reasons> buried{};
};

} // namespace denizen
