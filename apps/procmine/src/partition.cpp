// SPDX-License-Identifier: Apache-2.0
#include "partition.hpp"
#include <denizen/base/interrupt.hpp>

#include <algorithm>
#include <string>

namespace denizen::procmine {
namespace {

constexpr uint64_t events_per_partition = 1 << 15; // half a MiB of stamps: within a core's L2
constexpr uint32_t most_cases = 1u << 31;
constexpr uint64_t most_partitions = 2048; // each is a place that is written to: too many miss

uint32_t shift_for(const Events& events)
{
    const uint64_t larger = std::max<uint64_t>(events.cases.size(), events.case_count);
    const uint64_t wanted = std::clamp<uint64_t>(larger / events_per_partition, 1, most_partitions);
    uint32_t shift = 0;
    while ((events.case_count - 1) >> shift >= wanted) ++shift; // ends before 31: most_cases
    return shift;
}

[[noreturn]] void refuse(size_t event, const char* what, uint32_t value, uint32_t count)
{
    throw Error(Errc::bad_argument, "event " + std::to_string(event) + " is of " + what + " " +
                                        std::to_string(value) + ": there are " +
                                        std::to_string(count) + ", from 0");
}

} // namespace

void check_columns(const Events& events)
{
    const size_t n = events.cases.size();
    if (events.activities.size() != n || events.times.size() != n) {
        throw Error(Errc::bad_argument, "the columns differ in length: " + std::to_string(n) +
                                            " cases, " + std::to_string(events.activities.size()) +
                                            " activities, " + std::to_string(events.times.size()) +
                                            " times");
    }
    if (n >> 32 != 0) {
        throw Error(Errc::bad_argument, std::to_string(n) +
                                            " events are more than the 2^32 - 1 of one log; mine "
                                            "parts of it that share no case");
    }
    if (events.case_count > most_cases) {
        throw Error(Errc::bad_argument, std::to_string(events.case_count) +
                                            " cases are more than 2^31; number them from 0");
    }
    if (n != 0 && events.case_count == 0) refuse(0, "case", events.cases[0], 0);
}

Partitions partition(const Events& events, uint32_t threads)
{
    Partitions all;
    const size_t n = events.cases.size();
    all.shift = shift_for(events);
    const uint32_t parts = ((events.case_count - 1) >> all.shift) + 1;
    all.words = pages<uint64_t>(2 * n);
    all.begins.resize(size_t{parts} + 1);

    // Each thread counts its piece of the log, then knows where its events of a partition begin:
    // after those of the threads before it.
    std::vector<std::vector<uint64_t>> places(threads, std::vector<uint64_t>(parts));
    const auto piece = [&](uint32_t thread) { return n * thread / threads; };
    on_threads(threads, [&](uint32_t t) {
        std::vector<uint64_t>& counts = places[t];
        interruptibly(piece(t), piece(t + 1), [&](size_t i) {
            const uint32_t one = events.cases[i];
            if (one >= events.case_count) refuse(i, "case", one, events.case_count);
            if (events.activities[i] >= events.activity_count) {
                refuse(i, "activity", events.activities[i], events.activity_count);
            }
            ++counts[one >> all.shift];
        });
    });
    uint64_t sum = 0;
    for (uint32_t p = 0; p < parts; ++p) {
        all.begins[p] = sum;
        for (std::vector<uint64_t>& of_thread : places) {
            const uint64_t count = of_thread[p];
            of_thread[p] = sum;
            sum += count;
        }
    }
    all.begins[parts] = sum;
    on_threads(threads, [&](uint32_t t) {
        std::vector<uint64_t>& place = places[t];
        interruptibly(piece(t), piece(t + 1), [&](size_t i) {
            const uint32_t one = events.cases[i];
            uint64_t* to = all.words.get() + 2 * place[one >> all.shift]++;
            to[0] = static_cast<uint64_t>(events.times[i]);
            to[1] = uint64_t{one} << 32 | events.activities[i];
        });
    });
    return all;
}

} // namespace denizen::procmine
