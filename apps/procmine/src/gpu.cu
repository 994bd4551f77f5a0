// SPDX-License-Identifier: Apache-2.0
#include "gpu.hpp"

#if defined(__CUDACC__)
#include <denizen/device/driver.hpp>
#include <denizen/device/residents.hpp>

#include <denizen/procmine/device.cuh>

#include <optional>
#endif

namespace denizen::procmine {

#if defined(__CUDACC__)
const bool gpu_compiled = true;

struct GpuLog::Held {
    explicit Held(int number) : ordinal(number) {}

    int ordinal;
    std::optional<DeviceLog> log;
};

GpuLog::GpuLog(const Events& events, int ordinal)
    : held_(std::make_unique<Held>(ordinal)), name_(gpu::device_info(ordinal).name)
{
    off_the_gpu("mining", [&] {
        const DeviceScope scope(ordinal);
        held_->log.emplace(events);
    });
}

GpuLog::~GpuLog()
{
    try { // if a program is stuck, the memory stays taken: better than to wait for ever
        const bool done = without_residents([&] {
            const DeviceScope scope(held_->ordinal);
            held_->log.reset();
        });
        if (!done) held_.release();
    } catch (const Error&) { // a dead context: nothing is left to give back
        held_.release();
    }
}

Mined GpuLog::mine(const MineOptions& options)
{
    Mined mined;
    off_the_gpu("mining", [&] {
        const DeviceScope scope(held_->ordinal);
        mined = held_->log->mine(options);
    });
    return mined;
}
#else
const bool gpu_compiled = false;

struct GpuLog::Held {};

GpuLog::GpuLog(const Events&, int)
{
    throw Error(Errc::no_device, "this package was built without CUDA, so logs are mined by the "
                                 "CPU: use device=\"cpu\", or build it with nvcc");
}

GpuLog::~GpuLog() = default;

Mined GpuLog::mine(const MineOptions&) { return {}; }
#endif

} // namespace denizen::procmine
