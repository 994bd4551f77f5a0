// SPDX-License-Identifier: Apache-2.0
// Blocks of signal processing for Python: each on the graph's own threads or, where a resident
// runtime is given, there. python/denizen/flow/signal.py is their face.
#include "bind/flow.hpp"

#include <denizen/dsp/resident/given.hpp>
#include <denizen/dsp/resident/program.hpp>
#include <denizen/dsp/resident_agc.hpp>
#include <denizen/dsp/resident_circuits.hpp>
#include <denizen/dsp/signal.hpp>
#include <denizen/dsp/signal_circuits.hpp>
#include <denizen/flow/resident.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <complex>
#include <deque>
#include <functional>
#include <map>
#include <optional>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using namespace flow;
using Complex = std::complex<float>;
using Where = std::shared_ptr<Resident>; // null: the graph's own threads

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> vector_of(const Array<T>& array)
{
    return {array.data(), array.data() + array.size()};
}

class OfLibrary : public PyPort {
public:
    OfLibrary(std::shared_ptr<Block*> block, InputPort& port)
        : block_(std::move(block)), port_(port), in_(&port)
    {
    }
    OfLibrary(std::shared_ptr<Block*> block, InPlacePort& port)
        : block_(std::move(block)), port_(port), in_(&port), through_(&port)
    {
    }
    OfLibrary(std::shared_ptr<Block*> block, SourcePort& port)
        : block_(std::move(block)), port_(port), source_(&port)
    {
    }
    Port& port() override { return port_; }
    InputPort* input() override { return in_; }
    SourcePort* source() override { return source_; }
    InPlacePort* in_place() override { return through_; }
    void need_block() const override
    {
        if (*block_ == nullptr) {
            throw Error(Errc::closed, "the port's graph is gone");
        }
    }
    void need_quantum() override
    {
        need_block();
        throw Error(Errc::bad_argument, "port \"" + port_.label() +
                                            "\" is of a block of the library: its quanta are seen "
                                            "by the blocks that it is connected to");
    }

private:
    std::shared_ptr<Block*> block_;
    Port& port_;
    InputPort* in_ = nullptr;
    InPlacePort* through_ = nullptr;
    SourcePort* source_ = nullptr;
};

struct LibraryBlock : BlockHandle {
    using BlockHandle::BlockHandle;

    template <class P>
    void has_port(const std::string& name, P& port)
    {
        ports[name] = std::make_shared<OfLibrary>(block, port);
    }
    template <class T>
    void has_messages(const std::string& name, flow::Messages<T>& messages)
    {
        if constexpr (std::is_same_v<T, float> || std::is_same_v<T, std::pair<float, float>>) {
            posts[name] = [&messages](nb::handle value) { messages.post(nb::cast<T>(value)); };
        } else { // taps
            using Tap = typename T::value_type;
            posts[name] = [&messages](nb::handle value) {
                messages.post(vector_of<Tap>(nb::cast<Array<Tap>>(value)));
            };
        }
    }

    std::map<std::string, std::shared_ptr<PyPort>> ports;
    std::map<std::string, std::function<void(nb::handle)>> posts;
};

using Made = std::unique_ptr<LibraryBlock>;

// A block of type Here or, on a resident runtime, There; `dress` gives it its ports.
template <class Here, class There, class Dress, class... Arguments>
Made make(const Where& where, const std::string& name, Dress&& dress, const Arguments&... arguments)
{
    const auto wrap = [&](auto block) {
        auto& made = *block;
        auto handle = std::make_unique<LibraryBlock>(std::move(block));
        handle->needs = where;
        handle->has_port("samples", made.samples);
        dress(*handle, made);
        return handle;
    };
    return where ? wrap(std::make_unique<There>(name, *where, arguments...))
                 : wrap(std::make_unique<Here>(name, arguments...));
}

