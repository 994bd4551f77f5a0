// SPDX-License-Identifier: Apache-2.0
// A kernel's shape as the driver gets it.
#include <denizen/device/launch.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace denizen::gpu;

std::vector<unsigned> attributes_of(const LaunchConfig& config)
{
    std::vector<unsigned> ids;
    for (unsigned i = 0; i < config.attribute_count; ++i) ids.push_back(config.attributes[i].id);
    return ids;
}

TEST(launch, has_a_shape)
{
    const Shape shape{.blocks = {33, 2, 3}, .threads = {64, 4}, .shared_bytes = 1024};
    auto* const stream = reinterpret_cast<Stream>(16);
    const Configured configured(shape, stream);
    const LaunchConfig& config = *static_cast<const LaunchConfig*>(configured);
    EXPECT_EQ((std::vector(config.grid, config.grid + 3)), (std::vector{33u, 2u, 3u}));
    EXPECT_EQ((std::vector(config.block, config.block + 3)), (std::vector{64u, 4u, 1u}));
    EXPECT_EQ(config.shared_bytes, 1024u);
    EXPECT_EQ(config.stream, stream);
    EXPECT_EQ(config.attribute_count, 0u);
    EXPECT_EQ(text_of(shape), "33 blocks of 2 warps");
}

TEST(launch, says_what_blocks_are_to_each_other)
{
    const Configured clustered({.together = true, .cluster = 8}, nullptr);
    const LaunchConfig& both = *static_cast<const LaunchConfig*>(clustered);
    EXPECT_EQ(attributes_of(both), (std::vector{launch_cooperative, launch_cluster_dimension}));
    EXPECT_EQ(both.attributes[0].value.cooperative, 1);
    const unsigned* const cluster = both.attributes[1].value.cluster;
    EXPECT_EQ((std::vector(cluster, cluster + 3)), (std::vector{8u, 1u, 1u}));

    const Configured early({.early = true}, nullptr);
    const LaunchConfig& one = *static_cast<const LaunchConfig*>(early);
    EXPECT_EQ(attributes_of(one), (std::vector{launch_programmatic_serialization}));
    EXPECT_EQ(one.attributes[0].value.programmatic_serialization, 1);
}

} // namespace
