// SPDX-License-Identifier: Apache-2.0
// Who subscribes to what: a hash table in each node's memory, and publishing by it.
//
// Every node's table is the same. All changes go to worker 0 of node 0, the lead, which makes them
// one after the other and passes each on to worker 0 of the next node, and so on; the last one
// answers. So a table has one writer, tables cannot disagree, and a table that is full is known at
// the lead.
//
// Any worker publishes while that goes on. An entry is two packets (base/packet.hpp) with one
// sequence number, one more with each change: a reader that finds two different ones looks at an
// entry that is changing, which it may take either way, and skips it. Nobody waits and nobody
// fences.
//
// The subscribers of one pattern are several entries of one chain. A chain goes from the place that
// its key is hashed to, to the first free entry. An entry that is taken out stays in its chain as
// `gone`, and the next key that needs an entry takes it; if the entry behind it is free, it becomes
// free, since no chain goes through it. Half of the entries are never filled. A publisher looks for
// the topic and for each prefix of it whose length some pattern has: 17 chains at the most for a
// topic of up to 15 bytes, however large the table is. Patterns that are prefixes of 16 bytes and
// more have a word of their own for their lengths: publishing to a short topic does not look there.
#pragma once

#include <denizen/actor/detail/system.hpp>
#include <denizen/actor/program.hpp>
#include <denizen/actor/topic.hpp>
#include <denizen/base/packet.hpp>

namespace denizen {

struct Subscription {
    Packet packet[2]; // key words 0 to 2; key word 3, subscriber, TopicEntry
};

static_assert(sizeof(Subscription) == 32);

// Beside the entries.
struct alignas(line) TopicBoard {
    // Bit n: a pattern of n bytes and '*' is in use, up to 15; bit 16: a topic; bit 17: a pattern
    // of more bytes and '*'.
    uint32_t kinds = 0;
    uint32_t used = 0;                        // filled entries
    uint32_t count[max_topic + 2] = {};       // of these, of each kind
    uint32_t longer[max_topic / 32 + 1] = {}; // bit n: a pattern of n bytes and '*', from 16 on
    TopicKey aim[2];                          // by Priority: topic of the host's next publication,
    unsigned char aim_text[2][max_topic + 1] = {}; // and its text, if that is a long one
    // Bits that a subscriber's address is hashed to: whose subscriptions there may be.
    alignas(line) uint32_t subscribers[64] = {};
};

// On the wire.
struct TopicRequest {
    TopicKey key;
    uint32_t subscriber; // aim: the priority
};

static_assert(sizeof(TopicRequest) <= first_payload);

// A piece of the text of a long topic, in front of the aim.
struct AimText {
    uint32_t word[8];
    uint32_t at; // the piece's number * 2 + the priority

