// SPDX-License-Identifier: Apache-2.0
// What only a GPU can show: leaving it and coming back with no message lost, other kernels beside
// the resident one, limits of the device, a program that dies, and a host process that does.
#include <actor/places.hpp>
#include <support/child.hpp>

#include <algorithm>
#include <atomic>
#include <random>

struct Add {
    uint32_t n;
};
struct Read {};
struct Sum {
    uint64_t value;
};
struct Fan { // Add{1} to `to`, `count` times
    uint32_t to;
    uint32_t count;
};
struct Tell {};
struct Set { // a word in host memory
    uint64_t word;
    uint32_t value;
};
struct Ball { // to and fro for ever; counts in a word that the host reads
    uint64_t word;
    uint32_t to;
};
struct Crash {};

struct Counter {
    uint64_t sum = 0;

    DENIZEN_HD void on(const Add& m, auto&) { sum += m.n; }
    DENIZEN_HD void on(const Read&, auto& ctx) { ctx.reply(Sum{sum}); }
    DENIZEN_HD void on(const Tell&, auto& ctx) { ctx.send(denizen::host, Sum{sum}); }
    DENIZEN_HD void on(const Fan& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.send(denizen::Address{m.to}, Add{1});
        }
    }
    DENIZEN_HD void on(const Set& m, auto&)
    {
        denizen::store<denizen::Scope::system>(reinterpret_cast<uint32_t*>(m.word), m.value);
    }
    DENIZEN_HD void on(const Ball& m, auto& ctx)
    {
        denizen::store<denizen::Scope::system>(reinterpret_cast<uint32_t*>(m.word),
                                               static_cast<uint32_t>(++sum));
        ctx.send(denizen::Address{m.to}, Ball{m.word, ctx.self().value});
    }
    DENIZEN_HD void on(const Crash&, auto&)
    {
        *reinterpret_cast<volatile uint32_t*>(sum & 1) = 1; // nobody's memory
    }
};

using Resident = denizen::Program<denizen::Actors<Counter>,
                                  denizen::Messages<Add, Read, Sum, Fan, Tell, Set, Ball, Crash>>;

// The user's kernels.
__global__ void add_one(uint32_t* data, uint32_t n)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        data[i] += i;
    }
}

__global__ void wait_for(const uint32_t* word, uint32_t* seen)
{
    // Ends when a resident handler has written the word, or after 10 s.
    const uint64_t begin = denizen::now_ns();
    while (denizen::load<denizen::Scope::system>(word) == 0 &&
           denizen::now_ns() - begin < 10'000'000'000) {
    }
    *seen = denizen::load<denizen::Scope::system>(word);
}

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Resident>;

uint64_t total(Rt& rt, const std::vector<Address>& actors)
{
    uint64_t sum = 0;
    for (const Sum& s : rt.ask_many<Sum>(actors, Read{}, 20s)) {
        sum += s.value;
    }
    return sum;
}

// ---- park and wake

