// SPDX-License-Identifier: Apache-2.0
// The resident model under many askers: order, streams, versions, states, and what ends a wait.
#include "place.hpp"
#include "reference.hpp"

#include "support/scaled.hpp"
#include <denizen/base/error.hpp>
#include <denizen/base/interrupt.hpp>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace denizen::infer {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t width = 20;

void build_recurrent(Builder& b) { b.linear(b.lstm(b.conv1d(0, 24, 3), 40), 7); }

std::vector<float> input_of(uint32_t stream, uint32_t step)
{
    return noise(width, stream * 1000 + step);
}

// What a stream answers, alone in a model of one part.
std::vector<std::vector<float>> alone(const Model& model, uint32_t stream, uint32_t steps)
{
    Engine engine(model, {.parts = 1}, chip());
    std::vector<std::vector<float>> answers;
    for (uint32_t step = 0; step < steps; ++step) {
        answers.push_back(ask(engine, 0, input_of(stream, step)));
    }
    return answers;
}

template <class Call>
std::pair<Errc, std::string> error_of(Call&& call)
{
    try {
        call();
    } catch (const Error& e) {
        return {e.code(), e.what()};
    }
    return {Errc::ok, ""};
}

std::span<const std::byte> bytes(const std::vector<float>& x)
{
    return std::as_bytes(std::span(x));
}

class InferEngine : public testing::TestWithParam<uint32_t> {
protected:
    InferEngine() { build_recurrent(builder); }
    Options options(uint32_t streams, uint32_t requests = 256) const
    {
        return {.streams = streams, .parts = GetParam(), .requests = requests};
    }
    Builder builder{width, 1};
};

#if defined(__CUDACC__) || defined(DENIZEN_INFER_BLOCKS)
INSTANTIATE_TEST_SUITE_P(, InferEngine, testing::Values(1, 3, 8), // of a GPU 8 are a cluster
                         testing::PrintToStringParamName());
#else
INSTANTIATE_TEST_SUITE_P(, InferEngine, testing::Values(1, 3));
#endif

TEST_P(InferEngine, StreamsDoNotSeeEachOther)
{
    Engine engine(builder.model(), options(5), chip());
    std::vector<std::vector<std::vector<float>>> expected;
    for (uint32_t stream = 0; stream < 5; ++stream) {
        expected.push_back(alone(builder.model(), stream, 12));
    }
    std::vector<uint32_t> next(5, 0);
    std::mt19937 random(2);
    for (uint32_t turn = 0; turn < 40; ++turn) {
        const auto stream = static_cast<uint32_t>(random() % 5);
        if (next[stream] == 12) continue;
        ASSERT_EQ(ask(engine, stream, input_of(stream, next[stream])),
                  expected[stream][next[stream]])
            << "stream " << stream << ", step " << next[stream];
        ++next[stream];
    }
}

TEST_P(InferEngine, SeveralRequestsOfAStreamAreAnsweredInOrder)
{
    Engine engine(builder.model(), options(2), chip());
    const auto expected = alone(builder.model(), 0, 30);
    std::vector<Ticket> tickets;
    for (uint32_t step = 0; step < 30; ++step)
        tickets.push_back(engine.begin(0, bytes(input_of(0, step))));
    std::vector<float> y(7);
    for (uint32_t step = 30; step-- > 0;) { // in any order
        EXPECT_EQ(engine.end(tickets[step], y), 1u);
        EXPECT_EQ(y, expected[step]);
    }
    const auto [code, text] = error_of([&] { engine.end(tickets[0], y); });
    EXPECT_EQ(code, Errc::bad_argument);
    EXPECT_NE(text.find("has been taken"), std::string::npos) << text;
}

