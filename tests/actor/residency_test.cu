// SPDX-License-Identifier: Apache-2.0
// The life of a resident program: limits, pause and resume, drain, stuck handlers, close in every
// state, threads that meet a close, several programs at once, and what an idle one costs.
#include <actor/places.hpp>
#include <support/leaks.hpp>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sys/resource.h>

struct Add {
    uint32_t n;
};
struct Read {};
struct Sum {
    uint64_t value;
};
struct Mark { // counts in a word that the host reads
    uint64_t word;
};
struct Ball { // goes to and fro until `left` is 0; 0 at the start: for ever
    uint32_t to;
    uint32_t left;
};
struct Loop { // stays in the handler until the host sets the word
    uint64_t word;
};
struct Tell {};

struct Counter {
    uint64_t sum = 0;

    DENIZEN_HD void on(const Add& m, auto&) { sum += m.n; }
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(Sum{sum}); }
    DENIZEN_HD void on(const Tell&, auto& ctx) { ctx.send(denizen::host, Sum{sum}); }
    DENIZEN_HD void on(const Mark& m, auto&)
    {
        // The old value is used: the addition has happened when the handler ends.
        auto* word = reinterpret_cast<uint32_t*>(m.word);
        sum = denizen::fetch_add<denizen::Scope::system>(word, 1u);
    }
    DENIZEN_HD void on(const Ball& m, auto& ctx)
    {
        ++sum;
        if (m.left != 1) {
            ctx.send(denizen::Address{m.to}, Ball{ctx.self().value, m.left == 0 ? 0 : m.left - 1});
        }
    }
};

struct Looper {
    uint64_t done = 0;

    DENIZEN_HD void on(const Loop& m, auto&)
    {
        // Ends when the host says so (or when the GPU's context is torn down).
        while (denizen::load<denizen::Scope::system>(reinterpret_cast<const uint32_t*>(m.word)) ==
               0) {
            denizen::relax();
        }
        ++done;
    }
    DENIZEN_HD void on(const Add&, auto&) {}
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(Sum{done}); }
};

using Living = denizen::Program<denizen::Actors<Counter, Looper>,
                                denizen::Messages<Add, Read, Sum, Mark, Ball, Loop, Tell>>;

struct Other {
    uint32_t xored = 0;
    DENIZEN_HD void on(const Add& m, auto&) { xored ^= m.n; }
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(Sum{xored}); }
};
using Another = denizen::Program<denizen::Actors<Other>, denizen::Messages<Read, Sum, Add>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Living>;

// Some actors per worker, whatever their number.
constexpr uint32_t several = 12;

class life : public AtEveryPlace {
protected:
    static Options options()
    {
        Options o = AtEveryPlace::options();
        o.host_ring_slots = 16; // so that full host rings are reached soon
        return o;
    }
};
DENIZEN_AT_EVERY_PLACE(life);

size_t threads_of_this_process()
{
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("Threads:", 0) == 0) {
            return std::strtoul(line.c_str() + 8, nullptr, 10);
        }
    }
    return 0;
}

// ---- limits

