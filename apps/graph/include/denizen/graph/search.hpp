// SPDX-License-Identifier: Apache-2.0
// Breadth-first search and shortest paths from one source.
//
//   const auto roads = denizen::graph::read("NY.gr");
//   denizen::graph::Search search(roads);
//   const auto paths = search.bfs(0);        // paths.distances[v], paths.parents[v]
//
// In a file compiled by nvcc the GPU is searched with, if there is one; else threads of the CPU.
#pragma once

#include <denizen/actor/any_runtime.hpp>
#include <denizen/base/code.hpp>
#include <denizen/graph/csr.hpp>

#include <memory>
#include <string>
#include <vector>

#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#include <denizen/graph/detail/kernels.hpp>
#endif

namespace denizen::graph {

enum class Method {
    automatic, // wide for graphs with hubs and few levels, but on the CPU for large ones only; for
               // others (roads, meshes, chains) narrow on a GPU, serial on the CPU
    narrow,    // one block, everything near; a wide frontier is handed over (narrow.hpp)
    wide,      // one resident kernel, a barrier of the grid per level (wide.hpp)
    launches,  // a kernel launch per level: what the others are measured against; needs a GPU
    graph,     // a captured graph whose while node repeats the level's kernel; bfs on a GPU
    serial,    // one thread as textbooks have it; needs the CPU
    tasks,     // asynchronous tasks with a priority by level (visits.hpp); bfs only
};
const char* to_string(Method method);

#if defined(__CUDACC__)
namespace detail {

static inline void* graph_kernel(const std::string& name)
{
    const denizen::detail::NamedKernel kernels[] = {
        {"clear", reinterpret_cast<const void*>(&denizen_graph_clear)},
        {"narrow", reinterpret_cast<const void*>(&denizen_graph_narrow)},
        {"spread", reinterpret_cast<const void*>(&denizen_graph_spread)},
        {"wide", reinterpret_cast<const void*>(&denizen_graph_wide)},
        {"near_far", reinterpret_cast<const void*>(&denizen_graph_near_far)},
        {"near_far_wide", reinterpret_cast<const void*>(&denizen_graph_near_far_wide)},
        {"tasks", reinterpret_cast<const void*>(&denizen_graph_tasks)},
        {"unpack", reinterpret_cast<const void*>(&denizen_graph_unpack)},
        {"level", reinterpret_cast<const void*>(&denizen_graph_level)},
        {"repeated", reinterpret_cast<const void*>(&denizen_graph_repeated)},
    };
    return denizen::detail::function_of(kernels, name, "the graph searches");
}

} // namespace detail

static inline Code compiled_code() { return {{}, &detail::graph_kernel}; }
#else
inline Code compiled_code() { return {}; }
#endif

// What a search found, by vertex.
struct Paths {
    std::vector<int32_t> distances; // arcs, or the sum of weights; -1: not reached
    std::vector<int32_t> parents;   // the vertex before it on a shortest path; the source: itself
    uint32_t reached = 0;           // vertices, the source among them
    uint32_t levels = 0;            // bfs: the largest distance + 1
    uint32_t rounds = 0;            // barriers of all threads that took part
    double seconds = 0;             // from clearing the results to their being complete, where the
                                    // search ran: neither copies nor compiling
    Method method = Method::automatic; // that was used
};

// What a graph is made ready for.
enum class Use {
    many, // searches: the graph is brought to a GPU once, which does not count
    one_bfs,
    one_shortest_paths,
};

// Who answers sooner: a GPU, or a thread of the host, in whose memory the graph is and the answer
// is wanted. An estimate, by the beginning of a search on the host (2 ms at most); the time to open
// a GPU is not in it. It says GPU only where that gains a quarter.
struct Place {
    bool gpu;
    std::string why; // for people
};
Place sooner(const Csr& graph, Use use = Use::many);

class Choice;
class Engine;
struct Shape;

// A graph made ready on a device. One call at a time. While a search uses a GPU, the resident
// programs of this process leave it, and come back by themselves.
class Search {
public:
    // `graph` must outlive it. Device::automatic() is as sooner() says where there is a GPU, else
    // the CPU. `threads`: of the CPU, 0 for as many as there are.
    // Errc::no_device, Errc::exhausted (memory), Errc::stuck (a resident program does not leave).
    explicit Search(const Csr& graph, Device device = Device::automatic(),
                    const Code& code = compiled_code(), uint32_t threads = 0);
    ~Search();
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;

    // Errc::bad_argument for a source that is no vertex, or a method that the device does not have.
    Paths bfs(uint32_t source, Method method = Method::automatic);

    // Needs weights (Errc::bad_argument). Errc::oversize for a path longer than 2^31 - 1. Methods:
    // narrow and wide are near-far by one block or all (near_far.hpp), serial is Dijkstra's.
    // automatic on a GPU, unless the graph has hubs: the first search is narrow, the next one wide,
    // and from then on the faster of the two; searches that reach little of the graph do not count.
    Paths shortest_paths(uint32_t source, Method method = Method::automatic);

    bool on_gpu() const;
    const std::string& device() const; // its name
    const std::string& why() const;    // that one: what sooner() said, empty where it was not asked

private:
    const Shape& shape();
    void check_source(uint32_t source) const;
    void check_device(Method method) const;
    bool wide();               // Shape's, and on the CPU worth a start of threads
    Method one_member() const; // for graphs of many small levels

    const Csr& graph_;
    std::string why_;
    std::unique_ptr<Shape> shape_; // once it was asked for
    std::unique_ptr<Choice> choice_;
    std::unique_ptr<Engine> engine_;
};

// The same for one call. Device::automatic() counts the way to the GPU; with a method it is where
// that can run, a GPU first.
Paths bfs(const Csr& graph, uint32_t source, Method method = Method::automatic,
          Device device = Device::automatic(), const Code& code = compiled_code());
Paths shortest_paths(const Csr& graph, uint32_t source, Method method = Method::automatic,
                     Device device = Device::automatic(), const Code& code = compiled_code());

} // namespace denizen::graph