    static constexpr uint32_t bytes = sizeof(word);
    static constexpr uint32_t pieces = (max_topic + 1) / bytes;
};

static_assert(sizeof(AimText) <= first_payload);

namespace detail {

enum class TopicEntry : uint32_t { free = 0, gone, filled }; // all zeros: free

// Kinds of keys: 0 to 15, a prefix of so many bytes; whole_topic; a prefix of more bytes, these
// + 1.
inline constexpr uint32_t whole_topic = max_short_topic + 1;
inline constexpr uint32_t some_longer = whole_topic + 1; // bit of TopicBoard::kinds
inline constexpr uint32_t topic_kinds = max_topic + 2;

DENIZEN_HD inline uint32_t kind_of(const TopicKey& key)
{
    return key.is_prefix() ? key.length() + (key.is_long() ? 1 : 0) : whole_topic;
}

DENIZEN_HD inline uint32_t mix(uint32_t h)
{
    h = (h ^ h >> 16) * 0x7feb352d;
    h = (h ^ h >> 15) * 0x846ca68b;
    return h ^ h >> 16;
}

DENIZEN_HD inline uint32_t hash_of(const TopicKey& key)
{
    uint32_t h = 0;
    DENIZEN_ROLLED
    for (const uint32_t word : key.word) {
        h = mix(h ^ word);
    }
    return h;
}

// An entry as it is read.
struct TopicRead {
    TopicKey key;
    uint32_t subscriber = 0;
    uint32_t sequence = 0;
    TopicEntry entry = TopicEntry::gone; // also if it is changing
};

DENIZEN_HD inline TopicRead read_entry(const Shared& s, uint32_t place)
{
    const Subscription& there = s.subscriptions[place & s.subscription_mask];
    const Packet a = load_packet<Scope::gpu>(&there.packet[0]);
    const Packet b = load_packet<Scope::gpu>(&there.packet[1]);
    TopicRead r;
    if (a.sequence == b.sequence) {
        r.key = {{a.word[0], a.word[1], a.word[2], b.word[0]}};
        r.subscriber = b.word[1];
        r.entry = static_cast<TopicEntry>(b.word[2]);
        r.sequence = a.sequence;
    }
    return r;
}

// ---- changes: worker 0 only, one lane unless it says otherwise

DENIZEN_COLD inline void write_entry(const Shared& s, uint32_t place, const TopicKey& key,
                                     uint32_t subscriber, TopicEntry entry)
{
    Subscription& there = s.subscriptions[place & s.subscription_mask];
    const uint32_t sequence = there.packet[0].sequence + 1;
    store_packet<Scope::gpu>(&there.packet[0], {{key.word[0], key.word[1], key.word[2]}, sequence});
    store_packet<Scope::gpu>(&there.packet[1],
                             {{key.word[3], subscriber, static_cast<uint32_t>(entry)}, sequence});
}

// Tells publishers which kinds there are. Release: whoever is told of the change afterwards finds
// the entries too; on the host the partner is the acquire in publish().
DENIZEN_COLD inline void tell_kinds(const Shared& s)
{
    uint32_t kinds = 0;
    DENIZEN_ROLLED
    for (uint32_t k = 0; k <= whole_topic; ++k) {
        kinds |= s.topics->count[k] != 0 ? 1u << k : 0;
    }
    DENIZEN_ROLLED
    for (uint32_t& lengths : s.topics->longer) {
        kinds |= load<Scope::gpu>(&lengths) != 0 ? 1u << some_longer : 0;
    }
    store<Scope::system, Order::release>(&s.topics->kinds, kinds);
}

// One entry of that kind more, or one less.
DENIZEN_COLD inline void count_kind(const Shared& s, uint32_t kind, bool more)
{
    uint32_t& count = s.topics->count[kind];
    count += more ? 1u : ~0u;
    if (kind > whole_topic) {
        const uint32_t length = kind - 1;
        uint32_t* lengths = &s.topics->longer[length / 32];
        const uint32_t bit = 1u << length % 32;
        const uint32_t now = load<Scope::gpu>(lengths);
        store<Scope::gpu>(lengths, count != 0 ? now | bit : now & ~bit);
    }
}

// False if there is no room. Twice the same is once.
DENIZEN_COLD inline bool add_subscription(const Shared& s, const TopicKey& key, uint32_t subscriber)
{
    const uint32_t home = hash_of(key);
    uint32_t place = ~0u;
    for (uint32_t i = 0; i <= s.subscription_mask; ++i) { // to the chain's end
        const TopicRead r = read_entry(s, home + i);
        if (r.entry == TopicEntry::filled && r.subscriber == subscriber && r.key == key) {
            return true;
        }
        if (r.entry != TopicEntry::filled && place == ~0u) {
            place = i;
        }
        if (r.entry == TopicEntry::free) {
            break;
        }
    }
    if (place == ~0u || s.topics->used > s.subscription_mask / 2) {
        return false;
    }
    write_entry(s, home + place, key, subscriber, TopicEntry::filled);
    ++s.topics->used;
    count_kind(s, kind_of(key), true);
    return true;
}

DENIZEN_COLD inline void empty_entry(const Shared& s, uint32_t place)
{
    --s.topics->used;
    count_kind(s, kind_of(read_entry(s, place).key), false);
    TopicEntry entry = read_entry(s, place + 1).entry;
    if (entry != TopicEntry::free) {
        write_entry(s, place, {}, 0, TopicEntry::gone);
        return;
    }
    do { // ends: half of the table is not filled, and those that are gone become free
        write_entry(s, place, {}, 0, TopicEntry::free);
        entry = read_entry(s, --place).entry;
    } while (entry == TopicEntry::gone);
}

DENIZEN_COLD inline void remove_subscription(const Shared& s, const TopicKey& key,
                                             uint32_t subscriber)
{
    const uint32_t home = hash_of(key);
    for (uint32_t i = 0; i <= s.subscription_mask; ++i) { // to the chain's end
        const TopicRead r = read_entry(s, home + i);
        if (r.entry == TopicEntry::filled && r.subscriber == subscriber && r.key == key) {
            empty_entry(s, home + i);
            return;
        }
        if (r.entry == TopicEntry::free) {
            return;
        }
    }
}

// All subscriptions of an actor; all lanes.
DENIZEN_COLD inline void remove_subscriber(const Shared& s, uint32_t subscriber)
{
    for (uint32_t base = 0; base <= s.subscription_mask; base += lanes::size) {
        const uint32_t i = base + lanes::id();
        const TopicRead r = i <= s.subscription_mask ? read_entry(s, i) : TopicRead{};
        uint32_t found = lanes::ballot(r.entry == TopicEntry::filled && r.subscriber == subscriber);
        for (; found != 0; found &= found - 1) {
            if (lanes::id() == 0) {
                empty_entry(s, base + lanes::first(found));
            }
        }
        lanes::rejoin();
    }
}

// ---- requests

// Any lane of any worker: remembers that this actor may have subscriptions, for its end.
DENIZEN_COLD inline void mark_subscriber(const Shared& s, uint32_t subscriber)
{
    const uint32_t h = mix(subscriber);
    uint32_t* word = &s.topics->subscribers[h / 32 % 64];
    const uint32_t bit = 1u << h % 32;
    uint32_t found = load<Scope::gpu>(word);
    while ((found & bit) == 0 && // ends: a failure means that another bit was set
           !compare_exchange<Scope::gpu>(word, found, found | bit)) {
    }
}

DENIZEN_COLD inline void post_topic(const Shared& s, uint32_t id, uint32_t node, SystemOp op,
                                    uint32_t sender, const TopicRequest& r)
{
    const Header h{Address::actor(0, 0, node).value, sender, static_cast<uint32_t>(op), flag_system,
                   sizeof r};
    post_raw(s, id, h, &r, Priority::urgent);
}

// An actor has stopped.
DENIZEN_COLD inline void forget_subscriber(const Shared& s, uint32_t id, uint32_t subscriber)
{
    const uint32_t h = mix(subscriber);
    if ((load<Scope::gpu>(&s.topics->subscribers[h / 32 % 64]) >> h % 32 & 1) != 0) {
        post_topic(s, id, 0, SystemOp::forget, subscriber, {{}, subscriber});
    }
}

DENIZEN_HD constexpr bool is_topic_op(SystemOp op)
{
    return op == SystemOp::subscribe || op == SystemOp::unsubscribe || op == SystemOp::forget ||
           op == SystemOp::aim || op == SystemOp::aim_text;
}

// For the other hosts of the cluster (src/actor/far_topics.cpp): who subscribes here. Multicasts of
// theirs do so only in this host's tables.
DENIZEN_COLD inline void tell_own_lane(const Shared& s, uint32_t id, SystemOp op,
                                       const TopicRequest& r)
{
    if (!Address{r.subscriber}.is_far()) {
        const Header h{s.far.multicast(s.far.host, 0).value, r.subscriber,
                       static_cast<uint32_t>(op), flag_system, sizeof r};
        post_raw(s, id, h, &r, Priority::data);
    }
}

// At worker 0, all lanes. `later`: another node answers.
DENIZEN_COLD inline Errc change_topics(const Shared& s, uint32_t id, SystemOp op, uint32_t sender,
                                       const uint32_t* words, bool& later)
{
    const auto r = from_words<TopicRequest>(words);
    bool room = true;
    if (op == SystemOp::forget) {
        remove_subscriber(s, r.subscriber);
    }
    if (lanes::id() == 0) {
        if (op == SystemOp::aim_text) {
            const auto piece = from_words<AimText>(words);
            unsigned char* text = s.topics->aim_text[piece.at & 1];
            copy_rolled(text + piece.at / 2 % AimText::pieces * AimText::bytes, words,
                        AimText::bytes);
            return Errc::ok;
        }
        if (op == SystemOp::aim) {
            s.topics->aim[r.subscriber & 1] = r.key;
            return Errc::ok;
        }
        if (op == SystemOp::subscribe) {
            room = add_subscription(s, r.key, r.subscriber);
            mark_subscriber(s, r.subscriber);
        } else if (op == SystemOp::unsubscribe) {
            remove_subscription(s, r.key, r.subscriber);
        }
        tell_kinds(s);
        if (!room) {
            if (!Address{sender}.is_reply_cell()) {
                report_error(s, {static_cast<uint32_t>(Errc::exhausted), id, r.subscriber,
                                 topic_table_full, sender});
            }
            return Errc::exhausted;
        }
        if (s.far.hosts != 0 && s.node == 0) {
            tell_own_lane(s, id, op, r);
        }
        later = s.node + 1 < s.nodes;
        if (later) {
            post_topic(s, id, s.node + 1, op, sender, r);
        }
    }
    return Errc::ok;
}

// ---- publishing

// To the subscribers of one pattern: publish()'s part.
template <class P>
DENIZEN_HD uint32_t publish_to(const Shared& s, uint32_t id, const TopicKey& key, const Header& h,
                               const void* payload, Priority priority, bool whole)
{
    const uint32_t lane = whole ? lanes::id() : 0;
    const uint32_t step = whole ? lanes::size : 1;
    const uint32_t home = hash_of(key);
    uint32_t sent = 0;
    bool more = true;
    for (uint32_t base = 0; more && base <= s.subscription_mask; base += step) {
        const bool inside = base + lane <= s.subscription_mask;
        const TopicRead r = inside ? read_entry(s, home + base + lane) : TopicRead{};
        bool mine = r.entry == TopicEntry::filled && r.key == key;
        more = r.entry != TopicEntry::free;
        if (whole) { // in front of the chain's end
            const uint32_t ends = lanes::ballot(!more);
            mine = mine && lane < lanes::first(ends);
            more = ends == 0;
        }
        bool done = false;
        if (mine) {
            Header each = h;
            each.destination = r.subscriber;
            const Address to{r.subscriber};
            P::keep_buffers(s, h.type, payload);
            done = post_any(s, id, each, payload, priority, P::policy_of(s, to));
            if (!done || !reachable(s, to)) {
                P::drop_buffers(s, h.type, payload);
            }
        }
        sent += whole ? lanes::popcount(lanes::ballot(done)) : done ? 1 : 0;
    }
    return sent;
}

// Sends one message to all subscribers of the topic, as so many sends; returns to how many. `text`:
// of a long topic. `payload`: as outgoing() takes it. `whole`: all lanes of a warp make the call
// with the same arguments, and send side by side.
template <class P>
DENIZEN_COLD uint32_t publish(const Shared& s, uint32_t id, const TopicKey& topic,
                              const unsigned char* text, const Header& h, const void* payload,
                              Priority priority, bool whole)
{
    // Acquire on the host: partner of the release in tell_kinds().
    uint32_t kinds = load<Scope::gpu, host_acquire>(&s.topics->kinds);
    kinds = whole ? lanes::shuffle(kinds, 0) : kinds;
    // Of a short topic: the lengths of all patterns that can match are in the one word. A long one
    // goes on through the words behind it.
    const uint32_t words =
        topic.is_long() && (kinds >> some_longer & 1) != 0 ? max_topic / 32 + 1 : 0;
    kinds &= ~(1u << some_longer);
    uint32_t sent = 0;
    for (uint32_t k = 0;; ++k) { // the first turn: short prefixes and the topic
        for (; kinds != 0; kinds &= kinds - 1) {
            const uint32_t bit = lanes::first(kinds);
            const bool exact = k == 0 && bit == whole_topic;
            const uint32_t length = k == 0 ? bit : 32 * (k - 1) + bit;
            if (!exact && length > topic.length()) {
                continue;
            }
            const TopicKey key = exact             ? topic
                                 : topic.is_long() ? TopicKey::of(text, length, true)
                                                   : topic.prefix(length);
            sent += publish_to<P>(s, id, key, h, payload, priority, whole);
        }
        if (k == words) {
            return sent;
        }
        kinds = load<Scope::gpu>(&s.topics->longer[k]);
        kinds = whole ? lanes::shuffle(kinds, 0) : kinds;
    }
}

} // namespace detail

} // namespace denizen
