// SPDX-License-Identifier: Apache-2.0
// Partitions of a GPU's SMs share none, and what cannot be had is refused by name. On a driver that
// is not there (fake_driver.cpp), whose GPU has four SMs that are partitioned by two.
#include "load_fake_driver.hpp"

#include "actor/backend.hpp"
#include <actor/places.hpp>
#include <denizen/device/driver.hpp>

namespace {

using namespace denizen;
using test::expect_error;

FakeDriver* const fake = load_fake_driver(DENIZEN_FAKE_DRIVER);

std::unique_ptr<Backend> program(uint32_t partition, uint32_t sms = 0, int ordinal = 0)
{
    Image image;
    image.cubin.resize(64);
    Options options;
    options.mapped = false;
    options.partition = partition;
    options.sms = sms;
    return make_gpu_backend(image, options, ordinal, {});
}

Description description(const Backend& backend)
{
    Description d;
    backend.describe(d);
    return d;
}

class partition : public testing::Test {
protected:
    void SetUp() override
    {
        ASSERT_NE(fake, nullptr);
        *fake = {};
    }
    void TearDown() override
    {
        EXPECT_EQ(fake->partitioned_sms, 0u);
        EXPECT_EQ(fake->shared_sms, 0u);
        EXPECT_EQ(fake->held, 0);
        EXPECT_EQ(fake->contexts, 0);
    }
};

TEST_F(partition, two_share_no_sm_and_what_is_closed_is_free_again)
{
    auto first = program(2);
    const unsigned of_first = fake->partitioned_sms;
    const auto second = program(2);
    EXPECT_EQ(fake->partitioned_sms, 0b1111u);
    first.reset();
    EXPECT_EQ(fake->partitioned_sms, 0b1111u & ~of_first);
    first = program(2);
    EXPECT_EQ(fake->partitioned_sms, 0b1111u);
}

TEST_F(partition, goes_back_when_its_program_has_ended)
{
    const auto first = program(4);
    EXPECT_TRUE(first->join(0));
    EXPECT_EQ(fake->partitioned_sms, 0u);
    EXPECT_TRUE(first->join(0));
    const auto second = program(4);
    EXPECT_EQ(fake->partitioned_sms, 0b1111u);
}

TEST_F(partition, of_several_groups)
{
    const auto all = program(4);
    EXPECT_EQ(fake->partitioned_sms, 0b1111u);
}

TEST_F(partition, is_told)
{
    const auto backend = program(2);
    EXPECT_EQ(description(*backend).partition, 2u);
    EXPECT_EQ(backend->geometry().workers, 2u) << "all of its SMs, where half of all is the rule";
    EXPECT_EQ(description(*program(2, 1)).partition, 2u);
    EXPECT_EQ(program(2, 1)->geometry().workers, 1u);
    EXPECT_EQ(description(*program(0)).partition, 0u);
}

TEST_F(partition, sizes_that_there_are_not)
{
    const std::string way_out =
        "SMs of Fake GPU are partitioned by 2: use a multiple of that, at most 4";
    for (const uint32_t sms : {1u, 3u, 6u}) {
        expect_error(Errc::bad_argument, "partition = " + std::to_string(sms) + "; " + way_out,
                     [&] { program(sms); });
    }
    expect_error(Errc::bad_argument,
                 "sms = 3; the partition has 2: give it more, or the program fewer",
                 [] { program(2, 3); });
}

TEST_F(partition, more_than_others_leave)
{
    const auto other = program(2);
    expect_error(Errc::exhausted,
                 "partition = 4; of the 4 SMs of Fake GPU that partitions can have, other programs "
                 "of this process leave 2: use a smaller one, or close one of those",
                 [] { program(4); });
    const auto elsewhere = program(4, 0, 1); // another GPU's are not these
}

TEST_F(partition, needs_a_driver_that_has_them)
{
    auto& loaded = const_cast<gpu::Driver&>(gpu::driver());
    const auto entry = std::exchange(loaded.green_ctx_stream_create, nullptr);
    expect_error(Errc::no_device,
                 "partition = 2 needs a driver of CUDA 12.5 or newer; this one is of CUDA 13.0: "
                 "update it, or give no partition",
                 [] { program(2); });
    EXPECT_EQ(program(0)->geometry().workers, 1u) << "others need none";
    loaded.green_ctx_stream_create = entry;
}

} // namespace
