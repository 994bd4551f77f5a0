// SPDX-License-Identifier: Apache-2.0
// What every benchmark program does first and last: it reads `--device auto|cpu|cpu:N|gpu:N`,
// `--quick` and `--breath US` (of its resident programs; 0: one kernel for ever; without it what
// users get who say nothing), chooses the device, tells its environment, and turns an exception
// into an exit code. Programs of many arms read `--only TEXT` too: those alone whose title contains
// it. `--breaths`, of tasks and transactions: what a breath costs them, see by_breaths().
#pragma once

#include "common.hpp"
#include <denizen/base/device.hpp>
#include <denizen/device/driver.hpp>

#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#endif

namespace denizen::bench {

struct Arguments {
    denizen::Device device = denizen::Device::cpu(); // decided: never automatic
    uint32_t workers = 0;                            // N of cpu:N, else 0
    bool quick = false;
    std::string only;       // of the arms, those whose title contains it
    int64_t breath_us = -1; // of the programs; 0: one kernel for ever; -1: their default
    bool breaths = false;   // only by_breaths()

    bool wants(const Case& arm) const { return arm.title().find(only) != std::string::npos; }

    bool gpu() const { return device.kind == denizen::Device::Kind::gpu; }
};

// Adds arms three times, which then take turns: with the breath that programs have by default, as
// one kernel for ever, and with the breath again (A/A). `add` gets the arguments to start the
// program with, and what to do with each arm's case.
template <class Add>
void by_breaths(const Arguments& arguments, Add&& add)
{
    static constexpr const char* for_ever = ", one kernel for ever";
    for (const int turn : {0, 1, 2}) {
        Arguments with = arguments;
        if (turn == 1) with.breath_us = 0;
        add(with, [turn](Case& one) {
            one.ratio_base.clear();
            if (turn == 0) one.ratio_base = {one.name + for_ever};
            if (turn == 1) one.name += for_ever;
            one.arm = turn == 2 ? "A/A" : "";
        });
    }
}

// What a program of many arms reads besides.
struct Knows {
    bool only = false;
    bool breaths = false;
};

inline Arguments parse(int argc, char** argv, const Knows& knows)
{
    Arguments arguments;
    std::string device = "auto";
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--quick") {
            arguments.quick = true;
        } else if (word == "--device" && i + 1 < argc) {
            device = argv[++i];
        } else if (word == "--breath" && i + 1 < argc) {
            arguments.breath_us = std::atoll(argv[++i]);
        } else if (knows.breaths && word == "--breaths") {
            arguments.breaths = true;
        } else if (knows.only && word == "--only" && i + 1 < argc) {
            arguments.only = argv[++i];
        } else {
            throw std::runtime_error("usage: " + std::string(argv[0]) +
                                     " [--device auto|cpu|cpu:N|gpu:N] [--quick] [--breath US]" +
                                     (knows.only ? " [--only TEXT]" : "") +
                                     (knows.breaths ? " [--breaths]" : "") + "; not " + word);
        }
    }
    const size_t colon = device.find(':');
    const std::string kind = device.substr(0, colon);
    const int number = colon == std::string::npos ? 0 : std::atoi(device.c_str() + colon + 1);
#if defined(__CUDACC__)
    const bool have_gpu = gpu::driver_present();
    const std::string& why_not = gpu::driver_problem();
#else
    const bool have_gpu = false;
    const std::string why_not = "this program was compiled without CUDA";
#endif
    if (kind == "gpu" && !have_gpu) throw std::runtime_error(device + ": " + why_not);
    if (kind != "gpu" && kind != "cpu" && device != "auto")
        throw std::runtime_error("device " + device + " is none of auto, cpu, cpu:N, gpu:N");
    if (kind == "gpu" || (device == "auto" && have_gpu)) {
        arguments.device = denizen::Device::gpu(number);
    } else {
        arguments.workers = static_cast<uint32_t>(number);
    }
    return arguments;
}

// What the record says of this run. The lab adds driver version, host CPU, commit and time.
inline Json environment(const Arguments& arguments)
{
    Json json;
    json.add("compiler", "gcc " __VERSION__);
#if defined(__CUDACC__)
    if (arguments.gpu()) {
        const int ordinal = arguments.device.ordinal;
        char pci[32] = "";
        cudaDeviceGetPCIBusId(pci, sizeof pci, ordinal);
        json.add("device", gpu::device_info(ordinal).name)
            .add("pci", static_cast<const char*>(pci));
        json.add("cuda", std::to_string(CUDART_VERSION / 1000) + "." +
                             std::to_string(CUDART_VERSION % 1000 / 10));
        json.add("nvcc", std::to_string(__CUDACC_VER_MAJOR__) + "." +
                             std::to_string(__CUDACC_VER_MINOR__) + "." +
                             std::to_string(__CUDACC_VER_BUILD__));
    }
#else
    (void)arguments;
#endif
    return json;
}

// Measures one arm, with nothing resident before and after. What goes wrong there is told with the
// arm's title: a kernel that died would otherwise be an error of whatever calls CUDA next.
template <class Measure>
void told_by(const Arguments& arguments, const Case& arm, Measure&& measure)
{
    std::fprintf(stderr, "%s\n", arm.title().c_str());
    try {
        measure();
#if defined(__CUDACC__)
        const cudaError_t error = arguments.gpu() ? cudaDeviceSynchronize() : cudaSuccess;
        if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
#else
        (void)arguments;
#endif
    } catch (const std::exception& error) {
        throw std::runtime_error(arm.title() + ": " + error.what());
    }
}

// main() of every program. Streams that share one of the GPU's hardware queues wait for each other,
// and one of ours holds a kernel that stays: every stream gets a queue of its own (CUDA's default
// is eight queues), before CUDA starts.
template <class Body>
int run_program(int argc, char** argv, Body body, const Knows& knows = {})
{
    try {
        setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
        const Arguments arguments = parse(argc, argv, knows);
#if defined(__CUDACC__)
        if (arguments.gpu() && cudaSetDevice(arguments.device.ordinal) != cudaSuccess)
            throw std::runtime_error("cudaSetDevice failed");
#endif
        body(arguments);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        return 1;
    }
}

} // namespace denizen::bench
