// SPDX-License-Identifier: Apache-2.0
// Learning from RM's ioctls: handles of several clients, duplicates, what goes when something is
// freed, and which mapping is which.
#include "lens/channels.hpp"
#include "lens/objects.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <vector>

using namespace denizen::lens;

namespace {

constexpr uint64_t request(uint32_t number, uint32_t bytes)
{
    return 3u << 30 | bytes << 16 | 'F' << 8 | number;
}

// Each test has a client of its own: the tables are those of the process.
class ObjectsTest : public testing::Test {
protected:
    void SetUp() override
    {
        static uint32_t clients = 0xc1d00000;
        the_objects.set_abi(abi_table[0]);
        client = ++clients;
    }

    void alloc(uint32_t parent, uint32_t handle, uint32_t class_id, void* params = nullptr,
               uint32_t status = 0)
    {
        uint32_t a[12] = {client, parent, handle, class_id};
        std::memcpy(a + 4, &params, 8);
        a[10] = status;
        the_objects.after_ioctl(request(0x2b, sizeof a), a);
    }

    void device(uint32_t handle, uint32_t instance)
    {
        uint32_t params[14] = {instance};
        alloc(client, handle, 0x80, params);
    }

    uint32_t channel(uint32_t parent, uint32_t handle, uint64_t gpfifo, uint32_t memory,
                     uint64_t offset, uint32_t engine = 0)
    {
        char params[0x170] = {};
        const uint32_t entries = 512;
        std::memcpy(params + 8, &gpfifo, 8);
        std::memcpy(params + 0x10, &entries, 4);
        std::memcpy(params + 0x20, &memory, 4);
        std::memcpy(params + 0x40, &offset, 8);
        std::memcpy(params + 0x80, &engine, 4);
        alloc(parent, handle, 0xc86f, params);
        return channels.find(client, handle);
    }

    void free(uint32_t handle)
    {
        uint32_t a[4] = {client, 0, handle, 0};
        the_objects.after_ioctl(request(0x29, sizeof a), a);
    }

    void map(int fd, uint32_t parent, uint32_t memory, uint64_t offset, uint64_t bytes)
    {
        uint32_t a[14] = {client, parent, memory};
        std::memcpy(a + 4, &offset, 8);
        std::memcpy(a + 6, &bytes, 8);
        a[12] = static_cast<uint32_t>(fd);
        the_objects.after_ioctl(request(0x4e, sizeof a), a);
    }

