// SPDX-License-Identifier: Apache-2.0
#include <denizen/actor/detail/trace_reader.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

namespace denizen {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr uint64_t per_thread = 20'000;
#else
constexpr uint64_t per_thread = 400'000;
#endif

struct alignas(line) Line {
    unsigned char byte[line];
};

// The rings of some workers.
struct Block {
    Block(uint32_t workers, uint32_t capacity_)
        : capacity(capacity_), lines(workers * trace_ring_bytes(capacity_) / line, Line{})
    {
    }
    void* data() { return lines.data(); }
    TraceRing ring(uint32_t worker = 0) { return trace_ring(data(), capacity, worker); }

    uint32_t capacity;
    std::vector<Line> lines;
};

// A record whose every field follows from two numbers, so that a mixed one is found out.
TraceRecord record(uint32_t worker, uint64_t i)
{
    const auto low = static_cast<uint32_t>(i);
    return {i,       ~i,      i * 0x9e37'79b9'7f4a'7c15,
            low,     low + 1, low + 2,
            low + 3, worker,  i % 2 != 0 ? TraceKind::send : TraceKind::handler};
}

bool same(const TraceRecord& a, const TraceRecord& b)
{
    return std::memcmp(&a, &b, sizeof a) == 0; // no padding: 3 x 8 + 6 x 4 bytes
}

void write(Block& block, uint32_t worker, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; ++i) {
        trace(block.ring(worker), record(worker, i));
    }
}

// `records` are those of `worker` from number `from` to before `to`.
void expect_run(const std::vector<TraceRecord>& records, uint32_t worker, uint64_t from,
                uint64_t to)
{
    ASSERT_EQ(records.size(), to - from);
    for (uint64_t i = from; i < to; ++i) {
        ASSERT_TRUE(same(records[i - from], record(worker, i))) << "record " << i;
    }
}

TEST(Trace, LayoutIsThatOfThePythonSide)
{
    EXPECT_EQ(sizeof(TraceRecord), 48u);
    EXPECT_EQ(offsetof(TraceRecord, start_ns), 0u);
    EXPECT_EQ(offsetof(TraceRecord, duration_ns), 8u);
    EXPECT_EQ(offsetof(TraceRecord, stamp), 16u);
    EXPECT_EQ(offsetof(TraceRecord, actor), 24u);
    EXPECT_EQ(offsetof(TraceRecord, actor_type), 28u);
    EXPECT_EQ(offsetof(TraceRecord, other), 32u);
    EXPECT_EQ(offsetof(TraceRecord, message), 36u);
    EXPECT_EQ(offsetof(TraceRecord, worker), 40u);
    EXPECT_EQ(offsetof(TraceRecord, kind), 44u);
    EXPECT_EQ(trace_ring_bytes(2) % line, 0u);
    EXPECT_EQ(trace_ring_bytes(1024), 128u + 1024 * 64);
}

TEST(Trace, RecordsComeOnceAndInOrder)
{
    Block block(1, 16);
    TraceReader reader(1, 16);
    std::vector<TraceRecord> records;
    reader.drain(block.data(), records, false);
    EXPECT_TRUE(records.empty());
    write(block, 0, 0, 5);
    reader.drain(block.data(), records, false);
    expect_run(records, 0, 0, 5);
    reader.drain(block.data(), records, false);
    EXPECT_EQ(records.size(), 5u) << "read again";
    write(block, 0, 5, 21); // exactly what it holds, across its end
    reader.drain(block.data(), records, false);
    expect_run(records, 0, 0, 21);
    EXPECT_EQ(reader.overwritten(), 0u);
}

TEST(Trace, AFullRingKeepsTheLatestAndCountsTheRest)
{
    Block block(1, 8);
    TraceReader reader(1, 8);
    std::vector<TraceRecord> records;
    write(block, 0, 0, 20);
    reader.drain(block.data(), records, true);
    expect_run(records, 0, 12, 20);
    EXPECT_EQ(reader.overwritten(), 12u);
    records.clear();
    write(block, 0, 20, 20 + 9);
    reader.drain(block.data(), records, true);
    expect_run(records, 0, 21, 29);
    EXPECT_EQ(reader.overwritten(), 13u);
}

TEST(Trace, EachWorkerHasItsOwnRing)
{
    Block block(3, 4);
    TraceReader reader(3, 4);
    std::vector<TraceRecord> records;
    write(block, 2, 0, 4);
    write(block, 0, 0, 2);
    write(block, 1, 0, 6);
    reader.drain(block.data(), records, false);
    ASSERT_EQ(records.size(), 10u);
    expect_run({records.begin(), records.begin() + 2}, 0, 0, 2);
    expect_run({records.begin() + 2, records.begin() + 6}, 1, 2, 6);
    expect_run({records.begin() + 6, records.end()}, 2, 0, 4);
    EXPECT_EQ(reader.overwritten(), 2u);
}

