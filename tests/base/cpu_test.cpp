// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/cpu.hpp>
#include <denizen/base/error.hpp>

#include <gtest/gtest.h>

#include <string>

namespace denizen {
namespace {

TEST(Cpu, KeepsPacketsWholeHere)
{
    EXPECT_TRUE(cpu_keeps_packets_whole());
    EXPECT_NO_THROW(check_cpu());
}

TEST(Cpu, ThatTearsPacketsIsRefused)
{
    try {
        check_cpu(false);
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::no_device);
        EXPECT_NE(std::string(error.what()).find("tear packets"), std::string::npos);
    }
}

} // namespace
} // namespace denizen