TEST(park, leaves_the_gpu_and_comes_back_for_every_kind_of_call)
{
    Rt rt(Device::gpu());
    const auto a = rt.spawn<Counter>(300);
    EXPECT_FALSE(rt.parked());
    uint64_t launches = 1;
    const auto back_after = [&](const char* what, auto&& call) {
        rt.park(5s);
        EXPECT_TRUE(rt.parked()) << what;
        EXPECT_EQ(rt.stats().mode, Mode::left) << what;
        EXPECT_EQ(rt.stats().launches, launches) << what;
        call();
        ++launches;
        EXPECT_TRUE(eventually([&] { return !rt.parked(); })) << what;
        EXPECT_EQ(rt.stats().launches, launches) << what;
    };
    back_after("ask", [&] { EXPECT_EQ(rt.ask<Sum>(a[0], Read{}, 10s).value, 0u); });
    back_after("send", [&] {
        rt.send(a[1], Add{7});
        rt.drain(10s);
    });
    back_after("send to the host", [&] {
        rt.send(a[1], Tell{});
        EXPECT_EQ(rt.receive(10s).header.sender, a[1].value);
    });
    back_after("broadcast", [&] {
        rt.broadcast<Counter>(Add{1});
        rt.drain(10s);
    });
    back_after("spawn", [&] { EXPECT_EQ(total(rt, rt.spawn<Counter>(5)), 0u); });
    back_after("stop", [&] { rt.stop(a[2], 10s); });
    back_after("send_many", [&] {
        const std::vector<Add> ones(a.size(), Add{1});
        const std::vector<Address> to(a.size(), a[3]);
        rt.send_many(to.data(), ones.data(), ones.size());
        rt.drain(10s);
    });
    EXPECT_EQ(rt.ask<Sum>(a[1], Read{}).value, 8u);
    EXPECT_EQ(rt.ask<Sum>(a[3], Read{}).value, 301u);
    rt.park(5s);
    rt.park(5s); // twice is once
    rt.drain(5s);
    EXPECT_EQ(rt.stats().launches, launches) << "nothing to do: it stays away";
    rt.close(5s);
    EXPECT_EQ(rt.stats().errors, 0u) << rt.stats().first_error;
}

TEST(park, leaves_by_itself_when_idle_and_not_before)
{
    Options o;
    o.idle = 2ms;
    Rt rt(Device::gpu(), o);
    const auto a = rt.spawn<Counter>(100);
    for (uint32_t round = 0; round < 20; ++round) {
        ASSERT_TRUE(eventually([&] { return rt.parked(); })) << "round " << round;
        const uint64_t launches = rt.stats().launches;
        rt.send(a[round], Add{round});
        ASSERT_EQ(rt.ask<Sum>(a[round], Read{}, 10s).value, round);
        EXPECT_GT(rt.stats().launches, launches);
    }
    // As long as there is work, it stays.
    const Address ball = a[50];
    SharedWord word(true);
    rt.send(ball, Ball{word.address(), a[51].value});
    ASSERT_TRUE(eventually([&] { return word.get() > 100; }));
    const uint64_t launches = rt.stats().launches;
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(rt.stats().launches, launches);
    EXPECT_FALSE(rt.parked());
    rt.close(100ms);
}

// Sends at random moments around the program's leaving, which another thread also asks for.
void race_with_the_edge(const Options& options, bool second_thread)
{
    Rt rt(Device::gpu(), options);
    const auto actors = rt.spawn<Counter>(64);
    std::minstd_rand engine(7);
    const auto random = [&](uint32_t below) { return static_cast<uint32_t>(engine() % below); };
    std::atomic<bool> done{false};
    std::thread parker([&] {
        std::minstd_rand own(11);
        while (second_thread && !done.load()) { // ends with the test
            std::this_thread::sleep_for(std::chrono::microseconds(own() % 3000));
            try {
                rt.park(3ms);
            } catch (const Error& e) { // somebody sent meanwhile
                EXPECT_EQ(e.code(), Errc::timeout) << e.what();
            }
        }
    });
    uint64_t sent = 0;
    uint64_t told = 0;
    uint64_t heard = 0;
    try {
        for (uint32_t round = 0; round < 1500; ++round) {
            const uint64_t until = now_ns() + random(2'500'000);
            while (now_ns() < until) { // finer than a sleep
            }
            for (uint32_t i = random(4) + 1; i-- > 0;) {
                const uint32_t n = random(1000);
                rt.send(actors[random(64)], Add{n}, 20s);
                sent += n;
            }
            if (round % 3 == 0) { // more than an inbox holds: parked messages at the edge
                const uint32_t n = random(40);
                rt.send(actors[random(64)], Fan{actors[random(64)].value, n / 10}, 20s);
                sent += n / 10;
            }
            if (round % 5 == 0) {
                rt.send(actors[random(64)], Tell{}, 20s);
                ++told;
            }
            if (round % 7 == 0) {
                rt.ask<Sum>(actors[random(64)], Read{}, 20s);
            }
            if (round % 100 == 99) {
                rt.drain(20s);
                Sum some[64];
                while (heard < told) {
                    const size_t n = rt.receive_many(some, 64);
                    heard += n;
                    if (n == 0) {
                        rt.receive(20s);
                        ++heard;
                    }
                }
                const uint64_t found = total(rt, actors);
                EXPECT_EQ(found, sent) << "round " << round;
                if (found != sent) {
                    break;
                }
            }
        }
    } catch (const Error& e) {
        ADD_FAILURE() << e.what();
    }
    done = true;
    parker.join();
    const Stats s = rt.stats();
    EXPECT_EQ(s.errors, 0u) << s.first_error;
    EXPECT_GT(s.launches, 20u) << "it did leave";
    std::printf("%lu launches\n", static_cast<unsigned long>(s.launches));
}

