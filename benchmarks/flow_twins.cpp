// SPDX-License-Identifier: Apache-2.0
#include "flow_twins.hpp"

#include "common.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/dsp/resident_agc.hpp>
#include <denizen/dsp/resident_circuits.hpp>
#include <denizen/dsp/signal.hpp>
#include <denizen/dsp/signal_circuits.hpp>
#include <denizen/flow/graph.hpp>

#include <cmath>
#include <complex>
#include <cstring>
#include <random>

namespace denizen::bench {
namespace {

using Complex = std::complex<float>;

constexpr size_t quantum = 2048; // samples: 16 KiB
constexpr size_t checked = 8192; // outputs of each stream

const std::vector<Complex>& period()
{
    static const std::vector<Complex> samples = [] {
        std::mt19937 random(1);
        std::uniform_real_distribution<float> level(-1, 1);
        std::vector<Complex> made(16 * quantum);
        for (Complex& x : made) x = {level(random), level(random)};
        return made;
    }();
    return samples;
}

struct Repeats : flow::Block {
    flow::Source<Complex> out{*this, "out"};
    Repeats(std::string name, uint64_t quanta) : Block(std::move(name)), left_(quanta) {}

private:
    void work() override
    {
        if (left_-- == 0) {
            finish();
            return;
        }
        const auto room = out.room();
        std::memcpy(static_cast<void*>(room.data()), period().data() + at_, room.size_bytes());
        at_ = (at_ + room.size()) % period().size();
        out.produce(room.size());
    }
    uint64_t left_;
    size_t at_ = 0;
};

struct Counts : flow::Block { // and keeps the first
    flow::In<Complex> in{*this, "in"};
    std::vector<Complex> first;
    using Block::Block;

private:
    void work() override
    {
        const auto view = in.view();
        const size_t more = std::min(view.size(), checked - first.size());
        first.insert(first.end(), view.begin(), view.begin() + static_cast<ptrdiff_t>(more));
        in.consume(view.size());
    }
};

struct Stream {
    double msps = 0; // of input
    uint64_t outputs = 0;
    std::vector<Complex> first;
};

template <class B, class... Arguments>
Stream stream(uint64_t quanta, uint32_t under_way, Arguments&... arguments)
{
    flow::Flowgraph graph;
    auto& source = graph.add<Repeats>("source", quanta);
    auto& block = graph.add<B>("block", arguments...);
    std::vector<const Counts*> sinks;
    const auto sink = [&]() -> flow::In<Complex>& {
        auto& made = graph.add<Counts>("sink " + std::to_string(sinks.size()));
        sinks.push_back(&made);
        return made.in;
    };
    graph.circuit("samples", source.out, under_way, quantum);
    if constexpr (requires { block.samples; }) {
        graph.connect(source.out, block.samples);
        graph.connect(block.samples, sink());
    } else {
        graph.connect(source.out, block.in);
        const auto output = [&](flow::SourcePort& out) {
            graph.circuit("outputs " + std::to_string(sinks.size()), out, under_way, quantum);
            graph.connect(out, sink());
        };
        if constexpr (requires { block.out; }) {
            output(block.out);
        } else {
            for (const uint32_t k : {0u, 1u, 2u, 3u}) output(block.channel(k));
        }
    }
    const uint64_t begin = now_ns();
    graph.start();
    graph.wait(std::chrono::seconds(60));
    Stream got;
    got.msps = static_cast<double>(quanta * quantum) / static_cast<double>(now_ns() - begin) * 1e3;
    for (const Counts* one : sinks) {
        got.outputs += one->in.position();
        got.first.insert(got.first.end(), one->first.begin(), one->first.end());
    }
    return got;
}

// `within`: the largest difference over the largest number.
bool same(const Stream& a, const Stream& b, float within)
{
    if (a.outputs != b.outputs || a.first.size() != b.first.size() || a.first.empty()) return false;
    float apart = 0;
    float most = 0;
    for (size_t i = 0; i < a.first.size(); ++i) {
        apart = std::max(apart, std::abs(a.first[i] - b.first[i]));
        most = std::max(most, std::abs(b.first[i]));
    }
    return apart <= within * most;
}

template <class There, class Here, class... Arguments>
void twins(flow::Resident& resident, const std::string& name, float within, uint64_t quanta,
           uint32_t rounds, const Arguments&... arguments)
{
    const uint32_t under_way = 2 * resident.chain_workers();
    const auto run = [&](bool on_resident) {
        return on_resident ? stream<There>(quanta, under_way, resident, arguments...)
                           : stream<Here>(quanta, under_way, arguments...);
    };
    Stream last[2] = {run(true), run(false)}; // a warm-up
    bool right = same(last[0], last[1], within);
    Samples rate[3] = {Samples(rounds), Samples(rounds), Samples(rounds)}; // the first again
    interleaved(rounds, 3, [&](size_t k) {
        Stream& now = last[k % 2];
        now = run(k % 2 == 0);
        rate[k].add(now.msps);
        right &= same(last[0], last[1], within);
    });
    const auto row = [&](const std::string& of, const Samples& samples, const std::string& base,
                         const char* arm = "") {
        Case one(of, Json().add("bytes", quantum * sizeof(Complex)), "Msps");
        one.n = quanta;
        one.verified = right;
        if (!base.empty()) one.ratio_base = {base};
        one.arm = arm;
        one.print(samples);
    };
    row(name + ", resident", rate[0], name + ", on a thread");
    row(name + ", on a thread", rate[1], "");
    row(name + ", resident", rate[2], "", "A/A");
}

} // namespace

void flow_twins(flow::Resident& resident, uint64_t quanta, uint32_t rounds)
{
    using namespace flow;
    constexpr float within = 1e-5f;
    // Half of a rounding, 6e-8, in each sample of a time constant: 1 / (1e-3 * 0.77) of them.
    constexpr float of_gain = 1e-4f;
    twins<ResidentFft, Fft>(resident, "FFT of 1024", within, quanta, rounds, 1024u);
    const std::vector<float> rates = dsp::low_pass(0.4 / 125, 0.4 / 125, 60);
    twins<ResidentResampler<Complex>, Resampler<Complex>>(resident, "resampler 24/125", within,
                                                          quanta, rounds, rates, 24u, 125u);
    const std::vector<float> bank = dsp::low_pass(0.5 / 64, 0.3 / 64, 60);
    twins<ResidentChannelizer, Channelizer>(resident, "four channels of 64", within, quanta, rounds,
                                            bank, 64u);
    twins<ResidentAgc<Complex>, Agc<Complex>>(resident, "AGC", of_gain, quanta, rounds, 1.0f, 1e-3f,
                                              100.0f);
}

} // namespace denizen::bench
