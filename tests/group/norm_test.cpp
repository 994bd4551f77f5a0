// SPDX-License-Identifier: Apache-2.0
// all_reduce_norm among threads: every type, rows that take several turns, any number of channels,
// in place, between other calls, and what is refused.
#include "group/norms.hpp"
#include "support/threads.hpp"

using namespace denizen;
using namespace denizen::group;
using denizen::test::on_threads;

namespace {

GroupOptions small() // rows in several turns, which often begin anew
{
    GroupOptions o;
    o.channels = 3;
    o.slots = 16;
    o.renew = 40;
    o.timeout = std::chrono::seconds(60);
    return o;
}

NormCall call_for(const NormCase& c)
{
    NormCall call;
    call.type = c.type;
    call.rows = c.rows;
    call.width = c.width;
    call.eps = NormData::eps;
    return call;
}

// The error of `body`, as code and text.
template <class F>
std::pair<Errc, std::string> error_of(F body)
{
    try {
        body();
    } catch (const Error& error) {
        return {error.code(), error.what()};
    }
    return {Errc::ok, ""};
}

class Norms : public testing::TestWithParam<uint32_t> {};

TEST_P(Norms, SumsAreExactAndTheSameOnAllRanks)
{
    const uint32_t n = GetParam();
    auto groups = Group::local(n, Device::cpu(), small());
    uint32_t turn = 0;
    for (const Type type : {Type::f32, Type::f16, Type::bf16}) {
        for (const uint32_t width : {1u, 6u, 7u, 95u, 1000u}) {
            for (const uint64_t rows : {1, 2, 5}) {
                const NormCase c{type, n, rows, width};
                with_norm_type(type, [&]<class T>(T) {
                    const NormData data = NormData::make<T>(c, ++turn);
                    const bool in_place = turn % 2 == 0;
                    std::vector<Bytes> sum(n), out(n);
                    on_threads(n, [&](uint32_t r) {
                        Bytes in = data.in[r], residual = data.residual;
                        Bytes other_sum(c.bytes()), other_out(c.bytes());
                        NormCall call = call_for(c);
                        call.channels = turn % 4;
                        call.in = in.data();
                        call.residual = residual.data();
                        call.weight = data.weight.data();
                        call.sum = in_place ? residual.data() : other_sum.data();
                        call.out = in_place ? in.data() : other_out.data();
                        groups[r].all_reduce_norm(call);
                        sum[r] = in_place ? residual : other_sum;
                        out[r] = in_place ? in : other_out;
                        int32_t one = 1; // another call between
                        groups[r].all_reduce(&one, &one, 1, Type::i32);
                        EXPECT_EQ(one, static_cast<int32_t>(n));
                    });
                    data.check<T>(c, sum[0], out[0]);
                    for (uint32_t r = 1; r < n; ++r) {
                        EXPECT_EQ(sum[r], sum[0]) << c.text();
                        EXPECT_EQ(out[r], out[0]) << c.text();
                    }
                });
                if (HasFailure()) return;
            }
        }
    }
}

// A call like the one before goes without headers.
TEST_P(Norms, AgainAndAgain)
{
    const NormCase c{Type::bf16, GetParam(), 4, 200};
    auto groups = Group::local(c.ranks, Device::cpu(), small());
    std::vector<NormData> data;
    for (uint32_t i = 0; i < 3; ++i) data.push_back(NormData::make<BFloat>(c, i));
    std::vector<std::vector<Bytes>> sum(c.ranks, std::vector<Bytes>(30)), out = sum;
    on_threads(c.ranks, [&](uint32_t r) {
        for (uint32_t i = 0; i < 30; ++i) {
            const NormData& its = data[i % 3];
            sum[r][i] = out[r][i] = Bytes(c.bytes());
            NormCall call = call_for(c);
            call.in = its.in[r].data();
            call.residual = its.residual.data();
            call.weight = its.weight.data();
            call.sum = sum[r][i].data();
            call.out = out[r][i].data();
            groups[r].all_reduce_norm(call);
        }
    });
    for (uint32_t r = 0; r < c.ranks; ++r) {
        for (uint32_t i = 0; i < 30; ++i) data[i % 3].check<BFloat>(c, sum[r][i], out[r][i]);
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Norms, testing::Values(1, 2, 3, 4));

TEST(NormCalls, WhatCannotBeIsRefused)
{
    auto groups = Group::local(1, Device::cpu(), small());
    std::vector<float> in(12), residual(12), weight(4), sum(12), out(12);
    const auto refused = [&](auto change, const std::string& words) {
        NormCall call = call_for({Type::f32, 1, 3, 4});
        call.in = in.data();
        call.residual = residual.data();
        call.weight = weight.data();
        call.sum = sum.data();
        call.out = out.data();
        change(call);
        const auto [code, text] = error_of([&] { groups[0].all_reduce_norm(call); });
        EXPECT_EQ(code, words.empty() ? Errc::ok : Errc::bad_argument);
        EXPECT_NE(text.find(words), std::string::npos) << text;
    };
    refused([](NormCall&) {}, "");
    refused([](NormCall& c) { c.rows = 0; }, "");
    refused([](NormCall& c) { c.type = Type::i32; }, "3 x 4 i32");
    refused([](NormCall& c) { c.width = 0; }, "rows of one element and more");
    refused([](NormCall& c) { c.channels = 4; }, "by 4 channels");
    refused([](NormCall& c) { c.weight = nullptr; }, "the weight is missing");
    refused([](NormCall& c) { c.sum = static_cast<char*>(c.sum) + 1; },
            "the sum is missing or not");
    refused([&](NormCall& c) { c.out = c.sum; }, "the output overlaps the sum");
    refused([&](NormCall& c) { c.out = residual.data(); }, "the output overlaps the residual");
    refused([&](NormCall& c) { c.sum = in.data(); }, "the sum overlaps the input");
    refused([&](NormCall& c) { c.sum = residual.data(); }, "");
    refused([&](NormCall& c) { c.out = in.data(); }, "");
    refused([&](NormCall& c) { c.out = in.data() + 1; }, "the output overlaps the input");
}

TEST(NormCalls, RanksThatDoNotAgreeGetOneError)
{
    for (const bool another_width : {true, false}) {
        auto groups = Group::local(2, Device::cpu(), small());
        std::vector<std::string> texts(2);
        on_threads(2, [&](uint32_t r) {
            std::vector<float> in(12), weight(6), sum(12), out(12);
            NormCall call = call_for({Type::f32, 2, 3, 4});
            if (another_width && r == 1) call.rows = 2, call.width = 6;
            call.in = in.data();
            call.residual = call.sum = sum.data();
            call.weight = weight.data();
            call.out = out.data();
            call.channels = 2;
            texts[r] = error_of([&] {
                           if (another_width || r == 0) return groups[r].all_reduce_norm(call);
                           groups[r].all_reduce(in.data(), out.data(), 12, Type::f32);
                       }).second;
        });
        EXPECT_EQ(texts[0], texts[1]);
        EXPECT_NE(texts[0].find("called all_reduce_norm of 12 f32"), std::string::npos) << texts[0];
    }
}

} // namespace
