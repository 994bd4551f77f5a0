// SPDX-License-Identifier: Apache-2.0
#include "choice.hpp"
#include "engine.hpp"
#include "shape.hpp"

#include <denizen/device/residents.hpp>

#include <string>

namespace denizen::graph {
namespace {

// Threads of the host take some 80 us to start, which is a serial search of so many arcs.
constexpr uint32_t arcs_for_threads = 1 << 17;

bool is_free(const Device& device, const Code& code)
{
    return device.kind == Device::Kind::automatic && gpu_present() && code.runs_on_gpu();
}

// Where one search is made.
Device placed(const Csr& graph, const Device& device, const Code& code, Method method, Use use)
{
    if (!is_free(device, code)) return device;
    const bool gpu =
        method == Method::automatic ? sooner(graph, use).gpu : method != Method::serial;
    return gpu ? Device::gpu() : Device::cpu();
}

} // namespace

const char* to_string(Method method)
{
    switch (method) {
    case Method::automatic: return "auto";
    case Method::narrow: return "narrow";
    case Method::wide: return "wide";
    case Method::launches: return "launches";
    case Method::graph: return "graph";
    case Method::serial: return "serial";
    case Method::tasks: return "tasks";
    }
    return "unknown";
}

void check_progress(const Progress& progress)
{
    if (progress.late != 0) {
        throw Error(Errc::timeout, "the search was not done after 30 s and gave up");
    }
    if (progress.overflow != 0) {
        throw Error(Errc::oversize, "a path is longer than 2^31 - 1; divide the weights");
    }
}

Search::Search(const Csr& graph, Device device, const Code& code, uint32_t threads) : graph_(graph)
{
    check_arrays(graph);
    bool gpu = device.kind == Device::Kind::gpu;
    if (is_free(device, code)) {
        Place place = place_of(graph, shape(), Use::many);
        gpu = place.gpu;
        why_ = std::move(place.why);
    }
    if (gpu && !code.runs_on_gpu()) {
        throw Error(Errc::no_device, "these searches were compiled without CUDA: compile the file "
                                     "that makes the Search with nvcc, or use Device::cpu()");
    }
    choice_ = std::make_unique<Choice>(Method::narrow, Method::wide, graph.vertices());
    engine_ = gpu ? make_gpu_engine(graph, device.ordinal, code) : make_cpu_engine(graph, threads);
}

Search::~Search() = default;

bool Search::on_gpu() const { return engine_->on_gpu; }
const std::string& Search::device() const { return engine_->device; }
const std::string& Search::why() const { return why_; }

const Shape& Search::shape()
{
    if (shape_ == nullptr) shape_ = std::make_unique<Shape>(shape_of(graph_));
    return *shape_;
}

bool Search::wide() { return shape().wide() && (on_gpu() || graph_.arcs() >= arcs_for_threads); }

void Search::check_source(uint32_t source) const
{
    if (source >= graph_.vertices()) {
        throw Error(Errc::bad_argument, "source " + std::to_string(source) +
                                            " is no vertex: there are " +
                                            std::to_string(graph_.vertices()) + ", from 0");
    }
}

Paths Search::bfs(uint32_t source, Method method)
{
    check_source(source);
    if (method == Method::automatic) {
        method = wide() || !fits_records(graph_) ? Method::wide : one_member();
    }
    check_device(method);
    if (method == Method::narrow && !fits_records(graph_)) {
        throw Error(Errc::oversize,
                    "narrow searches graphs of at most 2^29 vertices, this one has " +
                        std::to_string(graph_.vertices()) + ": use wide");
    }
    return engine_->bfs(source, method);
}

Method Search::one_member() const { return on_gpu() ? Method::narrow : Method::serial; }

void Search::check_device(Method method) const
{
    if ((method == Method::launches || method == Method::graph) && !on_gpu()) {
        throw Error(Errc::bad_argument, std::string("a search by ") + to_string(method) +
                                            " needs a GPU; use narrow, wide, serial or tasks, or "
                                            "make the Search with the device gpu");
    }
    if (method == Method::serial && on_gpu()) {
        throw Error(Errc::bad_argument,
                    "a serial search needs the CPU: make the Search with the device cpu");
    }
}

Paths Search::shortest_paths(uint32_t source, Method method)
{
    check_source(source);
    if (graph_.weights.empty() && graph_.arcs() != 0) {
        throw Error(Errc::bad_argument, "the graph has no weights: use bfs(), or read a file that "
                                        "has them");
    }
    if (method == Method::launches || method == Method::graph || method == Method::tasks) {
        throw Error(Errc::bad_argument, std::string("shortest paths are not searched by ") +
                                            to_string(method) + "; use narrow, wide or serial");
    }
    if (method == Method::automatic) {
        method = !on_gpu() ? Method::serial
                 : wide()  ? Method::wide // one block would take for ever
                           : choice_->next();
    }
    check_device(method);
    Paths paths = engine_->shortest_paths(source, method);
    choice_->took(paths);
    return paths;
}

Paths bfs(const Csr& graph, uint32_t source, Method method, Device device, const Code& code)
{
    return Search(graph, placed(graph, device, code, method, Use::one_bfs), code)
        .bfs(source, method);
}

Paths shortest_paths(const Csr& graph, uint32_t source, Method method, Device device,
                     const Code& code)
{
    return Search(graph, placed(graph, device, code, method, Use::one_shortest_paths), code)
        .shortest_paths(source, method);
}

} // namespace denizen::graph
