// SPDX-License-Identifier: Apache-2.0
// Many copies at once between the host and a device, over a driver that is not there
// (fake_driver.cpp): what arrives, and how many calls of the driver's it takes.
#include "load_fake_driver.hpp"

#include "device/staged_copies.hpp"

#include <gtest/gtest.h>

#include <random>

namespace {

using namespace denizen;
using namespace denizen::gpu;

FakeDriver* const fake = load_fake_driver(DENIZEN_FAKE_DRIVER);

using Bytes = std::vector<unsigned char>;

class staged_copies : public testing::Test {
protected:
    void SetUp() override
    {
        ASSERT_NE(fake, nullptr);
        Chip::open(chip, device_info(0), "the test", StreamPriority::ordinary,
                   [&] { copies.open(*chip, StreamPriority::ordinary); });
        std::mt19937 random(1);
        for (unsigned char& byte : device) {
            byte = static_cast<unsigned char>(random());
        }
    }
    void TearDown() override { Chip::close(chip); }

    template <class Call>
    int calls_of(Call&& call)
    {
        const int before = fake->calls;
        EXPECT_TRUE(call());
        return fake->calls - before;
    }

    std::unique_ptr<Chip> chip;
    StagedCopies copies;
    Bytes device = Bytes(4 << 20); // the driver that is not there takes this for its own
};

// The pieces of each of many workers: some of all sizes, far apart and next to each other.
struct Places {
    std::vector<size_t> at;
    std::vector<size_t> bytes;
};
Places some_places(size_t memory)
{
    std::mt19937 random(2);
    Places p;
    for (size_t at = 0; at < memory;) {
        const size_t most = size_t{1} << random() % 20;
        const size_t n = std::min<size_t>(random() % most, memory - at);
        p.at.push_back(at);
        p.bytes.push_back(n);
        at += n + (random() % 3 == 0 ? 0 : random() % (1 << random() % 18));
    }
    return p;
}

TEST_F(staged_copies, read_what_lies_at_each_place)
{
    const Places p = some_places(device.size());
    std::vector<Bytes> got;
    std::vector<Copy> all;
    for (size_t i = 0; i < p.at.size(); ++i) {
        got.emplace_back(p.bytes[i]);
    }
    for (size_t i = 0; i < p.at.size(); ++i) {
        all.push_back({device.data() + p.at[i], got[i].data(), p.bytes[i]});
    }
    EXPECT_TRUE(copies.read(all));
    for (size_t i = 0; i < p.at.size(); ++i) {
        EXPECT_TRUE(std::equal(got[i].begin(), got[i].end(),
                               device.begin() + static_cast<ptrdiff_t>(p.at[i])))
            << p.bytes[i] << " bytes at " << p.at[i];
    }
}

TEST_F(staged_copies, write_each_place_and_nothing_beside)
{
    const Places p = some_places(device.size());
    Bytes expected = device;
    std::vector<Bytes> values;
    std::vector<Copy> all;
    for (size_t i = 0; i < p.at.size(); ++i) {
        values.emplace_back(p.bytes[i], static_cast<unsigned char>(i));
        std::fill_n(expected.begin() + static_cast<ptrdiff_t>(p.at[i]), p.bytes[i],
                    static_cast<unsigned char>(i));
    }
    for (size_t i = 0; i < p.at.size(); ++i) {
        all.push_back({device.data() + p.at[i], values[i].data(), p.bytes[i]});
    }
    EXPECT_TRUE(copies.write(all));
    EXPECT_TRUE(device == expected);
}

TEST_F(staged_copies, of_many_workers_take_a_few_calls)
{
    constexpr size_t workers = 500;
    std::vector<Bytes> rows(workers, Bytes(320));
    const auto with_pitch = [&](size_t pitch) {
        std::vector<Copy> all;
        for (size_t w = 0; w < workers; ++w) {
            all.push_back({device.data() + w * pitch, rows[w].data(), rows[w].size()});
        }
        return all;
    };
    // Close together: 8 KB to 256 of the staging, and a wait for each that is full.
    EXPECT_LE(calls_of([&] { return copies.read(with_pitch(8 << 10)); }), 60);
    // Next to each other, as what is written may be.
    EXPECT_LE(calls_of([&] { return copies.write(with_pitch(320)); }), 10);
    // Apart: a copy for each, and one wait.
    EXPECT_LE(calls_of([&] { return copies.write(with_pitch(8 << 10)); }), 510);
}

TEST_F(staged_copies, say_that_the_device_is_lost)
{
    Bytes got(1000);
    const Copy one{device.data(), got.data(), got.size()};
    for (const bool write : {false, true}) {
        for (int call = 1;; ++call) { // ends: a copy makes a few
            fake->fail_at = fake->calls + call;
            const bool done = [&] {
                try {
                    return write ? copies.write({&one, 1}) : copies.read({&one, 1});
                } catch (const Error&) { // its context is not to be had
                    return false;
                }
            }();
            const bool failed = fake->calls >= fake->fail_at;
            fake->fail_at = 0;
            EXPECT_NE(done, failed);
            if (!failed) {
                break;
            }
        }
    }
}

} // namespace