// A resident block whose function is given at run time, and its parameters as floats' bits.
template <class In, class Out>
struct ResidentGiven : ResidentOf<In, Out> {
    flow::Messages<std::vector<float>> values{
        *this, "values", [this](const std::vector<float>& v) { this->set(v); }};

    ResidentGiven(std::string name, Resident& resident, const std::string& kind, uint32_t before,
                  uint32_t down, std::vector<float> begin)
        : ResidentOf<In, Out>(std::move(name), resident, kind, before, down, std::move(begin))
    {
    }
};

template <class In, class Out>
Made given(const std::string& name, const std::string& kind, uint32_t before, uint32_t down,
           const Array<float>& values, const Where& where)
{
    using Block = ResidentGiven<In, Out>;
    auto block = std::make_unique<Block>(name, *where, kind, before, down, vector_of(values));
    Block& made = *block;
    auto handle = std::make_unique<LibraryBlock>(std::move(block));
    handle->needs = where;
    handle->has_port("samples", made.samples);
    handle->has_messages("values", made.values);
    return handle;
}

// The same between circuits: one input or two, and any number of outputs.
template <class Sample, class Output>
struct ResidentGivenBetween : ResidentBetween<Sample, Output> {
    std::optional<flow::In<Sample>> by;
    std::deque<flow::Source<Output>> outs;
    flow::Messages<std::vector<float>> values{
        *this, "values", [this](const std::vector<float>& v) { this->set(v); }};

    ResidentGivenBetween(std::string name, Resident& resident, const std::string& kind,
                         uint32_t before, uint32_t down, std::vector<float> begin,
                         const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs)
        : ResidentBetween<Sample, Output>(std::move(name), resident, kind, inputs.at(0))
    {
        shape_.before = before;
        shape_.down = down;
        shape_.streams = static_cast<uint32_t>(outputs.size());
        shape_.values = std::move(begin);
        if (inputs.size() > 1) {
            shape_.beside = sizeof(Sample);
            this->reads(by.emplace(*this, inputs[1]));
        }
        const Rate rate{1, down, Side::after};
        for (const std::string& output : outputs) {
            flow::Source<Output>& out = outs.emplace_back(*this, output);
            out.follow(this->in, rate);
            if (by) {
                out.follow(*by, rate);
            }
            this->gives(out);
        }
    }

private:
    ResidentBridge::Shape shape() const override { return shape_; }
    ResidentBridge::Shape shape_;
};

template <class Sample, class Output>
Made given_between(const std::string& name, const std::string& kind, uint32_t before, uint32_t down,
                   const Array<float>& values, const Where& where,
                   const std::vector<std::string>& inputs, const std::vector<std::string>& outputs)
{
    using Block = ResidentGivenBetween<Sample, Output>;
    auto block = std::make_unique<Block>(name, *where, kind, before, down, vector_of(values),
                                         inputs, outputs);
    Block& made = *block;
    auto handle = std::make_unique<LibraryBlock>(std::move(block));
    handle->needs = where;
    handle->has_port(inputs[0], static_cast<InputPort&>(made.in));
    if (made.by) {
        handle->has_port(inputs[1], static_cast<InputPort&>(*made.by));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
        handle->has_port(outputs[i], static_cast<SourcePort&>(made.outs[i]));
    }
    handle->has_messages("values", made.values);
    return handle;
}

// A block of type Here or, on a resident runtime, There; between circuits. `dress` gives it its
// outputs.
template <class Here, class There, class Dress, class... Arguments>
Made between(const Where& where, const std::string& name, Dress&& dress,
             const Arguments&... arguments)
{
    const auto wrap = [&](auto block) {
        auto& made = *block;
        auto handle = std::make_unique<LibraryBlock>(std::move(block));
        handle->needs = where;
        handle->has_port("in", static_cast<InputPort&>(made.in));
        dress(*handle, made);
        return handle;
    };
    return where ? wrap(std::make_unique<There>(name, *where, arguments...))
                 : wrap(std::make_unique<Here>(name, arguments...));
}

