// SPDX-License-Identifier: Apache-2.0
// A link between the programs of two hosts of a cluster: it carries what one's actors and threads
// send to the other's, both ways. Host only. Who is in the cluster, and that the other side knows
// its token, is settled before a link is made (python/denizen/cluster); what comes over it is
// checked all the same.
//
// What a link promises, as long as neither host is lost:
//   - the messages of one actor (or thread) to another arrive in their order, each of them once;
//   - no side keeps more than a window of them: a sender whose receiver does not keep up waits.
// A host is lost when its process has ended, when it has given no sign for the deadline, when it
// has given this one up, or when it breaks the protocol. Then sends to it and asks of it are
// Errc::host_lost, and all that it has not acknowledged is dead letters (Reason::lost).
//
// Two threads: one takes what the program has for the other host, one delivers what has come. On
// CPU threads the program's own workers do both between their rounds, and whoever sends from a
// thread takes its message along: the link's threads carry what these leave, as while all of them
// are in handlers, and see to the rest. What comes is the thread's alone where `spin` is below 1
// ms.
#pragma once

#include <denizen/actor/far.hpp>
#include <denizen/cluster/ucx.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace denizen {

struct LinkOptions {
    std::chrono::milliseconds deadline{2000}; // silence after which the other host is lost
    // That each thread looks before it sleeps; one whose core others want sleeps sooner. From 1 ms
    // on workers look in the place of the link's threads, for as long.
    std::chrono::microseconds spin{20};
};

struct LinkCounts {
    uint64_t taken = 0;        // messages that have left the program for the other host
    uint64_t acknowledged = 0; // of these, that the other side has taken over
    uint64_t delivered = 0;    // that have come from it and been given to actors, asks, threads
    uint64_t refused = 0;      // that have come and were none, or for nobody
    uint64_t lost = 0;         // of those taken: dead letters because the host is lost
    uint64_t resumed = 0;      // how often a broken stream was taken up again
    uint64_t by_workers = 0;   // of those taken and delivered: by the program's own workers, or a
                               // thread that sends, and not by the link's threads
    uint64_t looks = 0;        // by these, whether they have found anything or not
};

class Link {
public:
    enum class State : uint32_t {
        up,
        broken, // a stream has ended: resume() takes it up again before the deadline
        lost
    };

    // Over rings in memory that both processes map: `memory` is a memfd of memory_bytes() that
    // nobody can make smaller, `socket` a Unix socket between the two, which stays open for its
    // end. One of the two is `first`. Takes both descriptors over. Errc::bad_argument.
    static constexpr size_t memory_bytes = 4096 + 2 * (4096 + (size_t{8192} * sizeof(Slot)));
    static std::unique_ptr<Link> rings(AnyRuntime& runtime, uint32_t peer, int memory, int socket,
                                       bool first, const LinkOptions& options);
    // Over a connected stream socket, which it takes over. `nonce` is in every frame. With `ucx`
    // the bytes go by UCX to the worker there that has this address, and the socket stays open for
    // its end.
    static std::unique_ptr<Link> stream(AnyRuntime& runtime, uint32_t peer, int socket,
                                        uint64_t nonce, const LinkOptions& options,
                                        std::shared_ptr<UcxEnd> ucx = nullptr,
                                        const std::string& address = {});
    // For what a host's actors answer to asks of its own that have a global address.
    static std::unique_ptr<Link> loop(AnyRuntime& runtime);

    virtual ~Link() = default; // close()

    virtual State state() const = 0;
    virtual std::string why() const = 0; // it is lost; empty if it is not
    virtual LinkCounts counts() const = 0;
    // Nothing is on its way out: all that was taken has been acknowledged, and nothing waits.
    virtual bool idle() = 0;
    // It is lost, and all that was under way to the other host is buried or acknowledged.
    virtual bool settled() const { return false; }
    // Says that the other host is lost: who sees to the processes knows first.
    virtual void lose(const std::string& why) = 0;
    // A stream's: ends it, if it has not ended, and returns how many bytes of the other side's
    // messages have arrived. Both sides tell each other, and go on by resume() from there, with a
    // new socket and nonce.
    virtual uint64_t halt() { return 0; }
    virtual void resume(int socket, uint64_t nonce, uint64_t arrived,
                        std::shared_ptr<UcxEnd> ucx = nullptr, const std::string& address = {});
    // Nothing is taken for the other host any more, until it is again: what is sent to it waits.
    virtual void pause(bool) {}
    // It has been paused, and all that was taken before has been acknowledged.
    virtual bool paused() { return true; }
    // Ends both threads. What has not been sent stays where it is. Before the runtime closes.
    virtual void close() = 0;
};

} // namespace denizen