TEST(park, no_message_is_lost_when_it_leaves_by_itself)
{
    Options o;
    o.idle = 1ms;
    race_with_the_edge(o, false);
}

TEST(park, no_message_is_lost_when_it_is_told_to_leave)
{
    Options o = small_rings({});
    o.workers = 3;
    o.mapped = false;
    race_with_the_edge(o, true);
}

TEST(park, no_message_is_lost_when_it_leaves_for_both_reasons)
{
    Options o = small_rings({});
    o.outbox_slots = 16;
    o.workers = 2;
    o.idle = 2ms;
    race_with_the_edge(o, true);
}

TEST(park, a_pause_holds_though_the_program_leaves_and_comes_back)
{
    Options o;
    o.idle = 1ms;
    Rt rt(Device::gpu(), o);
    const auto a = rt.spawn<Counter>(200);
    for (int round = 0; round < 4; ++round) {
        if (round % 2 == 0) {
            rt.park(5s); // paused while away
        }
        rt.pause(5s);
        const uint64_t before = rt.stats().handled;
        for (const Address x : a) {
            rt.send(x, Add{1});
        }
        std::this_thread::sleep_for(
            50ms); // long enough to be idle, and to come back for the messages
        EXPECT_EQ(rt.stats().handled, before) << "round " << round;
        rt.resume();
        rt.drain(10s);
        EXPECT_EQ(total(rt, a), (round + 1) * 200u);
    }
}

// ---- beside other kernels

