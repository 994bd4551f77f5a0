// SPDX-License-Identifier: Apache-2.0
// The example of docs/flow.md does what the page says, and is the one that stands there.
#include "example.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

namespace {

std::string text_of(const std::string& path)
{
    std::ifstream file(DENIZEN_INCLUDE_DIR "/../" + path);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Example, DoesWhatThePageSays)
{
    const Result result = example();
    EXPECT_EQ(result.samples, (std::vector<float>{50, 130}));
    EXPECT_EQ(result.tags, (std::vector<flow::Tag>{{1, "frequency", 1090e6}}));
}

TEST(Example, IsTheOneOfThePage)
{
    const std::string code = text_of("tests/flow/example.hpp");
    const size_t body = code.find("#include");
    ASSERT_NE(body, std::string::npos);
    EXPECT_NE(text_of("docs/flow.md").find("```cpp\n" + code.substr(body) + "```"),
              std::string::npos);
}

} // namespace
