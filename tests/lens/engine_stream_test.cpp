// SPDX-License-Identifier: Apache-2.0
// The words of bench_driver's own submissions are, for the same copy, those that libcuda 580.159.04
// sent on an H100 (captures/h100-580.159.04-small.lens.gz, doorbells 212 and 240).
#include "benchmarks/engine_stream.hpp"

#include <gtest/gtest.h>
#include <numeric>
#include <vector>

using namespace denizen::bench;

namespace {

TEST(EngineStream, AnInlineCopyIsTheDrivers)
{
    std::vector<uint32_t> words(100);
    EngineStream stream(words);
    const uint32_t data = 0x04040404;
    stream.inline_copy(0x7fad1be00400, {&data, 1});
    stream.stamp(Engine::inlined, 0x20460fff0, 0x5f);
    words.resize(stream.size());
    EXPECT_EQ(words, (std::vector<uint32_t>{0x20022062, 0x7fad, 0x1be00400, 0x20022060, 4, 1,
                                            0x2001206c, 0x41, 0x6001206d, 0x04040404, 0x200426c0, 2,
                                            0x460fff0, 0x5f, 0}));
}

TEST(EngineStream, ACopyByTheEngineIsTheDrivers)
{
    std::vector<uint32_t> words(100);
    EngineStream stream(words);
    stream.engine_copy(0x7fad1be00400, 0x7fad20a00000, 0x10000);
    stream.stamp(Engine::copy, 0x20460ff70, 0x5d);
    words.resize(stream.size());
    EXPECT_EQ(words, (std::vector<uint32_t>{0x20048100, 0x7fad, 0x20a00000, 0x7fad, 0x1be00400,
                                            0x20018106, 0x10000, 0x200180c0, 0x182, 0x20038090, 2,
                                            0x460ff70, 0x5d, 0x200180c0, 0x14}));
}

TEST(EngineStream, DataThatOnePacketCannotHoldGoesInSeveral)
{
    std::vector<uint32_t> data(2 * 8191 + 5), found;
    std::iota(data.begin(), data.end(), 1000u);
    const auto bytes = static_cast<uint32_t>(data.size() * 4);
    std::vector<uint32_t> words(EngineStream::words_of(Engine::inlined, bytes));
    EngineStream stream(words);
    stream.inline_copy(0x1000, data);
    EXPECT_LE(stream.size(), words.size());
    EXPECT_EQ(words[4], bytes);
    std::vector<uint32_t> counts;
    for (size_t at = 8; at < stream.size();) {
        EXPECT_EQ(words[at] & ~0x1fff0000u, 0x6000206du);
        counts.push_back(words[at] >> 16 & 0x1fff);
        found.insert(found.end(), words.begin() + static_cast<long>(at) + 1,
                     words.begin() + static_cast<long>(at) + 1 + counts.back());
        at += 1 + counts.back();
    }
    EXPECT_EQ(counts, (std::vector<uint32_t>{8191, 8191, 5}));
    EXPECT_EQ(found, data);
}

TEST(EngineStream, AFullBufferIsNamed)
{
    std::vector<uint32_t> words(8);
    EngineStream stream(words);
    EXPECT_THROW(stream.engine_copy(1, 2, 3), std::length_error);
}

} // namespace
