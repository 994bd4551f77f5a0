// SPDX-License-Identifier: Apache-2.0
// denizen._core's wave; python/denizen/wave is its face, and checks shapes and dtypes.
#include "bind/bind.hpp"

#include <denizen/wave/simulation.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using namespace wave;

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> vector_of(const Array<T>& array)
{
    return {array.data(), array.data() + array.size()};
}

nb::object give(std::vector<double>&& values)
{
    auto* all = std::make_unique<std::vector<double>>(std::move(values)).release();
    const nb::capsule owner(all,
                            [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, double, nb::ndim<1>>(all->data(), {all->size()}, owner));
}

Method method_of(const std::string& name)
{
    for (const Method method : {Method::automatic, Method::threads, Method::launches, Method::graph,
                                Method::tiles, Method::deep, Method::pass2, Method::pass4}) {
        if (name == to_string(method)) return method;
    }
    throw Error(Errc::bad_argument,
                "method \"" + name +
                    "\" is none of auto, threads, launches, graph, tiles, deep, pass2, pass4");
}

nb::tuple answer(const Ran& ran)
{
    return nb::make_tuple(ran.steps, ran.seconds, std::string(to_string(ran.method)), ran.tiles,
                          ran.incarnations);
}

using Six = std::array<int32_t, 6>; // low x, y, z, high x, y, z
using Three = std::array<int32_t, 3>;

Source source_of(uint32_t shape, const Three& at, double amplitude, double frequency, double delay)
{
    Source source;
    source.shape = static_cast<Shape>(shape);
    std::copy(at.begin(), at.end(), source.at);
    source.amplitude = amplitude;
    source.frequency = frequency;
    source.delay = delay;
    return source;
}

// (act, cell, box, value, shape, at, amplitude, frequency, delay)
using Words = std::tuple<uint32_t, uint32_t, Six, double, uint32_t, Three, double, double, double>;

Request command_of(const Words& words)
{
    const auto& [act, cell, box, value, shape, at, amplitude, frequency, delay] = words;
    Request command;
    command.act = static_cast<Act>(act);
    command.edit.cell = cell;
    for (size_t axis = 0; axis < 3; ++axis) {
        command.edit.box.low[axis] = box[axis];
        command.edit.box.high[axis] = box[axis + 3];
    }
    command.value = value;
    if (command.act == Act::resume) command.until = static_cast<uint32_t>(value);
    command.source = source_of(shape, at, amplitude, frequency, delay);
    return command;
}

} // namespace

void waves(nb::module_& m)
{
    nb::class_<Simulation>(m, "WaveSimulation")
        .def("__init__",
             [](Simulation* self, const std::array<uint32_t, 3>& cells, double spacing,
                double speed, double dt, double damping, double absorber,
                const std::array<uint32_t, 3>& boundary, const Array<uint8_t>& kinds, bool twofold,
                bool on_gpu, int ordinal, nb::bytes cubin, uint32_t threads, uint32_t slabs,
                nb::bytes group_cubin, std::optional<int64_t> breath_us) {
                 Settings settings;
                 for (size_t axis = 0; axis < 3; ++axis) {
                     settings.cells[axis] = cells[axis];
                     settings.boundary[axis] = static_cast<Boundary>(boundary[axis]);
                 }
                 settings.spacing = spacing;
                 settings.speed = speed;
                 settings.dt = dt;
                 settings.damping = damping;
                 settings.absorber = absorber;
                 settings.kinds = vector_of(kinds);
                 settings.precision = twofold ? Precision::twofold : Precision::single;
                 if (breath_us) settings.breath = std::chrono::microseconds(*breath_us);
                 Code code;
                 code.cubin.assign(cubin.c_str(), cubin.c_str() + cubin.size());
                 Code group_code;
                 group_code.cubin.assign(group_cubin.c_str(),
                                         group_cubin.c_str() + group_cubin.size());
                 const Unlocked unlocked;
                 new (self) Simulation(settings, on_gpu ? Device::gpu(ordinal) : Device::cpu(),
                                       code, threads, slabs, group_code);
             })
        .def("add_source",
             [](Simulation& s, uint32_t shape, const Three& at, double amplitude, double frequency,
                double delay, const Array<float>& samples) {
                 s.add_source(source_of(shape, at, amplitude, frequency, delay),
                              vector_of(samples));
             })
        .def("add_receiver", &Simulation::add_receiver)
        .def("set_fields",
             [](Simulation& s, const Array<double>& now, const Array<double>& before) {
                 const auto a = vector_of(now);
                 const auto b = vector_of(before);
                 const Unlocked unlocked;
                 s.set_fields(a, b);
             })
        .def("field",
             [](const Simulation& s, bool before) {
                 std::vector<double> all;
                 {
                     const Unlocked unlocked;
                     all = before ? s.field_before() : s.field();
                 }
                 return give(std::move(all));
             })
        .def("trace", [](const Simulation& s,
                         uint32_t number) { return give(std::vector<double>(s.trace(number))); })
        .def("run",
             [](Simulation& s, uint32_t steps, const std::string& method) {
                 const Method chosen = method_of(method);
                 Ran ran;
                 {
                     const Unlocked unlocked;
                     ran = s.run(steps, chosen);
                 }
                 return answer(ran);
             })
        .def("start",
             [](Simulation& s, uint32_t steps, const std::string& method, uint32_t ahead) {
                 const Method chosen = method_of(method);
                 const Unlocked unlocked;
                 s.start(steps, chosen, ahead);
             })
        .def("command",
             [](Simulation& s, const std::vector<Words>& words, bool reads, double patience) {
                 std::vector<Request> commands;
                 for (const Words& one : words) commands.push_back(command_of(one));
                 std::vector<double> values;
                 uint64_t step = 0;
                 {
                     const Unlocked unlocked;
                     step = s.command(std::move(commands), reads ? &values : nullptr,
                                      seconds(patience));
                 }
                 return nb::make_tuple(step, give(std::move(values)));
             })
        .def("finish",
             [](Simulation& s) {
                 Ran ran;
                 {
                     const Unlocked unlocked;
                     ran = s.finish();
                 }
                 return answer(ran);
             })
        .def_prop_ro("running", &Simulation::running)
        .def_prop_ro("steps", &Simulation::steps)
        .def_prop_ro("dt", &Simulation::dt)
        .def_prop_ro("courant", &Simulation::courant)
        .def_prop_ro("device", &Simulation::device)
        .def_prop_ro("on_gpu", &Simulation::on_gpu)
        .def_prop_ro("chosen",
                     [](const Simulation& s) { return std::string(to_string(s.chosen())); });
}

} // namespace denizen::bind
