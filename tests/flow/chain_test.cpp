// SPDX-License-Identifier: Apache-2.0
// The chains that `denizen bench saxpy` and `flow` time are not verified when a sample was left
// out.
#include "../../benchmarks/flow_blocks.hpp"

#include <gtest/gtest.h>

#include <ostream>

namespace denizen::bench {
namespace {

void leaves_out_the_last(float* y, size_t count, float a, float b)
{
    saxpy_by_sample(y, count - 1, a, b);
}

struct Chain {
    size_t kernels;
    bool fake;
};
void PrintTo(const Chain& c, std::ostream* to) { *to << c.kernels << (c.fake ? " fake" : ""); }

class FlowChain : public ::testing::TestWithParam<Chain> {};

TEST_P(FlowChain, IsRightOnlyIfEverySampleWasWorkedOn)
{
    const auto [kernels, fake] = GetParam();
    const auto right = [&](SaxpyKernel kernel) {
        return run_chain(Kind::futex, 1, kernels, 3, 64, 64 * 100, fake, kernel).right;
    };
    EXPECT_TRUE(right(saxpy_by_sample));
    EXPECT_FALSE(right(leaves_out_the_last));
}

INSTANTIATE_TEST_SUITE_P(Chains, FlowChain,
                         ::testing::Values(Chain{1, false}, Chain{3, false}, Chain{2, true}));

} // namespace
} // namespace denizen::bench
