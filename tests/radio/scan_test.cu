// SPDX-License-Identifier: Apache-2.0
// The scan by teams finds what the receiver finds: with a team of one on the CPU always, and by the
// resident kernel where the file was compiled by nvcc and there is a GPU.
#include <radio/signal.hpp>

#include <denizen/radio/candidates.hpp>
#include <denizen/radio/scan_kernel.hpp>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

namespace denizen::radio {
namespace {

using test::Signal;

struct Alone {
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
    Alone team;
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
// Pinned memory that both sides see at one address.
template <class T>
std::shared_ptr<T> pinned(size_t n)
{
    void* p = nullptr;
    EXPECT_EQ(cudaHostAlloc(&p, n * sizeof(T), cudaHostAllocDefault), cudaSuccess);
    std::memset(static_cast<void*>(p), 0, n * sizeof(T));
    return {static_cast<T*>(p), [](T* q) { cudaFreeHost(q); }};
}

TEST(ScanKernel, FindsWhatTheReceiverFindsWhileTheStreamArrives)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        GTEST_SKIP() << "this machine has no CUDA device";
    const std::vector<uint8_t> iq = crowded();
    const std::vector<Heard> expected = by_receiver(iq);
    constexpr uint32_t room = 1024;
    const uint64_t samples = iq.size() / 2;
    const auto blocks = static_cast<uint32_t>((samples + block_samples - 1) / block_samples);
    const auto stream = pinned<uint8_t>(iq.size());
    const auto ready = pinned<uint64_t>(1);
    const auto stop = pinned<uint32_t>(1);
    const auto out = pinned<Candidate>(size_t{blocks} * room);
    const auto counts = pinned<uint32_t>(blocks);
    uint32_t* next = nullptr;
    ASSERT_EQ(cudaMalloc(&next, sizeof *next), cudaSuccess);
    ASSERT_EQ(cudaMemset(next, 0, sizeof *next), cudaSuccess);
    ASSERT_EQ(cudaFuncSetAttribute(scan_resident, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   sizeof(ScanMemory)),
              cudaSuccess);
    const ScanJob job{stream.get(), samples, ready.get(),      next, stop.get(), out.get(),
                      counts.get(), room,    20'000'000'000ull};
    scan_resident<<<3, scan_threads, sizeof(ScanMemory)>>>(job);
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
    // The kernel runs; the stream comes in pieces.
    for (uint64_t at = 0; at < samples; at += 50000) {
        const uint64_t n = std::min<uint64_t>(50000, samples - at);
        std::copy_n(iq.data() + 2 * at, 2 * n, stream.get() + 2 * at);
        detail::System<uint64_t>(*ready).store(at + n, cuda::memory_order_release);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess); // ends: the kernel has a deadline
    std::vector<Heard> got;
    Airspace airspace;
    uint64_t free = 0;
    for (uint32_t b = 0; b < blocks; ++b) {
        ASSERT_GT(counts.get()[b], 0u) << b;
        ASSERT_LE(counts.get()[b] - 1, room) << b;
        believe({out.get() + size_t{b} * room, counts.get()[b] - 1},
                static_cast<uint64_t>(b) * block_samples, airspace, free,
                [&](const Message& m) { got.push_back(heard(m)); });
    }
    EXPECT_EQ(got, expected);
    cudaFree(next);
}
#endif

} // namespace
} // namespace denizen::radio
