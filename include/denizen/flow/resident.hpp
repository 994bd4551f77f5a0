// SPDX-License-Identifier: Apache-2.0
// Blocks of a graph that run on the resident runtime: on the GPU without a launch per buffer, or on
// its CPU backend. Their twins on the graph's own threads are in signal.hpp. They are added and
// connected as all blocks; their circuits' buffers lie in pinned memory from the start on. Resident
// blocks that follow each other are one chain: a worker takes a quantum through all of it, and the
// quanta of a stream go to the `chain_workers` of a chain by turns and leave in their order. A
// quantum that finds all of them idle is cut among them, unless it is of two streams. Host
// only.
//
//   #include <denizen/dsp/resident/program.hpp>         // in a .cu file for the GPU
//   flow::Resident gpu(flow::resident::image());
//   auto& channel = graph.add<flow::ResidentFir<Complex>>("channel", gpu, taps, 8);
//   auto& audio = graph.add<flow::ResidentFm>("audio", gpu, 1.0f);
//   graph.connect(source.out, channel.samples);          // a CPU block
//   graph.connect(channel.samples, audio.samples);
//   graph.connect(audio.samples, sink.in);
#pragma once

#include <denizen/actor/any_runtime.hpp>
#include <denizen/flow/graph.hpp>
#include <denizen/flow/resident/stage.hpp>

#include <complex>
#include <cstring>
#include <map>

namespace denizen::flow {

namespace resident {
struct ProgramImage; // resident/program.hpp
} // namespace resident

// The runtime that resident blocks share. It outlives their graphs.
class Resident {
public:
    // `chain_workers`: workers of each chain. Throws as the runtime's constructor, and bad_argument
    // for 0.
    template <class ProgramImage>
    explicit Resident(ProgramImage program, Options options = {}, uint32_t chain_workers = 4)
        : Resident(std::move(program.image), std::move(program.kinds), options, chain_workers)
    {
    }
    Resident(Image image, std::vector<std::string> kinds, const Options& options,
             uint32_t chain_workers);
    ~Resident();

    AnyRuntime& runtime() { return runtime_; }
    uint32_t chain_workers() const { return chain_workers_; }
    // The number of a kind of blocks. Throws bad_argument if the program does not have it.
    uint32_t kind(const std::string& name) const;

private:
    friend class detail::Engine;

    uint32_t enter(Engine::ResidentWorkers& chain);
    void leave(uint32_t chain);
    void collect();

    std::vector<std::string> kinds_;
    uint32_t chain_workers_;
    AnyRuntime runtime_;
    std::mutex mutex_; // guards what follows
    std::map<uint32_t, Engine::ResidentWorkers*> chains_;
    uint32_t next_ = 0;
};

// What all of them are. `kind` names what the worker does (dsp/resident/kinds.hpp).
class ResidentBlock : public Block {
public:
    Resident& resident() const { return resident_; }

    // From any thread, while it runs: from some quantum boundary on, the same for all workers.
    Messages<std::pair<float, float>> scalars{
        *this, "scalars", [this](const std::pair<float, float>& ab) { set(ab.first, ab.second); }};

protected:
    // `before`: inputs that outputs need of the time before them; `down`: inputs per output.
    ResidentBlock(std::string name, Resident& resident, const std::string& kind, uint32_t before,
                  uint32_t down, std::vector<float> values = {}, float a = 0, float b = 0);
    void attach(InPlacePort& port) { port_ = &port; } // by whoever has it, once
    // Its kind has state in its values (resident/piece.hpp): it is a chain of its own, of one
    // worker.
    void keeps_state() { stateful_ = true; }
    // A second stream, read in step with the first; `bytes` of a sample of it.
    void beside(InputPort& port, size_t bytes)
    {
        beside_ = &port;
        beside_bytes_ = static_cast<uint32_t>(bytes);
    }

    // Throws bad_argument for more than there were at first.
    void set(std::vector<float> values);
    void set(float a, float b);

private:
    friend class detail::Engine;

    // Copies up to `most` samples of the second stream's current quantum, and gives their number;
    // its tags are appended, counted from `at`.
    virtual size_t take([[maybe_unused]] std::byte* to, [[maybe_unused]] size_t most,
                        [[maybe_unused]] size_t at, [[maybe_unused]] std::vector<Tag>& tags)
    {
        return 0;
    }

    void work() final;
    bool poll() final;
    bool busy() const final;

