// SPDX-License-Identifier: Apache-2.0
// Signal processing in a graph, on the CPU: the kernels of dsp/ as blocks that change quanta in
// place. Each has a twin on the resident runtime with the same ports (flow/resident.hpp,
// resident_agc.hpp), so a graph chooses for each block where it runs. Blocks that fill other
// circuits: signal_circuits.hpp. Host only.
//
//   auto& channel = graph.add<flow::Fir<Complex>>("channel", taps, 8);
//   auto& audio = graph.add<flow::Fm>("audio", 1.0f);
#pragma once

#include <denizen/dsp/agc.hpp>
#include <denizen/dsp/fir.hpp>
#include <denizen/dsp/sample.hpp>
#include <denizen/flow/block.hpp>

namespace denizen::flow {

// y = a x + b; `scalars` changes them.
class Saxpy : public Block {
public:
    InPlace<float> samples{*this, "samples"};
    Messages<std::pair<float, float>> scalars{
        *this, "scalars", [this](const std::pair<float, float>& ab) { ab_ = ab; }};

    Saxpy(std::string name, float a, float b) : Block(std::move(name)), ab_(a, b) {}

private:
    void work() override
    {
        const auto [a, b] = ab_;
        for (float& x : samples.samples()) {
            x = a * x + b;
        }
        samples.pass();
    }
    std::pair<float, float> ab_;
};

// y[m] = the sum over k of taps[k] x[m down - k], see dsp::Fir, which throws what this does. New
// taps may be posted while it runs, as many as at first or fewer.
template <class Sample, class Tap = float>
class Fir : public Block {
public:
    Transform<Sample, Sample> samples{*this, "samples"};
    Messages<std::vector<Tap>> taps{*this, "taps",
                                    [this](const std::vector<Tap>& t) { fir_.set_taps(t); }};

    Fir(std::string name, const std::vector<Tap>& taps_, uint32_t down = 1)
        : Block(std::move(name)), fir_(taps_, 1, down)
    {
        if (down != 1) {
            samples.rate({1, down, Side::after});
        }
    }

private:
    void work() override
    {
        const auto in = samples.samples();
        samples.pass(fir_.feed(in.data(), in.size(), samples.results().data()));
    }
    dsp::Fir<Sample, Tap> fir_;
};

// y[n] = x[n] w[n modulo the length of w]: a mixer whose oscillator has a whole period, or a
// factor. Throws bad_argument for no w.
class Mixer : public Block {
public:
    InPlace<dsp::Complex> samples{*this, "samples"};

    Mixer(std::string name, std::vector<dsp::Complex> w) : Block(std::move(name)), w_(std::move(w))
    {
        if (w_.empty()) {
            throw Error(Errc::bad_argument, "block \"" + this->name() +
                                                "\": a mixer's period has "
                                                "one number at least");
        }
    }

private:
    void work() override
    {
        std::span<dsp::Complex> x = samples.samples();
        while (!x.empty()) { // ends: some are done in each turn
            const size_t n = std::min(x.size(), w_.size() - at_);
            dsp::multiply(x.data(), w_.data() + at_, x.data(), n);
            at_ = (at_ + n) % w_.size();
            x = x.subspan(n);
        }
        samples.pass();
    }
    std::vector<dsp::Complex> w_;
    size_t at_ = 0;
};

// y[n] = samples[n] by[n], of two streams, however they are cut; the tags of both stay with their
// samples. Ends with the shorter one.
class Multiply : public Block {
public:
    InPlace<dsp::Complex> samples{*this, "samples"};
    In<dsp::Complex> by{*this, "by"};

    using Block::Block;

private:
    void work() override
    {
        const std::span<dsp::Complex> a = samples.samples().subspan(done_);
        const std::span<const dsp::Complex> b = by.view();
        const size_t n = std::min(a.size(), b.size());
        dsp::multiply(a.data(), b.data(), a.data(), n);
        by.move_tags(n, done_, samples.tags());
        by.consume(n);
        done_ += n;
        if (n == a.size()) {
            done_ = 0;
            samples.pass();
        }
    }
    // The second stream has ended in the middle of a quantum of the first.
    bool busy() const override { return done_ != 0 && by.exhausted(); }
    bool poll() override
    {
        if (!busy()) {
            return false;
        }
        samples.trim(0, samples.samples().size() - std::exchange(done_, 0));
        samples.pass();
        return true;
    }
    size_t done_ = 0; // of the current quantum
};

// y = g x, where the gain g makes |y| settle at `reference`; see dsp::Agc, which throws what this
// does.
template <class Sample>
class Agc : public Block {
public:
    InPlace<Sample> samples{*this, "samples"};

    Agc(std::string name, float reference, float rate, float most)
        : Block(std::move(name)), agc_(reference, rate, most)
    {
    }

private:
    void work() override
    {
        const std::span<Sample> x = samples.samples();
        agc_.feed(x.data(), x.size(), x.data());
        samples.pass();
    }
    dsp::Agc<Sample> agc_;
};

namespace detail {

// Passes on a real number for each complex one: `make` gives a thousand at a time.
template <class Make>
void to_real(Transform<dsp::Complex, float>& port, Make&& make)
{
    const auto in = port.samples();
    float some[1024]; // the results lie where the samples do: they are written when those are read
    for (size_t i = 0; i < in.size(); i += std::size(some)) {
        const size_t n = std::min(std::size(some), in.size() - i);
        make(in.data() + i, n, some);
        std::copy_n(some, n, port.results().data() + i);
    }
    port.pass(in.size());
}

} // namespace detail

// y = |x|^2
class MagnitudeSquared : public Block {
public:
    Transform<dsp::Complex, float> samples{*this, "samples"};
    using Block::Block;

private:
    void work() override
    {
        detail::to_real(samples, [](const dsp::Complex* x, size_t n, float* out) {
            dsp::magnitude_squared(x, out, n);
        });
    }
};

// y[n] = gain arg(x[n] conj(x[n - 1])); the first of a stream is 0.
class Fm : public Block {
public:
    Transform<dsp::Complex, float> samples{*this, "samples"};
    Messages<float> gain{*this, "gain", [this](float g) { demodulator_.set_gain(g); }};

    Fm(std::string name, float gain_) : Block(std::move(name)), demodulator_(gain_) {}

private:
    void work() override
    {
        detail::to_real(samples, [this](const dsp::Complex* x, size_t n, float* out) {
            demodulator_.feed(x, n, out);
        });
    }
    dsp::FmDemodulator demodulator_;
};

} // namespace denizen::flow
