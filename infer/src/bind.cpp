// SPDX-License-Identifier: Apache-2.0
// denizen._core.InferEngine: python/denizen/infer/resident.py is its face, and checks what it
// gives.
#include "bind/bind.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/base/error.hpp>
#include <denizen/infer/gpu.hpp>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <span>
#include <thread>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using infer::Engine;
using infer::Format;
using infer::Model;
using infer::OpKind;

// Kind, inputs, weights, (eps, relu, dilation), name.
using GivenOp = std::tuple<std::string, std::vector<uint32_t>, std::vector<nb::object>,
                           std::tuple<float, bool, uint32_t>, std::string>;
// Widths, ops, output, tokens.
using GivenModel = std::tuple<std::vector<uint32_t>, std::vector<GivenOp>, uint32_t, bool>;

OpKind kind_named(const std::string& name)
{
    for (uint32_t kind = 0; kind <= static_cast<uint32_t>(OpKind::concat); ++kind) {
        if (name == infer::to_string(static_cast<OpKind>(kind))) {
            return static_cast<OpKind>(kind);
        }
    }
    throw Error(Errc::bad_argument, "there is no kind \"" + name + "\" of layers");
}

Format format_named(const std::string& name)
{
    for (const Format format : {Format::fp32, Format::bf16, Format::fp16}) {
        if (name == infer::to_string(format)) {
            return format;
        }
    }
    throw Error(Errc::bad_argument,
                "weights = \"" + name + "\"; use \"fp32\", \"bf16\" or \"fp16\"");
}