TEST_P(life, values_outside_their_range_are_refused)
{
    const auto refused = [](const std::string& text, auto&& change) {
        Options o = options();
        change(o);
        expect_error(Errc::bad_argument, text, [&] { Rt rt(device(), o); });
    };
    const std::string power = "; use a power of two from 2 to ";
    refused("host_ring_slots = 3" + power + "65536", [](Options& o) { o.host_ring_slots = 3; });
    refused("host_ring_slots = 0" + power + "65536", [](Options& o) { o.host_ring_slots = 0; });
    refused("inbox_slots = 1" + power + "65536", [](Options& o) { o.inbox_slots = 1; });
    refused("inbox_slots = 131072" + power + "65536", [](Options& o) { o.inbox_slots = 1u << 17; });
    refused("egress_slots = 2097152" + power + "1048576",
            [](Options& o) { o.egress_slots = 1u << 21; });
    refused("asks = 0; use 1 to 65,536", [](Options& o) { o.asks = 0; });
    refused("asks = 65537; use 1 to 65,536", [](Options& o) { o.asks = 65537; });
    refused("max_actors = 0 on 2 workers; use 1 to 262,144 per worker", [](Options& o) {
        o.workers = 2;
        o.max_actors = 0;
    });
    refused("max_actors = 600000 on 2 workers; use 1 to 262,144 per worker", [](Options& o) {
        o.workers = 2;
        o.max_actors = 600'000;
    });
    for (const auto& bad : {-1ms, 0ms}) {
        Options o = options();
        o.host_timeout = bad;
        EXPECT_EQ(error_of([&] { Rt rt(device(), o); }).code(), Errc::bad_argument);
    }
    Options negative = options();
    negative.idle = -1ms;
    EXPECT_EQ(error_of([&] { Rt rt(device(), negative); }).code(), Errc::bad_argument);
    if (on_gpu()) {
        Options many = options();
        many.workers = 2049;
        EXPECT_EQ(error_of([&] { Rt rt(device(), many); }).code(), Errc::no_fit);
    } else {
        refused("workers = 2049; use 1 to 2048", [](Options& o) { o.workers = 2049; });
    }
    // The smallest of everything works.
    Options o = small_rings(options());
    o.asks = 1;
    o.max_actors = std::max(o.workers, 1u);
    o.workers = o.max_actors;
    o.state_bytes = 4096;
    Rt rt(device(), o);
    const Address a = rt.spawn<Counter>();
    for (uint32_t i = 0; i < 100; ++i) {
        rt.send(a, Add{1});
    }
    EXPECT_EQ(rt.ask<Sum>(a, Read{}).value, 100u);
}

TEST(life_without_a_gpu, is_told)
{
    if (gpu_here()) {
        GTEST_SKIP() << "this machine has a CUDA device";
    }
#if defined(__CUDACC__)
    const Error e = error_of([] { Rt rt(Device::gpu()); });
    EXPECT_EQ(e.code(), Errc::no_device);
    EXPECT_STRNE(e.what(), "");
#else
    expect_error(Errc::no_device,
                 "this program was compiled for the CPU only; compile it for the GPU too or choose "
                 "the CPU",
                 [] { Rt rt(Device::gpu()); });
#endif
}

TEST(life_automatic, takes_the_gpu_if_there_is_one)
{
    Rt rt;
    EXPECT_EQ(rt.description().on_gpu, gpu_here());
    EXPECT_GE(rt.description().workers, 1u);
    const Address a = rt.spawn<Counter>();
    rt.send(a, Add{3});
    EXPECT_EQ(rt.ask<Sum>(a, Read{}).value, 3u);
}

TEST(life_image, of_another_layout_is_refused)
{
    Image image = image_of<Living>();
    image.table.abi = layout_abi + 1;
    Options o;
    o.device = Device::cpu();
    expect_error(Errc::compile,
                 "the program was compiled for layout " + std::to_string(layout_abi + 1) +
                     ", this runtime has " + std::to_string(layout_abi) + "; compile it again",
                 [&] { AnyRuntime rt(image, o); });
}

// Workers that never report: the constructor gives up, and nothing of it stays.
TEST(life_image, that_does_not_start)
{
    Image image = image_of<Living>();
    image.run_worker = [](const Shared&, uint32_t) {};
    Options o;
    o.device = Device::cpu();
    o.workers = 2;
    const size_t threads = threads_of_this_process();
    expect_error(Errc::timeout,
                 "the program did not start within 10 s on 2 workers; is the processor taken by "
                 "another program?",
                 [&] { AnyRuntime rt(image, o); });
    EXPECT_TRUE(eventually([&] { return threads_of_this_process() == threads; }));
}

// A worker that says it runs, with three sends parked, and never looks at the command to pause.
TEST(life_image, whose_workers_do_not_pause)
{
    Image image = image_of<Living>();
    image.run_worker = [](const Shared& s, uint32_t id) {
        const auto tell = [&](Mode mode) {
            store<Scope::gpu, Order::release>(&s.status[id].mode, static_cast<uint32_t>(mode));
        };
        store<Scope::gpu>(&s.status[id].outbox, id == 1 ? 3u : 0u);
        tell(Mode::running);
        while (load<Scope::gpu>(&s.board->command) != static_cast<uint32_t>(Command::stop)) {
            if (id == 0 &&
                load<Scope::gpu>(&s.board->command) == static_cast<uint32_t>(Command::pause)) {
                tell(Mode::paused);
            }
            std::this_thread::yield();
        }
        tell(Mode::left);
    };
    Options o;
    o.device = Device::cpu();
    o.workers = 3;
    AnyRuntime rt(image, o);
    expect_error(Errc::timeout,
                 "not paused after 0.1 s: worker 1 is running, between two messages, with 3 sends "
                 "or orders waiting (and 1 more)",
                 [&] { rt.pause(100ms); });
    rt.close(100ms);
}

