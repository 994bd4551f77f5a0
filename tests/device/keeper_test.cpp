// SPDX-License-Identifier: Apache-2.0
// What a program's keeper launches, over a driver that is not there (fake_driver.cpp). A thread
// stands for the GPU: it ends one incarnation after the other, in the order of the stream.
#include "load_fake_driver.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/device/keeper.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace {

using namespace denizen;
using namespace denizen::gpu;

FakeDriver* const fake = load_fake_driver(DENIZEN_FAKE_DRIVER);

struct Launch {
    uint32_t number;
    bool successor;
    char kernel;
    uint32_t said; // ResidentWords::launching
    uint64_t at;   // when it began
    uint64_t returned;
};

struct Launching {
    uint32_t failing = 0; // the number of a launch that fails,
    uint32_t held_up = 0; // and of one that lasts
    uint64_t breath_ns = 1'000'000;
};

class Program {
public:
    explicit Program(Launching how = {}) : context_(device_info(0)), how_(how)
    {
        Kept kept;
        kept.blocks = 1;
        kept.breath_ns = how.breath_ns;
        kept.tick_ns = 1'000'000;
        kept.words = &words_;
        kept.command = 1;
        kept.context = &context_;
        kept.info = device_info(0);
        kept.launch = launching('a');
        keeper.start(std::move(kept));
        gpu_ = std::thread([this] { run(); });
    }

    ~Program()
    {
        keeper.command(Command::stop);
        EXPECT_TRUE(keeper.join(10'000'000'000));
        gpu_.join();
    }

    std::function<void(uint32_t, bool)> launching(char kernel)
    {
        return [this, kernel](uint32_t number, bool successor) {
            const uint32_t said = load<Scope::system>(&words_.launching);
            const uint64_t began = now_ns();
            if (number == how_.held_up) {
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
            }
            const std::lock_guard guard(mutex_);
            launches_.push_back({number, successor, kernel, said, began, now_ns()});
            if (number == how_.failing) {
                throw Error(Errc::driver, "the launch fails");
            }
        };
    }

    std::vector<Launch> launches()
    {
        const std::lock_guard guard(mutex_);
        return launches_;
    }

    // Waits until so many have been launched by `kernel`.
    bool launched(char kernel, size_t count)
    {
        const uint64_t begin = now_ns();
        while (now_ns() - begin < 20'000'000'000) { // ends: by the keeper or by the deadline
            const auto all = launches();
            if (static_cast<size_t>(std::count_if(all.begin(), all.end(), [&](const Launch& l) {
                    return l.kernel == kernel;
                })) >= count) {
                return true;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return false;
    }

    // What the keeper says that it launches: 0 as soon as that is done.
    uint32_t launching() { return load<Scope::system>(&words_.launching); }

    Keeper keeper;

private:
    void run()
    {
        for (;;) { // ends: the program is told to stop
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const auto queued = static_cast<uint32_t>(launches().size());
            const uint32_t ended = load<Scope::system>(&words_.ended);
            const auto told = load<Scope::system, Order::acquire>(&words_.command);
            if (told == static_cast<uint32_t>(Command::stop)) {
                store<Scope::system>(&words_.ended, queued);
                store<Scope::system, Order::release>(&words_.mode,
                                                     static_cast<uint32_t>(Mode::left));
                return;
            }
            store<Scope::system>(&words_.mode, static_cast<uint32_t>(Mode::running));
            if (ended < queued) {
                store<Scope::system, Order::release>(&words_.ended, ended + 1);
            }
        }
    }

    ResidentWords words_;
    PrimaryContext context_;
    Launching how_;
    std::mutex mutex_;
    std::vector<Launch> launches_;
    std::thread gpu_;
};

TEST(keeper, launches_the_other_kernel_from_one_incarnation_to_the_next)
{
    ASSERT_NE(fake, nullptr);
    *fake = {};
    Program program;
    ASSERT_TRUE(program.launched('a', 3));
    program.keeper.exchange(program.launching('b'));
    const size_t before = program.launches().size();
    ASSERT_TRUE(program.launched('b', 3));
    const auto all = program.launches();
    for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(all[i].number, i + 1) << "none is lost and none comes twice";
        EXPECT_EQ(all[i].successor, i != 0) << "each goes on where the one before it has ended";
        if (i >= before) {
            EXPECT_EQ(all[i].kernel, 'b') << "launch " << i + 1;
        }
    }
    EXPECT_EQ(program.keeper.launches(), 1u) << "the program has not left the GPU for it";
}

// A successor of what is not there would have no monitor, and nobody could end it.
TEST(keeper, launches_nothing_behind_a_launch_that_failed)
{
    ASSERT_NE(fake, nullptr);
    for (const uint32_t failing : {1u, 2u, 3u}) {
        *fake = {};
        Program program({.failing = failing});
        ASSERT_TRUE(program.launched('a', failing));
        while (!program.keeper.failed()) { // ends: by the keeper
            std::this_thread::yield();
        }
        std::string why;
        EXPECT_EQ(program.keeper.failure(why), Errc::peer_dead);
        EXPECT_NE(why.find("the program could not be launched: the launch fails"),
                  std::string::npos)
            << why;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_EQ(program.launches().size(), failing);
    }
}

// By that the incarnation before it sees that its launch is held up.
TEST(keeper, says_which_incarnation_it_launches_as_long_as_that_takes)
{
    ASSERT_NE(fake, nullptr);
    *fake = {};
    Program program;
    ASSERT_TRUE(program.launched('a', 5));
    for (const Launch& l : program.launches()) {
        EXPECT_EQ(l.said, l.number);
    }
    bool silent = false;
    const uint64_t begin = now_ns();
    while (!silent && now_ns() - begin < 20'000'000'000) { // ends: the next is a millisecond away
        silent = program.launching() == 0;
    }
    EXPECT_TRUE(silent) << "the last launch has returned";
}

// Who frees one piece of memory often frees the next: that is to hold up a launch, too, and not to
// wait until the breath is nearly over.
TEST(keeper, launches_the_next_soon_after_a_launch_that_was_held_up)
{
    ASSERT_NE(fake, nullptr);
    *fake = {};
    constexpr uint64_t breath = 1'200'000'000;
    Program program({.held_up = 3, .breath_ns = breath});
    ASSERT_TRUE(program.launched('a', 4));
    const auto all = program.launches();
    EXPECT_GT(all[2].at - all[1].returned, breath / 2) << "it sleeps for most of a breath";
    EXPECT_LT(all[3].at - all[2].returned, breath / 2);
}

TEST(keeper, exchanges_while_it_launches)
{
    ASSERT_NE(fake, nullptr);
    *fake = {};
    Program program;
    for (size_t turn = 1; turn <= 20; ++turn) {
        program.keeper.exchange(program.launching('b'));
        ASSERT_TRUE(program.launched('b', turn));
        program.keeper.exchange(program.launching('a'));
    }
}

} // namespace
