// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/error.hpp>
#include <denizen/procmine/packer.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace denizen::procmine {
namespace {

// The event as 64 bits, or false if it is too far from the base or its activity too large.
bool write(const Moment& event, int64_t base, uint64_t& out)
{
    const uint64_t offset =
        static_cast<uint64_t>(event.time) - static_cast<uint64_t>(base) + packed::middle;
    out = offset << packed::activity_bits | event.activity;
    return offset < 2 * packed::middle && event.activity >> packed::activity_bits == 0;
}

void check_below(std::span<const uint32_t> values, size_t count, const char* what)
{
    // Without a branch, so that it costs next to nothing; which one it is is asked afterwards.
    uint32_t most = 0;
    for (const uint32_t value : values) most = std::max(most, value);
    if (values.empty() || most < count) return;
    const auto at =
        std::find_if(values.begin(), values.end(), [&](uint32_t v) { return v >= count; });
    throw Error(Errc::bad_argument, "event " + std::to_string(at - values.begin()) + ": " + what +
                                        " " + std::to_string(*at) + " is out of range: there are " +
                                        std::to_string(count) + ", from 0");
}

} // namespace

Packer::Packer(std::vector<uint32_t> addresses, uint32_t activities, int64_t late)
    : addresses_(std::move(addresses)), open_(addresses_.size()), activities_(activities),
      late_(late)
{
    if (late < 0 || late >= int64_t{1} << 62) {
        throw Error(Errc::bad_argument,
                    "late = " + std::to_string(late) + "; it is from 0 to below 2^62 microseconds");
    }
}

Packer::Message Packer::begin(const Moment& event, int64_t bound) const
{
    Message message{};
    uint32_t* words = message.words.data();
    const int64_t base = late_ == 0 ? event.time : bound;
    uint64_t both = 0;
    packed::put(words, static_cast<uint64_t>(base));
    words[8] = (late_ == 0 ? packed::at_once : 0) | 1;
    if (write(event, base, both)) {
        packed::put(words + 2, both);
    } else {
        packed::put(words + 2, static_cast<uint64_t>(event.time));
        words[4] = event.activity;
        words[8] |= packed::wide;
    }
    return message;
}

// Whether the event could be added so that its case does what it had done with one after the other.
bool Packer::append(Message& message, const Moment& event, int64_t bound) const
{
    uint32_t* words = message.words.data();
    const uint32_t count = packed::count(words);
    if (count == packed::most || (words[8] & packed::wide) != 0) return false;
    const int64_t base = packed::base(words);
    uint64_t both = 0;
    if (late_ == 0) {
        if (!write(event, base, both)) return false;
    } else {
        // The bound before this event: what is earlier may come too late, which has to be decided
        // by that bound and not by the next.
        if (event.time < base || !write(event, bound, both)) return false;
        const uint64_t later = static_cast<uint64_t>(bound) - static_cast<uint64_t>(base);
        if (later >= packed::middle) return false;
        for (uint32_t i = 0; i < count; ++i) {
            if (packed::get(words + 2 + 2 * i) >> packed::activity_bits < later) return false;
        }
        for (uint32_t i = 0; i < count; ++i) {
            uint32_t* at = words + 2 + 2 * i;
            packed::put(at, packed::get(at) - (later << packed::activity_bits));
        }
        packed::put(words, static_cast<uint64_t>(bound));
    }
    packed::put(words + 2 + 2 * count, both);
    words[8] += 1;
    return true;
}

void Packer::pack(std::span<const uint32_t> cases, std::span<const uint32_t> activities,
                  std::span<const int64_t> times, std::vector<Message>& messages,
                  std::vector<uint32_t>& targets)
{
    const size_t n = times.size();
    if (cases.size() != n || activities.size() != n) {
        throw Error(Errc::bad_argument, std::to_string(cases.size()) + " cases, " +
                                            std::to_string(activities.size()) + " activities and " +
                                            std::to_string(n) + " times differ in length");
    }
    check_below(cases, addresses_.size(), "case");
    check_below(activities, activities_, "activity");
    messages.clear();
    targets.clear();
    messages.reserve(n / 2);
    std::vector<uint32_t> of_case;
    of_case.reserve(n / 2);
    for (size_t i = 0; i < n; ++i) {
        const Moment event{times[i], activities[i]};
        newest_ = std::max(newest_, event.time);
        const int64_t bound = newest_ - late_;
        uint32_t& open = open_[cases[i]];
        if (open != 0 && append(messages[open - 1], event, bound)) continue;
        messages.push_back(begin(event, bound));
        of_case.push_back(cases[i]);
        open = static_cast<uint32_t>(messages.size());
    }
    targets.reserve(of_case.size());
    for (const uint32_t one : of_case) {
        targets.push_back(addresses_[one]);
        open_[one] = 0;
    }
}

} // namespace denizen::procmine
