// SPDX-License-Identifier: Apache-2.0
// Resident blocks in graphs, on CPU threads always and on a GPU where there is one: the results are
// those of the CPU's blocks, wherever quanta end and whichever worker of the chain has them.
#include <denizen/dsp/fir.hpp>
#include <denizen/dsp/resident/program.hpp>
#include <denizen/dsp/sample.hpp>
#include <denizen/dsp/signal.hpp>
#include <denizen/flow/alone.hpp>
#include <denizen/flow/resident.hpp>

#include <actor/places.hpp>
#include <support/noise.hpp>

namespace denizen::flow::resident {

struct Halved { // a kind of one's own: the mean of neighbours, at half of the rate
    static constexpr const char* name = "halved";
    template <class T>
    static DENIZEN_HD void make(const Piece<T>& p)
    {
        const float* in = p.template in<float>() + p.base;
        float* out = p.template out<float>();
        p.each([&](int64_t j) { out[j] = (in[2 * j] + in[2 * j - 1]) / 2; });
    }
};

} // namespace denizen::flow::resident

namespace denizen::flow {
namespace {

using namespace denizen::test;
using Complex = std::complex<float>;

template <class T>
void near_to(const std::vector<T>& got, const std::vector<T>& expected, float within)
{
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_LE(std::abs(got[i] - expected[i]), within) << "sample " << i;
    }
}

struct Halves : ResidentOf<float, float> {
    Halves(std::string name, Resident& resident)
        : ResidentOf(std::move(name), resident, "halved", 1, 2)
    {
    }
};

class flow_resident : public AtEveryPlace {
protected:
    static Options where()
    {
        Options o = options();
        o.device = device();
        return o;
    }
};
DENIZEN_AT_EVERY_PLACE(flow_resident);

struct Ones : Block { // until it is stopped
    Source<float> out{*this, "out"};
    using Block::Block;
    void work() override
    {
        const auto room = out.room();
        std::fill(room.begin(), room.end(), 1.0f);
        out.produce(room.size());
    }
};

struct Conjugate : Block { // on the CPU
    InPlace<Complex> samples{*this, "samples"};
    using Block::Block;
    void work() override
    {
        for (Complex& x : samples.samples()) x = std::conj(x);
        samples.pass();
    }
};

TEST_P(flow_resident, filter_and_demodulate_between_cpu_blocks)
{
#if defined(__SANITIZE_THREAD__)
    constexpr uint64_t length = 1'003;
#else
    constexpr uint64_t length = 5'003;
#endif
    constexpr uint64_t middle = length / 2;
    const auto signal = noise(length);
    std::vector<float> taps(33);
    for (size_t k = 0; k < taps.size(); ++k) taps[k] = 1.0f / static_cast<float>(k + 2);
    std::vector<Complex> low(signal.size());
    dsp::Fir<Complex> fir(taps, 1, 5);
    std::vector<Complex> conjugate = signal;
    for (Complex& x : conjugate) x = std::conj(x);
    low.resize(fir.feed(conjugate.data(), conjugate.size(), low.data()));
    std::vector<float> expected(low.size());
    dsp::FmDemodulator(2.0f).feed(low.data(), low.size(), expected.data());

    for (const uint32_t chain_workers : {1u, 3u}) {
        Resident resident(resident::image(), where(), chain_workers);
        for (const size_t quantum : {7u, 100u, 1'024u}) { // shorter than the filter, and longer
            Flowgraph g;
            auto& source = g.add<VectorSource<Complex>>(
                "source", signal, std::vector<Tag>{{0, "first", 1.0}, {middle, "at", 2.0}});
            auto& cpu = g.add<Conjugate>("conjugate");
            auto& channel = g.add<ResidentFir<Complex>>("channel", resident, taps, 5);
            auto& fm = g.add<ResidentFm>("fm", resident, 2.0f);
            auto& sink = g.add<VectorSink<float>>("sink");
            Circuit& c = g.circuit("iq", source.out, 6, quantum);
            g.connect(source.out, cpu.samples);
            g.connect(cpu.samples, channel.samples);
            g.connect(channel.samples, fm.samples);
            g.connect(fm.samples, sink.in);
            g.start();
            g.wait(60s);
            near_to(sink.samples, expected, 1e-3f);
            ASSERT_EQ(sink.tags.size(), 2u);
            EXPECT_EQ(sink.tags[0], (Tag{0, "first", 1.0}));
            EXPECT_EQ(sink.tags[1], (Tag{(middle + 4) / 5, "at", 2.0})); // the first made of it
            EXPECT_EQ(c.at_home(), 6u);
        }
        EXPECT_EQ(resident.runtime().stats().errors, 0u);
    }
}

// A circuit of one quantum: it always finds all workers of the chain idle. The pieces need each
// other's samples, and the results of one that is done must not lie where another one still reads.
TEST_P(flow_resident, a_quantum_that_comes_alone_is_cut_among_the_workers)
{
    constexpr size_t quantum = 512;
    constexpr size_t quanta = 20;
    const auto signal = noise(quanta * quantum);
    std::vector<float> taps(33);
    for (size_t k = 0; k < taps.size(); ++k) taps[k] = 1.0f / static_cast<float>(k + 2);
    for (const uint32_t down : {1u, 5u}) {
        std::vector<Complex> low(signal.size());
        low.resize(dsp::Fir<Complex>(taps, 1, down).feed(signal.data(), signal.size(), low.data()));
        std::vector<Complex> expected(low.size());
        const std::vector<float> few{1, -1, 0.5f, 2, 1};
        dsp::Fir<Complex>(few).feed(low.data(), low.size(), expected.data());

        Resident resident(resident::image(), where(), 3);
        Flowgraph g;
        auto& source = g.add<VectorSource<Complex>>("source", signal);
        auto& first = g.add<ResidentFir<Complex>>("first", resident, taps, down);
        auto& second = g.add<ResidentFir<Complex>>("second", resident, few);
        auto& sink = g.add<VectorSink<Complex>>("sink");
        g.circuit("iq", source.out, 1, quantum);
        g.connect(source.out, first.samples);
        g.connect(first.samples, second.samples);
        g.connect(second.samples, sink.in);
        g.start();
        g.wait(60s);
        near_to(sink.samples, expected, 1e-3f);
        resident.runtime().drain(20s);
        // A message for each piece, besides a few for each worker.
        EXPECT_GE(resident.runtime().stats().handled, 3 * quanta);
    }
}

TEST_P(flow_resident, every_kind_of_block)
{
    const auto signal = noise(1'000);
    const std::vector<Complex> taps{{1, 2}, {-0.5f, 0.25f}, {0, 1}};
    const std::vector<Complex> mixer{{1, 0}, {0, 1}, {-1, 0}, {0, -1}, {0.5f, 0.5f}};
    std::vector<Complex> filtered(signal.size());
    dsp::Fir<Complex, Complex>(taps).feed(signal.data(), signal.size(), filtered.data());
    std::vector<float> expected(signal.size());
    std::vector<float> real(signal.size());
    for (size_t i = 0; i < signal.size(); ++i) {
        expected[i] = 0.5f * std::norm(filtered[i] * mixer[i % mixer.size()]) + 3;
    }
    const std::vector<float> smooth{0.25f, 0.5f, 0.25f};
    dsp::Fir<float>(smooth).feed(expected.data(), expected.size(), real.data());

    Resident resident(resident::image(), where(), 2);
    Flowgraph g;
    auto& source = g.add<VectorSource<Complex>>("source", signal);
    auto& fir = g.add<ResidentFir<Complex, Complex>>("fir", resident, taps);
    auto& mix = g.add<ResidentMixer>("mix", resident, mixer);
    auto& power = g.add<ResidentMagnitudeSquared>("power", resident);
    auto& scale = g.add<ResidentSaxpy>("scale", resident, 0.5f, 3.0f);
    auto& last = g.add<ResidentFir<float>>("last", resident, smooth);
    auto& sink = g.add<VectorSink<float>>("sink");
    g.circuit("iq", source.out, 3, 64);
    g.connect(source.out, fir.samples);
    g.connect(fir.samples, mix.samples);
    g.connect(mix.samples, power.samples);
    g.connect(power.samples, scale.samples);
    g.connect(scale.samples, last.samples);
    g.connect(last.samples, sink.in);
    g.start();
    g.wait(60s);
    near_to(sink.samples, real, 1e-4f);
}

// Blocks of one graph on the resident runtime and, between its ends, in a sequence and in a pool:
// quanta leave the chain, are changed on the CPU, and enter another one.
TEST_P(flow_resident, mixed_with_sequences_and_pools)
{
    const auto signal = noise(2'000);
    const std::vector<float> taps{0.5f, 1, 0.25f};
    std::vector<Complex> low(signal.size());
    dsp::Fir<Complex> fir(taps, 1, 2);
    low.resize(fir.feed(signal.data(), signal.size(), low.data()));
    std::vector<float> expected(low.size());
    for (size_t i = 0; i < low.size(); ++i) expected[i] = 3 * std::norm(low[i]) + 1;
    Resident resident(resident::image(), where(), 2);
    for (const int how : {0, 1, 2}) {
        Flowgraph g;
        auto& source = g.add<VectorSource<Complex>>("source", signal);
        auto& filter = g.add<ResidentFir<Complex>>("filter", resident, taps, 2u);
        auto& conjugate = g.add<Conjugate>("conjugate");
        auto& power = g.add<ResidentMagnitudeSquared>("power", resident);
        auto& scale = g.add<ResidentSaxpy>("scale", resident, 3.0f, 1.0f);
        auto& sink = g.add<VectorSink<float>>("sink");
        Circuit& c = g.circuit("iq", source.out, 4, 50);
        g.connect(source.out, filter.samples);
        g.connect(filter.samples, conjugate.samples);
        g.connect(conjugate.samples, power.samples);
        g.connect(power.samples, scale.samples);
        g.connect(scale.samples, sink.in);
        if (how == 0) { // resident blocks and others in one sequence
            g.start(Executors{{{{source, filter, conjugate, power, scale, sink}, -1}}, {}});
        } else if (how == 1) {
            g.start({{}, {{g.blocks(), {-1, -1}}}});
        } else { // the chains' heads in a pool, the rest in a sequence and on a thread
            g.start({{{{source, sink}, -1}}, {{{filter, power}, {-1}}}});
        }
        g.wait(60s);
        near_to(sink.samples, expected, 1e-4f);
        EXPECT_EQ(c.at_home(), 4u);
    }
}

TEST_P(flow_resident, a_stalled_graph_names_the_starved_block)
{
    struct Keeps : Block { // more than it may
        Sink<float> in{*this, "in"};
        Output<float> out{*this, "out", in};
        std::vector<Quantum<float>> kept;
        using Block::Block;
        void work() override { kept.push_back(in.take()); }
    };
    Resident resident(resident::image(), where(), 2);
    const auto stalled = [](Flowgraph& g) {
        return std::string(error_of([&] { g.wait(300ms); }).what());
    };
    { // behind the chain: everything is with the block that keeps it
        Flowgraph g;
        auto& source = g.add<Ones>("source");
        auto& one = g.add<ResidentSaxpy>("one", resident, 2.0f, 0.0f);
        auto& two = g.add<ResidentSaxpy>("two", resident, 2.0f, 0.0f);
        auto& keeps = g.add<Keeps>("keeps");
        auto& sink = g.add<NullSink<float>>("sink");
        g.circuit("floats", source.out, 3, 16);
        g.connect(source.out, one.samples);
        g.connect(one.samples, two.samples);
        g.connect(two.samples, keeps.in);
        g.connect(keeps.out, sink.in);
        g.start();
        const std::string text = stalled(g);
        EXPECT_NE(text.find("block \"sink\" is starved: port \"sink.in\""), std::string::npos)
            << text;
        EXPECT_NE(text.find("block \"one\" is starved: port \"one.samples\""), std::string::npos)
            << text;
        EXPECT_NE(text.find("3 at \"keeps.in\""), std::string::npos) << text;
    }
    { // before the chain: its first block gets nothing
        Flowgraph g;
        auto& source = g.add<Ones>("source");
        auto& keeps = g.add<Keeps>("keeps");
        auto& one = g.add<ResidentSaxpy>("one", resident, 2.0f, 0.0f);
        auto& sink = g.add<NullSink<float>>("sink");
        g.circuit("floats", source.out, 2, 16);
        g.connect(source.out, keeps.in);
        g.connect(keeps.out, one.samples);
        g.connect(one.samples, sink.in);
        g.start();
        const std::string text = stalled(g);
        EXPECT_NE(text.find("block \"one\" is starved: port \"one.samples\""), std::string::npos)
            << text;
        EXPECT_NE(text.find("2 at \"keeps.in\""), std::string::npos) << text;
    }
}

// Two streams merge into one chain, in the order of arrival; two readers share what leaves it.
TEST_P(flow_resident, merged_into_and_broadcast_out_of_a_chain)
{
    constexpr size_t samples = 960; // whole quanta: those of the two streams come in any order
    std::vector<float> ramp(samples);
    for (size_t i = 0; i < samples; ++i) ramp[i] = static_cast<float>(i);
    std::vector<float> others(samples);
    for (size_t i = 0; i < samples; ++i) others[i] = static_cast<float>(i + 10'000);
    Resident resident(resident::image(), where(), 3);
    Flowgraph g;
    auto& a = g.add<VectorSource<float>>("a", ramp, std::vector<Tag>{{100, "a", int64_t{100}}});
    auto& b = g.add<VectorSource<float>>("b", others, std::vector<Tag>{{7, "b", int64_t{10'007}}});
    auto& twice = g.add<ResidentSaxpy>("twice", resident, 2.0f, 0.0f);
    auto& more = g.add<ResidentSaxpy>("more", resident, 1.0f, 1.0f);
    auto& one = g.add<VectorSink<float>>("one");
    auto& two = g.add<VectorSink<float>>("two");
    Circuit& of_a = g.circuit("of a", a.out, 3, 32);
    Circuit& of_b = g.circuit("of b", b.out, 2, 48);
    g.connect(a.out, twice.samples);
    g.connect(b.out, twice.samples);
    g.connect(twice.samples, more.samples);
    g.connect(more.samples, one.in);
    g.connect(more.samples, two.in);
    g.start();
    g.wait(60s);
    EXPECT_EQ(one.samples, two.samples);
    EXPECT_EQ(one.tags, two.tags);
    ASSERT_EQ(one.samples.size(), 2 * samples);
    ASSERT_EQ(one.tags.size(), 2u);
    for (const Tag& tag : one.tags) { // each at its own sample
        EXPECT_EQ(one.samples[tag.sample],
                  2 * static_cast<float>(std::get<int64_t>(tag.value)) + 1);
    }
    std::vector<float> got[2]; // each stream in its order
    for (const float x : one.samples) got[x > 5'000].push_back((x - 1) / 2);
    EXPECT_EQ(got[0], ramp);
    EXPECT_EQ(got[1], others);
    EXPECT_EQ(of_a.at_home(), 3u);
    EXPECT_EQ(of_b.at_home(), 2u);
}

// What a graph of two decimators gives, from the first sample on; every `apart`th sample is tagged.
template <class FirstFir, class SecondFir, class Power, class... On>
std::pair<std::vector<float>, std::vector<Tag>>
decimated_twice(const std::vector<Complex>& signal, uint64_t apart, size_t quantum, On&... on)
{
    std::vector<Tag> tags;
    for (uint64_t s = 0; s < signal.size(); s += apart) {
        tags.push_back({s, "at", static_cast<int64_t>(s)});
    }
    const std::vector<float> taps(9, 0.5f);
    const std::vector<Complex> others{{1, 1}, {0, -1}};
    Flowgraph g;
    auto& source = g.add<VectorSource<Complex>>("source", signal, tags);
    auto& first = g.add<FirstFir>("first", on..., taps, 3u);
    auto& second = g.add<SecondFir>("second", on..., others, 2u);
    auto& power = g.add<Power>("power", on...);
    auto& sink = g.add<VectorSink<float>>("sink");
    g.circuit("iq", source.out, 5, quantum);
    g.connect(source.out, first.samples);
    g.connect(first.samples, second.samples);
    g.connect(second.samples, power.samples);
    g.connect(power.samples, sink.in);
    g.start();
    g.wait(60s);
    return {sink.samples, sink.tags};
}

TEST_P(flow_resident, tags_cross_rates_as_they_do_on_the_cpu)
{
    const auto signal = noise(500);
    Resident resident(resident::image(), where(), 3);
    for (const size_t quantum : {5u, 64u, 600u}) {
        const auto expected =
            decimated_twice<Fir<Complex>, Fir<Complex, Complex>, MagnitudeSquared>(signal, 7,
                                                                                   quantum);
        const auto got = decimated_twice<ResidentFir<Complex>, ResidentFir<Complex, Complex>,
                                         ResidentMagnitudeSquared>(signal, 7, quantum, resident);
        near_to(got.first, expected.first, 1e-4f);
        EXPECT_EQ(got.second, expected.second);
        ASSERT_EQ(got.second.size(), 72u);
        for (const Tag& tag : got.second) {
            const auto s = static_cast<uint64_t>(std::get<int64_t>(tag.value));
            EXPECT_EQ(tag.sample, (s + 5) / 6); // wherever quanta end
        }
    }
}

// Two streams, cut differently and of other lengths, and what becomes of their product.
template <class Mix, class Product, class Filter, class Demodulator, class... On>
std::pair<std::vector<float>, std::vector<Tag>>
product_of(const std::vector<Complex>& a, const std::vector<Complex>& b, size_t cut, On&... on)
{
    const std::vector<Complex> period{{1, 0}, {0, 1}, {-1, 0}};
    const std::vector<float> taps{0.5f, 1, 0.25f, 1, 0.5f};
    Flowgraph g;
    auto& first =
        g.add<VectorSource<Complex>>("first", a, std::vector<Tag>{{2, "a", 1.0}, {90, "a", 2.0}});
    auto& second = g.add<VectorSource<Complex>>("second", b, std::vector<Tag>{{90, "b", 3.0}});
    auto& mix = g.add<Mix>("mix", on..., period);
    auto& product = g.add<Product>("product", on...);
    auto& filter = g.add<Filter>("filter", on..., taps, 2u);
    auto& demodulator = g.add<Demodulator>("demodulator", on..., 1.0f);
    auto& sink = g.add<VectorSink<float>>("sink");
    Circuit& one = g.circuit("one", first.out, 3, cut);
    Circuit& two = g.circuit("two", second.out, 2, 33);
    g.connect(first.out, product.samples);
    g.connect(second.out, mix.samples);
    g.connect(mix.samples, product.by);
    g.connect(product.samples, filter.samples);
    g.connect(filter.samples, demodulator.samples);
    g.connect(demodulator.samples, sink.in);
    g.start();
    g.wait(60s);
    EXPECT_EQ(one.at_home(), 3u);
    EXPECT_EQ(two.at_home(), 2u);
    return {sink.samples, sink.tags};
}

TEST_P(flow_resident, two_streams_are_multiplied)
{
    Resident resident(resident::image(), where(), 3);
    for (const auto& [n, m] :
         {std::pair{300u, 300u}, std::pair{300u, 251u}, std::pair{120u, 300u}}) {
        const auto a = noise(n);
        auto b = noise(m);
        std::reverse(b.begin(), b.end());
        for (const size_t cut : {7u, 100u}) {
            const auto expected = product_of<Mixer, Multiply, Fir<Complex>, Fm>(a, b, cut);
            const auto got =
                product_of<ResidentMixer, ResidentMultiply, ResidentFir<Complex>, ResidentFm>(
                    a, b, cut, resident);
            ASSERT_EQ(expected.first.size(), (std::min(n, m) + 1) / 2);
            near_to(got.first, expected.first, 1e-3f);
            ASSERT_EQ(got.second.size(), 3u);
            EXPECT_EQ(got.second, expected.second);
            EXPECT_EQ(got.second[0], (Tag{1, "a", 1.0}));
        }
    }
    // By the definition, once: the CPU's twin is no reference of its own.
    Alone<ResidentMultiply> test("product", resident);
    const auto a = noise(70);
    test.feed(test.block.samples, a, {}, 16);
    test.feed(test.block.by, std::vector<Complex>(100, Complex(0, 2)), {}, 9);
    auto& out = test.collect<Complex>(test.block.samples);
    test.run(60s);
    ASSERT_EQ(out.samples.size(), a.size());
    for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_NEAR(std::abs(out.samples[i] - a[i] * Complex(0, 2)), 0, 1e-6);
    }
}

TEST_P(flow_resident, two_graphs_at_once_and_a_chain_that_is_too_long)
{
    Resident resident(resident::image(), where(), 2);
    struct Long : Flowgraph {
        VectorSink<float>& sink = add<VectorSink<float>>("sink");
        explicit Long(Resident& on)
        {
            auto& source = add<VectorSource<float>>("source", std::vector<float>(500, 1.0f));
            circuit("floats", source.out, 4, 32);
            ResidentSaxpy* before = nullptr;
            for (int i = 0; i < 11; ++i) { // max_stages is 8
                auto& one = add<ResidentSaxpy>("block " + std::to_string(i), on, 2.0f, 1.0f);
                if (before == nullptr) {
                    connect(source.out, one.samples);
                } else {
                    connect(before->samples, one.samples);
                }
                before = &one;
            }
            connect(before->samples, sink.in);
        }
    };
    Long a(resident);
    Long b(resident);
    a.start();
    b.start();
    for (Long* g : {&a, &b}) {
        g->wait(60s);
        EXPECT_EQ(g->sink.samples, std::vector<float>(500, 4095.0f));
    }
}

TEST_P(flow_resident, a_kind_of_ones_own)
{
    Resident resident(resident::image<resident::Halved>(), where(), 2);
    Alone<Halves> test("halves", resident);
    std::vector<float> in(101);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
    test.feed(test.block.samples, in, {{10, "ten", 1.0}}, 9);
    auto& out = test.collect<float>(test.block.samples);
    test.run(60s);
    ASSERT_EQ(out.samples.size(), 51u);
    EXPECT_EQ(out.samples[0], 0.0f);
    for (size_t m = 1; m < 51; ++m) EXPECT_EQ(out.samples[m], 2 * static_cast<float>(m) - 0.5f);
    EXPECT_EQ(out.tags, (std::vector<Tag>{{5, "ten", 1.0}}));
}

TEST_P(flow_resident, retuned_while_it_runs)
{
    Resident resident(resident::image(), where(), 3);
    Flowgraph g;
    auto& source = g.add<Ones>("source");
    auto& fir = g.add<ResidentFir<float>>("fir", resident, std::vector<float>{1, 1});
    auto& scale = g.add<ResidentSaxpy>("scale", resident, 1.0f, 0.0f);
    struct Until : Block { // ends when both have changed; first the one, then the other
        In<float> in{*this, "in"};
        std::vector<float> levels;
        std::function<void()> then;
        using Block::Block;
        void work() override
        {
            for (const float x : in.view()) {
                if (in.position() > 0 && (levels.empty() || levels.back() != x)) {
                    levels.push_back(x);
                    if (then && x == 5.0f) then();
                }
            }
            in.consume(in.view().size());
            if (!levels.empty() && levels.back() == 50.0f) finish();
        }
    };
    auto& until = g.add<Until>("until");
    until.then = [&] { scale.scalars.offer({10.0f, 0.0f}); };
    g.circuit("floats", source.out, 8, 16);
    g.connect(source.out, fir.samples);
    g.connect(fir.samples, scale.samples);
    g.connect(scale.samples, until.in);
    g.start();
    fir.taps.post({5});
    g.wait(60s);
    // Each change is at one boundary, for all of them; it may come before the first sample.
    if (until.levels.front() == 2.0f) until.levels.erase(until.levels.begin());
    EXPECT_EQ(until.levels, (std::vector<float>{5, 50}));
    g.abort();
}

TEST_P(flow_resident, a_block_retunes_a_resident_one)
{
    struct Control : Block { // asks for another gain when it has seen enough of the first
        In<float> in{*this, "in"};
        MessageOutput<float> gain;
        std::vector<float> seen;
        using Block::Block;
        void work() override
        {
            for (const float x : in.view()) {
                if (in.position() < 64) continue; // the first of the stream is 0
                if (seen.empty() || seen.back() != x) seen.push_back(x);
            }
            if (in.position() >= 200 && seen.size() == 1 && !asked_) {
                gain.send(8.0f);
                asked_ = true;
            }
            in.consume(in.view().size());
            if (seen.size() == 2) finish();
        }
        bool asked_ = false;
    };
    struct Turning : Block { // a quarter of a turn per sample
        Source<Complex> out{*this, "out"};
        using Block::Block;
        void work() override
        {
            for (Complex& x : out.room()) x = now_ *= Complex(0, 1);
            out.produce(out.room().size());
        }
        Complex now_ = 1;
    };
    Resident resident(resident::image(), where(), 2);
    Flowgraph g;
    auto& source = g.add<Turning>("source");
    auto& fm = g.add<ResidentFm>("fm", resident, 1.0f);
    auto& control = g.add<Control>("control");
    g.circuit("iq", source.out, 4, 32);
    g.connect(source.out, fm.samples);
    g.connect(fm.samples, control.in);
    g.connect(control.gain, fm.gain);
    g.start();
    g.wait(60s);
    const float quarter = 1.57079632f;
    ASSERT_EQ(control.seen.size(), 2u);
    EXPECT_FLOAT_EQ(control.seen[0], quarter);
    EXPECT_FLOAT_EQ(control.seen[1], 8 * quarter);
}

TEST_P(flow_resident, what_cannot_work_is_refused)
{
    Resident resident(resident::image(), where(), 1);
    Resident other(resident::image(), where(), 1);
    EXPECT_EQ(error_of([&] { resident.kind("halved"); }).code(), Errc::bad_argument);
    EXPECT_EQ(error_of([&] { ResidentFir<float>("none", resident, std::vector<float>{}); }).code(),
              Errc::bad_argument);
    Flowgraph g;
    auto& source = g.add<VectorSource<float>>("source", std::vector<float>(10));
    auto& one = g.add<ResidentSaxpy>("one", resident, 1.0f, 0.0f);
    auto& two = g.add<ResidentSaxpy>("two", other, 1.0f, 0.0f);
    auto& sink = g.add<NullSink<float>>("sink");
    g.circuit("floats", source.out, 2, 16);
    g.connect(source.out, one.samples);
    g.connect(one.samples, two.samples);
    g.connect(two.samples, sink.in);
    const Error error = error_of([&] { g.start(); });
    EXPECT_STREQ(error.what(),
                 "circuit \"floats\" passes block \"one\" of one resident runtime and block "
                 "\"two\" of another: give both the same");
}

TEST_P(flow_resident, a_failed_retune_and_an_abort_leave_nothing_behind)
{
    Resident resident(resident::image(), where(), 2);
    for (const bool fails : {true, false}) {
        Flowgraph g;
        auto& source = g.add<Ones>("source");
        auto& fir = g.add<ResidentFir<float>>("fir", resident, std::vector<float>{1, 1});
        auto& sink = g.add<NullSink<float>>("sink");
        g.circuit("floats", source.out, 8, 16);
        g.connect(source.out, fir.samples);
        g.connect(fir.samples, sink.in);
        g.start();
        if (fails) {
            fir.taps.post({1, 2, 3});
            const Error error = error_of([&] { g.wait(60s); });
            EXPECT_STREQ(error.what(), "block \"fir\" failed: block \"fir\": 3 values where there "
                                       "were 2: make it with as many, the rest 0");
        } else {
            std::this_thread::sleep_for(5ms);
            g.abort();
            g.wait(60s);
        }
    }
    resident.runtime().drain(20s);
    EXPECT_EQ(resident.runtime().stats().errors, 0u);
    EXPECT_TRUE(eventually([&] { return resident.runtime().buffers().open == 0; }));
}

} // namespace
} // namespace denizen::flow
