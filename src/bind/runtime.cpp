// SPDX-License-Identifier: Apache-2.0
// denizen._core.Runtime: a running program of actors. Its methods about one subject each are in the
// files that bind.hpp names; here is what starts, pauses and ends the whole program.
#include "bind.hpp"
#include "options.hpp"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

void running(nb::class_<AnyRuntime>& runtime)
{
    runtime
        .def("__init__",
             [](AnyRuntime* self, const Image& image, bool on_gpu, int ordinal,
                const nb::dict& given) {
                 Options o = options_from(given);
                 o.device = on_gpu ? Device::gpu(ordinal) : Device::cpu();
                 const Unlocked unlocked;
                 new (self) AnyRuntime(image, o);
             })
        .def("drain",
             [](AnyRuntime& rt, double timeout) {
                 const Unlocked unlocked;
                 rt.drain(seconds(timeout));
             })
        .def("pause",
             [](AnyRuntime& rt, double timeout) {
                 const Unlocked unlocked;
                 rt.pause(seconds(timeout));
             })
        .def("resume", [](AnyRuntime& rt) { rt.resume(); })
        .def("park",
             [](AnyRuntime& rt, double timeout) {
                 const Unlocked unlocked;
                 rt.park(seconds(timeout));
             })
        .def("parked", &AnyRuntime::parked)
        .def("exchange",
             [](AnyRuntime& rt, const Image& image) {
                 const Unlocked unlocked;
                 rt.exchange(image);
             })
        .def("close", [](AnyRuntime& rt, double timeout) {
            const Unlocked unlocked;
            rt.close(seconds(timeout));
        });
}

} // namespace

void runtimes(nb::module_& m)
{
    nb::class_<AnyRuntime> runtime(m, "Runtime");
    running(runtime);
    spawning(runtime);
    sending(runtime);
    asking(runtime);
    receiving(runtime);
    observing(runtime);
    life(runtime);
    snapshots(runtime);
    topics(runtime);
    tracing(runtime);
}

} // namespace denizen::bind
