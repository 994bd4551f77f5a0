// SPDX-License-Identifier: Apache-2.0
// Breadth-first search, and shortest paths over random weights of 1 to 1,000, from vertex 0 (of
// Kronecker graphs: the first that has neighbours): what denizen chooses, each of its methods, a
// launch per level by the CUDA runtime, and a captured graph with a while node. Searches by
// denizen, the captured graph among them, are timed by the device's clock, those by launches by the
// host's, which has to wait for each level, as are those by tasks. All of them from clearing the
// results to having them. Every answer's distances are compared with a plain search's, and the
// first and the last answer of each case are held against Graph500's rules.
//
// On a GPU also by the host's clock, from the call to the answer in the host's memory: a Search
// that was told no device, one on the GPU and one of a thread of the host ("seen by the host").
//
// Road graphs are looked for in the folder that DENIZEN_GRAPHS names: <name>.gr, or <name>.gr.xz
// where the program xz is installed.
#include "program.hpp"

#include <denizen/graph/generate.hpp>
#include <denizen/graph/read.hpp>
#include <denizen/graph/search.hpp>
#include <denizen/graph/validate.hpp>

#include "../apps/graph/tests/searches.hpp"

#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <random>

#if defined(__CUDACC__)
#include "rivals/bfs.cuh"
#endif

