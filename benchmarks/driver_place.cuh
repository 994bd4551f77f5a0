// SPDX-License-Identifier: Apache-2.0
// What the calls of bench_driver work on, and kernels whose runs can be counted.
#pragma once

#include "driver_calls.hpp"

#include <cuda_runtime_api.h>

namespace denizen::bench {

inline void check(cudaError_t error, const char* what)
{
    if (error != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}
#define CHECK(call) check((call), #call)

constexpr uint64_t kib = 1024;
constexpr uint64_t mib = 1024 * kib;
constexpr uint64_t largest = 64 * mib;

// Adds one per launch: the host counts along. Only ever one thread of one kernel at a time.
static __global__ void add_one(uint64_t* total) { *total += 1; }

// What the calls work on; made once, never freed: the process ends with them.
struct Place {
    cudaStream_t stream = nullptr;
    std::vector<cudaStream_t> branches;
    std::vector<cudaEvent_t> events;
    uint64_t* total = nullptr; // on the device
    uint64_t expected = 0;     // what it must be
    uint8_t* pinned = nullptr;
    std::vector<uint8_t> pageable;
    std::vector<uint8_t> pattern;
    uint8_t* device = nullptr;

    static Place& get()
    {
        static Place place;
        return place;
    }

    bool total_is_right()
    {
        uint64_t found = 0;
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(&found, total, sizeof found, cudaMemcpyDeviceToHost));
        return found == expected;
    }

private:
    static constexpr uint32_t branch_count = 100;

    Place() : branches(branch_count), events(branch_count + 2), pageable(largest), pattern(largest)
    {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        for (cudaStream_t& branch : branches)
            CHECK(cudaStreamCreateWithFlags(&branch, cudaStreamNonBlocking));
        for (cudaEvent_t& event : events) CHECK(cudaEventCreate(&event));
        CHECK(cudaMalloc(&total, sizeof *total));
        CHECK(cudaMemset(total, 0, sizeof *total));
        CHECK(cudaMalloc(&device, 2 * largest));
        CHECK(cudaMallocHost(&pinned, largest));
        uint32_t state = 1;
        for (uint8_t& byte : pattern)
            byte = static_cast<uint8_t>((state = state * 747796405u + 1) >> 24);
    }
};

// A call that only launches kernels, `kernels` of which add one each.
inline DriverCall launches(std::string name, Json params, uint64_t kernels,
                           std::function<void()> body)
{
    DriverCall made{std::move(name), std::move(params), {}, {}};
    made.call = [kernels, body = std::move(body)] {
        body();
        Place::get().expected += kernels;
    };
    made.verify = [call = made.call] {
        call();
        return Place::get().total_is_right();
    };
    return made;
}

// driver_graphs.cu
void add_graphs(std::vector<DriverCall>& calls, bool quick);
void add_graph_changes(std::vector<DriverCall>& calls, bool quick);

} // namespace denizen::bench
