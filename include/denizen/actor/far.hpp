// SPDX-License-Identifier: Apache-2.0
// A program's door to the other hosts of its cluster: what leaves for each of them, and what has
// come from one. It knows no transport; denizen/cluster/link.hpp carries the messages. Host only.
//
// A watch of an actor elsewhere goes to its host as an order, and is noted here: if that host is
// lost, those who watch are told so (tell_lost()).
//
// Each other host has a lane: a ring that the workers write (the node's own PeerLink, rings.hpp)
// and a queue for the host's own threads, both bounded. One thread takes from a lane; any may
// deliver.
#pragma once

#include <denizen/actor/any_runtime.hpp>

namespace denizen {

// What became of a message that came from another host.
enum class Delivered { yes, no_room, refused };

// A reply of the runtime's own: the question found no actor, or its host was lost. Its header's
// sender is the Errc, and above it the host.
inline constexpr uint32_t far_refusal = max_type;

struct FarCounts {
    uint64_t taken = 0;     // messages that have left this lane for the transport
    uint64_t delivered = 0; // and that have come from that host, to actors, cells and threads here
    uint64_t refused = 0;   // that have come, and were none: dead letters, or no letters at all
    uint64_t lost = 0;      // bound for it when it was lost, or later: dead letters
};

class FarDoor {
public:
    explicit FarDoor(AnyRuntime::Core& core) : core_(core) {}

    const FarFormat& format() const;
    uint32_t hosts() const;
    uint32_t own() const;  // this one's number
    uint32_t room() const; // bytes that a message may take while it is read

    // The next message for a host, with addresses that mean the same everywhere; false: there is
    // none now. `payload` has room() bytes.
    bool take(uint32_t peer, Header& h, void* payload);
    // Sleeps until there may be one, wake() is called, or `ns` have passed.
    void sleep(uint32_t peer, uint64_t ns);
    void wake(uint32_t peer);
    // Whether nothing waits in a host's lane.
    bool empty(uint32_t peer);

    // A message from host `from`. no_room: its actor's worker has not kept up and its policy is to
    // wait; `again` says that this message has had that answer before.
    Delivered deliver(uint32_t from, const Header& h, const void* payload, bool again);

    // The host is lost: asks that wait for it fail with `why`, sends to it throw it, and what was
    // and is taken for it is to be buried.
    void lose(uint32_t peer, const std::string& why);
    bool is_lost(uint32_t peer) const;
    // Tells those who watched actors of a lost host. False: somebody had no room; again, later.
    bool tell_lost(uint32_t peer);
    // Dead letters: a message for a lost host.
    void bury_lost(uint32_t peer, const Header& h, const void* payload);

    FarCounts counts(uint32_t peer) const;

private:
    void note_watch(uint32_t peer, const Header& h);
    void send_down(uint32_t peer, Address watcher, const Down& news);

    AnyRuntime::Core& core_;
};

} // namespace denizen
