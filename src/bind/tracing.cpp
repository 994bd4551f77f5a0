// SPDX-License-Identifier: Apache-2.0
// denizen._core.Runtime's methods about tracing; python/denizen/tracing.py is their face.
#include "bind.hpp"

#include <denizen/actor/telemetry.hpp>

namespace nb = nanobind;

namespace denizen::bind {

void tracing(nb::class_<AnyRuntime>& runtime)
{
    runtime
        .def("trace",
             [](AnyRuntime& rt, bool on) {
                 const Unlocked unlocked;
                 rt.trace(on);
             })
        // The records' bytes, and how many were lost.
        .def("take_trace", [](AnyRuntime& rt) {
            Trace t;
            {
                const Unlocked unlocked;
                t = rt.take_trace();
            }
            return nb::make_tuple(
                nb::bytes(t.records.data(), t.records.size() * sizeof(TraceRecord)), t.overwritten);
        });
}

} // namespace denizen::bind
