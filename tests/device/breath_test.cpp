// SPDX-License-Identifier: Apache-2.0
// How long a breath lasts, by the functions that its leader calls. How one ends is tested with the
// programs that breathe.
#include <denizen/device/detail/breath_option.hpp>
#include <denizen/device/detail/resident.hpp>

#include <gtest/gtest.h>

#include <thread>

namespace {

using namespace denizen;
using std::chrono::microseconds;

// One worker that comes to the gate `late_us` after the word to leave.
class Ending {
public:
    explicit Ending(std::optional<microseconds> option)
    {
        set_breath(ref, option);
        ref.command = &command_;
        ref.state = &state_;
        ref.acked = &acked_;
        ref.workers = 1;
    }

    void end(uint32_t late_us)
    {
        for (uint32_t failed = 0;; ++failed) { // ends when the worker has come in time
            const uint32_t soon = detail::next_attempt(ref, failed);
            store<Scope::gpu>(&command_, soon);
            store<Scope::gpu>(&acked_, detail::attempt_of(soon));
            std::thread worker([&] {
                while ((load<Scope::gpu>(&command_) & breath_go) == 0) { // ends: by hand_over()
                    std::this_thread::yield();
                }
                std::this_thread::sleep_for(microseconds(late_us));
                detail::pass_gate(ref, soon | breath_go);
            });
            const bool over = detail::hand_over(ref, soon);
            worker.join();
            if (over) return;
        }
    }

    BreathRef ref;

private:
    Breath state_{};
    uint32_t command_ = 0;
    uint32_t acked_ = 0;
};

TEST(BreathLength, LongHandlersMakeItLongerAsFarAsTheDefaultGoes)
{
    Ending ending(std::nullopt);
    EXPECT_EQ(detail::lasting_ns(ending.ref), 2'000'000u);
    ending.end(1000); // 64 of them are more than the most
    EXPECT_EQ(detail::lasting_ns(ending.ref), 16'000'000u);
}

TEST(BreathLength, WhatIsSaidHolds)
{
    Ending ending(microseconds(500));
    ending.end(1000);
    EXPECT_EQ(detail::lasting_ns(ending.ref), 500'000u);
}

// The launch of its successor lasts: who holds the driver's lock waits for this incarnation.
TEST(BreathEnd, OneWhoseSuccessorsLaunchIsHeldUpEndsAtOnce)
{
    Ending ending(std::nullopt);
    Handovers host;
    const uint64_t began = 1'000'000;
    detail::BreathEnd end(ending.ref, began, false);
    end.see(began + 100'000, true);
    EXPECT_NE(end.left(began + 100'000), 0u);
    end.see(began + 200'000, false);
    const uint64_t still = began + 200'000 + detail::held_up_ns;
    end.see(still, true);
    EXPECT_NE(end.left(still), 0u) << "that is no longer than a launch may take";
    EXPECT_EQ(end.bits(still, host), 0u);
    end.see(still + 1, true);
    EXPECT_EQ(end.left(still + 1), 0u);
    EXPECT_NE(end.bits(still + 1, host) & breath_soon, 0u);
    end.see(still + 2, false);
    EXPECT_EQ(end.left(still + 2), 0u) << "what has begun to end does not go on";
}

TEST(BreathEnd, OneKernelForEverStaysWhateverIsHeldUp)
{
    Ending ending(microseconds(0));
    Handovers host;
    detail::BreathEnd end(ending.ref, 0, false);
    end.see(1'000'000'000, true);
    EXPECT_EQ(end.bits(1'000'000'000, host), 0u);
}

// An attempt whose gate waits for less than the last handler took would fail.
TEST(BreathEnd, WhereHandlersAreLongAllWaitAlsoTheNextTime)
{
    Breath state{};
    uint32_t command = 0;
    BreathRef ref;
    ref.command = &command;
    ref.state = &state;
    ref.workers = 1;
    const auto urge_after = [&](uint32_t urge, uint64_t asking) {
        state.urge = urge;
        command = detail::next_attempt(ref, 0);
        state.soon_ns -= asking;
        EXPECT_TRUE(detail::pass_gate(ref, command | breath_go)); // it is there before the leader
        EXPECT_TRUE(detail::hand_over(ref, command));
        return state.urge;
    };
    const uint64_t longer = 2 * (detail::gate_ns << detail::most_doubled);
    EXPECT_EQ(urge_after(detail::all_wait, longer), detail::all_wait);
    EXPECT_EQ(urge_after(detail::all_wait, 0), detail::all_wait - 1);
    EXPECT_EQ(urge_after(detail::all_wait - 1, longer), detail::all_wait - 2)
        << "its gate has waited long enough";
}

// It would be in a round when the gate is shut, at every attempt.
TEST(BreathEnd, WhoHasWaitedForTheWordToLeaveLooksAtOnce)
{
    Breath state{};
    uint32_t command = 0;
    uint32_t acked = 0;
    BreathRef ref;
    ref.command = &command;
    ref.state = &state;
    ref.acked = &acked;
    ref.workers = 1;
    state.asking_ns = 1'000'000;
    const uint32_t soon = detail::next_attempt(ref, detail::all_wait);
    store<Scope::gpu>(&command, soon);
    std::thread leader([&] {
        while (load<Scope::gpu>(&acked) != detail::attempt_of(soon)) { // ends: by acknowledge()
            std::this_thread::yield();
        }
        store<Scope::gpu>(&command, soon | breath_go);
    });
    EXPECT_EQ(detail::acknowledge(ref, 0, soon), 0u);
    EXPECT_EQ(load<Scope::gpu>(&command), soon | breath_go);
    leader.join();
    EXPECT_EQ(detail::acknowledge(ref, 0, soon), 1u) << "one that has been told goes on working";
}

} // namespace