TEST_P(life, description_says_what_was_taken)
{
    Rt rt(device(), AtEveryPlace::options());
    const Description& d = rt.description();
    EXPECT_EQ(d.on_gpu, on_gpu());
    EXPECT_GT(d.start_ms, 0.0);
    EXPECT_GT(d.host_bytes + d.device_bytes, uint64_t{64} * 256); // at least the host rings
    EXPECT_LE(d.host_bytes, 64u << 20) << "default limits";
    // Inbox and outbox of a worker of a GPU take 1 MiB each (docs/runtime.md).
    const uint64_t rings = d.workers * uint64_t{on_gpu() ? 5u << 19 : 0};
    EXPECT_LE(d.device_bytes, (64u << 20) + rings) << "default limits";
    if (!on_gpu()) {
        EXPECT_EQ(d.device, "CPU");
        EXPECT_EQ(d.host_ring_memory, "host");
    } else {
        EXPECT_TRUE(d.host_ring_memory == "mapped" ||
                    (d.host_ring_memory == "pinned" && !d.why_not_mapped.empty()));
    }
}

// ---- pause, drain

TEST_P(life, nothing_is_handled_while_paused_and_nothing_is_lost)
{
    Rt rt(device(), AtEveryPlace::options());
    const auto actors = rt.spawn<Counter>(several);
    uint32_t sent = 0;
    for (int round = 0; round < 5; ++round) {
        // A ball is in the air when the pause comes.
        rt.send(actors[0], Ball{actors[1].value, 0});
        rt.pause(10s);
        const uint64_t before = rt.stats().handled;
        EXPECT_EQ(rt.stats().mode, Mode::paused);
        EXPECT_EQ(rt.telemetry().mode, Mode::paused);
        for (const Address a : actors) {
            rt.send(a, Add{1}, 10s);
            ++sent;
        }
        rt.send(actors[2], Tell{});
        std::this_thread::sleep_for(30ms);
        EXPECT_EQ(rt.stats().handled, before);
        Sum none;
        EXPECT_EQ(rt.receive_many(&none, 1), 0u);
        EXPECT_EQ(error_of([&] { rt.ask<Sum>(actors[3], Read{}, 20ms); }).code(), Errc::timeout);
        EXPECT_EQ(error_of([&] { rt.drain(20ms); }).code(), Errc::timeout);
        rt.pause(); // twice is once
        rt.resume();
        EXPECT_EQ(rt.receive(10s).header.type, Rt::id<Sum>());
        ASSERT_TRUE(eventually([&] { return rt.stats().handled > before + several + 100; }))
            << "the ball goes on";
        uint64_t sum = 0;
        for (size_t i = 2; i < several; ++i) { // the two that play count their catches too
            sum += rt.ask<Sum>(actors[i], Read{}, 10s).value;
        }
        EXPECT_EQ(sum, sent / several * (several - 2));
    }
    rt.resume(); // without a pause: nothing
    EXPECT_EQ(rt.stats().errors, 0u);
}

TEST_P(life, a_host_ring_that_fills_while_paused_says_so)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Counter>();
    rt.pause(10s);
    // Up to a quarter of the host ring may be room that the worker has not given back.
    uint32_t accepted = 0;
    expect_error_like(Errc::full,
                      "host ring of worker " + std::to_string(a.worker()) +
                          " \\(16 slots\\) is full: its worker has not kept up for [0-9.e-]+ s",
                      [&] {
                          for (; accepted < 100; ++accepted) {
                              rt.send(a, Add{1}, 50ms);
                          }
                      });
    EXPECT_GE(accepted, 12u);
    EXPECT_LE(accepted, 16u);
    const std::vector<Add> more(20, Add{1});
    expect_error_like(Errc::full,
                      "host ring of worker .* has not kept up for [0-9.e-]+ s "
                      "\\(0 of 20 messages were accepted before it\\)",
                      [&] { rt.send_many(a, more.data(), more.size(), 50ms); });
    rt.resume();
    EXPECT_EQ(rt.ask<Sum>(a, Read{}, 10s).value, accepted) << "what was refused was not sent";
}