TEST(beside, the_users_kernels_run_and_the_program_answers)
{
    // Allocated and loaded before: both would wait for the resident kernel.
    constexpr uint32_t n = 1u << 20;
    uint32_t* data = nullptr;
    uint32_t* seen = nullptr;
    ASSERT_EQ(cudaMalloc(&data, n * sizeof *data), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&seen, sizeof *seen), cudaSuccess);
    cudaFuncAttributes attributes;
    ASSERT_EQ(cudaFuncGetAttributes(&attributes, add_one), cudaSuccess);
    ASSERT_EQ(cudaFuncGetAttributes(&attributes, wait_for), cudaSuccess);
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    SharedWord word(true);
    void* pinned = nullptr;
    ASSERT_EQ(cudaHostAlloc(&pinned, n * sizeof(uint32_t), cudaHostAllocPortable), cudaSuccess);
    auto* result = static_cast<uint32_t*>(pinned);

    ASSERT_EQ(cudaMemsetAsync(data, 0, n * sizeof *data, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);

    Rt rt(Device::gpu());
    const auto actors = rt.spawn<Counter>(1000);
    for (uint32_t round = 0; round < 50; ++round) {
        add_one<<<512, 256, 0, stream>>>(data, n);
        rt.send(actors[round], Add{1});
        ASSERT_EQ(rt.ask<Sum>(actors[round], Read{}, 10s).value, 1u);
        ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    }
    ASSERT_EQ(cudaMemcpyAsync(result, data, n * sizeof *data, cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    for (uint32_t i = 0; i < n; ++i) {
        ASSERT_EQ(result[i], 50 * i);
    }
    // Side by side and not by turns: the user's kernel waits for what a handler writes.
    wait_for<<<1, 1, 0, stream>>>(reinterpret_cast<const uint32_t*>(word.address()), seen);
    EXPECT_EQ(rt.ask<Sum>(actors[7], Read{}, 10s).value, 1u);
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    rt.send(actors[8], Set{word.address(), 4711});
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(result, seen, sizeof *seen, cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(result[0], 4711u);
    EXPECT_EQ(rt.stats().mode, Mode::running);
    EXPECT_EQ(rt.stats().launches, 1u) << "it was resident all the time";
    rt.close();
    cudaStreamDestroy(stream);
    cudaFree(data);
    cudaFree(seen);
    cudaFreeHost(pinned);
}

// ---- limits

TEST(limits, workers_and_sms)
{
    cudaDeviceProp device;
    ASSERT_EQ(cudaGetDeviceProperties(&device, 0), cudaSuccess);
    const auto sms = static_cast<uint32_t>(device.multiProcessorCount);
    const auto works = [](uint32_t workers, uint32_t most_sms, uint32_t expected) {
        Options o;
        o.workers = workers;
        o.sms = most_sms;
        Rt rt(Device::gpu(), o);
        EXPECT_EQ(rt.description().workers, expected);
        const auto actors = rt.spawn<Counter>(2 * expected);
        rt.broadcast<Counter>(Add{1});
        rt.drain(10s);
        EXPECT_EQ(total(rt, actors), 2 * expected);
        EXPECT_EQ(rt.stats().handled_by_worker.size(), expected);
        for (const uint64_t handled : rt.stats().handled_by_worker) {
            EXPECT_GE(handled, 2u) << "every worker takes part";
        }
    };
    { // what it chooses itself: on at most half of the SMs, and it says so
        Rt rt(Device::gpu());
        const Description& d = rt.description();
        EXPECT_LE((d.workers + d.per_sm - 1) / d.per_sm, std::max(1u, sms / 2));
        const bool mapped = d.host_ring_memory == "mapped";
        EXPECT_EQ(d.geometry.find(mapped ? std::to_string(d.per_sm) + " workers on each of "
                                         : std::to_string(d.workers) + " workers, one on each of "),
                  0u)
            << d.geometry;
        EXPECT_TRUE(mapped || d.per_sm == 1u) << "they look across the bus";
        // Beside it there is room for another.
        Rt second(Device::gpu());
        EXPECT_EQ(second.ask<Sum>(second.spawn<Counter>(1)[0], Read{}, 10s).value, 0u);
        EXPECT_EQ(rt.ask<Sum>(rt.spawn<Counter>(1)[0], Read{}, 10s).value, 0u);
    }
    {
        Options o;
        o.mapped = false;
        Rt rt(Device::gpu(), o);
        EXPECT_EQ(rt.description().per_sm, 1u) << rt.description().geometry;
        EXPECT_EQ(rt.ask<Sum>(rt.spawn<Counter>(1)[0], Read{}, 10s).value, 0u);
    }
    works(sms, 0, sms);
    works(1, 0, 1);
    works(7, 3, 7);
    works(4 * sms, 0, 4 * sms);
    Options o;
    o.sms = sms + 1;
    expect_error(Errc::bad_argument,
                 "sms = " + std::to_string(sms + 1) + "; " + device.name + " has " +
                     std::to_string(sms),
                 [&] { Rt rt(Device::gpu(), o); });
    o.sms = 1;
    o.workers = 2048;
    expect_error_like(
        Errc::no_fit,
        "2048 workers do not fit on 1 SMs with [0-9]+ registers per thread; use fewer "
        "workers",
        [&] { Rt rt(Device::gpu(), o); });
    EXPECT_EQ(error_of([] { Rt rt(Device::gpu(99)); }).code(), Errc::no_device);
    EXPECT_EQ(error_of([] { Rt rt(Device::gpu(-1)); }).code(), Errc::no_device);
    works(1, 1, 1);
}

// ---- processes that die

void throw_a_ball(uint32_t* page, const Options& o)
{
    Rt rt(Device::gpu(), o);
    const auto actors = rt.spawn<Counter>(2);
    rt.send(actors[0], Ball{reinterpret_cast<uint64_t>(&page[beats]), actors[1].value});
    store<Scope::system, Order::release>(&page[phase], 1u);
    ASSERT_TRUE(eventually([&] { return peek(page, go_on) != 0; }, 60s));
    const Stats s = rt.stats();
    store<Scope::system>(&page[launched],
                         static_cast<uint32_t>(o.breath == 0us ? s.launches : s.incarnations));
    EXPECT_EQ(s.errors, 0u);
    rt.close(100ms);
}

TEST(child, throws_a_ball)
{
    uint32_t* page = Child::page_of_parent();
    if (page == nullptr) {
        GTEST_SKIP() << "runs in a process that another test starts";
    }
    Options o;
    o.breath = std::chrono::microseconds(0);
    throw_a_ball(page, o);
}

TEST(child, throws_a_ball_and_breathes)
{
    uint32_t* page = Child::page_of_parent();
    if (page == nullptr) {
        GTEST_SKIP() << "runs in a process that another test starts";
    }
    Options o;
    throw_a_ball(page, o);
}

TEST(child, dies_of_a_handler)
{
    uint32_t* page = Child::page_of_parent();
    if (page == nullptr) {
        GTEST_SKIP() << "runs in a process that another test starts";
    }
    {
        Rt rt(Device::gpu());
        const auto actors = rt.spawn<Counter>(4);
        EXPECT_EQ(rt.ask<Sum>(actors[0], Read{}).value, 0u);
        rt.send(actors[1], Crash{});
        const std::string text = "the program on .* died: CUDA_ERROR_[A-Z_]+; the CUDA context is "
                                 "unusable, start a new process";
        expect_error_like(Errc::peer_dead, text, [&] {
            for (;;) { // ends when the handler has come to its crash
                rt.ask<Sum>(actors[0], Read{}, 20s);
            }
        });
        expect_error_like(Errc::peer_dead, text, [&] { rt.drain(20s); });
        expect_error_like(Errc::peer_dead, text, [&] { rt.receive(20s); });
        expect_error_like(Errc::peer_dead, text, [&] {
            for (;;) { // ends when the host ring is full, or before
                rt.send(actors[2], Add{1}, 20s);
            }
        });
        rt.close(1s);
    }
    store<Scope::system, Order::release>(&page[phase], 1u);
}

TEST(host_lost, the_kernel_leaves_by_itself_and_is_there_again_for_a_host_that_returns)
{
    Child child("child.throws_a_ball");
    leaves_while_its_host_is_stopped(child); // with the ball in the air, which is caught
}

TEST(host_lost, a_program_that_breathes_waits_for_a_host_that_returns)
{
    Child child("child.throws_a_ball_and_breathes");
    leaves_while_its_host_is_stopped(child);
}

TEST(host_lost, a_killed_process_takes_its_kernel_with_it)
{
    Child child("child.throws_a_ball");
    leaves_when_its_host_is_killed(child);
    Child another("child.throws_a_ball_and_breathes");
    leaves_when_its_host_is_killed(another);
    // The GPU is free for the next.
    Rt rt(Device::gpu());
    EXPECT_EQ(rt.ask<Sum>(rt.spawn<Counter>(), Read{}, 10s).value, 0u);
}

TEST(program_lost, every_waiting_call_says_so)
{
    Child child("child.dies_of_a_handler");
    EXPECT_TRUE(child.reached(1));
    EXPECT_EQ(child.status(), 0);
}

} // namespace