namespace {

using namespace denizen;
using namespace denizen::bench;
using namespace denizen::graph;

std::string output_of(const std::string& command)
{
    std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::string text;
    std::array<char, 1 << 16> piece;
    for (size_t n = 0; pipe && (n = fread(piece.data(), 1, piece.size(), pipe.get())) != 0;) {
        text.append(piece.data(), n); // ends with the output
    }
    return text;
}

std::optional<Csr> road(const std::string& name)
{
    const char* folder = std::getenv("DENIZEN_GRAPHS");
    const std::filesystem::path file =
        std::filesystem::path(folder != nullptr ? folder : ".") / (name + ".gr");
    if (folder != nullptr && std::filesystem::exists(file)) return read(file.string());
    const std::string packed = file.string() + ".xz";
    if (folder != nullptr && std::filesystem::exists(packed) &&
        packed.find('\'') == std::string::npos) {
        const std::string text = output_of("xz -dc '" + packed + "'");
        if (!text.empty()) return parse(text, packed, Format::dimacs);
    }
    std::fprintf(stderr, "%s is left out: no %s.gr, and no %s.gr.xz that xz unpacks, in %s\n",
                 name.c_str(), name.c_str(), name.c_str(),
                 folder != nullptr ? folder : "a folder named by DENIZEN_GRAPHS");
    return {};
}

// Each pair of vertices is an edge with this probability (Erdos and Renyi's, after Gilbert): drawn
// by the gaps between edges (Batagelj and Brandes 2005). The same in every run.
Csr random_graph(uint32_t vertices, double probability)
{
    std::mt19937_64 draw(1);
    Edges edges;
    edges.vertices = vertices;
    const double scale = 1 / std::log1p(-probability);
    uint64_t v = 1;
    uint64_t w = 0;
    while (true) { // ends: each gap goes at least to the next pair
        const double above_0 = (static_cast<double>(draw() >> 11) + 1) * 0x1p-53;
        w += static_cast<uint64_t>(std::log(above_0) * scale);
        for (; w >= v && v < vertices; ++v) w -= v; // row v has the pairs (v, 0) to (v, v - 1)
        if (v >= vertices) return csr_of(edges, true);
        edges.from.push_back(static_cast<uint32_t>(v));
        edges.to.push_back(static_cast<uint32_t>(w));
        ++w;
    }
}

struct Input {
    std::string name;
    std::function<std::optional<Csr>()> load;
    bool paths = true; // shortest ones too
};

// One way to search, and what it took.
struct Arm {
    Case result;
    std::function<Paths()> search; // seconds are those to report
    Samples samples;
};

// Searches by all arms in turn; every answer is compared with `expected`.
void race(const Arguments& arguments, const Csr& graph, uint32_t source, bool weighted,
          const std::vector<int32_t>& expected, std::vector<Arm>& arms)
{
    std::vector<Paths> answers(arms.size());
    const auto check_rules = [&] { // of all arms at once: nothing is being timed
        std::vector<std::future<bool>> kept;
        for (const Paths& paths : answers) {
            kept.push_back(std::async(std::launch::async, [&] {
                return paths.parents.empty() || // the plain queue notes none
                       broken_rule(graph, source, paths, weighted).empty();
            }));
        }
        for (size_t i = 0; i < arms.size(); ++i) arms[i].result.verified &= kept[i].get();
    };
    for (size_t i = 0; i < arms.size(); ++i) { // a warm-up
        answers[i] = arms[i].search();
        arms[i].result.verified = answers[i].distances == expected;
    }
    check_rules();
    const uint32_t repetitions = arguments.quick ? 3 : 11;
    interleaved(repetitions, arms.size(), [&](size_t i) {
        answers[i] = arms[i].search();
        arms[i].samples.add(answers[i].seconds * 1e3);
        arms[i].result.verified &= answers[i].distances == expected;
    });
    check_rules();
    for (Arm& arm : arms) {
        arm.result.n = repetitions;
        arm.result.print(arm.samples);
    }
}

// What the caller of a search waits for.
Paths timed(const std::function<Paths()>& search)
{
    const uint64_t begin = now_ns();
    Paths paths = search();
    paths.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
    return paths;
}

#if defined(__CUDACC__)
// Where nobody says where, and at both places. `what`: the case's beginning.
void add_seen(std::vector<Arm>& arms, const std::string& what, const Json& params, const Csr& graph,
              const Device& gpu, const std::function<Paths(Search&, Method)>& search)
{
    const std::string seen = ", seen by the host";
    const auto add = [&](const std::string& where, const Device& device, Method method) -> Case& {
        const auto made = std::make_shared<Search>(graph, device, compiled_code(), 1);
        arms.push_back({Case(what + where + seen, params, "ms"),
                        [=] { return timed([&] { return search(*made, method); }); }, Samples(64)});
        return arms.back().result;
    };
    add("chosen place", Device::automatic(), Method::automatic).ratio_base = {
        what + "one thread" + seen, what + "GPU" + seen};
    add("one thread", Device::cpu(), Method::serial);
    add("GPU", gpu, Method::automatic);
}
#endif

void measure_paths(const Arguments& arguments, const std::string& name, Csr graph)
{
    give_weights(graph, 1000);
    uint32_t source = 0;
    while (graph.degree(source) == 0) ++source; // ends: every input has edges
    Json params;
    params.add("graph", name);
    const auto search =
        std::make_shared<Search>(graph, arguments.device, compiled_code(), arguments.workers);
    std::vector<Arm> arms;
    const auto add = [&](const char* what, Method method) {
        arms.push_back({Case(what, params, "ms"),
                        [=] { return search->shortest_paths(source, method); }, Samples(64)});
    };
    add("shortest paths", Method::automatic);
    arms.back().result.ratio_base = {"shortest paths, narrow", "shortest paths, wide"};
    add("shortest paths, narrow", Method::narrow);
    add("shortest paths, wide", Method::wide);
#if defined(__CUDACC__)
    if (arguments.gpu()) {
        add_seen(arms, "shortest paths, ", params, graph, arguments.device,
                 [=](Search& at, Method method) { return at.shortest_paths(source, method); });
    }
#endif
    race(arguments, graph, source, true, plain_shortest_paths(graph, source), arms);
}

void measure_graph(const Arguments& arguments, const std::string& name, const Csr& graph)
{
    uint32_t source = 0;
    while (graph.degree(source) == 0) ++source; // ends: every input has edges
    const std::vector<int32_t> expected = plain_bfs(graph, source);
    Json params;
    params.add("graph", name);

    std::vector<Arm> arms;
    const auto add = [&](const char* what, std::function<Paths()> search) -> Case& {
        arms.push_back({Case(what, params, "ms"), std::move(search), Samples(64)});
        return arms.back().result;
    };
    const auto denizen = [&](const char* what, const std::shared_ptr<Search>& search,
                             Method method) -> Case& {
        return add(what, [search, source, method] { return search->bfs(source, method); });
    };
    std::vector<std::string> rivals{"wide", "narrow", "tasks"};
    const auto on_cpu =
        std::make_shared<Search>(graph, denizen::Device::cpu(), Code{}, arguments.workers);
#if defined(__CUDACC__)
    std::shared_ptr<LevelBfs> levels;
    if (arguments.gpu()) {
        rivals.insert(rivals.end(), {"launch per level", "while graph", "CPU threads"});
        const auto on_gpu = std::make_shared<Search>(graph, arguments.device);
        denizen("auto", on_gpu, Method::automatic).ratio_base = rivals;
        denizen("auto", on_gpu, Method::automatic).arm = "A/A";
        denizen("narrow", on_gpu, Method::narrow);
        denizen("wide", on_gpu, Method::wide);
        denizen("tasks", on_gpu, Method::tasks);
        levels = std::make_shared<LevelBfs>(graph);
        add("launch per level", [=] {
            const uint64_t begin = now_ns();
            levels->run(source);
            const BfsMemory& memory = levels->memory;
            Paths paths;
            paths.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
            for (auto [to, from] : {std::pair{&paths.distances, memory.distance.get()},
                                    {&paths.parents, memory.parent.get()}}) {
                to->resize(memory.vertices);
                check_cuda(cudaMemcpy(to->data(), from, memory.vertices * sizeof(int32_t),
                                      cudaMemcpyDeviceToHost),
                           "cudaMemcpy");
            }
            return paths;
        });
        denizen("while graph", on_gpu, Method::graph);
        denizen("CPU threads", on_cpu, Method::automatic);
        add_seen(arms, "", params, graph, arguments.device,
                 [=](Search& at, Method method) { return at.bfs(source, method); });
    }
#endif
    if (!arguments.gpu()) {
        rivals.push_back("plain queue");
        denizen("auto", on_cpu, Method::automatic).ratio_base = rivals;
        denizen("auto", on_cpu, Method::automatic).arm = "A/A";
        denizen("narrow", on_cpu, Method::narrow);
        denizen("wide", on_cpu, Method::wide);
        denizen("tasks", on_cpu, Method::tasks);
        add("plain queue", [&] {
            return timed([&] {
                Paths paths;
                paths.distances = plain_bfs(graph, source);
                return paths;
            });
        });
    }

    race(arguments, graph, source, false, expected, arms);
}

void measure(const Arguments& arguments)
{
    print_environment(environment(arguments));
    std::vector<Input> inputs{
        {"chain 5,000", [] { return chain(5'000); }},
        {"chain 10,000", [] { return chain(10'000); }},
        {"chain 20,000", [] { return chain(20'000); }},
        {"random 10,000, p = 0.0002", [] { return random_graph(10'000, 0.0002); }},
        {"random 10,000, p = 0.001", [] { return random_graph(10'000, 0.001); }},
        {"random 10,000, p = 0.01", [] { return random_graph(10'000, 0.01); }},
        {"NY", [] { return road("NY"); }},
        {"FLA", [] { return road("FLA"); }},
        {"grid 1000 x 1000", [] { return grid(1000, 1000); }},
    };
    for (const uint32_t scale : arguments.quick   ? std::vector<uint32_t>{14}
                                : arguments.gpu() ? std::vector<uint32_t>{20, 21, 22}
                                                  : std::vector<uint32_t>{16, 20}) {
        // Dijkstra's algorithm, which checks the paths, would take most of a minute for the larger.
        inputs.push_back(
            {"Kronecker " + std::to_string(scale), [=] { return kronecker(scale); }, scale <= 20});
    }
    for (const Input& input : inputs) {
        if (const std::optional<Csr> graph = input.load()) {
            measure_graph(arguments, input.name, *graph);
            if (input.paths) measure_paths(arguments, input.name, *graph);
        }
    }
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