// The host counts what handlers did, in its own memory: after drain() all of it has happened.
TEST_P(life, drain_returns_when_all_has_been_handled)
{
    SharedWord word(on_gpu());
    Rt rt(device(), options());
    const auto actors = rt.spawn<Counter>(several);
    uint32_t sent = 0;
    for (uint32_t round = 0; round < scaled(300); ++round) {
        const uint32_t n = 1 + round * 37 % 200;
        for (uint32_t i = 0; i < n; ++i, ++sent) {
            rt.send(actors[(round + i) % several], Mark{word.address()}, 10s);
        }
        rt.drain();
        ASSERT_EQ(word.get(), sent) << "round " << round;
    }
    // A chain of messages is waited for to its end.
    for (uint32_t round = 0; round < 20; ++round) {
        const uint64_t before = rt.stats().handled;
        rt.send(actors[round % 3], Ball{actors[3 + round % 5].value, 100 + round});
        rt.drain();
        ASSERT_EQ(rt.stats().handled, before + 100 + round);
    }
}

TEST_P(life, close_handles_what_was_sent_before_it)
{
    SharedWord word(on_gpu());
    const uint32_t n = scaled(20'000);
    {
        Rt rt(device(), options());
        const auto actors = rt.spawn<Counter>(several);
        for (uint32_t i = 0; i < n; ++i) {
            rt.send(actors[i % several], Mark{word.address()}, 10s);
        }
        rt.close(20s);
        EXPECT_EQ(word.get(), n);
    }
    {
        Rt rt(device(), options()); // the destructor alone
        const auto actors = rt.spawn<Counter>(several);
        for (uint32_t i = 0; i < 50; ++i) {
            rt.send(actors[i % several], Mark{word.address()}, 10s);
        }
    }
    EXPECT_EQ(word.get(), n + 50);
}

TEST_P(life, close_while_paused_and_close_twice)
{
    SharedWord word(on_gpu());
    Rt rt(device(), options());
    const Address a = rt.spawn<Counter>();
    rt.pause(10s);
    for (int i = 0; i < 7; ++i) {
        rt.send(a, Mark{word.address()});
    }
    EXPECT_EQ(word.get(), 0u);
    rt.close(20s);
    EXPECT_EQ(word.get(), 7u);
    rt.close();
    rt.close(0ns);
}

TEST_P(life, every_call_after_close_says_closed)
{
    Rt rt(device(), options());
    const auto a = rt.spawn<Counter>(2);
    rt.send(a[0], Add{1});
    rt.close(20s);
    const std::string text = "the runtime is closed";
    Add one{1};
    Sum sum;
    expect_error(Errc::closed, text, [&] { rt.send(a[0], one); });
    expect_error(Errc::closed, text, [&] { rt.send_many(a.data(), &one, 1); });
    expect_error(Errc::closed, text, [&] { rt.broadcast<Counter>(one); });
    expect_error(Errc::closed, text, [&] { rt.ask<Sum>(a[0], Read{}); });
    expect_error(Errc::closed, text, [&] { rt.ask_many<Sum>(a, Read{}); });
    expect_error(Errc::closed, text, [&] { rt.spawn<Counter>(); });
    expect_error(Errc::closed, text, [&] { rt.stop(a[0]); });
    expect_error(Errc::closed, text, [&] { rt.pause(); });
    expect_error(Errc::closed, text, [&] { rt.resume(); });
    expect_error(Errc::closed, text, [&] { rt.park(); });
    expect_error(Errc::closed, text, [&] { rt.drain(); });
    expect_error(Errc::closed, text, [&] { rt.receive(); });
    EXPECT_EQ(rt.receive_many(&sum, 1), 0u);
    EXPECT_EQ(rt.stats().mode, Mode::left);
    EXPECT_GE(rt.stats().handled, 2u);
    EXPECT_EQ(rt.stuck(0ns), "");
}

TEST_P(life, what_arrived_before_close_can_be_read_after_it)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Counter>();
    rt.send(a, Add{9});
    for (int i = 0; i < 3; ++i) {
        rt.send(a, Tell{});
    }
    rt.close(20s);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(rt.receive(10s).header.type, Rt::id<Sum>());
    }
    EXPECT_EQ(error_of([&] { rt.receive(1s); }).code(), Errc::closed);
}