    Resident& resident_;
    InPlacePort* port_ = nullptr;
    InputPort* beside_ = nullptr;
    uint32_t beside_bytes_ = 0;
    resident::Stage stage_;
    std::vector<float> values_;
    Engine::ResidentChain* chain_ = nullptr;
    uint32_t before_;    // inputs of the time before an output that it needs itself
    uint32_t place_ = 0; // in the chain
    bool stateful_ = false;
};

template <class In, class Out>
class ResidentOf : public ResidentBlock {
public:
    Transform<In, Out> samples{*this, "samples"};

protected:
    ResidentOf(std::string name, Resident& resident, const std::string& kind, uint32_t before,
               uint32_t down, std::vector<float> values = {}, float a = 0, float b = 0)
        : ResidentBlock(std::move(name), resident, kind, before, down, std::move(values), a, b)
    {
        attach(samples);
        if (down != 1) {
            samples.rate({1, down, Side::after});
        }
    }
};

// Of two streams: `by` is read by reference and copied beside the quanta of `samples`, however the
// two are cut; its tags stay with their samples. Ends with the shorter one.
template <class In1, class In2, class Out>
class ResidentPair : public ResidentOf<In1, Out> {
public:
    In<In2> by{*this, "by"};

protected:
    ResidentPair(std::string name, Resident& resident, const std::string& kind, float a = 0,
                 float b = 0)
        : ResidentOf<In1, Out>(std::move(name), resident, kind, 0, 1, {}, a, b)
    {
        this->beside(by, sizeof(In2));
    }

private:
    size_t take(std::byte* to, size_t most, size_t at, std::vector<Tag>& tags) override
    {
        const std::span<const In2> view = by.view();
        const size_t count = std::min(most, view.size());
        std::memcpy(to, view.data(), count * sizeof(In2));
        by.move_tags(count, at, tags);
        by.consume(count);
        return count;
    }
};

// y = a x + b; `scalars` changes them.
class ResidentSaxpy : public ResidentOf<float, float> {
public:
    ResidentSaxpy(std::string name, Resident& resident, float a, float b)
        : ResidentOf(std::move(name), resident, "saxpy", 0, 1, {}, a, b)
    {
    }
};

namespace detail {

template <class T>
std::vector<float> floats(const std::vector<T>& values)
{
    const auto* first = reinterpret_cast<const float*>(values.data());
    return {first, first + values.size() * (sizeof(T) / sizeof(float))};
}

uint32_t refuse_taps(const std::string& name, size_t taps, uint32_t down);

} // namespace detail

// y[m] = the sum over k of taps[k] x[m down - k]: (float, float), (complex, float) and
// (complex, complex). 1 to 4096 taps, `down` from 1 on. New taps may be posted while it runs, as
// many as at first or fewer.
template <class Sample, class Tap = float>
class ResidentFir : public ResidentOf<Sample, Sample> {
public:
    Messages<std::vector<Tap>> taps{
        *this, "taps", [this](const std::vector<Tap>& t) { this->set(detail::floats(t)); }};

    ResidentFir(std::string name, Resident& resident, const std::vector<Tap>& taps_,
                uint32_t down = 1)
        : ResidentOf<Sample, Sample>(name, resident,
                                     sizeof(Sample) == sizeof(float) ? "fir, real"
                                     : sizeof(Tap) == sizeof(float)  ? "fir, complex"
                                                                     : "fir, complex taps",
                                     detail::refuse_taps(name, taps_.size(), down) - 1, down,
                                     detail::floats(taps_))
    {
    }
};

// y[n] = x[n] w[n modulo the length of w]: a mixer whose oscillator has a whole period, or a
// factor.
class ResidentMixer : public ResidentOf<std::complex<float>, std::complex<float>> {
public:
    ResidentMixer(const std::string& name, Resident& resident,
                  const std::vector<std::complex<float>>& w)
        : ResidentOf(name, resident, "mixer", 0, (detail::refuse_taps(name, w.size(), 1), 1u),
                     detail::floats(w))
    {
    }
};

// y[n] = samples[n] by[n], of two streams.
class ResidentMultiply
    : public ResidentPair<std::complex<float>, std::complex<float>, std::complex<float>> {
public:
    ResidentMultiply(std::string name, Resident& resident)
        : ResidentPair(std::move(name), resident, "multiply")
    {
    }
};

// y = |x|^2
class ResidentMagnitudeSquared : public ResidentOf<std::complex<float>, float> {
public:
    ResidentMagnitudeSquared(std::string name, Resident& resident)
        : ResidentOf(std::move(name), resident, "magnitude squared", 0, 1)
    {
    }
};

// y[n] = gain arg(x[n] conj(x[n - 1])); the first of a stream is 0.
class ResidentFm : public ResidentOf<std::complex<float>, float> {
public:
    Messages<float> gain{*this, "gain", [this](float g) { set(g, 0); }};

    ResidentFm(std::string name, Resident& resident, float gain_)
        : ResidentOf(std::move(name), resident, "demodulate fm", 1, 1, {}, gain_)
    {
    }
};

} // namespace denizen::flow
