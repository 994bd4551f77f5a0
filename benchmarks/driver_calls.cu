// SPDX-License-Identifier: Apache-2.0
#include "driver_place.cuh"

#include <denizen/device/driver.hpp>

#include <cstring>
#include <memory>

namespace denizen::bench {
namespace {

template <uint32_t bytes>
struct Parameters {
    uint8_t data[bytes];
};

template <uint32_t bytes>
__global__ void with_parameters(uint64_t* total, Parameters<bytes> parameters)
{
    *total += parameters.data[bytes - 1];
}

__global__ void with_blocks(uint64_t* total)
{
    if (blockIdx.x == 0 && threadIdx.x == 0) *total += 1;
}

// Much code and much shared memory: more to set up than a kernel of one line.
constexpr uint32_t large_shared_bytes = 96 * 1024;
constexpr int large_steps = 512;
__global__ void large_kernel(uint64_t* total, uint64_t one)
{
    extern __shared__ uint64_t kept[];
    const uint32_t place = threadIdx.x % 32;
    kept[place] = one;
    uint64_t x = one;
#pragma unroll
    for (int k = 1; k <= large_steps; ++k)
        x = (x ^ static_cast<uint64_t>(k)) * (one + 2 * k) + kept[place];
    if (blockIdx.x == 0 && threadIdx.x == 0) *total += x == 0 ? 2 : one;
}

__global__ void spin(uint64_t ns)
{
    const uint64_t begin = now_ns();
    while (now_ns() - begin < ns) { // ends by the device's clock
    }
}

// --- copies ---

void add_copies(std::vector<DriverCall>& calls, const std::vector<uint64_t>& sizes,
                bool counted_only)
{
    Place& at = Place::get();
    for (const bool to_device : {true, false}) {
        for (const bool pinned : {true, false}) {
            for (const uint64_t size : sizes) {
                uint8_t* host = pinned ? at.pinned : at.pageable.data();
                DriverCall one;
                one.name = "copy";
                one.params.add("direction", to_device ? "to device" : "to host")
                    .add("memory", pinned ? "pinned" : "pageable")
                    .add("bytes", size);
                one.call = [&at, host, to_device, size] {
                    CHECK(cudaMemcpyAsync(
                        to_device ? at.device : host, to_device ? host : at.device, size,
                        to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, at.stream));
                };
                one.verify = [&at, host, to_device, size, call = one.call] {
                    // The source holds the pattern, the target holds something else.
                    std::vector<uint8_t> found(size);
                    uint8_t* source = to_device ? host : at.device;
                    uint8_t* target = to_device ? at.device : host;
                    CHECK(cudaMemcpy(source, at.pattern.data(), size, cudaMemcpyDefault));
                    CHECK(cudaMemset(at.device + largest, 0xEE, size));
                    CHECK(cudaMemcpy(target, at.device + largest, size, cudaMemcpyDefault));
                    wait_until_idle(); // other streams do not wait for this one
                    call();
                    CHECK(cudaStreamSynchronize(at.stream));
                    CHECK(cudaMemcpy(found.data(), target, size, cudaMemcpyDefault));
                    return std::memcmp(found.data(), at.pattern.data(), size) == 0;
                };
                one.device_us = [&at, call = one.call] {
                    float ms = 0;
                    CHECK(cudaEventRecord(at.events[0], at.stream));
                    call();
                    CHECK(cudaEventRecord(at.events[1], at.stream));
                    CHECK(cudaStreamSynchronize(at.stream));
                    CHECK(cudaEventElapsedTime(&ms, at.events[0], at.events[1]));
                    return 1e3 * static_cast<double>(ms);
                };
                one.most_rounds = size > mib ? 11 : 1000;
                one.counted_only = counted_only;
                calls.push_back(std::move(one));
            }
        }
    }
}

// --- everyday calls ---

template <uint32_t bytes>
void add_launch_with_parameters(std::vector<DriverCall>& calls)
{
    Place& at = Place::get();
    auto parameters = std::make_shared<Parameters<bytes>>();
    std::memset(parameters->data, 1, bytes);
    calls.push_back(
        launches("kernel launch", Json().add("parameter_bytes", bytes + 8).add("blocks", 1), 1,
                 [&at, parameters] {
                     with_parameters<bytes><<<1, 1, 0, at.stream>>>(at.total, *parameters);
                     CHECK(cudaGetLastError());
                 }));
}

// The same launch by each of the runtime's and the driver's functions: of a kernel of one line and
// of a large one. What the extended function costs more is a ratio to the plain one.
void add_launch_by_each_function(std::vector<DriverCall>& calls)
{
    Place& at = Place::get();
    CHECK(cudaFuncSetAttribute(large_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(large_shared_bytes)));
    for (const bool is_large : {false, true}) {
        const auto* kernel = is_large ? reinterpret_cast<const void*>(large_kernel)
                                      : reinterpret_cast<const void*>(add_one);
        const uint32_t shared_bytes = is_large ? large_shared_bytes : 0;
        const auto add = [&](const std::string& function, const std::string& base,
                             std::function<void(void**)> launch) {
            calls.push_back(launches("kernel launch by " + function,
                                     Json().add("kernel", is_large ? "large" : "small"), 1,
                                     [&at, launch = std::move(launch)] {
                                         uint64_t one = 1;
                                         void* arguments[] = {&at.total, &one};
                                         launch(arguments);
                                     }));
            if (!base.empty()) calls.back().ratio_base = {"kernel launch by " + base};
        };
        add("cudaLaunchKernel", "", [&at, kernel, shared_bytes](void** arguments) {
            CHECK(cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, shared_bytes, at.stream));
        });
        add("cudaLaunchKernelExC", "cudaLaunchKernel",
            [&at, kernel, shared_bytes](void** arguments) {
                cudaLaunchConfig_t config{};
                config.gridDim = dim3(1);
                config.blockDim = dim3(1);
                config.dynamicSmemBytes = shared_bytes;
                config.stream = at.stream;
                CHECK(cudaLaunchKernelExC(&config, kernel, arguments));
            });
        const gpu::Driver& driver = gpu::driver();
        cudaFunction_t function = nullptr;
        CHECK(cudaGetFuncBySymbol(&function, kernel));
        add("cuLaunchKernel", "", [&at, &driver, function, shared_bytes](void** arguments) {
            gpu::check(driver.launch_kernel(function, 1, 1, 1, 1, 1, 1, shared_bytes, at.stream,
                                            arguments, nullptr),
                       "cuLaunchKernel");
        });
        add("cuLaunchKernelEx", "cuLaunchKernel",
            [&at, &driver, function, shared_bytes](void** arguments) {
                gpu::LaunchConfig config; // of one thread
                config.shared_bytes = shared_bytes;
                config.stream = at.stream;
                gpu::check(driver.launch_kernel_ex(&config, function, arguments, nullptr),
                           "cuLaunchKernelEx");
            });
    }
}

void launch_with(cudaLaunchAttributeID id, const cudaLaunchAttributeValue& value, uint32_t blocks)
{
    Place& at = Place::get();
    cudaLaunchAttribute attribute{};
    attribute.id = id;
    attribute.val = value;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(32);
    config.stream = at.stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, with_blocks, at.total));
}

