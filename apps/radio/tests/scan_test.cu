// SPDX-License-Identifier: Apache-2.0
// The scan by teams finds what the receiver finds: with a team of one on the CPU always, and by the
// resident receiver on a GPU where the file was compiled by nvcc and there is one.
#include "signal.hpp"

#include <denizen/base/error.hpp>
#include <denizen/radio/detail/candidates.hpp>
#include <denizen/radio/resident_receiver.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

namespace denizen::radio {
namespace {

using test::Signal;

struct OneThread {
    DENIZEN_HD uint32_t rank() const { return 0; }
    DENIZEN_HD uint32_t size() const { return 1; }
    DENIZEN_HD void sync() const {}
    DENIZEN_HD uint32_t count(bool member) const { return member; }
    DENIZEN_HD uint32_t take(uint32_t& counter) const { return counter++; }
};

struct Heard {
    std::string frame;
    uint64_t position;
    uint32_t repaired;
    double level;
    bool operator==(const Heard&) const = default;
};

void PrintTo(const Heard& h, std::ostream* out) { *out << h.frame << " at " << h.position; }

Heard heard(const Message& m) { return {to_hex(m.frame), m.position, m.repaired, m.level}; }

// Crowded, at all levels, with messages across every border of blocks, and a short last block.
std::vector<uint8_t> crowded()
{
    Signal signal(4 * block_samples + 12345, 9);
    std::uniform_real_distribution<> at(0, 4 * block_samples + 12000);
    std::uniform_real_distribution<> snr(6, 32);
    for (int k = 0; k < 300; ++k)
        signal.add(test::squitter(0x400000 + signal.random()() % 16, signal.random()()),
                   at(signal.random()), snr(signal.random()));
    for (int k = 0; k < 60; ++k)
        signal.add(test::all_call(0x400000 + signal.random()() % 16), at(signal.random()), 25);
    for (const double border : {1.0, 2.0, 3.0, 4.0})
        for (const double from : {-700.0, -100.0, 200.0})
            signal.add(test::all_call(0x400001), border * block_samples + from, 28);
    return signal.bytes();
}

std::vector<Heard> by_receiver(const std::vector<uint8_t>& iq)
{
    std::vector<Heard> out;
    const auto sink = [&](const Message& m) { out.push_back(heard(m)); };
    Receiver receiver;
    receiver.feed(iq.data(), iq.size(), sink);
    receiver.finish(sink);
    return out;
}

TEST(ScanBlock, AloneFindsWhatTheReceiverFinds)
{
    const std::vector<uint8_t> iq = crowded();
    const std::vector<Heard> expected = by_receiver(iq);
    EXPECT_GT(expected.size(), 150u);
    std::vector<Heard> got;
    const auto memory = std::make_unique<ScanMemory>();
    Airspace airspace;
    uint64_t free = 0;
    OneThread team;
    const auto samples = static_cast<uint32_t>(iq.size() / 2);
    // Aligned as a team wants it.
    const std::unique_ptr<uint8_t[], decltype(&std::free)> copy(
        static_cast<uint8_t*>(std::aligned_alloc(64, (iq.size() + 63) / 64 * 64)), &std::free);
    std::copy(iq.begin(), iq.end(), copy.get());
    for (uint32_t begin = 0; begin < samples; begin += block_samples) {
        std::vector<Candidate> out(1024);
        const uint32_t count = std::min(block_samples, samples - begin);
        const uint32_t found =
            scan_block(team, copy.get() + 2 * begin, begin, count,
                       std::min(block_samples + reach, samples - begin), *memory, out.data(), 1024);
        ASSERT_LE(found, 1024u);
        believe({out.data(), found}, begin, airspace, free,
                [&](const Message& m) { got.push_back(heard(m)); });
    }
    EXPECT_EQ(got, expected);
}

#if defined(__CUDACC__)
TEST(ScanKernel, FindsWhatTheReceiverFinds)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        GTEST_SKIP() << "this machine has no CUDA device";
    const std::vector<uint8_t> iq = crowded();
    const std::vector<Heard> expected = by_receiver(iq);
    void* memory = nullptr;
    ASSERT_EQ(cudaHostAlloc(&memory, iq.size(), cudaHostAllocDefault), cudaSuccess);
    const std::unique_ptr<void, cudaError_t (*)(void*)> pinned(memory, &cudaFreeHost);
    std::copy(iq.begin(), iq.end(), static_cast<uint8_t*>(memory));
    for (const bool in_place : {false, true}) {
        std::vector<Heard> got;
        const auto sink = [&](const Message& m) { got.push_back(heard(m)); };
        ResidentReceiver receiver(scan_on_gpu(0));
        const auto feed = [&](size_t begin, size_t end) {
            const auto* from = static_cast<const uint8_t*>(memory) + begin;
            if (in_place) {
                receiver.feed_in_place(from, end - begin, sink);
            } else {
                receiver.feed(from, end - begin, sink);
            }
        };
        feed(0, 300'000);
        feed(300'000, iq.size());
        receiver.finish(sink);
        EXPECT_EQ(got, expected);
        EXPECT_EQ(receiver.released(), iq.size() / 2);
    }
}

// Over many breaths, most of them shorter than a block takes, and pauses in which the workers leave
// altogether: the same messages, each once. What waits for the whole device returns meanwhile.
TEST(ScanKernel, GoesOnOverManyBreaths)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        GTEST_SKIP() << "this machine has no CUDA device";
    const std::vector<uint8_t> once = crowded();
    constexpr size_t times = 400;
    const size_t bytes = once.size() / 32 * 32; // of a copy: an even number of samples, aligned
    void* memory = nullptr;
    ASSERT_EQ(cudaHostAlloc(&memory, times * bytes, cudaHostAllocDefault), cudaSuccess);
    const std::unique_ptr<void, cudaError_t (*)(void*)> pinned(memory, &cudaFreeHost);
    auto* const iq = static_cast<uint8_t*>(memory);
    for (size_t k = 0; k < times; ++k) std::copy_n(once.begin(), bytes, iq + k * bytes);
    const std::vector<Heard> expected = by_receiver(std::vector<uint8_t>(iq, iq + times * bytes));
    for (const int us : {100, 300, 2000, 0}) {
        std::vector<Heard> got;
        const auto sink = [&](const Message& m) { got.push_back(heard(m)); };
        ResidentReceiver receiver(scan_on_gpu(0, compiled_code(), std::chrono::microseconds(us)));
        std::atomic<bool> ended = false;
        std::atomic<int> synchronised = 0;
        std::thread beside([&] {
            while (us != 0 && !ended) { // ends with the stream
                EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
                void* some = nullptr;
                EXPECT_EQ(cudaMalloc(&some, 32 << 20), cudaSuccess);
                EXPECT_EQ(cudaFree(some), cudaSuccess);
                ++synchronised;
            }
        });
        for (size_t k = 0; k < times; ++k) {
            receiver.feed_in_place(iq + k * bytes, bytes, sink);
            if (k == times / 2) // behind the limit of 2 s they are off the GPU
                std::this_thread::sleep_for(std::chrono::milliseconds(us == 300 ? 2500 : 20));
        }
        receiver.finish(sink);
        const int before = synchronised;
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (us != 0 && synchronised < before + 3 && std::chrono::steady_clock::now() < deadline)
            std::this_thread::yield();
        EXPECT_TRUE(us == 0 || synchronised >= before + 3) << us;
        ended = true;
        beside.join();
        EXPECT_EQ(got, expected) << us;
        EXPECT_EQ(receiver.released(), times * bytes / 2);
    }
}

TEST(ScanKernel, RefusesMemoryThatTheGpuDoesNotReach)
{
    int devices = 0;
    int pageable = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        GTEST_SKIP() << "this machine has no CUDA device";
    ASSERT_EQ(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, 0), cudaSuccess);
    if (pageable != 0) GTEST_SKIP() << "the GPU reaches all memory of this machine";
    const std::vector<uint8_t> iq(1 << 20, 127);
    ResidentReceiver receiver(scan_on_gpu(0));
    try {
        receiver.feed_in_place(iq.data(), iq.size(), [](const Message&) {});
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::bad_argument);
        EXPECT_NE(std::string(error.what()).find("give pinned memory"), std::string::npos);
    }
}
#endif

} // namespace
} // namespace denizen::radio
