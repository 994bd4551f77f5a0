// SPDX-License-Identifier: Apache-2.0
// A program's door to the other hosts of its cluster: what leaves for each of them, and what has
// come from one. It knows no transport; denizen/cluster/link.hpp carries the messages. Host only.
//
// A watch of an actor elsewhere goes to its host as an order, and is noted here: if that host is
// lost, those who watch are told so (tell_lost()). The same goes for subscriptions, of which each
// host tells the others (src/actor/far_topics.cpp).
//
// Where actors are durable (durable()), a lane keeps what was sent to them until the cluster is
// saved, and sends it again when the host has been started again (src/actor/far_log.cpp).
//
// Each other host has a lane: a ring that the workers write (the node's own PeerLink, rings.hpp)
// and a queue for the host's own threads, both bounded. One thread takes from a lane; any may
// deliver.
#pragma once

#include <denizen/actor/any_runtime.hpp>
#include <denizen/actor/topic.hpp>

namespace denizen {

struct FarLane; // src/actor/far_lanes.hpp, as the next two
struct FarRing;
struct FarTelling;
enum class SystemOp : uint32_t;

// What became of a message that came from another host.
enum class Delivered { yes, no_room, refused };

// A reply of the runtime's own: the question found no actor, or its host was lost. Its header's
// sender is the Errc, and above it the host.
inline constexpr uint32_t far_refusal = max_type;
// A flag of a header between hosts: its host had acknowledged this message before it was lost. Only
// durable actors get it.
inline constexpr uint32_t far_replayed = 2;

struct FarCounts {
    uint64_t taken = 0;     // messages that have left this lane for the transport
    uint64_t delivered = 0; // and that have come from that host, to actors, cells and threads here
    uint64_t refused = 0;   // that have come, and were none: dead letters, or no letters at all
    uint64_t lost = 0;      // bound for it when it was lost, or later: dead letters
};

// What a link delivers in a row: messages behind one that found its actor, and whose header is the
// same, go where it went. An actor that stops meanwhile might as well have stopped while they were
// in its worker's ring, which sees to that.
struct FarRun {
    Header header; // of the last one, as it came
    Header given;  // with the actor's short address
    bool open = false;
    uint32_t delivered = 0; // and not counted yet
};

// What a link lets the workers of a program on CPU threads do between their rounds, beside its own
// threads (detail/link_duty.hpp).
class LinkHelp {
public:
    virtual ~LinkHelp() = default;
    // Sends what waits and delivers what has come, as far as nobody else is at it. True: the worker
    // is to look again rather than sleep.
    virtual bool look() = 0;
    // Sends what waits, in the middle of a handler: some of it; or there is none; or its wire has
    // no room, or somebody else is at it: soon there may be.
    enum class Sent { some, none, no_room, lost };
    virtual Sent send_some() = 0;
    // The worker is about to sleep, and nobody looks any more: from now on what comes wakes the
    // link's thread. False: something has come already.
    virtual bool rest() = 0;
};

class FarDoor {
public:
    explicit FarDoor(AnyRuntime::Core& core) : core_(core) {}

    const FarFormat& format() const;
    uint32_t hosts() const;
    uint32_t own() const;  // this one's number
    uint32_t room() const; // bytes that a message may take while it is read

    // Whether any of the program's messages are urgent, and whether this one is.
    bool has_urgent() const;
    bool urgent(const Header& h) const;

    // The next message for a host that is not urgent, or that is, with addresses that mean the same
    // everywhere; false: there is none now. `payload` has room() bytes. A message that is traced
    // keeps its stamp.
    bool take(uint32_t peer, Header& h, void* payload);
    bool take_urgent(uint32_t peer, Header& h, void* payload);
    // What was taken leaves room for more: done by itself every quarter of a ring and when one is
    // found empty, and here at the end of a batch that ends sooner.
    void give_credit(uint32_t peer);
    // Whether one may be there, or begun: a cheap look.
    bool begun(uint32_t peer) const;
    // Sleeps until there may be one, wake() is called after `seen` was read from bell(), or `ns`
    // have passed.
    void sleep(uint32_t peer, uint32_t seen, uint64_t ns);
    void wake(uint32_t peer);
    uint32_t bell(uint32_t peer) const;
    // The same sleep, of a thread for which a worker looks: only wake() ends it.
    void nap(uint32_t peer, uint32_t seen, uint64_t ns);
    // Lets workers see to a link, or nobody any more: then it returns when none is at it.
    void lend(uint32_t peer, LinkHelp* help);
    // Whether no whole message waits in a host's lane.
    bool empty(uint32_t peer);

