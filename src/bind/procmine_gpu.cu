// SPDX-License-Identifier: Apache-2.0
#include "procmine_gpu.hpp"

#if defined(__CUDACC__)
#include "../backend.hpp"
#include "../gpu/driver.hpp"

#include <denizen/procmine/device.cuh>
#endif

namespace denizen::bind::procmine_gpu {

#if defined(__CUDACC__)
const bool compiled = true;

procmine::Mined mine(const procmine::Events& events, int ordinal,
                     const procmine::MineOptions& options, std::string& name)
{
    procmine::check_columns(events);
    name = gpu::device_info(ordinal).name;
    procmine::Mined mined;
    // It takes and frees memory, which waits for what is resident.
    const bool done = without_residents([&] {
        const procmine::DeviceScope scope(ordinal);
        mined = procmine::DeviceLog(events).mine(options);
    });
    if (!done) {
        throw Error(Errc::stuck, "mining has to wait until the programs of this process have left "
                                 "the GPU, and one of their handlers is stuck");
    }
    return mined;
}
#else
const bool compiled = false;

procmine::Mined mine(const procmine::Events&, int, const procmine::MineOptions&, std::string&)
{
    throw Error(Errc::no_device, "this package was built without CUDA, so logs are mined by the "
                                 "CPU: use device=\"cpu\", or build it with nvcc");
}
#endif

} // namespace denizen::bind::procmine_gpu
