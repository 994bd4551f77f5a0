// SPDX-License-Identifier: Apache-2.0
// A program that breathes: its incarnations end and begin all the time, and nobody notices. Every
// message is accounted for, whatever the workers are at when a breath ends; on a GPU also while
// another thread makes the calls that wait for the whole device.
#include <actor/places.hpp>

#include <atomic>
#include <numeric>

namespace {
constexpr uint32_t most_relays = 40;
}

struct Meet { // one by one, the addresses of all
    uint32_t place;
    uint32_t address;
    uint32_t count;
};
struct Go {
    uint32_t id;
    uint32_t hops;
};
struct Ask {};
struct Got {
    uint64_t received;
    uint64_t ended;
    uint64_t ids; // of those that ended here
    uint64_t squares;
};
struct Wait { // a handler that returns when the word is 1
    uint64_t word;
};
struct Work { // a handler that takes `us`
    uint32_t us;
};

struct Hopper {
    Got got = {};
    uint32_t count = 0;
    uint32_t peer[most_relays] = {};

    DENIZEN_HD void on(const Meet& m, auto&)
    {
        count = m.count;
        peer[m.place] = m.address;
    }
    DENIZEN_HD void on(const Go& m, auto& ctx)
    {
        ++got.received;
        if (m.hops == 0) {
            ++got.ended;
            got.ids += m.id;
            got.squares += uint64_t{m.id} * m.id;
            return;
        }
        const uint32_t next = (m.id * 2654435761u + m.hops * 40503u) % count;
        ctx.send(denizen::Address{peer[next]}, Go{m.id, m.hops - 1});
    }
    DENIZEN_HD void on(const Ask&, auto& ctx) { ctx.reply(got); }
    DENIZEN_HD void on(const Wait& m, auto&)
    {
        // Ends by the test.
        while (denizen::load<denizen::Scope::system>(reinterpret_cast<uint32_t*>(m.word)) == 0) {
        }
        ++got.ended;
    }
    DENIZEN_HD void on(const Work& m, auto&)
    {
        const uint64_t begin = denizen::now_ns();
        while (denizen::now_ns() - begin < m.us * 1000) { // ends with time
        }
        ++got.ended;
    }
};

using Breathing =
    denizen::Program<denizen::Actors<Hopper>, denizen::Messages<Meet, Go, Ask, Got, Wait, Work>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Breathing>;

std::vector<Address> meet(Rt& rt, uint32_t n)
{
    const std::vector<Address> all = rt.spawn<Hopper>(n);
    for (const Address to : all) {
        for (uint32_t i = 0; i < n; ++i) {
            rt.send(to, Meet{i, all[i].value, n}, 30s);
        }
    }
    rt.drain(60s);
    return all;
}

// What `letters` letters of `hops` hops must have become.
void expect_all(Rt& rt, const std::vector<Address>& all, uint64_t letters, uint32_t hops)
{
    Got sum{};
    for (const Got& g : rt.ask_many<Got>(all, Ask{}, 60s)) {
        sum.received += g.received;
        sum.ended += g.ended;
        sum.ids += g.ids;
        sum.squares += g.squares;
    }
    uint64_t ids = 0;
    uint64_t squares = 0;
    for (uint64_t i = 0; i < letters; ++i) {
        ids += i;
        squares += i * i;
    }
    EXPECT_EQ(sum.ended, letters);
    EXPECT_EQ(sum.received, letters * (hops + 1));
    EXPECT_EQ(sum.ids, ids);
    EXPECT_EQ(sum.squares, squares);
    const Stats s = rt.stats();
    EXPECT_EQ(s.errors, 0u) << s.first_error;
    EXPECT_EQ(s.dead_letters, 0u);
}

class breath : public AtEveryPlace {
protected:
    static Options options()
    {
        Options o = AtEveryPlace::options();
        o.breath = std::chrono::microseconds(on_gpu() ? 1000 : 200);
        return o;
    }

    // `n` more incarnations have begun.
    static bool goes_on(Rt& rt, uint64_t n)
    {
        const uint64_t from = rt.stats().incarnations;
        return eventually([&] { return rt.stats().incarnations >= from + n; }, 60s);
    }

