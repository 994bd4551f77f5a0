// SPDX-License-Identifier: Apache-2.0
// Receive and send again, between two pinned threads: items of 32 bytes, 64 of them in circulation,
// through two channels of 64 slots, as in qsdr's channel benchmark; millions of loops per second,
// the median of runs that take turns. Every channel blocks when it is empty the way its users let
// it: ours spins, then sleeps; the lock's sleeps on its condition; the lock-free queues are asked
// again and again.
#include "common.hpp"

#include <denizen/flow/async_channel.hpp>
#include <denizen/flow/channel.hpp>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>

#if __has_include(<boost/lockfree/spsc_queue.hpp>)
#include <boost/lockfree/spsc_queue.hpp>
#define HAVE_BOOST 1
#endif
#if __has_include(<readerwriterqueue/readerwriterqueue.h>)
#include <readerwriterqueue/readerwriterqueue.h>
#define HAVE_READERWRITER 1
#endif
#if __has_include(<concurrentqueue/concurrentqueue.h>)
#include <concurrentqueue/concurrentqueue.h>
#define HAVE_CONCURRENT 1
#elif __has_include(<concurrentqueue/moodycamel/concurrentqueue.h>)
#include <concurrentqueue/moodycamel/concurrentqueue.h>
#define HAVE_CONCURRENT 1
#endif

namespace {

using namespace denizen;
using namespace denizen::bench;

constexpr uint32_t depth = 64;

struct Item {
    uint64_t word[4];
};
static_assert(sizeof(Item) == 32);

class Ours {
public:
    void send(const Item& item) { channel_.send(item); }
    void receive(Item& item) { channel_.receive(item); } // false only after a close

private:
    flow::Channel<Item> channel_{depth};
};

// The same with a second sender that stays silent: the receiver looks at two lanes.
class OursOfTwo {
public:
    void send(const Item& item) { channel_.send(item); }
    void receive(Item& item) { channel_.receive(item); }

private:
    flow::Channel<Item> channel_{depth, 2};
};

class Locked {
public:
    void send(const Item& item)
    {
        {
            const std::lock_guard lock(mutex_);
            items_.push(item);
        }
        filled_.notify_one();
    }
    void receive(Item& item)
    {
        std::unique_lock lock(mutex_);
        filled_.wait(lock, [&] { return !items_.empty(); });
        item = items_.front();
        items_.pop();
    }

private:
    std::mutex mutex_;
    std::condition_variable filled_;
    std::queue<Item> items_;
};

// Asks until there is an item; now and then lets others have the core.
template <class Ask>
void until(Ask&& ask)
{
    for (uint32_t tries = 1; !ask(); ++tries) { // ends: the other thread sends what it receives
        relax();
        if (tries % 1024 == 0) sched_yield();
    }
}

#if HAVE_BOOST
class Boost {
public:
    void send(const Item& item)
    {
        until([&] { return queue_.push(item); });
    }
    void receive(Item& item)
    {
        until([&] { return queue_.pop(item); });
    }

private:
    boost::lockfree::spsc_queue<Item, boost::lockfree::capacity<depth>> queue_;
};
#endif
#if HAVE_READERWRITER
class ReaderWriter {
public:
    void send(const Item& item)
    {
        until([&] { return queue_.try_enqueue(item); });
    }
    void receive(Item& item)
    {
        until([&] { return queue_.try_dequeue(item); });
    }

private:
    moodycamel::ReaderWriterQueue<Item> queue_{depth};
};
#endif

#if HAVE_CONCURRENT
class Concurrent {
public:
    void send(const Item& item) { queue_.enqueue(item); }
    void receive(Item& item)
    {
        until([&] { return queue_.try_dequeue(item); });
    }

private:
    moodycamel::ConcurrentQueue<Item> queue_{depth};
};

// As its author says to use it where a thread stays: a token for each end.
class ConcurrentTokens {
public:
    void send(const Item& item) { queue_.enqueue(producer_, item); }
    void receive(Item& item)
    {
        until([&] { return queue_.try_dequeue(consumer_, item); });
    }

private:
    moodycamel::ConcurrentQueue<Item> queue_{depth};
    moodycamel::ProducerToken producer_{queue_};
    moodycamel::ConsumerToken consumer_{queue_};
};
#endif

int cores[2] = {-1, -1};

bool whole_item(const Item& item, uint64_t turn, uint64_t rounds)
{
    return item.word[0] == turn % depth && item.word[1] == rounds + turn / depth * 2 &&
           item.word[2] == item.word[0] + item.word[1] && item.word[3] == ~item.word[0];
}

// `loops` of the first thread, in M/s. Item i carries i, how often it went round, and their sum,
// which both threads keep true; whatever is lost, doubled, torn or overtaken shows.
template <class Kind>
double circulate(uint64_t loops, bool& right)
{
    const auto there = std::make_unique<Kind>();
    const auto back = std::make_unique<Kind>();
    for (uint64_t i = 0; i < depth; ++i) there->send({{i, 0, i, ~i}});
    const auto pass = [&](Kind& from, Kind& to, uint64_t turn, uint64_t rounds) {
        Item item;
        from.receive(item);
        const bool good = whole_item(item, turn, rounds);
        to.send({{item.word[0], item.word[1] + 1, item.word[2] + 1, item.word[3]}});
        return good;
    };
    bool other_right = true;
    std::thread other([&] {
        if (cores[1] >= 0) pin_to_core(cores[1]);
        for (uint64_t turn = 0; turn < loops; ++turn) other_right &= pass(*there, *back, turn, 0);
    });
    const uint64_t begin = now_ns();
    for (uint64_t turn = 0; turn < loops; ++turn) right &= pass(*back, *there, turn, 1);
    const auto ns = static_cast<double>(now_ns() - begin);
    other.join();
    right &= other_right;
    Item item;
    for (uint64_t i = 0; i < depth; ++i) { // all are there, and as often round as the loops tell
        there->receive(item);
        right &= whole_item(item, loops + i, 0);
    }
    return static_cast<double>(loops) / ns * 1e3;
}

// The same with a coroutine on each of the two cores: where a thread would sleep it is suspended.
using OursAsync = flow::AsyncChannel<Item>;

flow::Coroutine pass_on(OursAsync& from, OursAsync& to, uint64_t loops, uint64_t rounds,
                        bool& right)
{
    Item item{};
    for (uint64_t turn = 0; turn < loops; ++turn) {
        right &= co_await from.receive(item) && whole_item(item, turn, rounds);
        to.send({{item.word[0], item.word[1] + 1, item.word[2] + 1, item.word[3]}});
    }
}

double circulate_async(uint64_t loops, bool& right)
{
    OursAsync there(depth);
    OursAsync back(depth);
    for (uint64_t i = 0; i < depth; ++i) there.send({{i, 0, i, ~i}});
    flow::Scheduler first({cores[0]});
    flow::Scheduler second({cores[1]});
    bool other_right = true;
    bool this_right = true;
    const uint64_t begin = now_ns();
    second.spawn(pass_on(there, back, loops, 0, other_right));
    first.spawn(pass_on(back, there, loops, 1, this_right));
    first.wait();
    const auto ns = static_cast<double>(now_ns() - begin);
    second.wait();
    Item item{};
    for (uint64_t i = 0; i < depth; ++i) { // all are there
        right &= there.try_receive(item) && whole_item(item, loops + i, 0);
    }
    right &= this_right && other_right;
    return static_cast<double>(loops) / ns * 1e3;
}

struct Arm {
    Case result;
    Samples samples;
    double (*run)(uint64_t, bool&);
    bool right = true;
};

} // namespace