TEST_P(life, a_program_that_never_rests_can_be_closed)
{
    Rt rt(device(), options());
    const auto a = rt.spawn<Counter>(2);
    rt.send(a[0], Ball{a[1].value, 0});
    ASSERT_TRUE(eventually([&] { return rt.stats().handled > 1000; }));
    EXPECT_EQ(error_of([&] { rt.drain(50ms); }).code(), Errc::timeout);
    rt.close(100ms); // no handler is stuck: no error
    EXPECT_EQ(rt.stats().mode, Mode::left);
    Rt again(device(), options());
    EXPECT_EQ(again.ask<Sum>(again.spawn<Counter>(), Read{}).value, 0u);
}

// ---- stuck handlers

TEST_P(life, a_handler_that_takes_long_is_named_while_it_does)
{
    SharedWord word(on_gpu());
    Rt rt(device(), options());
    const Address looper = rt.spawn<Looper>();
    EXPECT_EQ(rt.stuck(0ns), "");
    rt.send(looper, Loop{word.address()});
    ASSERT_TRUE(eventually([&] { return !rt.stuck(100ms).empty(); }));
    const std::string who = "worker " + std::to_string(looper.worker()) +
                            " is stuck: " + named("Looper", looper) +
                            " has been handling Loop for [0-9.e-]+ s";
    EXPECT_TRUE(matches(rt.stuck(100ms), who)) << rt.stuck(100ms);
    EXPECT_EQ(rt.stuck(1h).find(" is stuck"), std::string::npos); // the breath may be named
    // Whoever waits for it is told.
    expect_error_like(Errc::timeout,
                      "ask Read to " + named("Looper", looper) +
                          " was not answered within 0.1 s: " + who,
                      [&] { rt.ask<Sum>(looper, Read{}, 100ms); });
    expect_error_like(Errc::timeout, "messages are still being handled after 0.1 s: " + who,
                      [&] { rt.drain(100ms); });
    expect_error_like(Errc::timeout, "not paused after 0.1 s: " + who, [&] { rt.pause(100ms); });
    rt.resume();
    std::vector<Add> many(1000);
    ASSERT_TRUE(eventually([&] { return !rt.stuck(600ms).empty(); }));
    const Error e = error_of([&] { rt.send_many(looper, many.data(), many.size(), 100ms); });
    EXPECT_EQ(e.code(), Errc::full);
    std::string count;
    ASSERT_TRUE(matches(e.what(),
                        "host ring of worker [0-9]+ \\(16 slots\\) is full: " + who +
                            " \\(([0-9]+) of 1000 messages were accepted before it\\)",
                        &count))
        << e.what();
    const uint64_t accepted = std::stoull(count);
    EXPECT_LE(accepted, 16u);
    const uint64_t before = rt.stats().handled;
    word.set(1);
    rt.drain(20s);
    EXPECT_EQ(rt.ask<Sum>(looper, Read{}, 10s).value, 1u);
    EXPECT_EQ(rt.stuck(0ns), "");
    // The loop, the ask that gave up, what was accepted, and the last ask.
    EXPECT_EQ(rt.stats().handled - before, 1 + 1 + accepted + 1);
}