    static void flood(Rt& rt, const std::vector<Address>& all, uint32_t first, uint32_t last,
                      uint32_t hops)
    {
        std::vector<Address> to;
        std::vector<Go> batch;
        for (uint32_t i = first; i < last;) {
            to.clear();
            batch.clear();
            for (const uint32_t end = std::min(last, i + 500 + i % 333); i < end; ++i) {
                to.push_back(all[(i * 2654435761u >> 7) % all.size()]);
                batch.push_back({i, hops});
            }
            rt.send_many(to.data(), batch.data(), batch.size(), 60s);
        }
    }

    static void account(const Options& o, uint32_t letters, uint32_t hops)
    {
        Rt rt(device(), o);
        const auto all = meet(rt, most_relays);
        flood(rt, all, 0, letters, hops);
        rt.drain(60s);
        expect_all(rt, all, letters, hops);
        EXPECT_TRUE(goes_on(rt, 3));
        const Stats s = rt.stats();
        EXPECT_GT(s.handovers.count, 0u);
        EXPECT_LE(s.handovers.min_ns * s.handovers.count, s.handovers.sum_ns);
        EXPECT_LE(s.handovers.sum_ns, s.handovers.max_ns * s.handovers.count);
        EXPECT_EQ(s.launches, 1u);
        EXPECT_EQ(s.mode, Mode::running);
    }
};
DENIZEN_AT_EVERY_PLACE(breath);

TEST_P(breath, letters_of_three_hops) { account(options(), scaled(1'000'000), 3); }