TEST(Trace, ARecordBeingWrittenHoldsUpThoseBehindIt)
{
    Block block(1, 8);
    TraceReader reader(1, 8);
    std::vector<TraceRecord> records;
    write(block, 0, 0, 3);
    Slot& slot = block.ring().slots[1];
    const Packet second = slot.packet[2];
    slot.packet[2] = {}; // as if its store were still on the way
    reader.drain(block.data(), records, false);
    expect_run(records, 0, 0, 1);
    slot.packet[2] = second;
    reader.drain(block.data(), records, false);
    expect_run(records, 0, 0, 3);
    EXPECT_EQ(reader.overwritten(), 0u);
}

TEST(Trace, ARecordThatNeverArrivedIsCountedWhenTheProgramHasStopped)
{
    Block block(1, 8);
    TraceReader reader(1, 8);
    std::vector<TraceRecord> records;
    write(block, 0, 0, 3);
    block.ring().slots[1].packet[0] = {};
    reader.drain(block.data(), records, true);
    ASSERT_EQ(records.size(), 2u);
    EXPECT_TRUE(same(records[0], record(0, 0)));
    EXPECT_TRUE(same(records[1], record(0, 2)));
    EXPECT_EQ(reader.overwritten(), 1u);
}

// A copy of a running ring: the tail was read, then a writer went round it.
TEST(Trace, ARecordOverwrittenDuringTheCopyIsCountedNotMixed)
{
    Block block(1, 8);
    TraceReader reader(1, 8);
    std::vector<TraceRecord> records;
    write(block, 0, 0, 8);
    const Slot next_lap = [&] {
        Block other(1, 8);
        write(other, 0, 0, 16);
        return other.ring().slots[3];
    }();
    block.ring().slots[3].packet[1] = next_lap.packet[1]; // one packet of ticket 11 has landed
    reader.drain(block.data(), records, false);
    ASSERT_EQ(records.size(), 7u);
    EXPECT_TRUE(same(records[2], record(0, 2)));
    EXPECT_TRUE(same(records[3], record(0, 4)));
    EXPECT_EQ(reader.overwritten(), 1u);
}

TEST(Trace, OrderAndCountSurviveSequenceWrap)
{
    Block block(1, 8);
    TraceReader reader(1, 8);
    std::vector<TraceRecord> records;
    const uint64_t start = (uint64_t{1} << 32) - 11; // sequences wrap in the second lap
    *block.ring().tail = start;
    write(block, 0, 0, 8);
    reader.drain(block.data(), records, false);
    expect_run(records, 0, 0, 8);
    EXPECT_EQ(reader.overwritten(), start);
    write(block, 0, 8, 16);
    reader.drain(block.data(), records, false);
    write(block, 0, 16, 27);
    reader.drain(block.data(), records, true);
    ASSERT_EQ(records.size(), 24u);
    expect_run({records.begin(), records.begin() + 16}, 0, 0, 16);
    expect_run({records.begin() + 16, records.end()}, 0, 19, 27);
    EXPECT_EQ(reader.overwritten(), start + 3);
}

// Three threads write to one ring while the host drains it: a record is whole or counted, and each
// thread's come in its order.
TEST(Trace, EveryRecordOfConcurrentWritersIsReadWholeOrCounted)
{
    constexpr uint32_t writers = 3;
    for (uint32_t capacity : {2u, 64u, 16'384u}) {
        Block block(1, capacity);
        TraceReader reader(1, capacity);
        std::vector<TraceRecord> records;
        std::atomic<uint32_t> running{writers};
        std::vector<std::thread> threads;
        for (uint32_t w = 0; w < writers; ++w) {
            threads.emplace_back([&, w] {
                for (uint64_t i = 0; i < per_thread; ++i) {
                    trace(block.ring(), record(w, i));
                }
                running.fetch_sub(1);
            });
        }
        while (running.load() != 0) { // ends when the writers have
            reader.drain(block.data(), records, false);
        }
        for (std::thread& t : threads) {
            t.join();
        }
        reader.drain(block.data(), records, true);
        uint64_t expected[writers] = {};
        for (const TraceRecord& r : records) {
            ASSERT_LT(r.worker, writers);
            ASSERT_TRUE(same(r, record(r.worker, r.start_ns)));
            ASSERT_GE(r.start_ns, expected[r.worker]);
            expected[r.worker] = r.start_ns + 1;
        }
        EXPECT_EQ(records.size() + reader.overwritten(), writers * per_thread)
            << "capacity " << capacity;
        EXPECT_TRUE(capacity == 2 || !records.empty());
    }
}

} // namespace
} // namespace denizen
