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
    // with its place in the order. In a whole-warp handler the message is sent once, by lane 0;
    // every lane must make the call.
    template <class M>
    DENIZEN_HD void send(Address to, const M& message)
    {
        static_assert(P::template message_id<M> != no_type, "not a message type of this program");
        if (!whole_warp_ || denizen::lanes::id() == 0) {
            post(shared_, worker_, to, self_, P::template message_id<M>, message);
        }
        if (whole_warp_) {
            denizen::lanes::sync();
        }
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
    const Shared& shared_;
    uint32_t worker_;
    uint32_t self_;
    uint32_t sender_;
    bool whole_warp_;
};

} // namespace denizen