    uint32_t client = 0;
};

TEST_F(ObjectsTest, AMappingThatMovedIsFoundWhereItIs)
{
    device(1, 0);
    ASSERT_TRUE(the_objects.opened(61, "/dev/nvidia0"));
    map(61, 1, 7, 0, 0x4000);
    the_objects.mapped(61, 0x10000000, 0x4000);
    const uint32_t early = channel(1, 100, 0x10000000, 7, 0x2000);
    ASSERT_NE(early, none);
    EXPECT_EQ(channels.at(early).userd.load(), 0x10002000u);
    the_objects.moved(0x10000000, 0x4000, 0x30000000);
    EXPECT_EQ(channels.at(early).userd.load(), 0x30002000u);
    const uint32_t late = channel(1, 101, 0x10001000, 7, 0x3000);
    ASSERT_NE(late, none);
    EXPECT_EQ(channels.at(late).userd.load(), 0x30003000u);
}

TEST_F(ObjectsTest, AChannelAndItsParts)
{
    uint32_t group[8] = {0, 0, 0, 9};
    device(1, 3);
    alloc(1, 2, 0xa06c, group);
    the_objects.opened(40, "/dev/nvidia0");
    map(40, 1, 77, 0, 0x200000);
    EXPECT_TRUE(the_objects.expect(40, 0x200000, PROT_READ | PROT_WRITE, MAP_SHARED).is_known);
    the_objects.mapped(40, 0x7000'0000, 0x200000);
    the_objects.closed(40);
    EXPECT_FALSE(the_objects.is_device(40));
    const uint32_t n = channel(2, 10, 0x5000, 77, 0x1234000);
    ASSERT_NE(n, none);
    const Channel& c = channels.at(n);
    EXPECT_EQ(c.gpu, 3u);
    EXPECT_EQ(c.engine, 9u); // the group's
    EXPECT_EQ(c.entries, 512u);
    EXPECT_EQ(c.userd.load(), 0u); // its place is not in what is mapped
    const uint32_t m = channel(2, 11, 0x5000, 77, 0x2000, 1);
    EXPECT_EQ(channels.at(m).engine, 1u);
    EXPECT_EQ(channels.at(m).userd.load(), 0x7000'2000u);

    uint32_t control[8] = {client, 10, 0xc36f0108}, token = 0x20011;
    const void* pointer = &token;
    std::memcpy(control + 4, &pointer, 8);
    the_objects.after_ioctl(request(0x2a, sizeof control), control);
    EXPECT_EQ(c.token(), 0x20011u);
    EXPECT_EQ(channels.find_token(3, 0x20011), n);
    EXPECT_EQ(channels.find_token(0, 0x20011), none); // another GPU
    free(10);
    EXPECT_EQ(channels.find_token(3, 0x20011), none);
    // The hardware gives the number to the next channel.
    const uint32_t next = channel(2, 12, 0x5000, 77, 0x2000);
    channels.set_token(next, 0x20011, false);
    EXPECT_EQ(channels.find_token(3, 0x20011), next);
}

// The memory is mapped under another handle: found by the ring, which lies in the same object.
TEST_F(ObjectsTest, UserdBesideTheRing)
{
    device(1, 0);
    const uint32_t n = channel(1, 10, 0x9000'3000, 55, 0x5000);
    the_objects.opened(41, "/dev/nvidia0");
    map(41, 1, 56, 0, 0x200000);
    the_objects.mapped(41, 0x9000'0000, 0x200000);
    EXPECT_EQ(channels.at(n).userd.load(), 0x9000'5000u);
    the_objects.unmapped(0x9000'0000, 0x200000);
    const uint32_t m = channel(1, 11, 0x9000'3000, 55, 0x5000);
    EXPECT_EQ(channels.at(m).userd.load(), 0u);
}

TEST_F(ObjectsTest, WhatGoesWithWhat)
{
    device(1, 0);
    alloc(1, 2, 0xa06c);
    const uint32_t a = channel(2, 10, 0x5000, 0, 0), b = channel(2, 11, 0x5000, 0, 0);
    const uint32_t c = channel(1, 12, 0x5000, 0, 0);
    const auto is_live = [](uint32_t n) {
        return channels.at(n).state.load() == Channel::State::live;
    };
    free(999); // not known
    free(11);
    EXPECT_TRUE(is_live(a) && !is_live(b) && is_live(c));
    free(2); // the group
    EXPECT_TRUE(!is_live(a) && is_live(c));
    const uint32_t mine = client;
    ++client;
    device(1, 0);
    const uint32_t other = channel(1, 12, 0x5000, 0, 0);
    client = mine;
    free(client); // all of it
    EXPECT_FALSE(is_live(c));
    EXPECT_TRUE(is_live(other));
    client = mine + 1;
    free(12);
    EXPECT_FALSE(is_live(other));
}

TEST_F(ObjectsTest, RefusedCallsTeachNothing)
{
    device(1, 0);
    uint32_t group[8] = {0, 0, 0, 9};
    alloc(1, 2, 0xa06c, group, 0x1f);
    EXPECT_EQ(channels.at(channel(2, 10, 0x5000, 0, 0)).engine, 0u);
    const uint32_t before = channels.count();
    alloc(1, 20, 0xc86f, nullptr); // no parameters: nothing to learn
    EXPECT_EQ(channels.count(), before);
    the_objects.after_ioctl(request(0x2b, 0x30), nullptr);
    the_objects.after_ioctl(3u << 30 | 16 << 16 | 'U' << 8 | 0x2b,
                            "not RM's, so not even looked at");
}

TEST_F(ObjectsTest, DoorbellPages)
{
    uint8_t bar1[2] = {1, 0};
    device(1, 5);
    alloc(1, 2, 0x2080);
    alloc(2, 3, 0xc661, bar1);
    alloc(2, 4, 0xc461); // an older class has no parameters
    uint32_t dup[7] = {client, 2, 6, client, 3};
    the_objects.after_ioctl(request(0x34, sizeof dup), dup);
    the_objects.opened(42, "/dev/nvidia7");
    const auto expect = [&](uint32_t memory, uint64_t bytes, int protection) {
        map(42, 2, memory, 0, bytes);
        return the_objects.expect(42, bytes, protection, MAP_SHARED);
    };
    Mapping m = expect(3, 0x10000, PROT_WRITE);
    EXPECT_TRUE(m.is_doorbell);
    EXPECT_EQ(m.gpu, 5u);
    EXPECT_EQ(m.bar1, 1u);
    EXPECT_EQ(m.class_id, 0xc661u);
    EXPECT_TRUE(expect(6, 0x10000, PROT_WRITE).is_doorbell);
    m = expect(4, 0x10000, PROT_READ | PROT_WRITE);
    EXPECT_TRUE(m.is_doorbell);
    EXPECT_EQ(m.bar1, none);
    EXPECT_TRUE(expect(99, 0x10000, PROT_WRITE).is_doorbell); // by its shape
    EXPECT_FALSE(expect(99, 0x10000, PROT_READ | PROT_WRITE).is_doorbell);
    EXPECT_FALSE(expect(99, 0x1000, PROT_WRITE).is_doorbell);
    the_objects.duplicated(42, 43);
    EXPECT_TRUE(the_objects.is_device(43));
}

TEST_F(ObjectsTest, DeviceFiles)
{
    EXPECT_TRUE(the_objects.opened(50, "/dev/nvidiactl"));
    EXPECT_TRUE(the_objects.opened(50, "/dev/nvidia12"));
    EXPECT_FALSE(the_objects.opened(50, "/dev/nvidia-uvm"));
    EXPECT_FALSE(the_objects.opened(50, "/dev/nvidia-modeset"));
    EXPECT_FALSE(the_objects.opened(50, "/dev/null"));
    EXPECT_FALSE(the_objects.opened(-1, "/dev/nvidia0"));
    EXPECT_FALSE(the_objects.opened(1 << 20, "/dev/nvidia0"));
    EXPECT_FALSE(the_objects.is_device(1 << 20));
}

} // namespace
