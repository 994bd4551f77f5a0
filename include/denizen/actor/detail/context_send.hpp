// SPDX-License-Identifier: Apache-2.0
// How a context sends: to one actor, to a topic's subscribers, later. The declarations in
// actor/context.hpp, which includes this file, say what each member promises.
#pragma once

#include <denizen/actor/context.hpp>

namespace denizen {

template <class P>
template <class M>
DENIZEN_HD inline bool Context<P>::send(Address to, const M& message)
{
    constexpr uint32_t type = P::template message_id<M>;
    static_assert(type != no_type, "not a message type of this program");
    bool sent = true;
    if constexpr (P::has_buffers) {
        refer(message);
    }
    auto posted = detail::Posted::not_at_all;
    if constexpr (sizeof(M) > first_payload) {
        if (whole_warp_) {
            constexpr Priority priority = detail::priority_of<M>();
            if constexpr (alignof(M) % 4 == 0) {
                posted = detail::post_whole(shared_, worker_, to.value, self_, type, sizeof(M),
                                            reinterpret_cast<const uint32_t*>(&message), priority,
                                            policy_of(to));
            } else {
                const Header h{to.value, self_, type, 0, sizeof(M)};
                posted =
                    detail::post_by_all(shared_, worker_, h, &message, priority, policy_of(to));
            }
        }
    }
    if (!whole_warp_ || denizen::lanes::id() == 0) {
        sent = posted == detail::Posted::not_at_all ? post(to, message)
                                                    : posted == detail::Posted::yes;
        if (detail::refers<M> && (!sent || !detail::reachable(shared_, to))) {
            detail::drop_references(shared_, message);
        }
    }
    if (whole_warp_) {
        sent = denizen::lanes::shuffle(sent, 0);
    }
    return sent;
}

template <class P>
template <class M>
DENIZEN_HD inline uint32_t Context<P>::publish_by(const TopicKey& topic, const unsigned char* text,
                                                  const M& message)
{
    constexpr uint32_t type = P::template message_id<M>;
    static_assert(type != no_type, "not a message type of this program");
    const Header h{0, self_, type, 0, sizeof(M)};
    if constexpr (P::has_buffers) {
        if (touched_) {
            detail::buffer_fence(); // the subscribers find what was written
        }
    }
    const TopicKey key = whole_warp_ ? of_first_lane(topic) : topic;
    constexpr Priority priority = detail::priority_of<M>();
    if constexpr (sizeof(M) <= first_payload) {
        uint32_t words[first_payload / 4] = {};
        const M copy = whole_warp_ ? of_first_lane(message) : message;
        copy_bytes(words, &copy, sizeof(M));
        return detail::publish<P>(shared_, worker_, key, text, h, words, priority, whole_warp_);
    } else {
        return detail::publish<P>(shared_, worker_, key, text, h, &message, priority, whole_warp_);
    }
}

template <class P>
DENIZEN_HD inline bool Context<P>::send_raw(Address to, uint32_t type, uint32_t length,
                                            Priority priority, const void* payload)
{
    if constexpr (P::has_buffers) {
        if (touched_) {
            detail::buffer_fence();
        }
        P::keep_buffers(shared_, type, payload);
    }
    const Header h{to.value, self_, type, 0, length};
    const bool sent = length <= first_payload
                          ? post_bytes<first_payload>(shared_, worker_, h, payload, priority,
                                                      policy_of(to), next_)
                          : detail::post_any(shared_, worker_, h, payload, priority, policy_of(to));
    if constexpr (P::has_buffers) {
        if (!sent || !detail::reachable(shared_, to)) {
            P::drop_buffers(shared_, type, payload);
        }
    }
    return sent;
}

template <class P>
DENIZEN_HD inline uint32_t Context<P>::publish_raw(const TopicKey& key, const unsigned char* text,
                                                   uint32_t type, uint32_t length,
                                                   Priority priority, const void* payload)
{
    if constexpr (P::has_buffers) {
        if (touched_) {
            detail::buffer_fence();
        }
    }
    const Header h{0, self_, type, 0, length};
    return detail::publish<P>(shared_, worker_, key, text, h, payload, priority, false);
}

template <class P>
DENIZEN_HD inline Timer Context<P>::send_later_raw(uint64_t ns, uint64_t every_ns, Address to,
                                                   uint32_t type, uint32_t length,
                                                   Priority priority, const void* payload)
{
    TimerEntry entry;
    entry.every_ns = every_ns;
    entry.to = to.value;
    entry.owner = self_;
    entry.type = type;
    entry.length = static_cast<uint16_t>(length);
    entry.priority = static_cast<uint16_t>(priority);
    copy_bytes(entry.word, payload, length);
    return {detail::arm(shared_, worker_, ns, entry)};
}

template <class P>
DENIZEN_HD inline bool Context<P>::cancel(Timer timer)
{
    bool done = false;
    if (!whole_warp_ || denizen::lanes::id() == 0) {
        done = detail::disarm(shared_, worker_, self_, timer.value);
    }
    if (whole_warp_) {
        denizen::lanes::rejoin();
        done = denizen::lanes::shuffle(done, 0);
    }
    return done;
}

template <class P>
template <class M>
DENIZEN_HD inline void Context<P>::refer(const M& message)
{
    if (!detail::refers<M> && !touched_) {
        return;
    }
    sync();
    if (lane() == 0) {
        detail::add_references(shared_, message, touched_);
    }
    sync();
}

template <class P>
template <class M>
DENIZEN_HD inline Timer Context<P>::send_later(uint64_t ns, uint64_t every_ns, Address to,
                                               const M& message)
{
    constexpr uint32_t type = P::template message_id<M>;
    static_assert(type != no_type, "not a message type of this program");
    static_assert(sizeof(M) <= first_payload && !detail::refers<M>,
                  "what is sent later is at most 36 bytes, without buffers");
    Timer timer;
    if (!whole_warp_ || denizen::lanes::id() == 0) {
        timer =
            send_later_raw(ns, every_ns, to, type, sizeof(M), detail::priority_of<M>(), &message);
    }
    if (whole_warp_) {
        denizen::lanes::rejoin();
        timer.value = denizen::lanes::shuffle(timer.value, 0);
    }
    return timer;
}

template <class P>
template <class M>
DENIZEN_HD inline bool Context<P>::post(Address to, const M& message)
{
    const Header h{to.value, self_, P::template message_id<M>, 0, sizeof(M)};
    constexpr Priority priority = detail::priority_of<M>();
    if (calls_) {
        return post_raw(shared_, worker_, h, &message, priority, policy_of(to));
    }
    if constexpr (sizeof(M) <= first_payload) {
        const M copy = message; // one that lies in the state is not read byte by byte
        return post_bytes<sizeof(M)>(shared_, worker_, h, &copy, priority, policy_of(to), next_);
    } else {
        return post_bytes<sizeof(M)>(shared_, worker_, h, &message, priority, policy_of(to));
    }
}

template <class P>
template <class T>
DENIZEN_HD inline T Context<P>::of_first_lane(const T& value)
{
    uint32_t words[(sizeof(T) + 3) / 4] = {};
    copy_bytes(words, &value, sizeof(T));
    for (uint32_t& word : words) {
        word = denizen::lanes::shuffle(word, 0);
    }
    T same = value;
    copy_bytes(&same, words, sizeof(T));
    return same;
}

} // namespace denizen
