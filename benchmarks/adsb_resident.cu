// SPDX-License-Identifier: Apache-2.0
// The workers already run and poll; then the stream, in memory that they reach, is fed at once.
// Time runs from that call until the host has believed the last block's messages.
#include "adsb_resident.hpp"
#include "common.hpp"

#include <denizen/radio/resident_receiver.hpp>

#include <chrono>
#include <functional>
#include <thread>

namespace denizen::bench {
namespace {

using radio::Message;
using Bytes = std::shared_ptr<uint8_t[]>;

// What identifies a message.
struct Heard {
    uint64_t head, tail, position;
    bool operator==(const Heard&) const = default;
};

// A place for workers, and memory that they reach.
struct Place {
    using Workers = std::function<std::unique_ptr<radio::ScanWorkers>()>;
    Workers workers;
    Workers stays; // the same as one kernel, without breaths; empty on the CPU
    std::function<Bytes(size_t)> memory;
    const char* kind;
};

Place on_cpu(const std::string& device)
{
    const size_t colon = device.find(':');
    const uint32_t threads = colon == std::string::npos
                                 ? 0
                                 : static_cast<uint32_t>(std::atoi(device.c_str() + colon + 1));
    return {[threads] { return radio::scan_on_cpu(threads); },
            {},
            [](size_t n) { return std::make_shared<uint8_t[]>(n); },
            "host"};
}

#if defined(__CUDACC__)
Bytes pinned(size_t n)
{
    void* p = nullptr;
    if (cudaHostAlloc(&p, n, cudaHostAllocDefault) != cudaSuccess)
        throw std::runtime_error("no " + std::to_string(n) + " bytes of pinned memory");
    return {static_cast<uint8_t*>(p), [](uint8_t* q) { cudaFreeHost(q); }};
}

// Empty if there is none.
Place on_gpu(const std::string& device)
{
    const int gpu = device.starts_with("gpu:") ? std::atoi(device.c_str() + 4) : 0;
    int devices = 0;
    cudaDeviceProp found{};
    if (cudaGetDeviceCount(&devices) != cudaSuccess || gpu >= devices ||
        cudaSetDevice(gpu) != cudaSuccess || cudaGetDeviceProperties(&found, gpu) != cudaSuccess)
        return {};
    print_environment(Json().add("device", static_cast<const char*>(found.name)));
    return {[gpu] { return radio::scan_on_gpu(gpu); },
            [gpu] {
                return radio::scan_on_gpu(gpu, radio::compiled_code(),
                                          std::chrono::microseconds(0));
            },
            pinned, "pinned"};
}
#else
Place on_gpu(const std::string&) { return {}; }
#endif

} // namespace

void resident_receiver(const std::vector<uint8_t>& iq, const std::string& device, bool quick)
{
    const bool cpu = device.starts_with("cpu");
    const Place place = cpu ? on_cpu(device) : on_gpu(device);
    if (!place.workers) return;

    const size_t times = cpu ? 2 : quick ? 5 : 20;
    const size_t bytes = iq.size() * times;
    const Bytes stream = place.memory(bytes);
    for (size_t k = 0; k < times; ++k)
        std::copy(iq.begin(), iq.end(), stream.get() + k * iq.size());

    std::vector<Heard> expected;
    std::vector<Heard> got;
    const auto into = [](std::vector<Heard>& to) {
        return [&to](const Message& m) { to.push_back({m.frame.head, m.frame.tail, m.position}); };
    };
    radio::Receiver receiver;
    receiver.feed(stream.get(), bytes, into(expected));
    receiver.finish(into(expected));
    got.reserve(expected.size());

    // Msps
    const auto pass = [&](const Place::Workers& workers, bool in_place, bool& right) {
        radio::ResidentReceiver resident(workers());
        std::this_thread::sleep_for(std::chrono::milliseconds(20)); // they run and poll by now
        got.clear();
        const auto sink = into(got);
        const uint64_t begin = now_ns();
        if (in_place) {
            resident.feed_in_place(stream.get(), bytes, sink);
        } else {
            resident.feed(stream.get(), bytes, sink);
        }
        resident.finish(sink);
        const uint64_t took = now_ns() - begin;
        right &= got == expected;
        return static_cast<double>(bytes / 2) / static_cast<double>(took) * 1e3;
    };
    const uint32_t rounds = quick ? 5 : 21;
    struct Arm {
        const char* name;
        const Place::Workers& workers;
        const char* samples;
        Samples rate;
        bool right;
    };
    std::vector<Arm> arms;
    const auto add = [&](const char* name, const Place::Workers& workers) {
        for (const char* samples : {"in place", "copied"})
            arms.push_back({name, workers, samples, Samples(rounds), expected.size() > 100});
    };
    add("resident receiver", place.workers);
    if (place.stays) add("resident receiver, one kernel", place.stays);
    const auto run = [&](Arm& arm) {
        return pass(arm.workers, arm.samples == std::string("in place"), arm.right);
    };
    for (Arm& arm : arms) run(arm); // warm-up
    interleaved(rounds, arms.size(), [&](size_t k) { arms[k].rate.add(run(arms[k])); });
    for (Arm& arm : arms) {
        Case one(arm.name, Json().add("memory", place.kind).add("samples", arm.samples), "Msps");
        one.n = rounds * (bytes / 2);
        one.verified = arm.right;
        if (place.stays && &arm.workers == &place.workers)
            one.ratio_base = {"resident receiver, one kernel"};
        one.print(arm.rate);
    }
}

} // namespace denizen::bench
