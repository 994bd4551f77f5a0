// SPDX-License-Identifier: Apache-2.0
// What a handler can do besides changing its own state. Valid only during the handler.
#pragma once

#include <denizen/actor/address.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/base/lanes.hpp>
#include <denizen/resident/post.hpp>
#include <denizen/resident/program.hpp>

namespace denizen {

template <class P>
class Context {
public:
    DENIZEN_HD Context(const Shared& shared, uint32_t worker, uint32_t self, uint32_t sender,
                       bool whole_warp)
        : shared_(shared), worker_(worker), self_(self), sender_(sender), whole_warp_(whole_warp)
    {
    }

    // Sends to an actor or to the host. Never waits: a message that finds its ring full is parked
    // with its place in the order, or, if the actor's policy is Overflow::fail, not sent: then the
    // answer is false. In a whole-warp handler the message is sent once, by lane 0; every lane must
    // make the call, and gets the answer.
    template <class M>
    DENIZEN_HD bool send(Address to, const M& message)
    {
        constexpr uint32_t type = P::template message_id<M>;
        static_assert(type != no_type, "not a message type of this program");
        bool sent = true;
        if (!whole_warp_ || denizen::lanes::id() == 0) {
            sent = post_bytes<sizeof(M)>(shared_, worker_, {to.value, self_, type, 0, sizeof(M)},
                                         &message, detail::priority_of<M>(), refuses(to));
        }
        if (whole_warp_) {
            sent = denizen::lanes::shuffle(sent, 0);
        }
        return sent;
    }

    // Answers the message being handled: to the `ask` that waits for it, to the actor that sent it,
    // or, if the host sent it without asking, to the host's egress ring.
    template <class M>
    DENIZEN_HD void reply(const M& message)
    {
        send(Address{sender_}, message);
    }

    DENIZEN_HD Address self() const { return {self_}; }
    // Who sent the message. May be kept in the state, to reply later; one reply to each `ask`.
    DENIZEN_HD Address sender() const { return {sender_}; }
    DENIZEN_HD uint32_t worker() const { return worker_; }
    DENIZEN_HD uint32_t workers() const { return shared_.workers; }
    DENIZEN_HD uint64_t now_ns() const { return denizen::now_ns(); }

    // In a whole-warp handler, this thread's lane and their number; otherwise 0 and 1.
    DENIZEN_HD uint32_t lane() const { return whole_warp_ ? denizen::lanes::id() : 0; }
    DENIZEN_HD uint32_t lanes() const { return whole_warp_ ? denizen::lanes::size : 1; }
    DENIZEN_HD void sync() const
    {
        if (whole_warp_) {
            denizen::lanes::sync();
        }
    }

private:
    // Whether the actor there is of a type that refuses what finds no room. A peer's are not looked
    // up: their messages wait.
    DENIZEN_HD bool refuses(Address to) const
    {
        if constexpr (P::has_refusing_actors) {
            if (to.node() == shared_.node && to.worker() < shared_.workers &&
                to.local() < shared_.actors_per_worker) {
                const ActorEntry* entry =
                    shared_.actors +
                    static_cast<uint64_t>(to.worker()) * shared_.actors_per_worker + to.local();
                const uint32_t kind = load<Scope::gpu>(&entry->kind);
                return kind != 0 && P::overflow((kind & 0xff) - 1) == Overflow::fail;
            }
        }
        return false;
    }

    const Shared& shared_;
    uint32_t worker_;
    uint32_t self_;
    uint32_t sender_;
    bool whole_warp_;
};

} // namespace denizen