    // A message from host `from`. no_room: its actor's worker has not kept up and its policy is to
    // wait; `again` says that this message has had that answer before.
    Delivered deliver(uint32_t from, const Header& h, const void* payload, bool again);
    // The same for what comes in a row, which ends with end_run(): soon, for only that lets a
    // GPU see the last of them, and counts them.
    Delivered deliver(uint32_t from, const Header& h, const void* payload, bool again, FarRun& run);
    void end_run(uint32_t from, const FarRun& run);

    // The host is lost: asks that wait for it fail with `why`, sends to it throw it, and what was
    // and is taken for it is to be buried.
    void lose(uint32_t peer, const std::string& why);
    bool is_lost(uint32_t peer) const;
    // Tells those who watched actors of a lost host. False: somebody had no room; again, later.
    bool tell_lost(uint32_t peer);
    // Dead letters: a message for a lost host.
    void bury_lost(uint32_t peer, const Header& h, const void* payload);

    FarCounts counts(uint32_t peer) const;

    // While this host is held for a snapshot, what finds no room is set aside. Gives it out; false:
    // some of it has no room yet.
    bool give_aside(uint32_t peer);
    // Nothing is aside, or it is to be in a snapshot.
    bool none_aside(uint32_t peer) const;

    // How many changes of patterns that are subscribed to here have left for a host; false: more
    // of them wait. And how many have come from it.
    bool told(uint32_t peer, uint64_t& count);
    uint64_t heard(uint32_t peer) const;
    // Returns once publishers here reach what has come from a host. Errc::exhausted: there was no
    // room for that pattern of its actors; Errc::timeout.
    void settle_topics(uint32_t peer, std::string_view pattern, nanoseconds deadline);

    // The host has been started again, or this one has, from a snapshot: nothing has gone to it or
    // come from it yet, and it is told of all multicasts here. No link to it is open. Who was told
    // that actors of it are lost is told that they run, and watches them again. Returns how many
    // messages to durable actors will go there once more, before all others.
    uint64_t renew(uint32_t peer);
    // The host goes on in another process, which knows all that has gone to it and come from it;
    // the counts begin at 0. No link to it is open.
    void recount(uint32_t peer);

    // Actors of these types are durable, on all hosts: of messages that they handle a lane keeps as
    // many bytes, headers included, as have been sent since the last snapshot. One that is full
    // carries nothing until cut_log(). Before there are links. Errc::bad_argument: no such type.
    void durable(const std::vector<std::string>& types, uint64_t bytes);
    // The sender's, for the link: whether it may take no message, and one that it has sent. At the
    // loss of the host: one of those that were not acknowledged, in their order, of which `rest`
    // more follow; true: it stays, because it is one that was sent again.
    bool log_full(uint32_t peer) const;
    bool logged(const Header& h) const;
    void log(uint32_t peer, const Header& h, const void* payload);
    bool keep_logged(uint32_t peer, uint64_t rest);
    // While a snapshot is taken logs are never full: what is under way has to arrive.
    void open_logs(bool open);
    // All that is in the log now is in a snapshot that is being written; it has been written.
    void mark_log(uint32_t peer);
    void cut_log(uint32_t peer);

private:
    enum class Given { yes, no_room, buried };

    void count_taken(FarLane& lane, Header& h) const;
    bool take_ring(uint32_t peer, size_t node, bool hurried, Header& h, void* payload);
    void give_credit(FarLane& lane, const FarRing& ring, size_t node, bool hurried) const;
    bool take_queue(uint32_t peer, bool hurried, Header& h, void* payload);
    bool waits_in(uint32_t peer, size_t node, bool hurried) const;
    // far_deliver.cpp
    bool is_durable(Address actor) const;
    Delivered deliver_one(uint32_t from, const Header& h, const void* payload, bool again);
    bool write_ring(bool hurried, Address to, const Header& h, const void* payload);
    Given give(uint32_t from, Header h, const void* payload, bool again);
    Given give_in_turn(uint32_t from, const Header& h, const void* payload, bool again);
    Delivered deliver_reply(uint32_t from, const Header& h, const void* payload, bool refusal);
    Delivered deliver_multicast(uint32_t from, const Header& h, const void* payload, bool again);
    void note_watch(uint32_t peer, const Header& h);
    void send_down(uint32_t peer, Address watcher, const Down& news);
    // far_topics.cpp
    void note_topic(SystemOp op, const TopicKey& pattern, uint32_t subscriber);
    void tell_hosts(Address multicast, const FarTelling& news);
    bool take_telling(uint32_t peer, Header& h, void* payload);
    bool tell_lead(SystemOp op, const TopicKey& pattern, Address multicast, Address answer_to);
    Given give_telling(const Header& h, const void* payload);
    Delivered deliver_telling(uint32_t from, const Header& h, const void* payload);
    bool forget_multicasts(uint32_t peer);
    // far_log.cpp
    bool take_replayed(uint32_t peer, Header& h, void* payload);
    uint64_t replay(uint32_t peer);

    AnyRuntime::Core& core_;
};

} // namespace denizen
