// SPDX-License-Identifier: Apache-2.0
// The host's calls about topics: requests to the lead, worker 0 of node 0
// (actor/detail/topics.hpp).
#include "core.hpp"

#include <denizen/actor/detail/topics.hpp>

#include <cstring>

namespace denizen {
namespace {

const Address lead = Address::actor(0, 0);

TopicKey key_of(std::string_view text, bool pattern)
{
    const auto length = static_cast<uint32_t>(std::min<size_t>(text.size(), 1u << 20));
    const std::string name = (pattern ? "pattern \"" : "topic \"") + std::string(text) + '"';
    switch (detail::check_topic(text.data(), length, pattern)) {
    case detail::BadTopic::none: break;
    case detail::BadTopic::star:
        throw Error(Errc::bad_argument,
                    name + (pattern ? " has a '*' that is not its end"
                                    : " has a '*'; only subscriptions are to many topics"));
    case detail::BadTopic::empty: throw Error(Errc::bad_argument, name + " is empty");
    case detail::BadTopic::too_long:
        throw Error(Errc::bad_argument, name + " has " + std::to_string(text.size()) +
                                            " bytes; use at most " + std::to_string(max_topic) +
                                            (pattern ? ", and a '*'" : ""));
    }
    return detail::key_of(text.data(), length, pattern);
}

// Returns once all nodes know.
Errc change(AnyRuntime::Core& c, SystemOp op, Address subscriber, const TopicKey& key,
            uint64_t deadline_ns)
{
    c.check_alive();
    if (subscriber != host) { // nor anybody's reply cell
        c.check_actor(subscriber);
    }
    const Address ticket = c.take_cell(deadline_ns);
    const TopicRequest request{key, subscriber.value};
    try {
        c.send_system(op, lead, ticket, &request, sizeof request, deadline_ns, Priority::urgent);
    } catch (...) {
        c.cells.give_back(ticket);
        throw;
    }
    uint32_t error = 0; // Errc
    c.wait_reply(ticket, &error, sizeof error, deadline_ns, [&] {
        return std::string(op == SystemOp::subscribe ? "subscribing " : "unsubscribing ") +
               c.describe(subscriber);
    });
    return static_cast<Errc>(error);
}

// Sends a long topic's text in front of the aim, piece by piece: a ring need not have room for all
// of it. Until its end nobody else's text comes between; aims at short topics leave it alone.
class LongTopicText {
public:
    LongTopicText(AnyRuntime::Core& c, Port& port, const TopicKey& key, std::string_view text,
                  uint32_t priority, uint64_t deadline_ns)
        : port_(key.is_long() ? &port : nullptr)
    {
        if (port_ == nullptr) {
            return;
        }
        const uint64_t begin = now_ns();
        Backoff wait;
        // Acquire: partner of the release in the destructor. Ends by that, or the deadline.
        while (port.long_topic.test_and_set(std::memory_order_acquire)) {
            if (now_ns() - begin > deadline_ns) {
                throw Error(Errc::timeout, "publishing to a long topic has waited " +
                                               detail::seconds(deadline_ns) +
                                               " for the end of another such call");
            }
            wait.pause();
        }
        try {
            for (uint32_t at = 0; at < text.size(); at += AimText::bytes) {
                AimText piece{{}, at / AimText::bytes * 2 + priority};
                std::memcpy(piece.word, text.data() + at,
                            std::min<size_t>(text.size() - at, AimText::bytes));
                c.send_system(SystemOp::aim_text, lead, host, &piece, sizeof piece, deadline_ns,
                              static_cast<Priority>(priority));
            }
        } catch (...) {
            port.long_topic.clear(std::memory_order_release);
            throw;
        }
    }
    LongTopicText(const LongTopicText&) = delete;
    LongTopicText& operator=(const LongTopicText&) = delete;
    ~LongTopicText()
    {
        if (port_ != nullptr) {
            port_->long_topic.clear(std::memory_order_release);
        }
    }

private:
    Port* port_;
};

} // namespace

void AnyRuntime::subscribe(Address subscriber, std::string_view pattern, nanoseconds deadline)
{
    const TopicKey key = key_of(pattern, true);
    if (change(core(), SystemOp::subscribe, subscriber, key, ns(deadline)) == Errc::exhausted) {
        throw Error(Errc::exhausted, "table of subscriptions (" +
                                         std::to_string(core().options.subscriptions) +
                                         " entries) is full and " + core().describe(subscriber) +
                                         " cannot subscribe; raise subscriptions");
    }
}

void AnyRuntime::unsubscribe(Address subscriber, std::string_view pattern, nanoseconds deadline)
{
    change(core(), SystemOp::unsubscribe, subscriber, key_of(pattern, true), ns(deadline));
}

uint32_t AnyRuntime::publish(std::string_view topic, uint32_t type, const void* payload,
                             uint32_t length, nanoseconds deadline)
{
    Core& c = core();
    const TopicKey key = key_of(topic, false);
    c.check_message(type, length);
    c.check_alive();
    const Address ticket = c.take_cell(ns(deadline));
    try {
        HeldBuffers refs = c.hold(type, payload, length, 1);
        Port& port = c.port_of(type);
        const uint32_t priority = c.image.table.message[type].priority;
        const TopicRequest aim{key, priority};
        const Header first{lead.value, host.value, static_cast<uint32_t>(SystemOp::aim),
                           flag_system, sizeof aim};
        const Header then{Address::actor(0, priority).value, ticket.value, type, flag_publish,
                          length};
        const LongTopicText text(c, port, key, topic, priority, ns(deadline));
        const size_t w = c.worker_index(lead);
        const uint32_t n = slots_for(sizeof aim) + slots_for(length);
        std::unique_lock held(port.lock);
        if (!port.rings.room(w, n)) {
            c.wait_for_room(held, port, lead, n, now_ns(), ns(deadline), 0, 1);
        }
        // Both with one hold of the lock: nobody else's aim comes between them.
        port.rings.write(w, first, &aim);
        port.rings.write(w, then, payload);
        held.unlock();
        c.flush_stores();
        c.wake(lead);
        refs.sent();
    } catch (...) {
        c.cells.give_back(ticket);
        throw;
    }
    uint32_t sent = 0;
    c.wait_reply(ticket, &sent, sizeof sent, ns(deadline),
                 [&] { return "publishing " + c.message_name(type); });
    return sent;
}

} // namespace denizen
