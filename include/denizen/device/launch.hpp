// SPDX-License-Identifier: Apache-2.0
// How a kernel is launched: its shape, and what its blocks are to each other. Host only.
#pragma once

#include <denizen/device/driver.hpp>

#include <algorithm>
#include <string>
#include <string_view>

namespace denizen::gpu {

struct Shape {
    unsigned blocks[3] = {1, 1, 1};
    unsigned threads[2] = {1, 1}; // of a block
    std::size_t shared_bytes = 0; // of a block, beside its kernel's own
    bool together = false;        // every block is resident, or the launch fails
    unsigned cluster = 0;         // blocks of each cluster; 0: they form none
    bool early = false; // blocks may come while the kernel before is ending, and wait themselves
};

// "33 blocks of 2 warps", in errors.
inline std::string text_of(const Shape& shape)
{
    return std::to_string(shape.blocks[0]) + " blocks of " + std::to_string(shape.threads[0] / 32) +
           " warps";
}

// A shape as the driver asks for it. Points into itself.
class Configured {
public:
    Configured(const Shape& shape, Stream stream)
    {
        std::copy_n(shape.blocks, 3, config_.grid);
        std::copy_n(shape.threads, 2, config_.block);
        config_.shared_bytes = static_cast<unsigned>(shape.shared_bytes);
        config_.stream = stream;
        config_.attributes = attributes_;
        if (shape.together) add(launch_cooperative).cooperative = 1;
        if (shape.early) add(launch_programmatic_serialization).programmatic_serialization = 1;
        if (shape.cluster != 0) {
            unsigned* const blocks = add(launch_cluster_dimension).cluster;
            blocks[0] = shape.cluster;
            blocks[1] = blocks[2] = 1;
        }
    }
    Configured(const Configured&) = delete;
    Configured& operator=(const Configured&) = delete;

    operator const LaunchConfig*() const { return &config_; }

private:
    decltype(LaunchAttribute::value)& add(unsigned id)
    {
        LaunchAttribute& attribute = attributes_[config_.attribute_count++];
        attribute.id = id;
        return attribute.value;
    }

    LaunchConfig config_;
    LaunchAttribute attributes_[3];
};

// With the stream's context current. Arguments must have exactly the kernel's types. `what`: names
// the kernel in an error.
template <class... Arguments>
void launch(Function function, const Shape& shape, Stream stream, std::string_view what,
            Arguments... arguments)
{
    void* pointers[] = {&arguments...};
    const Configured config(shape, stream);
    check(driver().launch_kernel_ex(config, function, pointers, nullptr), "cuLaunchKernelEx", what);
}

} // namespace denizen::gpu
