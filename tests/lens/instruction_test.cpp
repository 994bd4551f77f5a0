// SPDX-License-Identifier: Apache-2.0
// The instruction decoder. Expected lengths and operands were read off an assembler's listing; that
// the instructions do what the processor does is tested by capture_test.cpp, which runs them.
#include "lens/instruction.hpp"

#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace denizen::lens;
using Action = Instruction::Action;
using Source = Instruction::Source;

namespace {

struct Case {
    const char* text;
    std::vector<uint8_t> code;
    Action action;
    int width, length, base;
    int64_t displacement;
    uint64_t value; // what a store writes, with the registers of below
};

Registers registers()
{
    Registers r{};
    for (uint64_t k = 0; k < 16; ++k) {
        r.general[k] = 0x1000'0000'0000'0000 * (k + 1) / 2 + 0x8899'aabb'00 + k * 0x0101;
        r.vector[k] = 0xfedc'ba98'7654'3200 + k;
    }
    r.rip = 0x400000;
    return r;
}

uint64_t general(int k, int width)
{
    const uint64_t value = registers().general[k];
    return width == 8 ? value : value & ((uint64_t{1} << 8 * width) - 1);
}

const Case cases[] = {
    {"mov %ecx,(%rax)", {0x89, 0x08}, Action::store, 4, 2, 0, 0, general(1, 4)},
    {"mov %ecx,0x90(%rdi)",
     {0x89, 0x8f, 0x90, 0, 0, 0},
     Action::store,
     4,
     6,
     7,
     0x90,
     general(1, 4)},
    {"mov %r9d,-8(%r12)",
     {0x45, 0x89, 0x4c, 0x24, 0xf8},
     Action::store,
     4,
     5,
     12,
     -8,
     general(9, 4)},
    {"mov %rcx,(%rax)", {0x48, 0x89, 0x08}, Action::store, 8, 3, 0, 0, general(1, 8)},
    {"mov %cx,(%rax)", {0x66, 0x89, 0x08}, Action::store, 2, 3, 0, 0, general(1, 2)},
    {"mov %cl,(%rax)", {0x88, 0x08}, Action::store, 1, 2, 0, 0, general(1, 1)},
    {"mov %ch,(%rax)", {0x88, 0x28}, Action::store, 1, 2, 0, 0, general(1, 2) >> 8},
    {"mov %bpl,(%rax)", {0x40, 0x88, 0x28}, Action::store, 1, 3, 0, 0, general(5, 1)},
    {"movl $0x12345678,(%rax)",
     {0xc7, 0x00, 0x78, 0x56, 0x34, 0x12},
     Action::store,
     4,
     6,
     0,
     0,
     0x12345678},
    {"movq $-2,8(%rsi)",
     {0x48, 0xc7, 0x46, 0x08, 0xfe, 0xff, 0xff, 0xff},
     Action::store,
     8,
     8,
     6,
     8,
     0xfffffffffffffffe},
    {"movw $0x1234,(%rax)", {0x66, 0xc7, 0x00, 0x34, 0x12}, Action::store, 2, 5, 0, 0, 0x1234},
    {"movb $0x7f,(%rax)", {0xc6, 0x00, 0x7f}, Action::store, 1, 3, 0, 0, 0x7f},
    {"movabs %eax,moffs",
     {0xa3, 8, 7, 6, 5, 4, 3, 2, 1},
     Action::store,
     4,
     9,
     -1,
     0x0102030405060708,
     general(0, 4)},
    {"mov %eax,0x1000(%rip)",
     {0x89, 0x05, 0, 0x10, 0, 0},
     Action::store,
     4,
     6,
     16,
     0x1000,
     general(0, 4)},
    {"movnti %ecx,(%rax)", {0x0f, 0xc3, 0x08}, Action::store, 4, 3, 0, 0, general(1, 4)},
    {"movnti %rcx,(%rax)", {0x48, 0x0f, 0xc3, 0x08}, Action::store, 8, 4, 0, 0, general(1, 8)},
    {"movbe %ecx,(%rax)",
     {0x0f, 0x38, 0xf1, 0x08},
     Action::store,
     4,
     4,
     0,
     0,
     __builtin_bswap32(static_cast<uint32_t>(general(1, 4)))},
    {"xchg %ecx,(%rax)", {0x87, 0x08}, Action::exchange, 4, 2, 0, 0, general(1, 4)},
    {"lock xchg %ecx,(%rax)", {0xf0, 0x87, 0x08}, Action::exchange, 4, 3, 0, 0, general(1, 4)},
    {"stosl", {0xab}, Action::store, 4, 1, 7, 0, general(0, 4)},
    {"rep stosl", {0xf3, 0xab}, Action::store, 4, 2, 7, 0, general(0, 4)},
    {"movd %xmm3,(%rax)", {0x66, 0x0f, 0x7e, 0x18}, Action::store, 4, 4, 0, 0, 0x76543203},
    {"movq %xmm3,(%rax)", {0x66, 0x0f, 0xd6, 0x18}, Action::store, 8, 4, 0, 0, 0xfedcba9876543203},
    {"movss %xmm9,(%rax)", {0xf3, 0x44, 0x0f, 0x11, 0x08}, Action::store, 4, 5, 0, 0, 0x76543209},
    {"vmovd %xmm3,(%rax)", {0xc5, 0xf9, 0x7e, 0x18}, Action::store, 4, 4, 0, 0, 0x76543203},
    {"vmovss %xmm9,(%r8)", {0xc4, 0x41, 0x7a, 0x11, 0x08}, Action::store, 4, 5, 8, 0, 0x76543209},
    {"mov (%rsi),%eax", {0x8b, 0x06}, Action::load, 4, 2, 6, 0, 0},
    {"mov 0x94(%rbx),%r15d", {0x44, 0x8b, 0xbb, 0x94, 0, 0, 0}, Action::load, 4, 7, 3, 0x94, 0},
    {"movzbl (%rax),%ecx", {0x0f, 0xb6, 0x08}, Action::load, 1, 3, 0, 0, 0},
    {"movslq (%rax),%rcx", {0x48, 0x63, 0x08}, Action::load, 4, 3, 0, 0, 0},
};

TEST(Instruction, KnownForms)
{
    for (const Case& c : cases) {
        SCOPED_TRACE(c.text);
        Instruction i;
        ASSERT_TRUE(decode(c.code.data(), c.code.size(), i));
        EXPECT_EQ(i.action, c.action);
        EXPECT_EQ(i.width, c.width);
        EXPECT_EQ(i.length, c.length);
        EXPECT_EQ(i.base, c.base);
        EXPECT_EQ(i.displacement, c.displacement);
        uint64_t value = 0;
        if (c.action != Action::load) {
            ASSERT_TRUE(store_value(i, registers(), value));
            EXPECT_EQ(value, c.value);
        }
        // Cut anywhere it is not known, and nothing beyond is read (AddressSanitizer watches).
        for (size_t n = 0; n < c.code.size(); ++n) {
            const std::vector<uint8_t> cut(c.code.begin(), c.code.begin() + static_cast<long>(n));
            EXPECT_FALSE(decode(cut.data(), cut.size(), i));
        }
    }
}

TEST(Instruction, Addresses)
{
    const Registers r = registers();
    const auto address = [&](const std::vector<uint8_t>& code) {
        Instruction i;
        uint64_t at = 0;
        decode(code.data(), code.size(), i);
        EXPECT_TRUE(operand_address(i, r, at));
        return at;
    };
    EXPECT_EQ(address({0x89, 0x44, 0xc8, 0x10}), r.general[0] + 8 * r.general[1] + 0x10);
    EXPECT_EQ(address({0x89, 0x04, 0x24}), r.general[4]);
    EXPECT_EQ(address({0x89, 0x04, 0x8d, 0, 0, 0, 0x80}), 4 * r.general[1] - 0x80000000);
    EXPECT_EQ(address({0x89, 0x45, 0x00}), r.general[5]);
    EXPECT_EQ(address({0x43, 0x89, 0x44, 0x25, 0x00}), r.general[13] + r.general[12]);
    EXPECT_EQ(address({0x89, 0x05, 0x10, 0, 0, 0}), r.rip + 6 + 0x10);
    Instruction i;
    uint64_t at = 0;
    const uint8_t on_fs[] = {0x64, 0x89, 0x08};
    decode(on_fs, sizeof on_fs, i);
    EXPECT_FALSE(operand_address(i, r, at)); // its base is not in the signal frame
}

// Not in the table, but the register that holds the address is found: for the single step.
TEST(Instruction, OperandsOfOthers)
{
    const struct {
        const char* text;
        std::vector<uint8_t> code;
        int base;
    } others[] = {
        {"or %ecx,(%rax)", {0x09, 0x08}, 0},
        {"lock cmpxchg %ecx,(%rdx)", {0xf0, 0x0f, 0xb1, 0x0a}, 2},
        {"pextrd $0,%xmm0,(%rsi)", {0x66, 0x0f, 0x3a, 0x16, 0x06, 0x00}, 6},
        {"testl $1,0x94(%rbx)", {0xf7, 0x83, 0x94, 0, 0, 0, 1, 0, 0, 0}, 3},
        {"movd (%rbx),%xmm0", {0x66, 0x0f, 0x6e, 0x03}, 3},
        {"vmovntdq %ymm0,(%r9)", {0xc4, 0xc1, 0x7d, 0xe7, 0x01}, 9},
        {"vmovdqu32 %zmm0,(%rax)", {0x62, 0xf1, 0x7e, 0x48, 0x7f, 0x00}, 0},
    };
    for (const auto& o : others) {
        SCOPED_TRACE(o.text);
        Instruction i;
        EXPECT_FALSE(decode(o.code.data(), o.code.size(), i));
        EXPECT_EQ(i.action, Action::unknown);
        EXPECT_TRUE(i.has_operand);
        EXPECT_EQ(i.base, o.base);
    }
    Instruction i;
    for (const std::vector<uint8_t>& code : {std::vector<uint8_t>{0x89, 0xc8},
                                             {0xc3},
                                             {0x0f, 0x0b},
                                             {0xe8, 1, 2, 3, 4}}) { // no memory
        EXPECT_FALSE(decode(code.data(), code.size(), i));
        EXPECT_EQ(i.action, Action::unknown);
    }
}

TEST(Instruction, WhatALoadLeaves)
{
    const auto after = [](const std::vector<uint8_t>& code, uint64_t loaded) {
        Instruction i;
        EXPECT_TRUE(decode(code.data(), code.size(), i));
        Registers r = registers();
        finish(i, r, loaded);
        EXPECT_EQ(r.rip, registers().rip + code.size());
        return r.general[1];
    };
    const uint64_t old = registers().general[1];
    EXPECT_EQ(after({0x8b, 0x08}, 0xffffffff80000001), 0x80000001u); // clears the upper half
    EXPECT_EQ(after({0x48, 0x8b, 0x08}, 0x8000000180000001), 0x8000000180000001);
    EXPECT_EQ(after({0x66, 0x8b, 0x08}, 0xabcd), (old & ~0xffffull) | 0xabcd);
    EXPECT_EQ(after({0x8a, 0x08}, 0xcd), (old & ~0xffull) | 0xcd);
    EXPECT_EQ(after({0x8a, 0x28}, 0xcd), (old & ~0xff00ull) | 0xcd00); // %ch
    EXPECT_EQ(after({0x0f, 0xb6, 0x08}, 0xffffff80), 0x80u);
    EXPECT_EQ(after({0x0f, 0xbe, 0x08}, 0x80), 0xffffff80u);
    EXPECT_EQ(after({0x48, 0x0f, 0xbf, 0x08}, 0x8000), 0xffffffffffff8000);
    EXPECT_EQ(after({0x48, 0x63, 0x08}, 0x80000000), 0xffffffff80000000);
    EXPECT_EQ(after({0x0f, 0x38, 0xf0, 0x08}, 0x12345678), 0x78563412u);
}

TEST(Instruction, StringInstructionsMoveOn)
{
    Instruction i;
    const uint8_t rep_stos[] = {0xf3, 0xab};
    ASSERT_TRUE(decode(rep_stos, sizeof rep_stos, i));
    Registers r = registers();
    const uint64_t rdi = r.general[7], rip = r.rip;
    r.general[1] = 2;
    finish(i, r, 0);
    EXPECT_EQ(r.rip, rip); // again
    EXPECT_EQ(r.general[7], rdi + 4);
    r.flags = 0x400; // backwards
    finish(i, r, 0);
    EXPECT_EQ(r.rip, rip + 2);
    EXPECT_EQ(r.general[7], rdi);
    EXPECT_EQ(r.general[1], 0u);

    const uint32_t source = 0xcafe1234;
    const uint8_t movs[] = {0xa5};
    ASSERT_TRUE(decode(movs, sizeof movs, i));
    r = registers();
    r.general[6] = reinterpret_cast<uint64_t>(&source);
    uint64_t value = 0;
    ASSERT_TRUE(store_value(i, r, value));
    EXPECT_EQ(value, source);
}

TEST(Instruction, AnyBytesEndInAnAnswer)
{
    std::mt19937_64 random(1);
    for (int round = 0; round < 300000; ++round) {
        std::vector<uint8_t> code(random() % 16);
        for (auto& b : code) {
            b = static_cast<uint8_t>(random());
        }
        Instruction i;
        const bool is_known = decode(code.data(), code.size(), i);
        ASSERT_EQ(is_known, i.action != Action::unknown);
        ASSERT_LE(i.length, code.size());
        ASSERT_EQ(is_known, i.length != 0);
        ASSERT_LT(i.reg, 16);
        ASSERT_LE(i.base, 16);
        ASSERT_LT(i.index, 16);
        ASSERT_TRUE(!is_known || i.has_operand);
    }
}

} // namespace
