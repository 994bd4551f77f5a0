// SPDX-License-Identifier: Apache-2.0
// denizen._core.Runtime's methods that make actors, and find them by name.
#include "bind.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

// The addresses that `spawn()` returns, as an array that owns them.
template <class Spawn>
nb::ndarray<nb::numpy, uint32_t, nb::ndim<1>> addresses_from(Spawn&& spawn)
{
    std::vector<Address>* out = nullptr;
    {
        const Unlocked unlocked;
        out = new std::vector<Address>(spawn());
    }
    nb::capsule owner(out, [](void* p) noexcept { delete static_cast<std::vector<Address>*>(p); });
    return nb::ndarray<nb::numpy, uint32_t, nb::ndim<1>>(out->data(), {out->size()}, owner);
}

} // namespace

void spawning(nb::class_<AnyRuntime>& runtime)
{
    runtime
        .def("spawn",
             [](AnyRuntime& rt, uint32_t type, uint32_t count, double timeout) {
                 return addresses_from([&] { return rt.spawn(type, count, seconds(timeout)); });
             })
        .def("spawn_named",
             [](AnyRuntime& rt, uint32_t type, const std::string& name, double timeout) {
                 return addresses_from(
                     [&] { return std::vector{rt.spawn(type, name, seconds(timeout))}; });
             })
        .def("find",
             [](AnyRuntime& rt, const std::string& name, double timeout) {
                 const Unlocked unlocked;
                 return rt.find(name, seconds(timeout)).value;
             })
        .def("spawn_near",
             [](AnyRuntime& rt, uint32_t type, uint32_t count, uint32_t beside, uint32_t how,
                double timeout) {
                 return addresses_from([&] {
                     return rt.spawn(type, count, near({beside}, static_cast<Near>(how)),
                                     seconds(timeout));
                 });
             })
        .def("spawn_on_node",
             [](AnyRuntime& rt, uint32_t type, uint32_t count, uint32_t node, double timeout) {
                 return addresses_from(
                     [&] { return rt.spawn(type, count, on_node(node), seconds(timeout)); });
             });
}

} // namespace denizen::bind