TEST_P(breath, letters_of_three_hops_through_the_smallest_rings)
{
    account(small_rings(options()), scaled(100'000), 3);
}

TEST_P(breath, of_no_length_is_one_kernel_for_ever)
{
    Options o = options();
    o.breath = std::chrono::microseconds(0);
    Rt rt(device(), o);
    const auto all = meet(rt, most_relays);
    flood(rt, all, 0, 1000, 1);
    rt.drain(60s);
    expect_all(rt, all, 1000, 1);
    EXPECT_EQ(rt.stats().incarnations, 1u);
    EXPECT_EQ(rt.stats().handovers.count, 0u);
}

TEST_P(breath, that_is_too_long_is_refused)
{
    Options o = options();
    o.breath = std::chrono::microseconds(1'000'001);
    expect_error(Errc::bad_argument,
                 "breath = 1000001 us; use 1 to 1,000,000, or 0 for one kernel for ever",
                 [&] { Rt rt(device(), o); });
}

// The one handler keeps its own worker, and whoever waits for the device; the others go on.
TEST_P(breath, a_handler_that_outlives_many_breaths_keeps_nobody_else)
{
    Options o = options();
    if (o.workers == 1) {
        GTEST_SKIP() << "there is no other worker";
    }
    Rt rt(device(), o);
    const auto all = meet(rt, 8); // on all workers in turn
    SharedWord word(on_gpu());
    rt.send(all[0], Wait{word.address()});
    std::vector<Address> others;
    for (const Address a : all) {
        if (a.worker() != all[0].worker()) {
            others.push_back(a);
        }
    }
    const uint64_t begin = now_ns();
    uint32_t answers = 0;
    while (now_ns() - begin < 100'000'000) { // ends with time
        for (const Address a : others) {
            EXPECT_EQ(rt.ask<Got>(a, Ask{}, 10s).ended, 0u);
            ++answers;
        }
    }
    EXPECT_GT(answers, 0u);
    const std::string keeps = rt.stuck(10s);
    const std::string who = " workers have not acknowledged, " + std::to_string(all[0].worker());
    EXPECT_NE(keeps.find("the breath does not end"), std::string::npos) << keeps;
    EXPECT_NE(keeps.find(": 1 of "), std::string::npos) << keeps;
    EXPECT_NE(keeps.find(who + " (at "), std::string::npos) << keeps;
    word.set(1);
    EXPECT_EQ(rt.ask<Got>(all[0], Ask{}, 10s).ended, 1u);
    EXPECT_TRUE(goes_on(rt, 10));
}

TEST_P(breath, ends_also_where_all_handlers_are_long)
{
    Rt rt(device(), options());
    const auto all = meet(rt, 8);
    const uint32_t rounds = scaled(200);
    const uint64_t before = rt.stats().incarnations;
    for (uint32_t i = 0; i < rounds; ++i) {
        for (size_t a = 0; a < all.size(); ++a) {
            rt.send(all[a], Work{500 + 100 * static_cast<uint32_t>(a)}, 60s);
        }
    }
    EXPECT_TRUE(eventually([&] { return rt.stats().incarnations > before + 2; }, 60s));
    rt.drain(60s);
    for (const Got& g : rt.ask_many<Got>(all, Ask{}, 60s)) {
        EXPECT_EQ(g.ended, rounds);
    }
}

// Each round takes longer than a gate waits: who has waited for the word to leave looks before the
// next.
TEST_P(breath, ends_where_a_handler_takes_longer_than_a_gate_waits)
{
    Rt rt(device(), options());
    const auto all = meet(rt, 8);
    const uint32_t rounds = on_gpu() ? 3000 : 60;
    const Stats before = rt.stats();
    for (uint32_t i = 0; i < rounds; ++i) {
        for (const Address to : all) {
            rt.send(to, Work{on_gpu() ? 400u : 6000u}, 60s);
        }
    }
    EXPECT_TRUE(eventually([&] { return rt.stats().incarnations > before.incarnations + 2; }, 30s));
    EXPECT_LT(rt.stats().handled - before.handled, rounds * all.size()) << "too few to tell";
    rt.drain(60s);
    for (const Got& g : rt.ask_many<Got>(all, Ask{}, 60s)) {
        EXPECT_EQ(g.ended, rounds);
    }
}

TEST_P(breath, does_not_begin_the_measuring_anew)
{
    Rt rt(device(), options());
    const auto all = meet(rt, 4);
    rt.observe(true);
    rt.send(all[0], Work{20'000});
    rt.drain(30s);
    EXPECT_TRUE(goes_on(rt, 5));
    const Telemetry t = rt.telemetry();
    ASSERT_FALSE(t.slowest.empty());
    EXPECT_EQ(t.slowest[0].actor, all[0]);
    EXPECT_GE(t.slowest[0].ns, 15'000'000u);
    EXPECT_TRUE(t.observed);
}

TEST_P(breath, pause_and_resume)
{
    Rt rt(device(), options());
    const auto all = meet(rt, most_relays);
    const uint32_t each = scaled(20'000);
    uint32_t sent = 0;
    for (uint32_t i = 0; i < 10; ++i) {
        rt.pause(30s);
        EXPECT_TRUE(goes_on(rt, 3));
        if (i % 2 == 0) { // the host rings are empty: these wait in them
            flood(rt, all, sent, sent + 50, 2);
            sent += 50;
        }
        rt.resume();
        flood(rt, all, sent, sent + each, 2);
        sent += each;
        if (i % 2 != 0) {
            rt.drain(60s);
        }
    }
    rt.drain(60s);
    expect_all(rt, all, sent, 2);
}

TEST_P(breath, park_and_come_back)
{
    if (!on_gpu()) {
        GTEST_SKIP() << "CPU workers sleep where they are";
    }
    Options o = options();
    o.breath = std::chrono::microseconds(300);
    Rt rt(device(), o);
    const auto all = meet(rt, most_relays);
    for (uint32_t i = 0; i < 50; ++i) {
        flood(rt, all, 100 * i, 100 * i + 100, 2);
        rt.park(30s); // with letters under way: it goes back for them at once
    }
    rt.drain(60s);
    for (uint32_t i = 0; i < 5; ++i) {
        rt.park(30s);
        EXPECT_TRUE(rt.parked());
        const uint64_t queued = rt.stats().incarnations;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        EXPECT_TRUE(rt.parked()) << "nothing to do";
        EXPECT_EQ(rt.stats().incarnations, queued);
        expect_all(rt, all, 5000, 2); // which brings it back
    }
}

TEST_P(breath, is_short_and_programs_come_and_go)
{
    Options o = options();
    o.breath = std::chrono::microseconds(on_gpu() ? 100 : 1);
    for (uint32_t i = 0; i < (on_gpu() ? 5u : 20u); ++i) {
        Rt rt(device(), o);
        const auto all = meet(rt, 10);
        flood(rt, all, 0, 1000, 2);
        if (i % 2 == 0) {
            rt.drain(60s);
            expect_all(rt, all, 1000, 2);
        }
    }
}

#if defined(__CUDACC__)

// What a program without a breath would never let return.
TEST_P(breath, calls_that_wait_for_the_whole_device_return)
{
    if (!on_gpu()) {
        GTEST_SKIP() << "there is no device to wait for";
    }
    Rt rt(device(), options());
    const auto all = meet(rt, most_relays);
    std::atomic<bool> stop{false};
    std::atomic<uint32_t> rounds{0};
    cudaError_t failed = cudaSuccess;
    std::thread other([&] {
        const auto expect = [&](cudaError_t e) { failed = failed == cudaSuccess ? e : failed; };
        while (!stop) {
            expect(cudaDeviceSynchronize());
            void* device_memory = nullptr;
            expect(cudaMalloc(&device_memory, 64 << 20));
            expect(cudaMemset(device_memory, 1, 64 << 20));
            expect(cudaFree(device_memory));
            void* pinned = nullptr;
            expect(cudaHostAlloc(&pinned, 1 << 20, cudaHostAllocDefault));
            expect(cudaFreeHost(pinned));
            cudaStream_t stream = nullptr;
            expect(cudaStreamCreate(&stream));
            expect(cudaStreamDestroy(stream));
            ++rounds;
        }
    });
    constexpr uint32_t each = 500'000;
    uint32_t sent = 0;
    const uint64_t begin = now_ns();
    while (rounds < 200 && now_ns() - begin < 60'000'000'000) { // ends with either
        flood(rt, all, sent, sent + each, 3);
        sent += each;
        EXPECT_GE(rt.ask<Got>(all[sent % all.size()], Ask{}, 30s).received, 0u);
    }
    stop = true;
    other.join();
    EXPECT_GE(rounds, 200u);
    EXPECT_EQ(failed, cudaSuccess) << cudaGetErrorString(failed);
    rt.drain(60s);
    expect_all(rt, all, sent, 3);
    const Stats s = rt.stats();
    std::printf("%u rounds of calls beside %.1f M letters: %llu incarnations, hand-over min %.2f "
                "mean %.2f max %.2f us\n",
                rounds.load(), sent * 1e-6, static_cast<unsigned long long>(s.incarnations),
                static_cast<double>(s.handovers.min_ns) * 1e-3,
                static_cast<double>(s.handovers.sum_ns) * 1e-3 /
                    static_cast<double>(s.handovers.count),
                static_cast<double>(s.handovers.max_ns) * 1e-3);
}

// A kernel that takes every SM for itself gets its turn, and the program comes back behind it.
__global__ void __launch_bounds__(1024, 1) whole(uint32_t* done)
{
    const uint64_t begin = now_ns();
    while (now_ns() - begin < 1'000'000) { // ends with time
    }
    if (threadIdx.x == 0) {
        atomicAdd(done, 1);
    }
}

TEST_P(breath, a_cooperative_grid_on_all_sms_gets_its_turn)
{
    if (!on_gpu()) {
        GTEST_SKIP() << "there are no SMs";
    }
    int sms = 0;
    int shared = 0;
    ASSERT_EQ(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
    ASSERT_EQ(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
              cudaSuccess);
    ASSERT_EQ(cudaFuncSetAttribute(whole, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
              cudaSuccess);
    uint32_t* done = nullptr;
    ASSERT_EQ(cudaMallocManaged(&done, sizeof *done), cudaSuccess);
    *done = 0;
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    Rt rt(device(), options());
    const auto all = meet(rt, most_relays);
    flood(rt, all, 0, 200'000, 3);
    void* arguments[] = {&done};
    ASSERT_EQ(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(whole),
                                          dim3(static_cast<unsigned>(sms)), dim3(1024), arguments,
                                          static_cast<size_t>(shared), stream),
              cudaSuccess);
    flood(rt, all, 200'000, 400'000, 3);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(*done, static_cast<uint32_t>(sms));
    rt.drain(60s);
    expect_all(rt, all, 400'000, 3);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaFree(done), cudaSuccess);
}

#endif

} // namespace
