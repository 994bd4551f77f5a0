// SPDX-License-Identifier: Apache-2.0
// A minute of echoes. One host thread sends numbered messages, one number each, to many actors in
// the resident program; each actor sends every number back to the host; a second host thread takes
// the echoes and accounts for every number: each actor's must come back in order, none missing,
// none twice. A third thread sleeps most of the time; it asks an actor now and then, as a user of a
// loaded program would, and notes the throughput of every second.
//
// The echoes under way are bounded, so that no ring is ever full: what is measured is the flow, not
// the host's detours around a full ring.
#include <denizen/actor/runtime.hpp>

#include "actor_program.hpp"
#if defined(__CUDACC__)
#include "rivals/copies.cuh"
#endif

#include <atomic>
#include <bit>
#include <chrono>
#include <fstream>
#include <thread>
#include <unistd.h>

namespace {

using namespace denizen;
using namespace denizen::bench;

constexpr uint32_t actors = 4096; // a power of two: numbers wrap, and still name their actor

struct Number {
    uint32_t value;
};
struct Probe {
    uint32_t value;
};

struct Echo {
    DENIZEN_HD void on(const Number& m, auto& ctx) { ctx.send(host, m); }
    DENIZEN_HD void on(const Probe& m, auto& ctx) { ctx.reply(Number{m.value + 1}); }
};

using Echoing = Program<Actors<Echo>, Messages<Number, Probe>>;

class Flow {
public:
    Flow(Runtime<Echoing>& runtime, const Arguments& arguments)
        : runtime_(runtime), echo_(runtime.spawn<Echo>(actors))
    {
        // Half of all host rings, and well within the egress ring, lie between the two threads.
        const Options o = options_of(arguments);
        const uint32_t slots = runtime.description().workers * o.host_ring_slots / 2;
        window_ = std::min({slots, o.egress_slots / 2, 8192u});
        batch_ = std::bit_floor(std::min(512u, window_ / 4)); // divides the number of actors
    }
    ~Flow()
    {
        stopping_ = true;
        if (sender_.joinable()) sender_.join();
        sent_all_ = true;
        if (receiver_.joinable()) receiver_.join();
    }

    void start(const std::vector<int>& cores)
    {
        const auto guarded = [this](void (Flow::*work)(), int core) {
            return std::thread([=, this] {
                if (core >= 0) pin_to_core(core);
                try {
                    (this->*work)();
                } catch (const std::exception& error) {
                    std::fprintf(stderr, "%s\n", error.what());
                    failed_ = true;
                }
                stopping_ = true;
            });
        };
        receiver_ = guarded(&Flow::receive, cores.size() > 2 ? cores[1] : -1);
        sender_ = guarded(&Flow::send, cores.size() > 2 ? cores[2] : -1);
    }

    // Stops sending and waits until every echo is back, or has failed to come for five seconds.
    // Whether all was right.
    bool finish()
    {
        stopping_ = true;
        sender_.join();
        sent_all_ = true;
        receiver_.join();
        return !failed_ && wrong_ == 0 && received() == sent_.load();
    }

    uint64_t received() const { return received_.load(std::memory_order_relaxed); }
    uint64_t sent() const { return sent_.load(std::memory_order_relaxed); }
    uint64_t wrong() const { return wrong_; }
    bool failed() const { return failed_; }
    Address actor() const { return echo_[actors / 2]; }
    uint32_t window() const { return window_; }
    // From the call that sent an echo until it was found, with the stream's queues. After finish().
    const Samples& latencies() const { return latencies_; }

private:
    static constexpr uint32_t stamps = 256;

    // Every stamp_every-th number is timed; a stamp is used again long after its echo is back.
    uint32_t stamp_every() const { return batch_ * 128; }

    void send()
    {
        std::vector<Number> numbers(batch_);
        uint32_t next = 0; // wraps
        while (!stopping_.load(std::memory_order_relaxed)) {
            wait_while([&] { return sent() + batch_ - received() > window_; });
            for (uint32_t i = 0; i < batch_; ++i) numbers[i].value = next + i;
            if (next % stamp_every() == 0)
                stamp_[next / stamp_every() % stamps].store(now_ns(), std::memory_order_relaxed);
            runtime_.send_many(&echo_[next % actors], numbers.data(), batch_);
            next += batch_;
            sent_.fetch_add(batch_, std::memory_order_relaxed);
        }
    }

