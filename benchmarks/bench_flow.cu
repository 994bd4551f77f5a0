// SPDX-License-Identifier: Apache-2.0
// Flow graphs as users run them. How long a quantum of 16 KiB is under way through three blocks,
// from where it is filled to where it has been read, with one under way and with as many as keep
// all busy; how much CPU a graph takes that waits; M million samples per second through chains of
// saxpy blocks (the lab adds GNU Radio's); a receiver's filter and demodulator on the resident
// runtime, beside launches where there is a GPU; and the blocks that fill other circuits on it.
#include "actor_program.hpp"
#include "flow_blocks.hpp"
#include "flow_radio.hpp"
#include "flow_twins.hpp"
#if defined(__CUDACC__)
#include "rivals/copies.cuh"
#endif

#include <denizen/dsp/resident/program.hpp>
#include <denizen/flow/resident.hpp>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <sys/resource.h>

namespace {

using namespace denizen;
using namespace denizen::bench;
using namespace std::chrono_literals;

constexpr size_t quantum_bytes = 16384;
constexpr size_t kept_stamps = 1024; // more than quanta

// When each quantum was filled, by its number. The channels order the accesses.
struct Stamps {
    uint64_t filled[kept_stamps] = {};
};

struct StampingSource : flow::Block {
    flow::Source<float> out{*this, "out"};
    StampingSource(std::string name, Stamps& stamps, uint64_t quanta)
        : Block(std::move(name)), stamps_(stamps), left_(quanta)
    {
    }

private:
    void work() override
    {
        if (left_-- == 0) {
            finish();
            return;
        }
        stamps_.filled[sent_++ % kept_stamps] = now_ns();
        const auto room = out.room();
        std::fill(room.begin(), room.end(), 1.0f);
        out.produce(room.size());
    }
    Stamps& stamps_;
    uint64_t left_;
    uint64_t sent_ = 0;
};

struct StampingSink : flow::Block {
    flow::In<float> in{*this, "in"};
    std::vector<double> us;
    bool right = true;
    float expected;
    StampingSink(std::string name, const Stamps& stamps, uint64_t quanta, float value)
        : Block(std::move(name)), expected(value), stamps_(stamps)
    {
        us.reserve(quanta);
    }

private:
    void work() override
    {
        for (const float x : in.view()) right &= x == expected;
        in.consume(in.view().size());
        us.push_back(static_cast<double>(now_ns() - stamps_.filled[us.size() % kept_stamps]) *
                     1e-3);
    }
    const Stamps& stamps_;
};

// How the blocks are run: a thread each, all on one pinned core, or on a stealing pool.
enum class How { threads, sequence, pool };
constexpr const char* how_names[] = {"a thread per block", "one pinned thread", "pool"};

flow::Executors executors_for(How how, flow::Flowgraph& graph)
{
    flow::Executors executors;
    if (how == How::sequence) executors.sequences.push_back({graph.blocks(), core_of(0)});
    if (how == How::pool) executors.pools.push_back({graph.blocks(), all_cores});
    return executors;
}

// Microseconds of each of `quanta` quanta, after a tenth as many that are not counted.
void latency(How how, uint32_t under_way, uint64_t quanta, Samples& samples, bool& right)
{
    constexpr size_t kernels = 3;
    const uint64_t warm = quanta / 10;
    Stamps stamps;
    flow::Flowgraph graph;
    float expected = 1;
    for (size_t k = 0; k < kernels; ++k) expected = by * expected + plus;
    auto& source = graph.add<StampingSource>("source", stamps, quanta + warm);
    auto& sink = graph.add<StampingSink>("sink", stamps, quanta + warm, expected);
    SaxpyBlock* last = nullptr;
    for (size_t k = 0; k < kernels; ++k) {
        auto& block = graph.add<SaxpyBlock>("saxpy " + std::to_string(k));
        if (last == nullptr) {
            graph.connect(source.out, block.samples);
        } else {
            graph.connect(last->samples, block.samples);
        }
        last = &block;
    }
    graph.connect(last->samples, sink.in);
    auto& circuit = graph.circuit("samples", source.out, under_way, quantum_bytes / sizeof(float));
    graph.start(executors_for(how, graph));
    graph.wait(120s);
    for (size_t i = warm; i < sink.us.size(); ++i) samples.add(sink.us[i]);
    right &= sink.right && sink.us.size() == quanta + warm && circuit.at_home() == under_way;
}

// Each executor, with one quantum under way and with as many as keep all busy; the first one twice.
// In each round a graph is made anew.
void latencies(bool quick)
{
    struct Arm {
        How how;
        uint32_t under_way;
        Samples samples;
        bool right = true;
    };
    const uint32_t rounds = quick ? 3 : 15;
    const uint64_t quanta = quick ? 700 : 4'000;
    std::vector<Arm> arms;
    for (const How how : {How::threads, How::sequence, How::pool})
        for (const uint32_t under_way : {1u, 6u})
            arms.push_back({how, under_way, Samples(rounds * quanta)});
    arms.push_back(arms.front()); // A/A
    interleaved(rounds, arms.size(), [&](size_t i) {
        latency(arms[i].how, arms[i].under_way, quanta, arms[i].samples, arms[i].right);
    });
    for (size_t i = 0; i < arms.size(); ++i) {
        Case row("latency of a quantum",
                 Json()
                     .add("executor", how_names[static_cast<int>(arms[i].how)])
                     .add("under_way", arms[i].under_way)
                     .add("blocks", 5)
                     .add("bytes", quantum_bytes));
        row.n = rounds * quanta;
        row.verified = arms[i].right;
        if (i + 1 == arms.size()) row.arm = "A/A";
        row.print(arms[i].samples);
    }
}

struct WaitingSource : flow::Block { // for a device that has nothing: asleep, or asked again
    flow::Source<float> out{*this, "out"};
    std::mutex mutex;
    std::condition_variable changed;
    bool go = false;
    bool sleeps;
    WaitingSource(std::string name, bool s) : Block(std::move(name)), sleeps(s) {}

private:
    void work() override
    {
        std::unique_lock lock(mutex);
        if (sleeps) changed.wait(lock, [&] { return go; });
        if (go) finish();
    }
};

double cpu_seconds()
{
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void idle(How how, bool sleeps, bool quick)
{
    const uint32_t rounds = quick ? 3 : 10;
    Samples samples(rounds);
    flow::Flowgraph graph;
    auto& source = graph.add<WaitingSource>("source", sleeps);
    auto& one = graph.add<SaxpyBlock>("saxpy 0");
    auto& two = graph.add<SaxpyBlock>("saxpy 1");
    auto& sink = graph.add<flow::NullSink<float>>("sink");
    auto& circuit = graph.circuit("samples", source.out, 4, quantum_bytes / sizeof(float));
    graph.connect(source.out, one.samples);
    graph.connect(one.samples, two.samples);
    graph.connect(two.samples, sink.in);
    graph.start(executors_for(how, graph));
    std::this_thread::sleep_for(50ms); // all have gone to sleep
    for (uint32_t r = 0; r < rounds; ++r) {
        const double cpu = cpu_seconds();
        const uint64_t begin = now_ns();
        std::this_thread::sleep_for(quick ? 100ms : 500ms);
        samples.add(100 * (cpu_seconds() - cpu) * 1e9 / static_cast<double>(now_ns() - begin));
    }
    {
        const std::lock_guard lock(source.mutex);
        source.go = true;
    }
    source.changed.notify_all();
    graph.wait(10s);
    Case row("idle graph",
             Json()
                 .add("executor", how_names[static_cast<int>(how)])
                 .add("source", sleeps ? "asleep in work()" : "returns from work() with nothing"),
             "% of a core");
    row.n = rounds;
    row.verified = circuit.at_home() == 4;
    row.print(samples);
}

void chains(bool quick)
{
    const size_t cores = std::max<size_t>(all_cores.size(), 1);
    const uint32_t rounds = quick ? 3 : 11;
    struct Arm {
        size_t kernels;
        Samples msps;
        bool right = true;
    };
    std::vector<Arm> arms; // each twice
    for (int again = 0; again < 2; ++again)
        for (const size_t kernels : {1, 4, 12}) arms.push_back({kernels, Samples(rounds)});
    const auto run = [&](Arm& arm) {
        const size_t used = std::min(cores, arm.kernels);
        const uint64_t samples = (quick ? 1ull << 24 : 1ull << 28) / arm.kernels;
        const ChainResult got =
            run_chain(Kind::futex, used, arm.kernels, static_cast<uint32_t>(used) + 1,
                      quantum_bytes / sizeof(float), samples, false);
        arm.right &= got.right;
        return got.msps;
    };
    for (Arm& arm : arms) run(arm); // a warm-up
    interleaved(rounds, arms.size(), [&](size_t i) { arms[i].msps.add(run(arms[i])); });
    for (size_t i = 0; i < arms.size(); ++i) {
        Case row("chain of saxpy", Json().add("blocks", arms[i].kernels), "Msps");
        row.n = rounds;
        row.verified = arms[i].right;
        if (i >= arms.size() / 2) row.arm = "A/A";
        row.print(arms[i].msps);
    }
}

// One turn of each chain, with a source that sends data and a sink that sums them: the lab lets it
// take turns with GNU Radio, whose program is another.
void chains_with_data(bool quick)
{
    const size_t cores = std::max<size_t>(all_cores.size(), 1);
    std::vector<float> data(1 << 16);
    for (size_t i = 0; i < data.size(); ++i)
        data[i] = 0.5f + static_cast<float>(i) / static_cast<float>(data.size());
    for (const size_t kernels : {1, 4, 12}) {
        const size_t used = std::min(cores, kernels);
        const ChainResult got =
            run_chain(Kind::futex, used, kernels, static_cast<uint32_t>(used) + 1,
                      quantum_bytes / sizeof(float), (quick ? 1ull << 24 : 1ull << 28) / kernels,
                      false, saxpy_kernel, data);
        Case row("chain with data", Json().add("blocks", kernels), "Msps");
        row.n = 1;
        row.verified = got.right;
        Samples one(1);
        one.add(got.msps);
        row.print(one);
    }
}

// ---- FIR and demodulator on the resident runtime

struct FileSource : flow::Block { // from memory that stands for a file
    flow::Source<std::complex<float>> out{*this, "out"};
    FileSource(std::string name, const RadioSignal& signal, Stamps& stamps, uint64_t quanta)
        : Block(std::move(name)), signal_(signal), stamps_(stamps), left_(quanta)
    {
    }

private:
    void work() override
    {
        if (left_-- == 0) {
            finish();
            return;
        }
        stamps_.filled[sent_ % kept_stamps] = now_ns();
        const auto room = out.room();
        std::memcpy(static_cast<void*>(room.data()),
                    signal_.iq.data() + sent_++ * radio_quantum % signal_.iq.size(),
                    room.size_bytes());
        out.produce(room.size());
    }
    const RadioSignal& signal_;
    Stamps& stamps_;
    uint64_t left_;
    uint64_t sent_ = 0;
};

struct ResultSink : flow::Block {
    flow::In<float> in{*this, "in"};
    std::vector<double> us;
    bool right = true;
    ResultSink(std::string name, const RadioSignal& signal, const Stamps& stamps)
        : Block(std::move(name)), signal_(signal), stamps_(stamps)
    {
    }

private:
    void work() override
    {
        us.push_back(static_cast<double>(now_ns() - stamps_.filled[us.size() % kept_stamps]) *
                     1e-3);
        right &= radio_right(signal_, in.position(), in.view().data(), in.view().size());
        in.consume(in.view().size());
    }
    const RadioSignal& signal_;
    const Stamps& stamps_;
};

// Microseconds of each quantum, and what the rate was.
double receive(flow::Resident& resident, const RadioSignal& signal, uint32_t under_way,
               uint64_t quanta, std::vector<double>& us, bool& right)
{
    Stamps stamps;
    flow::Flowgraph graph;
    auto& source = graph.add<FileSource>("source", signal, stamps, quanta);
    auto& fir =
        graph.add<flow::ResidentFir<std::complex<float>>>("fir", resident, signal.taps, radio_down);
    auto& fm = graph.add<flow::ResidentFm>("fm", resident, 1.0f);
    auto& sink = graph.add<ResultSink>("sink", signal, stamps);
    graph.circuit("iq", source.out, under_way, radio_quantum);
    graph.connect(source.out, fir.samples);
    graph.connect(fir.samples, fm.samples);
    graph.connect(fm.samples, sink.in);
    const uint64_t begin = now_ns();
    graph.start();
    graph.wait(60s);
    const auto ns = static_cast<double>(now_ns() - begin);
    right &= sink.right && sink.us.size() == quanta;
    us = sink.us;
    return static_cast<double>(quanta * radio_quantum) / ns * 1e3;
}

void radio(const Arguments& arguments)
{
    const bool quick = arguments.quick;
    const uint32_t rounds = quick ? 3 : 11;
    const uint32_t chain_workers = arguments.gpu() ? 64 : 2;
    const uint32_t in_flight = 2 * chain_workers;
    const uint64_t quanta = arguments.gpu() ? (quick ? 5'000 : 100'000) : (quick ? 300 : 3'000);
    const RadioSignal signal = radio_signal();
    std::optional<RadioFigures>
        rival; // first: what it loads would wait for a resident kernel to end
    if (arguments.gpu()) rival = radio_by_launches(signal, in_flight, quanta, rounds);
    Options options = options_of(arguments);
    flow::Resident resident(flow::resident::image(), options, chain_workers);
    bool right = true;
    std::vector<double> us;
    const uint64_t alone = quanta / rounds;       // one at a time, of each round
    receive(resident, signal, 1, 200, us, right); // a warm-up
    Samples latency[2] = {Samples(rounds * alone), Samples(rounds * alone)}; // and A/A
    interleaved(rounds, 2, [&](size_t again) {
        receive(resident, signal, 1, alone, us, right);
        for (const double one : us) latency[again].add(one);
    });
    receive(resident, signal, in_flight, quanta, us, right); // a warm-up
    Samples rate[2] = {Samples(rounds), Samples(rounds)};
    interleaved(rounds, 2, [&](size_t again) {
        rate[again].add(receive(resident, signal, in_flight, quanta, us, right));
    });
    const auto row = [&](const char* name, const char* unit, const Samples& samples, bool verified,
                         const char* base, const char* arm = "") {
        Case one(name,
                 Json().add("bytes", quantum_bytes).add("taps", radio_taps).add("down", radio_down),
                 unit);
        one.n = quanta;
        one.verified = verified;
        one.arm = arm;
        if (base != nullptr) one.ratio_base = {base};
        one.print(samples);
    };
    const bool beside = rival && !rival->msps.empty();
    row("filter and demodulate, one quantum", "us", latency[0], right,
        beside ? "filter and demodulate, one quantum, launches" : nullptr);
    row("filter and demodulate, stream", "Msps", rate[0], right,
        beside ? "filter and demodulate, stream, launches" : nullptr);
    row("filter and demodulate, one quantum", "us", latency[1], right, nullptr, "A/A");
    row("filter and demodulate, stream", "Msps", rate[1], right, nullptr, "A/A");
    if (beside) {
        Samples their_latency(rival->latency_us.size());
        for (const double one : rival->latency_us) their_latency.add(one);
        Samples their_rate(rival->msps.size());
        for (const double one : rival->msps) their_rate.add(one);
        row("filter and demodulate, one quantum, launches", "us", their_latency, rival->right,
            nullptr);
        row("filter and demodulate, stream, launches", "Msps", their_rate, rival->right, nullptr);
    }
}

void twins(const Arguments& arguments)
{
    const uint32_t chain_workers = arguments.gpu() ? 64 : 2;
    const uint64_t quanta = arguments.gpu() ? 5'000 : 500;
    flow::Resident resident(flow::resident::image(), options_of(arguments), chain_workers);
    flow_twins(resident, arguments.quick ? quanta / 5 : quanta, arguments.quick ? 3 : 11);
}

} // namespace

int main(int argc, char** argv)
{
    const bool with_data = argc > 1 && std::strcmp(argv[argc - 1], "--chains-with-data") == 0;
    argc -= with_data ? 1 : 0;
    return run_program(argc, argv, [&](const Arguments& arguments) {
        if (with_data) return chains_with_data(arguments.quick);
        print_environment(
            environment(arguments).add("cores_allowed", std::max<size_t>(all_cores.size(), 1)));
#if defined(__CUDACC__)
        if (arguments.gpu()) print_copies(arguments.quick);
#endif
        latencies(arguments.quick);
        for (const How how : {How::threads, How::pool}) {
            for (const bool sleeps : {true, false}) idle(how, sleeps, arguments.quick);
        }
        chains(arguments.quick);
        radio(arguments);
        twins(arguments);
    });
}
