// SPDX-License-Identifier: Apache-2.0
// The resident kernel already runs and polls; then the stream, in pinned memory, is declared there.
// Time runs from that store until the host has believed the last block's messages.
#include "adsb_resident.hpp"
#include "common.hpp"

#include <denizen/radio/candidates.hpp>
#include <denizen/radio/scan_kernel.hpp>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

namespace denizen::bench {

#if defined(__CUDACC__)
namespace {

using radio::Message;

constexpr uint32_t room = 1024; // candidates of a block
constexpr uint64_t limit_ns = 5'000'000'000;

void check(cudaError_t status)
{
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

template <class T>
std::unique_ptr<T[], cudaError_t (*)(void*)> pinned(size_t n)
{
    void* p = nullptr;
    check(cudaHostAlloc(&p, n * sizeof(T), cudaHostAllocDefault));
    std::memset(static_cast<void*>(p), 0, n * sizeof(T));
    return {static_cast<T*>(p), [](void* q) { return cudaFreeHost(q); }};
}

// What identifies a message.
struct Heard {
    uint64_t head, tail, position;
    bool operator==(const Heard&) const = default;
};

} // namespace

void resident_scan(const std::vector<uint8_t>& iq, int gpu, bool quick)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || gpu >= devices) return;
    check(cudaSetDevice(gpu));
    cudaDeviceProp found{};
    check(cudaGetDeviceProperties(&found, gpu));
    print_environment(Json().add("device", static_cast<const char*>(found.name)));

    const size_t times = quick ? 5 : 20;
    const size_t bytes = iq.size() * times;
    const uint64_t samples = bytes / 2;
    const auto blocks =
        static_cast<uint32_t>((samples + radio::block_samples - 1) / radio::block_samples);
    const auto stream = pinned<uint8_t>(bytes);
    for (size_t k = 0; k < times; ++k)
        std::copy(iq.begin(), iq.end(), stream.get() + k * iq.size());
    const auto ready = pinned<uint64_t>(1);
    const auto stop = pinned<uint32_t>(1);
    const auto out = pinned<radio::Candidate>(size_t{blocks} * room);
    const auto counts = pinned<uint32_t>(blocks);
    uint32_t* next = nullptr;
    check(cudaMalloc(&next, sizeof *next));

    std::vector<Heard> expected;
    radio::Receiver receiver;
    const auto expect = [&](const Message& m) {
        expected.push_back({m.frame.head, m.frame.tail, m.position});
    };
    receiver.feed(stream.get(), bytes, expect);
    receiver.finish(expect);

    check(cudaFuncSetAttribute(radio::scan_resident, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(radio::ScanMemory)));
    const uint32_t rounds = quick ? 5 : 21;
    Samples rate(rounds);
    bool right = expected.size() > 100;
    for (uint32_t round = 0; round <= rounds; ++round) { // the first is a warm-up
        std::memset(counts.get(), 0, blocks * sizeof(uint32_t));
        std::memset(static_cast<void*>(out.get()), 0xA5,
                    size_t{blocks} * room * sizeof(radio::Candidate)); // poison
        *ready.get() = 0;
        check(cudaMemset(next, 0, sizeof *next));
        const radio::ScanJob job{stream.get(), samples,      ready.get(), next,    stop.get(),
                                 out.get(),    counts.get(), room,        limit_ns};
        radio::scan_resident<<<static_cast<uint32_t>(found.multiProcessorCount),
                               radio::scan_threads, sizeof(radio::ScanMemory)>>>(job);
        check(cudaGetLastError());
        std::this_thread::sleep_for(std::chrono::milliseconds(20)); // it runs and polls by now
        std::vector<Heard> got;
        got.reserve(expected.size());
        radio::Airspace airspace;
        uint64_t free = 0;
        const uint64_t begin = now_ns();
        radio::detail::System<uint64_t>(ready[0]).store(samples, cuda::memory_order_release);
        bool late = false;
        for (uint32_t b = 0; b < blocks && !late; ++b) {
            uint32_t count = 0;
            // Ends when the block is done, or a second after the kernel's own deadline.
            while (true) {
                count = radio::detail::System<uint32_t>(counts[b]).load(cuda::memory_order_acquire);
                if (count != 0) break;
                if (now_ns() - begin > limit_ns + 1'000'000'000) {
                    late = true;
                    break;
                }
            }
            if (late || count - 1 > room) {
                right = false;
                break;
            }
            radio::believe(
                {out.get() + size_t{b} * room, count - 1},
                static_cast<uint64_t>(b) * radio::block_samples, airspace, free,
                [&](const Message& m) { got.push_back({m.frame.head, m.frame.tail, m.position}); });
        }
        const uint64_t took = now_ns() - begin;
        check(cudaDeviceSynchronize());
        right &= got == expected;
        if (round == 0 || late) continue;
        rate.add(static_cast<double>(samples) / static_cast<double>(took) * 1e3);
    }
    check(cudaFree(next));
    Case one("resident scan", Json().add("memory", "pinned"), "Msps");
    one.n = rounds * samples;
    one.verified = right && rate.size() == rounds;
    if (rate.size() == 0) throw std::runtime_error("the resident scan did not finish");
    one.print(rate);
}
#else
void resident_scan(const std::vector<uint8_t>&, int, bool) {}
#endif

} // namespace denizen::bench