// A call whose proof is only that the stream ends without an error.
DriverCall plain(std::string name, Json params, std::function<void()> body)
{
    DriverCall made{std::move(name), std::move(params), body, {}};
    made.verify = [body] {
        body();
        return cudaStreamSynchronize(Place::get().stream) == cudaSuccess;
    };
    return made;
}

void add_launches(std::vector<DriverCall>& calls)
{
    Place& at = Place::get();
    calls.push_back(launches("kernel launch", Json().add("parameter_bytes", 8).add("blocks", 1), 1,
                             [&at] { add_one<<<1, 1, 0, at.stream>>>(at.total); }));
    add_launch_with_parameters<56>(calls);
    add_launch_with_parameters<504>(calls);
    add_launch_with_parameters<4084>(calls);
    add_launch_by_each_function(calls);
    for (const uint32_t blocks : {132u, 65'536u}) {
        calls.push_back(
            launches("kernel launch", Json().add("parameter_bytes", 8).add("blocks", blocks), 1,
                     [&at, blocks] { with_blocks<<<blocks, 32, 0, at.stream>>>(at.total); }));
    }
    cudaLaunchAttributeValue value{};
    value.cooperative = 1;
    calls.push_back(launches("cooperative launch", Json().add("blocks", 132), 1,
                             [value] { launch_with(cudaLaunchAttributeCooperative, value, 132); }));
    int major = 0, ordinal = 0;
    CHECK(cudaGetDevice(&ordinal));
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal));
    if (major >= 9) {
        value = {};
        value.clusterDim.x = 4;
        value.clusterDim.y = value.clusterDim.z = 1;
        calls.push_back(
            launches("cluster launch", Json().add("blocks", 132).add("cluster", 4), 1,
                     [value] { launch_with(cudaLaunchAttributeClusterDimension, value, 132); }));
    }
}

