// SPDX-License-Identifier: Apache-2.0
// Copies by the driver, large enough to be as fast as they get: the limit of whatever goes the same
// way in the same run. Before anything is resident.
#pragma once

#include "../common.hpp"
#include "cuda.cuh"

namespace denizen::bench {

// GB/s: to the device and to the host from pinned memory, and within the device, where each byte is
// read and written and counts once. By turns, the first one twice (A/A). The bytes are compared.
inline void print_copies(bool quick)
{
    constexpr size_t bytes = 64 << 20;
    const uint32_t rounds = quick ? 3 : 9;
    Buffer<uint8_t, Place::pinned> host(bytes);
    Buffer<uint8_t, Place::device> there(bytes);
    Buffer<uint8_t, Place::device> other(bytes);
    const OwnStream stream;
    const auto copy = [&](void* to, const void* from) {
        const uint64_t begin = now_ns();
        check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copy");
        stream.synchronize();
        return static_cast<double>(bytes) / static_cast<double>(now_ns() - begin);
    };
    constexpr const char* ways[] = {"to device", "to host", "on the device", "to device"};
    const auto one = [&](size_t way) {
        if (way == 1) return copy(host.get(), other.get());
        if (way == 2) return copy(other.get(), there.get());
        return copy(there.get(), host.get());
    };
    for (size_t i = 0; i < bytes; ++i) host.get()[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
    for (size_t way : {0u, 2u}) one(way);
    std::fill_n(host.get(), bytes, uint8_t{0});
    one(1); // there and back again
    bool right = true;
    for (size_t i = 0; i < bytes; ++i)
        right &= host.get()[i] == static_cast<uint8_t>(i * 2654435761u >> 24);
    std::vector<Samples> samples(std::size(ways), Samples(rounds));
    interleaved(rounds, samples.size(), [&](size_t way) { samples[way].add(one(way)); });
    for (size_t way = 0; way < samples.size(); ++way) {
        Case result("driver's copy", Json().add("direction", ways[way]), "GB/s");
        result.n = rounds;
        result.verified = right;
        if (way == 3) result.arm = "A/A";
        result.print(samples[way]);
    }
}

} // namespace denizen::bench