constexpr auto one_output = [](LibraryBlock& handle, auto& block) {
    handle.has_port("out", static_cast<SourcePort&>(block.out));
};

template <class Sample, class Tap>
Made resampler(const std::string& name, const Array<Tap>& taps, uint32_t up, uint32_t down,
               const Where& where)
{
    return between<Resampler<Sample, Tap>, ResidentResampler<Sample, Tap>>(
        where, name, one_output, vector_of<Tap>(taps), up, down);
}

Made fft(const std::string& name, uint32_t points, bool inverse, const Where& where)
{
    return between<Fft, ResidentFft>(where, name, one_output, points, inverse);
}

// `chosen`: the channels that it makes.
Made channelizer(const std::string& name, const Array<float>& taps, uint32_t channels,
                 const std::vector<uint32_t>& chosen, const Where& where)
{
    return between<Channelizer, ResidentChannelizer>(
        where, name,
        [&](LibraryBlock& handle, auto& block) {
            for (const uint32_t k : chosen)
                handle.has_port(std::to_string(k), static_cast<SourcePort&>(block.channel(k)));
        },
        vector_of<float>(taps), channels);
}

constexpr auto nothing_else = [](LibraryBlock&, auto&) {};

template <class Sample>
Made flow_agc(const std::string& name, float reference, float rate, float most, const Where& where)
{
    return make<Agc<Sample>, ResidentAgc<Sample>>(where, name, nothing_else, reference, rate, most);
}

template <class Sample, class Tap>
Made flow_fir(const std::string& name, const Array<Tap>& taps, uint32_t down, const Where& where)
{
    return make<Fir<Sample, Tap>, ResidentFir<Sample, Tap>>(
        where, name, [](LibraryBlock& h, auto& b) { h.has_messages("taps", b.taps); },
        vector_of<Tap>(taps), down);
}

Options options_of(bool on_gpu, int ordinal, uint32_t threads, uint32_t sms)
{
    Options options;
    options.device = on_gpu ? Device::gpu(ordinal) : Device::cpu();
    options.workers = on_gpu ? 0 : threads;
    options.sms = on_gpu ? sms : 0;
    return options;
}

} // namespace

