// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/error.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace denizen {
namespace {

TEST(Error, EveryCodeHasAName)
{
    std::set<std::string> names;
    const auto last = static_cast<uint32_t>(Errc::no_fit);
    for (uint32_t code = 0; code <= last; ++code) {
        names.insert(to_string(static_cast<Errc>(code)));
    }
    EXPECT_EQ(names.size(), last + 1); // all different
    EXPECT_EQ(names.count("unknown"), 0u);
    EXPECT_STREQ(to_string(static_cast<Errc>(last + 1)), "unknown");
}

TEST(Error, CarriesCodeAndText)
{
    const Error e(Errc::oversize, "message is too large");
    EXPECT_EQ(e.code(), Errc::oversize);
    EXPECT_STREQ(e.what(), "message is too large");
    const std::runtime_error& base = e; // what handlers of standard exceptions catch
    EXPECT_STREQ(base.what(), "message is too large");
}

} // namespace
} // namespace denizen