TEST_P(life, close_names_a_handler_that_does_not_return)
{
    if (on_gpu() && !in_a_process_of_its_own()) {
        return;
    }
    SharedWord word(on_gpu());
    const LeaksAreMeant scope;
    const size_t threads = threads_of_this_process();
    {
        Rt rt(device(), options());
        const auto counters = rt.spawn<Counter>(several);
        const Address looper = rt.spawn<Looper>();
        rt.send(looper, Loop{word.address()});
        expect_error_like(Errc::stuck,
                          "worker " + std::to_string(looper.worker()) +
                              " is stuck: " + named("Looper", looper) +
                              " has been handling Loop for [0-9.e-]+ s; " +
                              (on_gpu() ? "its GPU context has been torn down, start a new "
                                          "process to use the GPU again"
                                        : "its thread has been left behind"),
                          [&] { rt.close(300ms); });
        rt.close(); // harmless
        expect_error(Errc::closed, "the runtime is closed", [&] { rt.send(looper, Add{1}); });
        expect_error(Errc::closed, "the runtime is closed", [&] { rt.ask<Sum>(looper, Read{}); });
        expect_error(Errc::closed, "the runtime is closed", [&] { rt.receive(1s); });
        rt.stats();
        EXPECT_EQ(rt.stuck(1h), "");
    }
    if (!on_gpu()) {
        word.set(1); // now it returns, and its thread ends by itself
        EXPECT_TRUE(eventually([&] { return threads_of_this_process() == threads; }));
    }
    // The process goes on; where the GPU's context is gone, on the CPU.
    if (on_gpu()) {
        EXPECT_NE(error_of([] { Rt rt(device(), options()); }).code(), Errc::ok);
    }
    Rt rt(Device::cpu(), options());
    const Address a = rt.spawn<Counter>();
    rt.send(a, Add{5});
    EXPECT_EQ(rt.ask<Sum>(a, Read{}, 10s).value, 5u);
}

TEST_P(life, a_destructor_does_not_wait_for_a_stuck_handler)
{
    if (on_gpu() && !in_a_process_of_its_own()) {
        return;
    }
    SharedWord word(on_gpu());
    const LeaksAreMeant scope;
    const size_t threads = threads_of_this_process();
    testing::internal::CaptureStderr();
    {
        Rt rt(device(), options());
        rt.send(rt.spawn<Looper>(), Loop{word.address()});
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("denizen: worker 0 is stuck: actor Looper #0 of worker 0"),
              std::string::npos)
        << said;
    if (!on_gpu()) {
        word.set(1);
        EXPECT_TRUE(eventually([&] { return threads_of_this_process() == threads; }));
    }
}

// ---- threads that meet a close

TEST_P(life, threads_that_send_and_ask_while_another_closes)
{
    for (int round = 0; round < 3; ++round) {
        std::optional<Rt> rt(std::in_place, device(), options());
        const auto actors = rt->spawn<Counter>(several);
        std::atomic<uint32_t> closed{0};
        std::atomic<uint32_t> others{0};
        std::atomic<uint32_t> running{0};
        std::vector<std::thread> threads;
        for (uint32_t t = 0; t < 4; ++t) {
            threads.emplace_back([&, t] {
                try {
                    for (uint32_t i = 0;; ++i) { // ends by the close
                        if (t == 0) {
                            rt->send(actors[i % several], Add{1}, 10s);
                        } else if (t == 1) {
                            rt->ask<Sum>(actors[i % several], Read{}, 10s);
                        } else if (t == 2) {
                            const std::vector<Add> some(100, Add{1});
                            rt->send_many(actors[i % several], some.data(), some.size(), 10s);
                        } else {
                            rt->stats();
                            if (i < 1000) { // what is stopped is not given out again
                                rt->stop(rt->spawn<Counter>(1, 10s)[0], 10s);
                            } else {
                                rt->send(actors[0], Add{1}, 10s);
                            }
                        }
                        running += i == 10;
                    }
                } catch (const Error& e) {
                    ++(e.code() == Errc::closed ? closed : others);
                    if (e.code() != Errc::closed) {
                        ADD_FAILURE() << "thread " << t << ": " << e.what();
                    }
                }
            });
        }
        EXPECT_TRUE(eventually([&] { return running.load() == 4 || others.load() != 0; }));
        rt->close(500ms);
        for (std::thread& t : threads) {
            t.join();
        }
        EXPECT_EQ(closed.load(), 4u);
        rt.reset();
    }
}

TEST_P(life, two_threads_close_at_once)
{
    for (int round = 0; round < 5; ++round) {
        Rt rt(device(), options());
        const auto actors = rt.spawn<Counter>(several);
        for (const Address a : actors) {
            rt.send(a, Add{1});
        }
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t) {
            threads.emplace_back([&] { rt.close(10s); });
        }
        for (std::thread& t : threads) {
            t.join();
        }
        EXPECT_EQ(rt.stats().mode, Mode::left);
    }
}