    void receive()
    {
        std::vector<Number> got(512);
        std::vector<uint32_t> next(actors); // the number that each actor echoes next
        for (uint32_t a = 0; a < actors; ++a) next[a] = a;
        uint64_t progress_at = now_ns();
        while (!failed_.load(std::memory_order_relaxed)) {
            const size_t n = runtime_.receive_many(got.data(), got.size());
            for (size_t i = 0; i < n; ++i) {
                const uint32_t value = got[i].value;
                uint32_t& expected = next[value % actors];
                wrong_ += value != expected;
                expected = value + actors;
                if (value % stamp_every() == 0)
                    latencies_.add_ns_as_us(now_ns() - stamp_[value / stamp_every() % stamps].load(
                                                           std::memory_order_relaxed));
            }
            if (n != 0) {
                received_.fetch_add(n, std::memory_order_relaxed);
                progress_at = 0;
                continue;
            }
            // Ends when all that was sent is back, or nothing has come for five seconds.
            if (sent_all_.load() && received() == sent()) return;
            if (progress_at == 0) progress_at = now_ns();
            if (now_ns() - progress_at > 5'000'000'000 && received() != sent())
                throw std::runtime_error("no echo for 5 s, " + std::to_string(sent() - received()) +
                                         " are out");
            pause();
        }
    }

    // Ends when the other threads have moved on, or have stopped.
    template <class Condition>
    void wait_while(Condition&& condition)
    {
        for (uint32_t tries = 1; condition() && !stopping_.load(std::memory_order_relaxed); ++tries)
            tries % 256 == 0 ? void(sched_yield()) : relax();
    }
    void pause()
    {
        if (++pauses_ % 256 == 0) sched_yield(); // the sender or a worker may need this core
        relax();
    }

    Runtime<Echoing>& runtime_;
    std::vector<Address> echo_;
    uint32_t window_ = 0;
    uint32_t batch_ = 0;
    std::thread sender_;
    std::thread receiver_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> sent_all_{false};
    std::atomic<bool> failed_{false};
    std::atomic<uint64_t> stamp_[stamps] = {};
    alignas(line) std::atomic<uint64_t> sent_{0};
    alignas(line) std::atomic<uint64_t> received_{0};
    alignas(line) uint64_t wrong_ = 0;
    uint32_t pauses_ = 0;
    Samples latencies_{1u << 18};
};

// Of this process, in use.
double resident_mb()
{
    uint64_t pages = 0;
    std::ifstream statm("/proc/self/statm");
    if (!(statm >> pages >> pages)) {
        throw std::runtime_error("/proc/self/statm does not tell the process's memory");
    }
    return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) * 1e-6;
}

void measure(const Arguments& arguments)
{
    const uint64_t interval = arguments.quick ? 500'000'000 : 1'000'000'000;
    const uint32_t intervals = arguments.quick ? 6 : 60;
    const std::vector<int> cores = allowed_cores();
#if defined(__CUDACC__)
    if (arguments.gpu()) print_copies(arguments.quick);
#endif

    Runtime<Echoing> runtime(arguments.device, options_of(arguments));
    Flow flow(runtime, arguments);
    print_environment(environment(arguments, runtime.description()).add("window", flow.window()));
    flow.start(arguments.gpu() ? cores : std::vector<int>{}); // CPU workers need the cores too
    std::this_thread::sleep_for(std::chrono::nanoseconds(interval)); // warm

    Samples rates[2] = {Samples(intervals), Samples(intervals)};   // and A/A
    Samples windows[2] = {Samples(intervals), Samples(intervals)}; // the first third, the last
    std::vector<double> every;                                     // interval's rate
    every.reserve(intervals);
    Samples asks(size_t{intervals} * 2000);
    bool right = true;
    uint32_t number = 0;
    uint64_t since = now_ns();
    const uint64_t begin_count = flow.received();
    const double begin_mb = resident_mb();
    uint64_t count = begin_count;
    while (every.size() < intervals && !flow.failed()) { // ends by the clock
        const uint64_t begin = now_ns();
        const Number answer = runtime.ask<Number>(flow.actor(), Probe{number}, 10s);
        const uint64_t end = now_ns();
        right &= answer.value == ++number;
        asks.add_ns_as_us(end - begin);
        if (end - since >= interval) {
            const uint64_t now_count = flow.received();
            const double rate =
                static_cast<double>(now_count - count) * 1e3 / static_cast<double>(end - since);
            const size_t third = 3 * every.size() / intervals;
            if (third != 1) windows[third / 2].add(rate);
            every.push_back(rate);
            count = now_count;
            since = end;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    const double end_mb = resident_mb();
    const bool complete = flow.finish();
    std::fprintf(stderr, "sent %llu, received %llu, out of place %llu\n",
                 static_cast<unsigned long long>(flow.sent()),
                 static_cast<unsigned long long>(flow.received()),
                 static_cast<unsigned long long>(flow.wrong()));
    runtime.close();
    if (every.size() < 4) throw std::runtime_error("the echoes stopped at once");

    // The two took turns by a sequence of no period (Thue and Morse's): two intervals are a round.
    uint32_t taken = 0;
    interleaved(static_cast<uint32_t>(every.size() / 2), 2, [&](size_t) {
        rates[std::popcount(taken) % 2].add(every[taken]);
        ++taken;
    });
    Case echoes("echoes",
                Json().add("numbers_per_message", 1).add("host_threads", 2).add("actors", actors),
                "M/s");
    echoes.n = count - begin_count;
    echoes.verified = complete;
    echoes.print(rates[0]);
    echoes.arm = "A/A";
    echoes.print(rates[1]);
    const char* const names[] = {"echoes, first third", "echoes, last third"};
    for (const uint32_t last : {0u, 1u}) {
        Case third(names[last], Json(), "M/s");
        third.n = windows[last].size();
        third.verified = complete;
        if (last != 0) third.ratio_base = {names[0]};
        if (third.n != 0) third.print(windows[last]);
    }
    for (const bool at_end : {false, true}) {
        Case memory("memory of the process", Json().add("at", at_end ? "the end" : "the begin"),
                    "MB");
        memory.n = 1;
        memory.verified = complete;
        Samples one(1);
        one.add(at_end ? end_mb : begin_mb);
        memory.print(one);
    }
    Case stream("echo latency", Json().add("of", "the stream"));
    stream.n = flow.latencies().size();
    stream.verified = complete;
    if (stream.n != 0) stream.print(flow.latencies());
    Case ask("echo latency", Json().add("of", "an ask beside it"));
    ask.n = asks.size();
    ask.verified = right;
    ask.print(asks);
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