void add_everyday(std::vector<DriverCall>& calls)
{
    Place& at = Place::get();
    calls.push_back(
        plain("event record", {}, [&at] { CHECK(cudaEventRecord(at.events[0], at.stream)); }));
    calls.push_back(plain("stream wait", {},
                          [&at] { CHECK(cudaStreamWaitEvent(at.stream, at.events[1], 0)); }));
    // For an event that has not happened yet: one that has needs no wait on the device.
    calls.back().prepare = [&at] {
        spin<<<1, 1, 0, at.branches[0]>>>(100'000);
        CHECK(cudaEventRecord(at.events[1], at.branches[0]));
    };
    for (const uint64_t bytes : {uint64_t{4}, mib}) {
        DriverCall one{"memset", Json().add("bytes", bytes), {}, {}};
        one.call = [&at, bytes] { CHECK(cudaMemsetAsync(at.device, 0x5A, bytes, at.stream)); };
        one.verify = [&at, bytes, call = one.call] {
            std::vector<uint8_t> found(bytes);
            CHECK(cudaMemset(at.device, 0, bytes));
            wait_until_idle();
            call();
            CHECK(cudaStreamSynchronize(at.stream));
            CHECK(cudaMemcpy(found.data(), at.device, bytes, cudaMemcpyDeviceToHost));
            for (const uint8_t byte : found)
                if (byte != 0x5A) return false;
            return true;
        };
        calls.push_back(std::move(one));
    }
    {
        const auto count = std::make_shared<std::pair<uint64_t, uint64_t>>(); // made, called back
        DriverCall one{"host function", {}, {}, {}};
        one.call = [&at, count] {
            ++count->first;
            const auto body = [](void* data) {
                ++static_cast<std::pair<uint64_t, uint64_t>*>(data)->second;
            };
            CHECK(cudaLaunchHostFunc(at.stream, body, count.get()));
        };
        one.verify = [&at, count, call = one.call] {
            call();
            CHECK(cudaStreamSynchronize(at.stream));
            return count->first == count->second;
        };
        calls.push_back(std::move(one));
    }
    constexpr uint64_t side = 64, pitch = 256;
    for (const uint32_t depth : {1u, 8u}) {
        DriverCall one{
            depth == 1 ? "copy 2D" : "copy 3D", Json().add("bytes", side * side * depth), {}, {}};
        one.call = [&at, depth] {
            cudaMemcpy3DParms shape{};
            shape.srcPtr = make_cudaPitchedPtr(at.pinned, pitch, side, side);
            shape.dstPtr = make_cudaPitchedPtr(at.device, pitch, side, side);
            shape.extent = make_cudaExtent(side, side, depth);
            shape.kind = cudaMemcpyHostToDevice;
            if (depth == 1) {
                CHECK(cudaMemcpy2DAsync(at.device, pitch, at.pinned, pitch, side, side,
                                        cudaMemcpyHostToDevice, at.stream));
            } else {
                CHECK(cudaMemcpy3DAsync(&shape, at.stream));
            }
        };
        one.verify = [&at, depth, call = one.call] {
            const uint64_t size = pitch * side * depth;
            std::vector<uint8_t> found(size);
            std::memcpy(at.pinned, at.pattern.data(), size);
            CHECK(cudaMemset(at.device, 0xEE, size));
            wait_until_idle();
            call();
            CHECK(cudaStreamSynchronize(at.stream));
            CHECK(cudaMemcpy(found.data(), at.device, size, cudaMemcpyDeviceToHost));
            for (uint64_t i = 0; i < size; ++i)
                if (found[i] != (i % pitch < side ? at.pattern[i] : 0xEE)) return false;
            return true;
        };
        calls.push_back(std::move(one));
    }
    const auto block = std::make_shared<void*>(nullptr);
    const auto give = [&at, block] {
        if (*block != nullptr) CHECK(cudaFreeAsync(*block, at.stream));
        *block = nullptr;
    };
    const auto take = [&at, block] { CHECK(cudaMallocAsync(block.get(), mib, at.stream)); };
    calls.push_back(plain("mempool allocate", Json().add("bytes", mib), take));
    calls.back().prepare = give;
    calls.back().verify = [&at, block, give, take] {
        give();
        take();
        CHECK(cudaMemsetAsync(*block, 1, mib, at.stream));
        give();
        return cudaStreamSynchronize(at.stream) == cudaSuccess;
    };
    calls.push_back(plain("mempool free", Json().add("bytes", mib), give));
    calls.back().prepare = [block, take] {
        if (*block == nullptr) take();
    };
}

} // namespace

void wait_until_idle() { CHECK(cudaDeviceSynchronize()); }

std::vector<DriverCall> driver_calls(bool quick, bool sweep)
{
    std::vector<DriverCall> calls;
    add_copies(calls,
               quick ? std::vector<uint64_t>{4, 64 * kib, mib}
                     : std::vector<uint64_t>{4, 64, 512, 2 * kib, 8 * kib, 16 * kib, 32 * kib,
                                             64 * kib, 128 * kib, 512 * kib, 2 * mib, 8 * mib,
                                             32 * mib, 64 * mib},
               false);
    if (sweep) {
        std::vector<uint64_t> steps;
        for (uint64_t size = 20 * kib; size <= 96 * kib; size += 4 * kib)
            if (size != 32 * kib && size != 64 * kib) steps.push_back(size);
        add_copies(calls, steps, true);
    }
    add_graphs(calls, quick);
    add_graph_changes(calls, quick);
    add_launches(calls);
    add_everyday(calls);
    return calls;
}

} // namespace denizen::bench