TEST_P(life, a_thread_sends_while_another_stops_the_actor)
{
    for (int round = 0; round < 10; ++round) {
        Rt rt(device(), options());
        const auto actors = rt.spawn<Counter>(several);
        std::atomic<uint32_t> sent{0};
        std::thread sender([&] {
            const Error e = error_of([&] {
                for (;;) { // ends when the actor is gone
                    rt.send(actors[5], Add{1}, 10s);
                    ++sent;
                }
            });
            EXPECT_EQ(e.code(), Errc::no_actor) << e.what();
        });
        EXPECT_TRUE(eventually([&] { return sent.load() > 50; }));
        rt.stop(actors[5], 10s);
        sender.join();
        rt.drain();
        const Stats s = rt.stats();
        EXPECT_EQ(s.dead_letters, s.errors);
        EXPECT_LE(s.dead_letters, sent.load());
        EXPECT_EQ(s.handled, std::min(several, rt.description().workers) + sent.load() + 1);
    }
}

// ---- beside each other, and doing nothing

TEST_P(life, two_programs_at_once)
{
    Options o = options();
    if (o.workers == 0) {
        o.workers = 8;
    }
    Rt first(device(), o);
    const auto counters = first.spawn<Counter>(several);
    uint32_t added = 0;
    uint32_t xored = 0;
    for (int round = 0; round < 3; ++round) {
        Runtime<Another> second(device(), o);
        Rt third(device(), o);
        const auto others = second.spawn<Other>(several);
        const auto more = third.spawn<Counter>(several);
        xored = 0;
        for (uint32_t i = 1; i <= scaled(2000); ++i) {
            first.send(counters[i % several], Add{i}, 10s);
            second.send(others[0], Add{i}, 10s);
            third.send(more[i % several], Add{1}, 10s);
            added += i;
            xored ^= i;
        }
        EXPECT_EQ(second.ask<Sum>(others[0], Read{}, 10s).value, xored);
        third.drain();
        uint64_t sum = 0;
        for (const Sum& s : third.ask_many<Sum>(more, Read{})) {
            sum += s.value;
        }
        EXPECT_EQ(sum, scaled(2000));
        second.close();
    }
    uint64_t sum = 0;
    for (const Sum& s : first.ask_many<Sum>(counters, Read{})) {
        sum += s.value;
    }
    EXPECT_EQ(sum, added);
}

uint64_t cpu_time_ns()
{
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto ns = [](const timeval& t) {
        return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 +
               static_cast<uint64_t>(t.tv_usec) * 1000;
    };
    return ns(used.ru_utime) + ns(used.ru_stime);
}

// A bound, not a measurement: polling workers would take 100 % and more.
TEST_P(life, idle_and_paused_programs_take_no_processor_time)
{
    Rt rt(device(), options());
    const auto actors = rt.spawn<Counter>(several);
    for (const bool paused : {false, true}) {
        rt.broadcast<Counter>(Add{1});
        rt.drain();
        if (paused) {
            rt.pause(10s);
        }
        std::this_thread::sleep_for(200ms); // workers go to sleep after a while
        const uint64_t wall = now_ns();
        const uint64_t before = cpu_time_ns();
        std::this_thread::sleep_for(500ms);
        EXPECT_LT(cpu_time_ns() - before, (now_ns() - wall) / 5) << (paused ? "paused" : "idle");
        rt.resume();
        EXPECT_EQ(rt.ask<Sum>(actors[0], Read{}, 10s).value, paused ? 2u : 1u) << "and awake again";
    }
}

// Sleeping workers are woken by each kind of sender.
TEST_P(life, sleeping_workers_wake_for_the_host_and_for_each_other)
{
    Rt rt(device(), options());
    const auto actors = rt.spawn<Counter>(several);
    uint64_t balls = 0;
    for (uint32_t round = 0; round < 25; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5 + round % 7));
        rt.send(actors[round % several], Ball{actors[(round + 1) % several].value, 2});
        balls += 2;
        ASSERT_TRUE(eventually([&] { return rt.stats().handled >= balls; }));
        rt.drain();
    }
    uint64_t caught = 0;
    for (const Sum& s : rt.ask_many<Sum>(actors, Read{})) {
        caught += s.value;
    }
    EXPECT_EQ(caught, balls);
}

} // namespace