template <class T>
std::span<T> span_of(const Bytes& bytes)
{
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// A model and the buffers of Python's that its weights lie in.
struct Held {
    explicit Held(const GivenModel& given)
    {
        const auto& [widths, ops, output, tokens] = given;
        model.widths = widths;
        model.output = output;
        model.tokens = tokens;
        for (const auto& [kind, inputs, weights, settings, name] : ops) {
            infer::Op op{kind_named(kind), inputs, {}, {}, name};
            std::tie(op.settings.eps, op.settings.relu, op.settings.dilation) = settings;
            for (const nb::object& weight : weights) {
                buffers.push_back(std::make_unique<Bytes>(weight, false));
                op.weights.push_back(span_of<const float>(*buffers.back()));
            }
            model.ops.push_back(std::move(op));
        }
    }

    Model model;
    std::vector<std::unique_ptr<Bytes>> buffers;
};

// As steps(), with `window` of them under way at once: the nanoseconds of each from its request to
// its answer, as who asks sees them.
void timed_steps(Engine& m, std::span<const uint32_t> streams, std::span<const std::byte> inputs,
                 std::span<float> outputs, std::span<uint64_t> took, size_t window,
                 infer::nanoseconds deadline)
{
    const size_t n = streams.size();
    const size_t in = m.input_bytes();
    const size_t out = m.output_floats();
    if (inputs.size() != n * in || outputs.size() != n * out || took.size() != n || window == 0 ||
        window > m.requests()) {
        throw Error(Errc::bad_argument, "timed steps: sizes that do not fit, or a window of none "
                                        "or of more than " +
                                            std::to_string(m.requests()) + " requests");
    }
    if (window == 1) {
        for (size_t i = 0; i < n; ++i) {
            const uint64_t began = now_ns();
            m.step(streams[i], inputs.subspan(i * in, in), outputs.subspan(i * out, out), deadline);
            took[i] = now_ns() - began;
        }
        return;
    }
    std::vector<infer::Ticket> tickets(window); // of request i at i % window
    size_t begun = 0;
    size_t ended = 0;
    try {
        while (ended < n) { // ends: each turn ends a request
            for (; begun < n && begun - ended < window; ++begun) {
                took[begun] = now_ns();
                tickets[begun % window] =
                    m.begin(streams[begun], inputs.subspan(begun * in, in), deadline);
            }
            const size_t i = ended++;
            m.end(tickets[i % window], outputs.subspan(i * out, out), deadline);
            took[i] = now_ns() - took[i];
        }
    } catch (...) {
        for (; ended < begun; ++ended) m.abandon(tickets[ended % window]);
        throw;
    }
}

void asking_models(nb::class_<Engine>& engine)
{
    engine
        // Returns the version that answered.
        .def("step",
             [](Engine& m, uint32_t stream, nb::handle input, nb::handle output, double timeout) {
                 const Bytes in(input, false);
                 const Bytes out(output, true);
                 const Unlocked unlocked;
                 return m.step(stream, span_of<const std::byte>(in), span_of<float>(out),
                               seconds(timeout));
             })
        .def("steps",
             [](Engine& m, nb::handle streams, nb::handle inputs, nb::handle outputs,
                nb::handle versions, double timeout) {
                 const Bytes of(streams, false);
                 const Bytes in(inputs, false);
                 const Bytes out(outputs, true);
                 const Bytes by(versions, true);
                 const Unlocked unlocked;
                 m.steps(span_of<const uint32_t>(of), span_of<const std::byte>(in),
                         span_of<float>(out), span_of<uint64_t>(by), seconds(timeout));
             })
        .def("timed",
             [](Engine& m, nb::handle streams, nb::handle inputs, nb::handle outputs,
                nb::handle took, uint32_t window, double timeout) {
                 const Bytes of(streams, false);
                 const Bytes in(inputs, false);
                 const Bytes out(outputs, true);
                 const Bytes ns(took, true);
                 const Unlocked unlocked;
                 timed_steps(m, span_of<const uint32_t>(of), span_of<const std::byte>(in),
                             span_of<float>(out), span_of<uint64_t>(ns), window, seconds(timeout));
             })
        .def("ask_begin",
             [](Engine& m, uint32_t stream, nb::handle input, double timeout) {
                 const Bytes in(input, false);
                 const Unlocked unlocked;
                 return m.begin(stream, span_of<const std::byte>(in), seconds(timeout)).value;
             })
        // The tickets whose answers are there; waits until there is one, at most `timeout`.
        .def("ask_ready",
             [](const Engine& m, const std::vector<uint64_t>& tickets, double timeout) {
                 std::vector<uint64_t> ready;
                 const Unlocked unlocked;
                 const auto until = std::chrono::steady_clock::now() + seconds(timeout);
                 for (uint32_t tries = 0;; ++tries) { // ends by an answer or the time-out
                     for (const uint64_t ticket : tickets) {
                         if (m.ready({ticket})) ready.push_back(ticket);
                     }
                     if (!ready.empty() || std::chrono::steady_clock::now() >= until) {
                         return ready;
                     }
                     check_interrupt();
                     if (tries > 200) std::this_thread::sleep_for(std::chrono::microseconds(20));
                 }
             })
        // Returns (version, answer).
        .def("ask_end",
             [](Engine& m, uint64_t ticket) {
                 std::vector<float> output(m.output_floats());
                 uint64_t version = 0;
                 {
                     const Unlocked unlocked;
                     version = m.end({ticket}, output, std::chrono::seconds(1));
                 }
                 return nb::make_tuple(version,
                                       nb::bytes(output.data(), output.size() * sizeof(float)));
             })
        .def("ask_abandon", [](Engine& m, uint64_t ticket) { m.abandon({ticket}); });
}

void states_of_models(nb::class_<Engine>& engine)
{
    engine
        .def("reset",
             [](Engine& m, uint32_t stream, double timeout) {
                 const Unlocked unlocked;
                 m.reset(stream, seconds(timeout));
             })
        .def("state",
             [](Engine& m, uint32_t stream, nb::handle to, double timeout) {
                 const Bytes out(to, true);
                 const Unlocked unlocked;
                 m.state(stream, span_of<float>(out), seconds(timeout));
             })
        .def("set_state",
             [](Engine& m, uint32_t stream, nb::handle from, double timeout) {
                 const Bytes in(from, false);
                 const Unlocked unlocked;
                 m.set_state(stream, span_of<const float>(in), seconds(timeout));
             })
        // (Name, floats, steps of inputs) of each piece.
        .def_prop_ro("state_parts",
                     [](const Engine& m) {
                         nb::list all;
                         for (const infer::StatePart& part : m.state_parts()) {
                             all.append(nb::make_tuple(part.name, part.floats, part.steps));
                         }
                         return all;
                     })
        .def("save",
             [](Engine& m, const std::string& path, double timeout) {
                 const Unlocked unlocked;
                 m.save(path, seconds(timeout));
             })
        .def("restore", [](Engine& m, const std::string& path, double timeout) {
            const Unlocked unlocked;
            m.restore(path, seconds(timeout));
        });
}

} // namespace

