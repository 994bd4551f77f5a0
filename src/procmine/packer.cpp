// SPDX-License-Identifier: Apache-2.0
#include <denizen/procmine/packer.hpp>

#include "partition.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace denizen::procmine {
namespace {

constexpr size_t events_per_thread = 1 << 14; // fewer are packed before a thread has begun

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

Packer::Packer(std::vector<uint32_t> addresses, uint32_t activities, int64_t late, uint32_t threads)
    : addresses_(std::move(addresses)), open_(addresses_.size()), activities_(activities),
      late_(late), threads_(std::max(threads, 1u))
{
    if (late < 0 || late >= int64_t{1} << 62) {
        throw Error(Errc::bad_argument,
                    "late = " + std::to_string(late) + "; it is from 0 to below 2^62 microseconds");
    }
}

void Packer::begin(Message& message, const Moment& event, int64_t bound) const
{
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

// The cases of one thread: whole cache lines of open_ belong to one.
void Packer::pack_some(std::span<const uint32_t> cases, std::span<const uint32_t> activities,
                       std::span<const int64_t> times, uint32_t thread, uint32_t threads,
                       Batch& out)
{
    const size_t n = times.size();
    out.messages.reserve(n / threads / 2);
    std::vector<uint32_t>& of_case = out.targets; // until the end
    of_case.reserve(n / threads / 2);
    int64_t newest = newest_;
    for (size_t i = 0; i < n; ++i) {
        const uint32_t one = cases[i];
        newest = std::max(newest, times[i]);
        if (threads > 1 && one / 16 % threads != thread) continue;
        const Moment event{times[i], activities[i]};
        const int64_t bound = newest - late_;
        uint32_t& open = open_[one];
        if (open != 0 && append(out.messages[open - 1], event, bound)) continue;
        begin(out.messages.emplace_back(), event, bound);
        of_case.push_back(one);
        open = static_cast<uint32_t>(out.messages.size());
    }
    for (uint32_t& one : of_case) {
        open_[one] = 0;
        one = addresses_[one];
    }
}

std::vector<Packer::Batch> Packer::pack(std::span<const uint32_t> cases,
                                        std::span<const uint32_t> activities,
                                        std::span<const int64_t> times)
{
    const size_t n = times.size();
    if (cases.size() != n || activities.size() != n) {
        throw Error(Errc::bad_argument, std::to_string(cases.size()) + " cases, " +
                                            std::to_string(activities.size()) + " activities and " +
                                            std::to_string(n) + " times differ in length");
    }
    check_below(cases, addresses_.size(), "case");
    check_below(activities, activities_, "activity");
    const uint32_t threads =
        static_cast<uint32_t>(std::clamp<size_t>(n / events_per_thread, 1, threads_));
    std::vector<Batch> batches(threads);
    on_threads(threads,
               [&](uint32_t t) { pack_some(cases, activities, times, t, threads, batches[t]); });
    for (const int64_t time : times) newest_ = std::max(newest_, time);
    return batches;
}

} // namespace denizen::procmine