void flow_signals(nb::module_& m)
{
    nb::class_<Resident>(m, "FlowResident")
        .def(
            "__init__",
            [](Resident* self, bool on_gpu, int ordinal, const nb::bytes& cubin, uint32_t threads,
               uint32_t sms, uint32_t chain_workers, const std::vector<std::string>& kinds) {
                resident::ProgramImage program = resident::image<resident::Given>();
                program.image.cubin.assign(cubin.c_str(), cubin.c_str() + cubin.size());
                if (on_gpu) { // those that the cubin has behind the library's
                    program.kinds.pop_back();
                    program.kinds.insert(program.kinds.end(), kinds.begin(), kinds.end());
                }
                const Options options = options_of(on_gpu, ordinal, threads, sms);
                const Unlocked unlocked;
                new (self) Resident(std::move(program), options, chain_workers);
            },
            nb::arg("on_gpu"), nb::arg("ordinal"), nb::arg("cubin"), nb::arg("threads"),
            nb::arg("sms"), nb::arg("chain_workers"), nb::arg("kinds") = std::vector<std::string>())
        .def_prop_ro("device", [](Resident& r) { return r.runtime().description().device; })
        .def_prop_ro("chain_workers", &Resident::chain_workers);

    nb::class_<LibraryBlock, BlockHandle>(m, "FlowLibraryBlock")
        .def("port",
             [](const LibraryBlock& b, const std::string& name) { return b.ports.at(name); })
        .def("post", [](const LibraryBlock& b, const std::string& name, nb::handle value) {
            b.get();
            b.posts.at(name)(value);
        });

    m.def("flow_fir_real", &flow_fir<float, float>, nb::arg("name"), nb::arg("taps"),
          nb::arg("down"), nb::arg("where").none());
    m.def("flow_fir_complex", &flow_fir<Complex, float>, nb::arg("name"), nb::arg("taps"),
          nb::arg("down"), nb::arg("where").none());
    m.def("flow_fir_complex_taps", &flow_fir<Complex, Complex>, nb::arg("name"), nb::arg("taps"),
          nb::arg("down"), nb::arg("where").none());
    m.def(
        "flow_fm",
        [](const std::string& name, float gain, const Where& where) {
            return make<Fm, ResidentFm>(
                where, name, [](LibraryBlock& h, auto& b) { h.has_messages("gain", b.gain); },
                gain);
        },
        nb::arg("name"), nb::arg("gain"), nb::arg("where").none());
    m.def("flow_given_real", &given<float, float>);
    m.def("flow_given_complex", &given<Complex, Complex>);
    m.def("flow_given_complex_real", &given<Complex, float>);
    m.def("flow_given_between_real", &given_between<float, float>);
    m.def("flow_given_between_complex", &given_between<Complex, Complex>);
    m.def("flow_given_between_complex_real", &given_between<Complex, float>);
    m.attr("flow_given") = resident::Given::name;
    m.def("flow_agc_real", &flow_agc<float>, nb::arg("name"), nb::arg("reference"), nb::arg("rate"),
          nb::arg("most"), nb::arg("where").none());
    m.def("flow_agc_complex", &flow_agc<Complex>, nb::arg("name"), nb::arg("reference"),
          nb::arg("rate"), nb::arg("most"), nb::arg("where").none());
    m.def("flow_resampler_real", &resampler<float, float>, nb::arg("name"), nb::arg("taps"),
          nb::arg("up"), nb::arg("down"), nb::arg("where").none());
    m.def("flow_resampler_complex", &resampler<Complex, float>, nb::arg("name"), nb::arg("taps"),
          nb::arg("up"), nb::arg("down"), nb::arg("where").none());
    m.def("flow_resampler_complex_taps", &resampler<Complex, Complex>, nb::arg("name"),
          nb::arg("taps"), nb::arg("up"), nb::arg("down"), nb::arg("where").none());
    m.def("flow_fft", &fft, nb::arg("name"), nb::arg("points"), nb::arg("inverse"),
          nb::arg("where").none());
    m.def("flow_channelizer", &channelizer, nb::arg("name"), nb::arg("taps"), nb::arg("channels"),
          nb::arg("chosen"), nb::arg("where").none());
    m.def(
        "flow_mixer",
        [](const std::string& name, const Array<Complex>& w, const Where& where) {
            return make<Mixer, ResidentMixer>(where, name, nothing_else, vector_of<Complex>(w));
        },
        nb::arg("name"), nb::arg("w"), nb::arg("where").none());
    m.def(
        "flow_multiply",
        [](const std::string& name, const Where& where) {
            return make<Multiply, ResidentMultiply>(where, name, [](LibraryBlock& h, auto& b) {
                h.has_port("by", static_cast<InputPort&>(b.by));
            });
        },
        nb::arg("name"), nb::arg("where").none());
    m.def(
        "flow_magnitude_squared",
        [](const std::string& name, const Where& where) {
            return make<MagnitudeSquared, ResidentMagnitudeSquared>(where, name, nothing_else);
        },
        nb::arg("name"), nb::arg("where").none());
    m.def(
        "flow_saxpy",
        [](const std::string& name, float a, float b, const Where& where) {
            return make<Saxpy, ResidentSaxpy>(
                where, name,
                [](LibraryBlock& h, auto& block) { h.has_messages("scalars", block.scalars); }, a,
                b);
        },
        nb::arg("name"), nb::arg("a"), nb::arg("b"), nb::arg("where").none());
}

} // namespace denizen::bind
