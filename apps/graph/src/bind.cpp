// SPDX-License-Identifier: Apache-2.0
// denizen._core's graphs and searches; python/denizen/graph is their face.
#include "bind/bind.hpp"
#include "shape.hpp"

#include <denizen/graph/generate.hpp>
#include <denizen/graph/read.hpp>
#include <denizen/graph/validate.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using namespace graph;

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> vector_of(const Array<T>& array)
{
    return {array.data(), array.data() + array.size()};
}

// An array for Python that lives as long as `owner`.
nb::object view(const std::vector<uint32_t>& of, nb::handle owner)
{
    return nb::cast(
        nb::ndarray<nb::numpy, const uint32_t, nb::ndim<1>>(of.data(), {of.size()}, owner));
}

nb::object give(std::vector<int32_t>&& values)
{
    auto kept = std::make_unique<std::vector<int32_t>>(std::move(values));
    auto* all = kept.release();
    const nb::capsule owner(all,
                            [](void* p) noexcept { delete static_cast<std::vector<int32_t>*>(p); });
    return nb::cast(
        nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>(all->data(), {all->size()}, owner));
}

nb::tuple answer(Paths&& paths)
{
    return nb::make_tuple(give(std::move(paths.distances)), give(std::move(paths.parents)),
                          paths.reached, paths.levels, paths.seconds,
                          std::string(to_string(paths.method)));
}

Method method_of(const std::string& name)
{
    for (const Method method : {Method::automatic, Method::narrow, Method::wide, Method::launches,
                                Method::graph, Method::serial, Method::tasks}) {
        if (name == to_string(method)) return method;
    }
    throw Error(Errc::bad_argument,
                "method \"" + name +
                    "\" is none of auto, narrow, wide, launches, graph, serial, tasks");
}

Format format_of(const std::string& name)
{
    const std::pair<const char*, Format> all[] = {{"auto", Format::automatic},
                                                  {"gr", Format::dimacs},
                                                  {"mtx", Format::matrix_market},
                                                  {"edges", Format::edges}};
    for (const auto& [known, format] : all) {
        if (name == known) return format;
    }
    throw Error(Errc::bad_argument, "format \"" + name + "\" is none of auto, gr, mtx, edges");
}

} // namespace

void graphs(nb::module_& m)
{
    nb::class_<Csr>(m, "Graph")
        .def("__init__",
             [](Csr* self, const Array<uint32_t>& offsets, const Array<uint32_t>& neighbours,
                const Array<uint32_t>& weights, bool undirected) {
                 Csr graph{vector_of(offsets), vector_of(neighbours), vector_of(weights),
                           undirected};
                 check_arrays(graph);
                 new (self) Csr(std::move(graph));
             })
        .def_prop_ro("offsets",
                     [](nb::handle_t<Csr> g) { return view(nb::cast<Csr&>(g).offsets, g); })
        .def_prop_ro("neighbours",
                     [](nb::handle_t<Csr> g) { return view(nb::cast<Csr&>(g).neighbours, g); })
        .def_prop_ro("weights",
                     [](nb::handle_t<Csr> g) -> nb::object {
                         const Csr& graph = nb::cast<Csr&>(g);
                         return graph.weighted() ? view(graph.weights, g) : nb::none();
                     })
        .def_ro("undirected", &Csr::undirected);

    m.def("graph_parse", [](nb::bytes text, const std::string& name, const std::string& format,
                            bool undirected, uint64_t most) {
        const std::string_view view(text.c_str(), text.size());
        const Format chosen = format_of(format);
        const Unlocked unlocked;
        return parse(view, name, chosen, undirected, most);
    });
    m.def("graph_kronecker", [](uint32_t scale, uint32_t edge_factor, uint64_t seed) {
        const Unlocked unlocked;
        return kronecker(scale, edge_factor, seed);
    });
    m.def("graph_grid", [](uint32_t rows, uint32_t columns) {
        const Unlocked unlocked;
        return grid(rows, columns);
    });
    m.def("graph_with_weights", [](const Csr& of, uint32_t most, uint64_t seed) {
        const Unlocked unlocked;
        Csr graph = of;
        give_weights(graph, most, seed);
        return graph;
    });
    m.def("graph_broken_rule",
          [](const Csr& graph, uint32_t source, const Array<int32_t>& distances,
             const Array<int32_t>& parents, bool weighted) {
              Paths paths;
              paths.distances = vector_of(distances);
              paths.parents = vector_of(parents);
              const Unlocked unlocked;
              return broken_rule(graph, source, paths, weighted);
          });

    m.def("graph_sooner", [](const Csr& graph, bool once, bool paths) {
        const Use use = !once ? Use::many : paths ? Use::one_shortest_paths : Use::one_bfs;
        const Unlocked unlocked;
        Place place = place_of(graph, shape_of(graph), use);
        return std::pair(place.gpu, std::move(place.why));
    });

    nb::class_<Search>(m, "GraphSearch")
        .def(
            "__init__",
            [](Search* self, const Csr& graph, bool on_gpu, int ordinal, nb::bytes cubin,
               uint32_t threads) {
                Code code;
                code.cubin.assign(cubin.c_str(), cubin.c_str() + cubin.size());
                const Unlocked unlocked;
                new (self)
                    Search(graph, on_gpu ? Device::gpu(ordinal) : Device::cpu(), code, threads);
            },
            nb::keep_alive<1, 2>())
        .def_prop_ro("device", &Search::device)
        .def_prop_ro("on_gpu", &Search::on_gpu)
        .def("bfs",
             [](Search& search, uint32_t source, const std::string& method) {
                 Paths paths;
                 {
                     const Method chosen = method_of(method);
                     const Unlocked unlocked;
                     paths = search.bfs(source, chosen);
                 }
                 return answer(std::move(paths));
             })
        .def("shortest_paths", [](Search& search, uint32_t source, const std::string& method) {
            Paths paths;
            {
                const Method chosen = method_of(method);
                const Unlocked unlocked;
                paths = search.shortest_paths(source, chosen);
            }
            return answer(std::move(paths));
        });
}

} // namespace denizen::bind
