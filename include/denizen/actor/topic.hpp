// SPDX-License-Identifier: Apache-2.0
// Topics: names that messages are published to, and the patterns by which actors subscribe to them.
// Both are made at compile time from a literal:
//
//   void on(const Join&, auto& ctx) { ctx.subscribe("market/*"); }
//   void on(const Tick& m, auto& ctx) { ctx.publish("market/EURUSD", Quote{m.price}); }
//
// A topic is 1 to 255 bytes, any but '*'. A pattern is a topic, or a prefix of topics (0 to 255
// bytes) with a '*' behind it. A topic of at most 15 bytes is its own key; of a longer one the key
// is a digest, and the text goes with it to whoever publishes, who looks for its prefixes. Who
// subscribes to what: actor/detail/topics.hpp.
#pragma once

#include <denizen/actor/detail/topic_digest.hpp>
#include <denizen/base/target.hpp>

namespace denizen {

inline constexpr uint32_t max_topic = 255;      // bytes
inline constexpr uint32_t max_short_topic = 15; // of a Topic

// Up to 15 bytes: bytes 0 to 14 are the name, zeros behind it; byte 15 its length. More: bytes 0 to
// 13 are the name's digest, byte 14 its length, and byte 15 is 127. The highest bit of byte 15 says
// that it is a beginning.
struct alignas(16) TopicKey {
    uint32_t word[4] = {};

    DENIZEN_HD constexpr bool is_long() const { return (word[3] >> 24 & 0x7f) == long_mark; }
    DENIZEN_HD constexpr uint32_t length() const
    {
        return is_long() ? word[3] >> 16 & 0xff : word[3] >> 24 & 0x7f;
    }
    DENIZEN_HD constexpr bool is_prefix() const { return word[3] >> 31 != 0; }
    // Whether it is one that of() can have made.
    DENIZEN_HD constexpr bool valid() const { return is_long() == (length() > max_short_topic); }
    DENIZEN_HD constexpr bool operator==(const TopicKey& o) const
    {
        return word[0] == o.word[0] && word[1] == o.word[1] && word[2] == o.word[2] &&
               word[3] == o.word[3];
    }

    // What is behind the 255th byte is cut off.
    template <class Char>
    DENIZEN_HD static constexpr TopicKey of(const Char* text, uint32_t length, bool prefix)
    {
        TopicKey key;
        length = length < max_topic ? length : max_topic;
        uint32_t last = length;
        if (length > max_short_topic) {
            detail::topic_digest(text, length, key.word);
            key.word[3] = (key.word[3] & 0xffff) | length << 16;
            last = long_mark;
        } else {
            for (uint32_t i = 0; i < length; ++i) {
                key.word[i / 4] |= static_cast<uint32_t>(static_cast<unsigned char>(text[i]))
                                   << 8 * (i % 4);
            }
        }
        key.word[3] |= (last | (prefix ? 0x80u : 0u)) << 24;
        return key;
    }
    // The pattern of all that begins as this topic's first n bytes; of a key that is its text.
    DENIZEN_HD constexpr TopicKey prefix(uint32_t n) const
    {
        TopicKey key;
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t kept = n > 4 * i ? n - 4 * i : 0; // bytes of this word
            key.word[i] = kept >= 4 ? word[i] : word[i] & ((1u << 8 * kept) - 1);
        }
        key.word[3] = (key.word[3] & 0xffffff) | (n | 0x80) << 24;
        return key;
    }

private:
    static constexpr uint32_t long_mark = 127;
};

static_assert(sizeof(TopicKey) == 16);

namespace detail {

enum class BadTopic { none, empty, too_long, star };

// What is wrong with a topic, or with a pattern, which may end with a '*'.
DENIZEN_HD constexpr BadTopic check_topic(const char* text, uint32_t length, bool pattern)
{
    const bool prefix = pattern && length > 0 && text[length - 1] == '*';
    const uint32_t n = prefix ? length - 1 : length;
    if (n == 0 && !prefix) {
        return BadTopic::empty;
    }
    if (n > max_topic) {
        return BadTopic::too_long;
    }
    for (uint32_t i = 0; i < n; ++i) {
        if (text[i] == '*') {
            return BadTopic::star;
        }
    }
    return BadTopic::none;
}

DENIZEN_HD constexpr TopicKey key_of(const char* text, uint32_t length, bool pattern)
{
    const bool prefix = pattern && length > 0 && text[length - 1] == '*';
    return TopicKey::of(text, prefix ? length - 1 : length, prefix);
}

// Not defined, so that a literal that is no topic does not compile: these names are what the
// compiler says.
DENIZEN_HD void a_topic_has_1_to_255_bytes();
DENIZEN_HD void a_topic_has_no_star_and_a_pattern_only_at_its_end();

DENIZEN_HD consteval TopicKey literal_key(const char* text, uint32_t length, bool pattern)
{
    switch (check_topic(text, length, pattern)) {
    case BadTopic::none: break;
    case BadTopic::star: a_topic_has_no_star_and_a_pattern_only_at_its_end(); break;
    default: a_topic_has_1_to_255_bytes();
    }
    return key_of(text, length, pattern);
}

} // namespace detail

// One of at most 15 bytes. May be a field of a message or of a state.
struct Topic {
    TopicKey key;

    Topic() = default;
    template <uint32_t N>
        requires(N - 1 <= max_short_topic)
    DENIZEN_HD consteval Topic(const char (&text)[N]) : key(detail::literal_key(text, N - 1, false))
    {
    }
    // For names that are made at run time. What is behind the 15th byte is cut off; that there is
    // one byte at least and no '*' is not checked.
    DENIZEN_HD static constexpr Topic of(const char* text, uint32_t length)
    {
        Topic topic;
        topic.key = TopicKey::of(text, length < max_short_topic ? length : max_short_topic, false);
        return topic;
    }
};

// One of any length: the text with its key. May be a field of a message or of a state.
struct LongTopic {
    TopicKey key;
    unsigned char text[max_topic + 1] = {};

    LongTopic() = default;
    template <uint32_t N>
        requires(N - 1 > max_short_topic)
    DENIZEN_HD consteval LongTopic(const char (&from)[N])
        : key(detail::literal_key(from, N - 1, false))
    {
        for (uint32_t i = 0; i < N - 1 && i < max_topic; ++i) {
            text[i] = static_cast<unsigned char>(from[i]);
        }
    }
    // For names that are made at run time, of at most 15 bytes too. What is behind the 255th byte
    // is cut off; that there is one byte at least and no '*' is not checked.
    DENIZEN_HD static constexpr LongTopic of(const char* from, uint32_t length)
    {
        LongTopic topic;
        topic.key = TopicKey::of(from, length, false);
        for (uint32_t i = 0; i < length && i < max_topic; ++i) {
            topic.text[i] = static_cast<unsigned char>(from[i]);
        }
        return topic;
    }
};

struct TopicPattern {
    TopicKey key;

    TopicPattern() = default;
    DENIZEN_HD constexpr TopicPattern(const Topic& topic) : key(topic.key) {}
    template <uint32_t N>
    DENIZEN_HD consteval TopicPattern(const char (&text)[N])
        : key(detail::literal_key(text, N - 1, true))
    {
    }
    // All topics that begin with these 0 to 255 bytes.
    DENIZEN_HD static constexpr TopicPattern prefix(const char* text, uint32_t length)
    {
        TopicPattern pattern;
        pattern.key = TopicKey::of(text, length, true);
        return pattern;
    }
};

} // namespace denizen