// Each asker has streams of its own and asks in one of three ways.
TEST_P(InferEngine, EveryAnswerOfManyAskersIsRight)
{
    const uint32_t askers = 4;
#if defined(DENIZEN_INFER_BLOCKS)
    const uint32_t steps = test::scaled(60);
#else
    const uint32_t steps = test::scaled(GetParam() == 1 ? 400 : 100);
#endif
    Engine engine(builder.model(), options(2 * askers, 5), chip()); // there is back-pressure
    std::atomic<uint32_t> wrong{0};
    std::vector<std::thread> threads;
    for (uint32_t asker = 0; asker < askers; ++asker) {
        threads.emplace_back([&, asker] {
            const uint32_t streams[] = {2 * asker, 2 * asker + 1};
            const std::vector<std::vector<float>> expected[] = {
                alone(builder.model(), streams[0], steps),
                alone(builder.model(), streams[1], steps)};
            for (uint32_t step = 0; step < steps; ++step) {
                const std::vector<float> x[] = {input_of(streams[0], step),
                                                input_of(streams[1], step)};
                std::vector<float> y[] = {std::vector<float>(7), std::vector<float>(7)};
                if (asker % 2 == 0 && step % 4 == 0) {
                    std::vector<float> both = x[0];
                    both.insert(both.end(), x[1].begin(), x[1].end());
                    std::vector<float> out(14);
                    uint64_t versions[2];
                    engine.steps(streams, bytes(both), out, versions, 60s);
                    y[0].assign(out.begin(), out.begin() + 7);
                    y[1].assign(out.begin() + 7, out.end());
                } else if (step % 4 == 1) {
                    for (int i : {0, 1}) {
                        const Ticket ticket = engine.begin(streams[i], bytes(x[i]), 60s);
                        engine.end(ticket, y[i], 60s);
                    }
                } else {
                    for (int i : {0, 1}) engine.step(streams[i], bytes(x[i]), y[i], 60s);
                }
                wrong += (y[0] != expected[0][step]) + (y[1] != expected[1][step]);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(engine.stats().steps, uint64_t{2} * askers * steps);
}

// Two layers that each multiply by a number of their version: k * k * x, and k * j of a mixture.
struct Twice {
    explicit Twice(float k) : diagonal(32 * 32, 0.0F), zeros(32, 0.0F)
    {
        for (size_t i = 0; i < 32; ++i) diagonal[i * 33] = k;
        model.widths = {32, 32, 32};
        model.ops = {{OpKind::linear, {0}, {diagonal, zeros}, {}, "a"},
                     {OpKind::linear, {1}, {diagonal, zeros}, {}, "b"}};
        model.output = 2;
    }
    std::vector<float> diagonal;
    std::vector<float> zeros;
    Model model;
};

TEST_P(InferEngine, ASwapLosesNoRequestAndMixesNoVersions)
{
    Engine engine(Twice(1).model, {.streams = 4, .parts = GetParam() > 1 ? 2u : 1u}, chip());
    const uint32_t swaps = test::scaled(40);
    std::atomic<bool> swapping{true};
    std::atomic<uint64_t> answered{0};
    std::atomic<uint64_t> wrong{0};
    std::vector<std::thread> askers;
    for (uint32_t asker = 0; asker < 3; ++asker) {
        askers.emplace_back([&, asker] {
            const std::vector<float> x(32 * 8, 3.0F);
            const std::vector<uint32_t> streams(8, asker);
            std::vector<float> y(32 * 8);
            std::vector<uint64_t> versions(8);
            uint64_t last = 1;
            while (swapping) {
                engine.steps(streams, bytes(x), y, versions, 60s);
                for (size_t i = 0; i < y.size(); ++i) {
                    const auto k = static_cast<float>(versions[i / 32]);
                    wrong += y[i] != 3 * k * k || versions[i / 32] < last;
                    last = versions[i / 32];
                }
                answered += 8;
            }
        });
    }
    for (uint32_t swap = 2; swap < 2 + swaps; ++swap) {
        EXPECT_EQ(engine.swap(Twice(static_cast<float>(swap)).model, 60s), swap);
        std::vector<float> y(32);
        EXPECT_EQ(engine.step(3, bytes(std::vector<float>(32, 1.0F)), y, 60s), swap);
    }
    swapping = false;
    for (std::thread& asker : askers) asker.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(engine.stats().steps, answered + swaps);
    EXPECT_EQ(engine.stats().swaps, swaps);
    EXPECT_EQ(engine.version(), 1u + swaps);
}

// Whatever had been made ready of the old weights for the next step is made again.
TEST_P(InferEngine, StatesStayInASwapAndMeetTheNewWeights)
{
    Builder other(width, 9);
    build_recurrent(other);
    Engine engine(builder.model(), options(2), chip());
    Engine fresh(other.model(), options(2), chip());
    for (uint32_t step = 0; step < 4; ++step) ask(engine, 1, input_of(1, step));
    std::vector<float> state(engine.state_floats());
    engine.state(1, state);
    fresh.set_state(0, state);
    EXPECT_EQ(engine.swap(other.model()), 2u);
    for (uint32_t step = 4; step < 9; ++step) {
        EXPECT_EQ(ask(engine, 1, input_of(1, step)), ask(fresh, 0, input_of(1, step))) << step;
    }
    EXPECT_EQ(ask(engine, 0, input_of(0, 0)), ask(fresh, 1, input_of(0, 0))); // zeros are zeros
}

TEST(InferSwap, AnotherModelIsRefused)
{
    Builder b(width, 1);
    build_recurrent(b);
    Engine engine(b.model(), {}, chip());
    Builder other(width, 1);
    other.linear(other.gru(other.conv1d(0, 24, 3), 40), 7);
    auto [code, text] = error_of([&] { engine.swap(other.model()); });
    EXPECT_EQ(code, Errc::bad_argument);
    EXPECT_NE(text.find("differs at layer \"l2\" (gru)"), std::string::npos) << text;
    Builder wider(width, 1);
    wider.linear(wider.lstm(wider.conv1d(0, 24, 3), 41), 7);
    EXPECT_NE(error_of([&] { engine.swap(wider.model()); }).second.find("other widths"),
              std::string::npos);
    EXPECT_EQ(engine.version(), 1u);
}

TEST_P(InferEngine, AStateIsReadResetAndGivenToAnotherStream)
{
    Engine engine(builder.model(), options(3), chip());
    const auto expected = alone(builder.model(), 0, 10);
    for (uint32_t step = 0; step < 5; ++step) ask(engine, 0, input_of(0, step));
    std::vector<float> state(engine.state_floats());
    ASSERT_EQ(state.size(), 2 * width + 40 + 40);
    engine.state(0, state);
    const std::vector<float> x3 = input_of(0, 3);
    const std::vector<float> x4 = input_of(0, 4);
    EXPECT_TRUE(std::equal(x3.begin(), x3.end(), state.begin())); // oldest first
    EXPECT_TRUE(std::equal(x4.begin(), x4.end(), state.begin() + width));
    engine.set_state(2, state);
    for (uint32_t step = 5; step < 10; ++step) {
        EXPECT_EQ(ask(engine, 2, input_of(0, step)), expected[step]) << step;
    }
    engine.reset(2);
    for (uint32_t step = 0; step < 10; ++step) {
        EXPECT_EQ(ask(engine, 2, input_of(0, step)), expected[step]) << step;
    }
    ASSERT_EQ(engine.state_parts().size(), 3u);
    EXPECT_EQ(engine.state_parts()[0].name, "l1.inputs");
    EXPECT_EQ(engine.state_parts()[0].steps, 2u);
    EXPECT_EQ(engine.state_parts()[2].name, "l2.c");
    EXPECT_EQ(error_of([&] { engine.set_state(0, {}); }).first, Errc::bad_argument);
}

// Without a convolution the blocks of a resident kernel write the state of an only stream as they
// leave.
TEST_P(InferEngine, WhatTheOnlyStreamKeepsIsThereWhenItIsAskedFor)
{
    Builder first(width, 3);
    Builder second(width, 4);
    for (Builder* b : {&first, &second}) b->linear(b->rnn(b->gru(b->lstm(0, 24), 40), 24), 7);
    Engine one(first.model(), options(1), chip());
    Engine two(first.model(), options(2), chip());
    std::vector<float> mine(one.state_floats());
    std::vector<float> others(two.state_floats());
    std::vector<float> early;
    for (uint32_t step = 0; step < 16; ++step) {
        EXPECT_EQ(ask(one, 0, input_of(0, step)), ask(two, 1, input_of(0, step))) << step;
        if (step % 3 == 1) {
            one.state(0, mine);
            two.state(1, others);
            EXPECT_EQ(mine, others) << step;
        }
        if (step == 1) early = mine;
        if (step == 5) {
            one.reset(0);
            two.reset(1);
        }
        if (step == 8) {
            one.swap(second.model());
            two.swap(second.model());
        }
        if (step == 11) {
            one.set_state(0, early);
            two.set_state(1, early);
        }
    }
}

class Folder {
public:
    Folder() : path_(testing::TempDir() + "/infer." + std::to_string(getpid()))
    {
        std::filesystem::create_directory(path_);
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string file(const std::string& name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

TEST_P(InferEngine, StatesAreSavedAndRestored)
{
    const Folder folder;
    const std::string path = folder.file("states");
    Engine engine(builder.model(), options(2), chip());
    const auto expected = alone(builder.model(), 1, 9);
    for (uint32_t step = 0; step < 4; ++step) ask(engine, 1, input_of(1, step));
    engine.save(path);
    Engine other(builder.model(), {.streams = 2}, chip());
    ask(other, 1, input_of(0, 0)); // what it had is gone
    other.restore(path);
    for (uint32_t step = 4; step < 9; ++step) {
        EXPECT_EQ(ask(other, 1, input_of(1, step)), expected[step]) << step;
        EXPECT_EQ(ask(engine, 1, input_of(1, step)), expected[step]) << step;
    }
}

#if defined(DENIZEN_INFER_BLOCKS) || defined(__CUDACC__)

// Copies of a model are one to who asks: streams, cells, states and versions.
TEST_P(InferEngine, CopiesAnswerAsOne)
{
    Builder other(width, 9);
    build_recurrent(other);
    const uint32_t parts = GetParam() > 1 ? 2 : 1;
    Engine engine(builder.model(), {.streams = 7, .parts = parts, .copies = 3, .requests = 10},
                  chip());
    Engine fresh(other.model(), {.streams = 7, .parts = parts}, chip());
    EXPECT_EQ(engine.parts(), 3 * parts);
    EXPECT_EQ(engine.place().rfind("3 times ", 0), 0u) << engine.place();
    const std::vector<uint32_t> streams{0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6};
    const auto all = [&](Engine& by, uint32_t from) {
        std::vector<float> x;
        for (size_t i = 0; i < streams.size(); ++i) {
            const auto one = input_of(streams[i], from + static_cast<uint32_t>(i / 7));
            x.insert(x.end(), one.begin(), one.end());
        }
        std::vector<float> y(streams.size() * by.output_floats());
        std::vector<uint64_t> versions(streams.size());
        by.steps(streams, bytes(x), y, versions, 60s);
        return std::pair(y, versions);
    };
    const auto [first, versions] = all(engine, 0);
    EXPECT_EQ(versions, std::vector<uint64_t>(14, 1));
    for (uint32_t s = 0; s < 7; ++s) {
        const auto expected = alone(builder.model(), s, 2);
        for (size_t step : {0, 1}) {
            const auto* const y = first.data() + (step * 7 + s) * engine.output_floats();
            EXPECT_EQ(std::vector<float>(y, y + engine.output_floats()), expected[step]) << s;
        }
    }
    EXPECT_EQ(engine.stats().steps, 14u);
    std::vector<float> state(engine.state_floats());
    for (uint32_t s = 0; s < 7; ++s) {
        engine.state(s, state);
        fresh.set_state(s, state);
    }
    EXPECT_EQ(engine.swap(other.model(), 60s), 2u);
    EXPECT_EQ(engine.stats().swaps, 1u);
    const auto [second, later] = all(engine, 2);
    EXPECT_EQ(second, all(fresh, 2).first);
    EXPECT_EQ(later, std::vector<uint64_t>(14, 2));
    const Folder folder;
    engine.save(folder.file("copies"));
    engine.reset(5);
    fresh.restore(folder.file("copies")); // a file knows of no copies
    engine.restore(folder.file("copies"));
    EXPECT_EQ(all(engine, 4).first, all(fresh, 4).first);
    engine.close();
    EXPECT_EQ(error_of([&] { ask(engine, 4, input_of(4, 0)); }).first, Errc::closed);
}

TEST(InferCopies, ThoseThereIsNoRoomForAreRefused)
{
    Builder b(width, 1);
    build_recurrent(b);
    const auto refused = [&](const Options& o) {
        const auto [code, text] = error_of([&] { Engine(b.model(), o, chip()); });
        EXPECT_EQ(code, Errc::bad_argument);
        return text;
    };
    EXPECT_EQ(refused({.streams = 3, .copies = 4}), "copies = 4; use 1 to 3");
    const std::string text = refused({.streams = 200, .parts = 2, .copies = 100});
    EXPECT_EQ(text.rfind("copies = 100 of 2 parts; ", 0), 0u) << text;
}

#else

TEST(InferCopies, AreOfAGpu)
{
    Builder b(width, 1);
    build_recurrent(b);
    const auto [code, text] = error_of([&] { Engine(b.model(), {.streams = 3, .copies = 2}); });
    EXPECT_EQ(code, Errc::bad_argument);
    EXPECT_EQ(text, "copies = 2; use 1 to 1");
}

#endif

TEST(InferSnapshot, AFileThatIsNotOfThisModelIsRefused)
{
    const Folder folder;
    const std::string path = folder.file("states");
    Builder b(width, 1);
    build_recurrent(b);
    Engine engine(b.model(), {.streams = 2}, chip());
    engine.save(path);
    const auto refused = [&](Engine& by, const std::string& file) {
        const auto [code, text] = error_of([&] { by.restore(file); });
        EXPECT_EQ(code, Errc::bad_snapshot) << text;
        return text;
    };
    Engine more(b.model(), {.streams = 3}, chip());
    EXPECT_NE(refused(more, path).find("holds 2 streams, and the model has 3"), std::string::npos);
    Builder gru(width, 1);
    gru.linear(gru.gru(gru.conv1d(0, 24, 3), 40), 7);
    Engine other(gru.model(), {.streams = 2}, chip());
    EXPECT_NE(refused(other, path).find("is of another model"), std::string::npos);

    std::ifstream in(path, std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(in)), {});
    const std::string altered = folder.file("altered");
    for (size_t at = 0; at < whole.size(); at += 1 + whole.size() / 40) {
        std::string bytes_of_it = whole;
        bytes_of_it[at] = static_cast<char>(bytes_of_it[at] ^ 0x10);
        std::ofstream(altered, std::ios::binary) << bytes_of_it;
        refused(engine, altered);
        std::ofstream(altered, std::ios::binary) << whole.substr(0, at);
        refused(engine, altered);
    }
    refused(engine, folder.file("missing"));
}

TEST_P(InferEngine, AFullMailboxIsToldAndEmptiesAgain)
{
    Engine engine(builder.model(), options(1, 2), chip());
    const std::vector<float> x = input_of(0, 0);
    const Ticket tickets[] = {engine.begin(0, bytes(x)), engine.begin(0, bytes(x))};
    auto [code, text] = error_of([&] { engine.begin(0, bytes(x), 5ms); });
    EXPECT_EQ(code, Errc::full);
    EXPECT_NE(text.find("has 2 requests under way"), std::string::npos) << text;
    engine.abandon(tickets[0]);
    std::vector<float> y(7);
    engine.end(tickets[1], y);
    for (int i = 0; i < 10; ++i) engine.step(0, bytes(x), y); // both places are free again
    EXPECT_GE(engine.stats().steps, 11u); // the abandoned one is made if it had begun
    EXPECT_LE(engine.stats().steps, 12u);
}

TEST(InferWait, ADeadlineThatPassesLeavesTheModelWhole)
{
#if defined(DENIZEN_INFER_BLOCKS) // a sanitizer makes them slow
    constexpr uint32_t wide = 150;
#else
    constexpr uint32_t wide = 700;
#endif
    Builder b(wide, 3);
    uint32_t last = 0;
    for (int layer = 0; layer < 6; ++layer) last = b.linear(last, wide);
    Engine engine(b.model(), {.requests = 1, .spin = 0ns}, chip());
    const std::vector<float> x(wide, 0.0F);
    std::vector<float> y(wide);
    uint32_t late = 0;
    for (int i = 0; i < 20; ++i) {
        const auto [code, text] = error_of([&] { engine.step(0, bytes(x), y, 1ns); });
        late += code == Errc::timeout;
        EXPECT_TRUE(code == Errc::timeout || code == Errc::full || code == Errc::ok) << text;
    }
    EXPECT_GT(late, 0u);
    engine.step(0, bytes(x), y); // its only place came back
}

TEST(InferWait, AnInterruptEndsItAndTheModelGoesOn)
{
    struct Pressed {};
    Builder b(width, 1);
    build_recurrent(b);
    Engine engine(b.model(), {.requests = 1}, chip());
    const std::vector<float> x = input_of(0, 0);
    const Ticket held = engine.begin(0, bytes(x));
    const uint64_t begin = now_ns();
    {
        const Interruptible interruptible(+[] { throw Pressed(); });
        EXPECT_THROW(engine.begin(0, bytes(x), 60s), Pressed);
    }
    EXPECT_LT(now_ns() - begin, 5'000'000'000u);
    std::vector<float> y(7);
    engine.end(held, y);
    engine.step(0, bytes(x), y);
}

#if defined(DENIZEN_INFER_BLOCKS)
// Where shared memory has room for what an answer waits for and no more, W_hh lies in device
// memory, and half of a block's warps sum W_hh h.
TEST(InferPlaces, ARecurrentMatrixThatDoesNotFitAnswersTheSame)
{
    Builder b(width, 3);
    b.linear(b.gru(b.lstm(b.lstm(0, 40), 33), 24), 7);
    for (const uint32_t streams : {1u, 3u}) {
        std::unique_ptr<Engine> engine;
        size_t shared = 1024;
        for (; engine == nullptr; shared += 512) { // ends: it fits in 4 MiB
            const ThreadsChip::Made made{.blocks = 3, .shared_bytes = shared};
            const auto [code, text] = error_of([&] {
                engine = std::make_unique<Engine>(b.model(), Options{.streams = streams},
                                                  std::make_unique<ThreadsChip>(made));
            });
            if (code != Errc::ok) {
                ASSERT_EQ(code, Errc::bad_argument) << text;
            }
        }
        std::vector<std::vector<std::vector<float>>> expected;
        for (uint32_t stream = 0; stream < streams; ++stream) {
            expected.push_back(alone(b.model(), stream, 20));
        }
        for (uint32_t step = 0; step < 20; ++step) {
            for (uint32_t stream = 0; stream < streams; ++stream) {
                ASSERT_EQ(ask(*engine, stream, input_of(stream, step)), expected[stream][step])
                    << "stream " << stream << ", step " << step << ", " << shared << " bytes";
            }
        }
    }
}

// A breath of a few rounds: in most of them some blocks have seen the next request, and some have
// not, as the leader would leave.
TEST(InferBreath, ARequestThatABlockHasBegunIsMadeByAll)
{
    for (const bool slots_near : {true, false}) {
        Builder b(width, 1);
        build_recurrent(b);
        const ThreadsChip::Made made{.slots_near = slots_near, .breath_ns = 300'000};
        Engine engine(b.model(), {.parts = 4}, std::make_unique<ThreadsChip>(made));
        const uint32_t steps = test::scaled(600);
        const auto expected = alone(b.model(), 0, steps);
        for (uint32_t step = 0; step < steps;) {
            std::vector<Ticket> tickets; // up to three on their way at once
            for (uint32_t k = 0; k <= step % 3 && step + k < steps; ++k) {
                tickets.push_back(engine.begin(0, bytes(input_of(0, step + k)), 10s));
            }
            for (const Ticket ticket : tickets) {
                std::vector<float> y(7);
                engine.end(ticket, y, 10s);
                ASSERT_EQ(y, expected[step++]) << step;
            }
        }
    }
}
#endif

TEST_P(InferEngine, CloseAnswersWhatIsUnderWay)
{
    auto engine = std::make_unique<Engine>(builder.model(), options(1), chip());
    const std::vector<float> x = input_of(0, 0);
    std::vector<Ticket> tickets;
    for (int i = 0; i < 20; ++i) tickets.push_back(engine->begin(0, bytes(x)));
    engine->close();
    engine->close();
    std::vector<float> y(7);
    for (const Ticket ticket : tickets) EXPECT_EQ(engine->end(ticket, y), 1u);
    const auto [code, text] = error_of([&] { engine->step(0, bytes(x), y); });
    EXPECT_EQ(code, Errc::closed);
    EXPECT_NE(text.find("the resident model is closed"), std::string::npos) << text;
    EXPECT_EQ(error_of([&] { engine->reset(0); }).first, Errc::closed);
    engine.reset();
    Engine dropped(builder.model(), options(1), chip()); // with requests under way
    for (int i = 0; i < 20; ++i) dropped.begin(0, bytes(x));
}

TEST_P(InferEngine, AForkedChildIsTold)
{
    Engine engine(builder.model(), options(1), chip());
    std::vector<float> y(7);
    const std::vector<float> x = input_of(0, 0);
    engine.step(0, bytes(x), y);
    const pid_t child = fork();
    if (child == 0) {
        const bool told = error_of([&] { engine.step(0, bytes(x), y); }).first == Errc::closed &&
                          error_of([&] { engine.reset(0); }).first == Errc::closed;
        engine.close();
        _exit(told ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    engine.step(0, bytes(x), y);
}

TEST(InferErrors, StreamsAndSizesThatAreNotThere)
{
    Builder b(width, 1);
    build_recurrent(b);
    Engine engine(b.model(), {.streams = 3}, chip());
    const std::vector<float> x = input_of(0, 0);
    std::vector<float> y(7);
    const auto [code, text] = error_of([&] { engine.step(3, bytes(x), y); });
    EXPECT_EQ(code, Errc::bad_argument);
    EXPECT_NE(text.find("stream 3; the resident model has streams 0 to 2"), std::string::npos);
    EXPECT_EQ(error_of([&] { engine.step(0, bytes(y), y); }).first, Errc::bad_argument);
    std::vector<float> longer(8);
    EXPECT_EQ(error_of([&] { engine.step(0, bytes(x), longer); }).first, Errc::bad_argument);
    EXPECT_EQ(error_of([&] { engine.end({~uint64_t{0}}, y); }).first, Errc::bad_argument);
    EXPECT_EQ(error_of([&] { engine.reset(3); }).first, Errc::bad_argument);
    engine.step(2, bytes(x), y);
}

} // namespace
} // namespace denizen::infer
