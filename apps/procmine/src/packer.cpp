// SPDX-License-Identifier: Apache-2.0
#include <denizen/procmine/packer.hpp>

#include "partition.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <exception>
#include <string>
#include <utility>

namespace denizen::procmine {
namespace {

constexpr size_t events_per_thread = 1 << 14; // fewer are packed before a thread has begun
constexpr int64_t never = -(int64_t{1} << 62);
// What is under way at once: the more, the fuller the messages; so many stay in a core's cache.
constexpr size_t most_per_thread = 1 << 16;

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
      late_(late), threads_(std::max(threads, 1u)), newest_(never), per_thread_(threads_)
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

void Packer::take(const Moment& event, uint32_t one, int64_t bound, Batch& out)
{
    uint32_t& open = open_[one];
    if (open != 0 && append(out.messages[open - 1], event, bound)) return;
    begin(out.messages.emplace_back(), event, bound);
    out.targets.push_back(one); // the case, until the batch is given
    open = static_cast<uint32_t>(out.messages.size());
}

void Packer::give(Batch& out, const Send& send)
{
    for (uint32_t& one : out.targets) {
        open_[one] = 0;
        one = addresses_[one];
    }
    struct Emptied { // whatever the sender throws; the memory stays
        Batch& batch;
        ~Emptied()
        {
            batch.messages.clear();
            batch.targets.clear();
        }
    } const emptied{out};
    if (!out.messages.empty()) send(out);
}

void Packer::pack_alone(const Columns& all, const Send& send)
{
    const size_t n = all.times.size();
    for (size_t begin = 0; begin < n; begin += most_per_thread) {
        Batch& out = per_thread_[0].batch;
        for (size_t i = begin; i < std::min(n, begin + most_per_thread); ++i) {
            newest_ = std::max(newest_, all.times[i]);
            take({all.times[i], all.activities[i]}, all.cases[i], newest_ - late_, out);
        }
        give(out, send);
    }
}

// Part `thread` of the events under way, by whose their cases are.
void Packer::deal(const Columns& some, uint32_t thread, uint32_t threads)
{
    const size_t n = some.times.size();
    PerThread& mine = per_thread_[thread];
    mine.dealt.resize(threads);
    for (std::vector<uint32_t>& to : mine.dealt) to.clear();
    mine.newest = never;
    for (size_t i = n * thread / threads; i < n * (thread + 1) / threads; ++i) {
        // Whole cache lines of open_ are one thread's. Fibonacci hashing: without a division, and
        // not every so-many-th case, whose actors may be on few workers.
        const uint32_t spread = some.cases[i] / 16 * 0x9e3779b1u;
        const uint64_t whose = uint64_t{spread} * threads >> 32;
        mine.dealt[whose].push_back(static_cast<uint32_t>(i));
        mine.newest = std::max(mine.newest, some.times[i]);
        if (late_ != 0) newest_in_part_[i] = mine.newest;
    }
}

// Packs what all have dealt to one thread, in order. `newest`: before these events; returns what it
// is after them.
int64_t Packer::take_dealt(const Columns& some, uint32_t thread, uint32_t threads, int64_t newest)
{
    for (uint32_t part = 0; part < threads; ++part) {
        for (const uint32_t i : per_thread_[part].dealt[thread]) {
            const int64_t bound =
                late_ == 0 ? 0 : std::max(newest, newest_in_part_[i]) - late_; // 0: not looked at
            take({some.times[i], some.activities[i]}, some.cases[i], bound,
                 per_thread_[thread].batch);
        }
        newest = std::max(newest, per_thread_[part].newest);
    }
    return newest;
}

void Packer::pack_together(const Columns& all, uint32_t threads, const Send& send)
{
    const size_t n = all.times.size();
    const size_t most = threads * most_per_thread; // under way
    if (late_ != 0) newest_in_part_.resize(most);
    std::atomic<bool> failed = false;
    bool over = false; // changes at the barriers only: all see the same, and leave together
    std::barrier meet(threads, [&]() noexcept { over = failed; });
    std::vector<std::exception_ptr> errors(threads);
    std::vector<int64_t> newest(threads, newest_);
    on_threads(threads, [&](uint32_t t) {
        // Whoever fails still comes to the barrier.
        const auto guarded = [&](auto&& work) {
            try {
                work();
            } catch (...) {
                errors[t] = std::current_exception();
                failed = true;
            }
        };
        for (size_t begin = 0; begin < n; begin += most) {
            const size_t count = std::min(most, n - begin);
            const Columns some{all.cases.subspan(begin, count),
                               all.activities.subspan(begin, count),
                               all.times.subspan(begin, count)};
            guarded([&] { deal(some, t, threads); });
            meet.arrive_and_wait();
            if (over) return;
            guarded([&] {
                newest[t] = take_dealt(some, t, threads, newest[t]);
                give(per_thread_[t].batch, send);
            });
            meet.arrive_and_wait();
            if (over) return;
        }
    });
    newest_ = *std::max_element(newest.begin(), newest.end());
    for (const std::exception_ptr& error : errors) {
        if (error) std::rethrow_exception(error);
    }
}

void Packer::pack(std::span<const uint32_t> cases, std::span<const uint32_t> activities,
                  std::span<const int64_t> times, const Send& send)
{
    const size_t n = times.size();
    if (cases.size() != n || activities.size() != n) {
        throw Error(Errc::bad_argument, std::to_string(cases.size()) + " cases, " +
                                            std::to_string(activities.size()) + " activities and " +
                                            std::to_string(n) + " times differ in length");
    }
    check_below(cases, addresses_.size(), "case");
    check_below(activities, activities_, "activity");
    const auto threads =
        static_cast<uint32_t>(std::clamp<size_t>(n / events_per_thread, 1, threads_));
    const Columns all{cases, activities, times};
    if (threads == 1) {
        pack_alone(all, send);
    } else {
        pack_together(all, threads, send);
    }
}

} // namespace denizen::procmine
