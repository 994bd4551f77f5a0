// SPDX-License-Identifier: Apache-2.0
// denizen._core.IoService; python/denizen/io.py is its face.
#include "bind.hpp"

#include <denizen/io/service.hpp>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using Numbers = std::tuple<uint32_t, uint32_t, uint32_t>;

io::Types types_of(const std::vector<Numbers>& requests, const std::vector<Numbers>& data,
                   uint32_t done)
{
    io::Types types;
    for (const auto& [type, op, capacity] : requests) {
        types.requests.push_back({type, static_cast<io::Op>(op), capacity});
    }
    for (const auto& [type, op, capacity] : data) {
        types.data.push_back({type, capacity});
    }
    types.done = done;
    return types;
}

} // namespace

void services(nb::module_& m)
{
    nb::class_<io::Service>(m, "IoService")
        .def(
            "__init__",
            [](io::Service* self, AnyRuntime& rt, const std::vector<Numbers>& requests,
               const std::vector<Numbers>& data, uint32_t done, const std::string& root,
               uint32_t modes, uint32_t files, uint32_t under_way, uint64_t bytes,
               const std::vector<std::string>& connect, const std::vector<std::string>& listen,
               uint32_t engine) {
                const io::Options options{root,  modes,   files,  under_way,
                                          bytes, connect, listen, static_cast<io::Engine>(engine)};
                const Unlocked unlocked;
                new (self) io::Service(rt, types_of(requests, data, done), options);
            },
            nb::keep_alive<1, 2>())
        .def("open",
             [](io::Service& s, const std::string& path, uint32_t mode) {
                 const Unlocked unlocked;
                 return s.open(path, mode);
             })
        .def("address", &io::Service::address)
        .def("drain",
             [](io::Service& s, double timeout) {
                 const Unlocked unlocked;
                 s.drain(seconds(timeout));
             })
        .def("stats",
             [](const io::Service& s) {
                 const io::Stats stats = s.stats();
                 nb::dict out;
                 out["engine"] = stats.engine;
                 out["open"] = stats.open;
                 out["requests"] = stats.requests;
                 out["answered"] = stats.answered;
                 out["failed"] = stats.failed;
                 out["undelivered"] = stats.undelivered;
                 out["first_undelivered"] = stats.first_undelivered;
                 out["bytes_read"] = stats.bytes_read;
                 out["bytes_written"] = stats.bytes_written;
                 out["operations"] = stats.operations;
                 out["submissions"] = stats.submissions;
                 return out;
             })
        .def("close", [](io::Service& s, double timeout) {
            const Unlocked unlocked;
            s.close(seconds(timeout));
        });
}

} // namespace denizen::bind
