// SPDX-License-Identifier: Apache-2.0
// denizen._core.Image: a compiled program of actors, out of a library or a cubin.
#include "actor/program_table.hpp"
#include "bind.hpp"
#include "library.hpp"

#include <dlfcn.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

Image load_library(const nb::bytes& library, std::vector<std::string> actors,
                   std::vector<std::string> messages)
{
    void* handle = load_code(library, "the compiled program");
    Image image;
    const auto* table = static_cast<const ProgramTable*>(dlsym(handle, "denizen_table"));
    void* run = dlsym(handle, "denizen_run_worker");
    if (table == nullptr || run == nullptr) {
        throw Error(Errc::compile, "the compiled library holds no denizen program");
    }
    image.table = *table;
    image.run_worker = reinterpret_cast<void (*)(const Shared&, uint32_t)>(run);
    image.actors = std::move(actors);
    image.messages = std::move(messages);
    return image;
}

Image load_cubin(const nb::bytes& cubin, std::vector<std::string> actors,
                 std::vector<std::string> messages)
{
    Image image;
    image.cubin.assign(cubin.c_str(), cubin.c_str() + cubin.size());
    image.table = table_of(image.cubin);
    image.actors = std::move(actors);
    image.messages = std::move(messages);
    return image;
}

} // namespace

void images(nb::module_& m)
{
    nb::class_<Image>(m, "Image")
        .def_prop_ro("state_sizes",
                     [](const Image& i) {
                         std::vector<uint32_t> sizes;
                         for (uint32_t a = 0; a < i.table.actors; ++a) {
                             sizes.push_back(i.table.actor[a].size);
                         }
                         return sizes;
                     })
        // By message type: the offsets of its references to buffers.
        .def_rw("buffers", &Image::buffers)
        .def_rw("tasks", &Image::tasks) // their names
        // GPU: code that another will take the place of, by Runtime.exchange().
        .def_rw("to_exchange", &Image::to_exchange)
        .def("handles", [](const Image& i, uint32_t actor, uint32_t message) {
            return actor < i.table.actors && message < i.table.messages &&
                   i.table.can_handle(actor, message);
        });
    m.def("load_library", &load_library);
    m.def("load_cubin", &load_cubin);
}

} // namespace denizen::bind
