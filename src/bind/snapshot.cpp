// SPDX-License-Identifier: Apache-2.0
// denizen._core.Runtime's methods about snapshots and migration; python/denizen/snapshot.py is
// their face.
#include "bind.hpp"

#include <nanobind/stl/string.h>

#include <string>

namespace nb = nanobind;

namespace denizen::bind {

void snapshots(nb::class_<AnyRuntime>& runtime)
{
    runtime
        .def("save",
             [](AnyRuntime& rt, const std::string& path, double timeout) {
                 const Unlocked unlocked;
                 rt.save(path, seconds(timeout));
             })
        .def("save_actor",
             [](AnyRuntime& rt, uint32_t actor, const std::string& path, double timeout) {
                 const Unlocked unlocked;
                 rt.save_actor({actor}, path, seconds(timeout));
             })
        .def("load_actor",
             [](AnyRuntime& rt, uint32_t actor, const std::string& path, double timeout) {
                 const Unlocked unlocked;
                 rt.load_actor({actor}, path, seconds(timeout));
             })
        .def("migrate",
             [](AnyRuntime& rt, uint32_t actor, uint32_t worker, uint32_t node, double timeout) {
                 const Unlocked unlocked;
                 rt.migrate({actor}, worker, node, seconds(timeout));
             });
}

} // namespace denizen::bind
