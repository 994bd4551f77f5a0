// SPDX-License-Identifier: Apache-2.0
// denizen._core.Runtime's methods about topics; python/denizen/topic.py is their face.
#include "bind.hpp"

#include <nanobind/stl/string.h>

#include <string>

namespace nb = nanobind;

namespace denizen::bind {

void topics(nb::class_<AnyRuntime>& runtime)
{
    runtime
        .def("subscribe",
             [](AnyRuntime& rt, uint32_t subscriber, const std::string& pattern, double timeout) {
                 const Unlocked unlocked;
                 rt.subscribe({subscriber}, pattern, seconds(timeout));
             })
        .def("unsubscribe",
             [](AnyRuntime& rt, uint32_t subscriber, const std::string& pattern, double timeout) {
                 const Unlocked unlocked;
                 rt.unsubscribe({subscriber}, pattern, seconds(timeout));
             })
        .def("publish", [](AnyRuntime& rt, const std::string& topic, uint32_t type,
                           nb::handle message, double timeout) {
            const Bytes payload(message, false);
            const Unlocked unlocked;
            return rt.publish(topic, type, payload.data(), static_cast<uint32_t>(payload.size()),
                              seconds(timeout));
        });
}

} // namespace denizen::bind