void models(nb::module_& module)
{
    nb::class_<Engine> engine(module, "InferEngine");
    engine
        .def("__init__",
             [](Engine* self, const GivenModel& model, uint32_t streams, const std::string& format,
                uint32_t parts, uint32_t requests, double spin) {
                 const Held held(model);
                 const infer::Options options{.streams = streams,
                                              .format = format_named(format),
                                              .parts = parts,
                                              .requests = requests,
                                              .spin = seconds(spin)};
                 const Unlocked unlocked;
                 new (self) Engine(held.model, options);
             })
        // On a GPU: its ordinal, the kernels as a cubin, microseconds of a breath (none: default),
        // copies.
        .def(
            "__init__",
            [](Engine* self, const GivenModel& model, uint32_t streams, const std::string& format,
               uint32_t parts, uint32_t requests, double spin, int ordinal, const nb::bytes& cubin,
               std::optional<int64_t> breath_us, uint32_t copies) {
                const Held held(model);
                const infer::Options options{.streams = streams,
                                             .format = format_named(format),
                                             .parts = parts,
                                             .copies = copies,
                                             .requests = requests,
                                             .spin = seconds(spin)};
                Code code;
                code.cubin.assign(cubin.c_str(), cubin.c_str() + cubin.size());
                std::optional<std::chrono::microseconds> breath;
                if (breath_us) breath = std::chrono::microseconds(*breath_us);
                const Unlocked unlocked;
                new (self) Engine(held.model, options, infer::on_gpu(ordinal, code, breath));
            },
            nb::arg("model"), nb::arg("streams"), nb::arg("weights"), nb::arg("parts"),
            nb::arg("requests"), nb::arg("spin"), nb::arg("ordinal"), nb::arg("cubin"),
            nb::arg("breath_us").none(), nb::arg("copies"))
        .def("swap",
             [](Engine& m, const GivenModel& model, double timeout) {
                 const Held held(model);
                 const Unlocked unlocked;
                 return m.swap(held.model, seconds(timeout));
             })
        .def_prop_ro("version", &Engine::version)
        .def_prop_ro("parts", &Engine::parts)
        .def_prop_ro("streams", &Engine::streams)
        .def_prop_ro("requests", &Engine::requests)
        .def_prop_ro("weight_bytes", &Engine::weight_bytes)
        .def_prop_ro("state_bytes", &Engine::state_bytes)
        .def_prop_ro("place", &Engine::place)
        // (Steps, nanoseconds in them, swaps, rounds, nanoseconds until the weights were there)
        .def("stats",
             [](const Engine& m) {
                 const infer::Stats stats = m.stats();
                 return nb::make_tuple(stats.steps, stats.busy_ns, stats.swaps, stats.rounds,
                                       stats.loading_ns);
             })
        .def("close", [](Engine& m) {
            const Unlocked unlocked;
            m.close();
        });
    asking_models(engine);
    states_of_models(engine);
}

} // namespace denizen::bind