int main(int argc, char** argv)
{
    bool quick = false;
    for (int i = 1; i < argc; ++i) quick |= std::strcmp(argv[i], "--quick") == 0;
    const std::vector<int> allowed = allowed_cores();
    if (allowed.size() > 1) {
        cores[0] = allowed[0];
        cores[1] = allowed[1];
        pin_to_core(cores[0]);
    }
    print_environment(Json().add("channel_cores",
                                 allowed.size() > 1
                                     ? std::to_string(cores[0]) + " and " + std::to_string(cores[1])
                                     : std::string("not pinned")));
    const uint32_t rounds = quick ? 5 : 15;
    const uint64_t loops = quick ? 200'000 : 2'000'000;
    std::vector<Arm> arms;
    std::vector<std::string> rivals;
    const auto add = [&](const std::string& name, double (*run)(uint64_t, bool&),
                         const std::vector<std::string>& bases = {}, const char* arm = "") {
        Case result(name, Json().add("bytes", 32).add("depth", depth), "M/s");
        result.ratio_base = bases;
        result.arm = arm;
        arms.push_back({result, Samples(rounds), run});
    };
    const auto rival = [&](const char* name, double (*run)(uint64_t, bool&)) {
        add(name, run);
        rivals.emplace_back(name);
    };
    rival("mutex and condition", circulate<Locked>);
#if HAVE_BOOST
    rival("boost spsc_queue", circulate<Boost>);
#endif
#if HAVE_READERWRITER
    rival("moodycamel readerwriter", circulate<ReaderWriter>);
#endif
#if HAVE_CONCURRENT
    rival("moodycamel concurrent", circulate<Concurrent>);
    rival("moodycamel concurrent with tokens", circulate<ConcurrentTokens>);
#endif
    add("denizen channel", circulate<Ours>, rivals);
    add("denizen channel", circulate<Ours>, {}, "A/A");
    add("denizen channel of two senders", circulate<OursOfTwo>, rivals);
    add("denizen channel, coroutines", circulate_async, rivals);
    for (Arm& arm : arms) arm.run(loops / 8, arm.right);
    interleaved(rounds, arms.size(),
                [&](size_t i) { arms[i].samples.add(arms[i].run(loops, arms[i].right)); });
    for (Arm& arm : arms) {
        arm.result.n = loops * rounds;
        arm.result.verified = arm.right;
        arm.result.print(arm.samples);
    }
    return 0;
}
