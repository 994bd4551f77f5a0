// SPDX-License-Identifier: Apache-2.0
// Searches of every method on every device that is there: distances are compared with a plain
// search's, and the whole answer is held against Graph500's rules.
#include "searches.hpp"

#include <denizen/graph/generate.hpp>
#include <denizen/graph/search.hpp>
#include <denizen/graph/validate.hpp>

#include "../src/choice.hpp"
#include <denizen/device/residents.hpp>

#include <gtest/gtest.h>

#include <map>
#include <string>

using namespace denizen;
using namespace denizen::graph;

namespace {

struct Place {
    const char* name;
    Device device;
    uint32_t threads;
};

std::vector<Place> places()
{
    std::vector<Place> all{{"cpu1", Device::cpu(), 1}, {"cpu3", Device::cpu(), 3}};
#if defined(__CUDACC__)
    if (gpu_present()) all.push_back({"gpu", Device::gpu(), 0});
#endif
    return all;
}

bool of_bfs_alone(Method method)
{
    return method == Method::launches || method == Method::graph || method == Method::tasks;
}

class Searches : public testing::TestWithParam<Place> {
protected:
    Device device() const { return GetParam().device; }
    bool on_gpu() const { return device().kind == Device::Kind::gpu; }

    std::vector<Method> methods() const
    {
        std::vector<Method> all{Method::automatic, Method::narrow, Method::wide, Method::tasks};
        if (on_gpu()) {
            all.insert(all.end(), {Method::launches, Method::graph});
        } else {
            all.push_back(Method::serial);
        }
        return all;
    }

    void check_bfs(const Csr& graph, const std::vector<uint32_t>& sources)
    {
        Search search(graph, device(), compiled_code(), GetParam().threads);
        EXPECT_EQ(search.on_gpu(), on_gpu());
        for (const uint32_t source : sources) {
            const auto expected = plain_bfs(graph, source);
            int32_t levels = 0;
            uint32_t reached = 0;
            for (const int32_t d : expected) {
                levels = std::max(levels, d + 1);
                reached += d >= 0 ? 1 : 0;
            }
            for (const Method method : methods()) {
                SCOPED_TRACE(std::string(to_string(method)) + " from " + std::to_string(source));
                const Paths paths = search.bfs(source, method);
                EXPECT_EQ(paths.distances, expected);
                EXPECT_EQ(broken_rule(graph, source, paths, false), "");
                EXPECT_EQ(paths.levels, static_cast<uint32_t>(levels));
                EXPECT_EQ(paths.reached, reached);
                EXPECT_GT(paths.seconds, 0);
                if (method != Method::automatic) {
                    EXPECT_EQ(paths.method, method);
                }
            }
        }
    }

    void check_paths(const Csr& graph, const std::vector<uint32_t>& sources)
    {
        Search search(graph, device(), compiled_code(), GetParam().threads);
        for (const uint32_t source : sources) {
            const auto expected = plain_shortest_paths(graph, source);
            for (const Method method : methods()) {
                if (of_bfs_alone(method)) continue;
                SCOPED_TRACE(std::string(to_string(method)) + " from " + std::to_string(source));
                const Paths paths = search.shortest_paths(source, method);
                EXPECT_EQ(paths.distances, expected);
                EXPECT_EQ(broken_rule(graph, source, paths, true), "");
                if (method != Method::automatic) {
                    EXPECT_EQ(paths.method, method);
                }
            }
        }
    }
};

Csr tree(uint32_t levels)
{
    Edges edges;
    edges.vertices = (1u << levels) - 1;
    for (uint32_t v = 1; v < edges.vertices; ++v) {
        edges.from.push_back((v - 1) / 2);
        edges.to.push_back(v);
    }
    return csr_of(edges, true);
}

TEST_P(Searches, one_vertex) { check_bfs(chain(1), {0}); }

TEST_P(Searches, a_chain) { check_bfs(chain(3000), {0, 1500, 2999}); }

TEST_P(Searches, a_grid) { check_bfs(grid(70, 130), {0, 4000}); }

// 32,768 vertices in the last level: more than narrow's queue holds, and more than it keeps.
TEST_P(Searches, a_level_that_is_handed_over) { check_bfs(tree(16), {0, 65534}); }

TEST_P(Searches, a_hub) { check_bfs(star(5000), {0, 77}); }

TEST_P(Searches, a_kronecker_graph) { check_bfs(kronecker(12), {1, 17, 4000}); }

TEST_P(Searches, a_vertex_without_arcs)
{
    Edges edges;
    edges.vertices = 40;
    edges.from = {1, 2};
    edges.to = {2, 3};
    const Csr graph = csr_of(edges, true);
    check_bfs(graph, {0, 2, 39});
}

TEST_P(Searches, arcs_of_one_direction)
{
    Edges edges;
    edges.vertices = 1000;
    for (uint32_t v = 0; v < 1000; ++v) {
        edges.from.push_back(v);
        edges.to.push_back((v * 7 + 1) % 1000);
        edges.from.push_back(v);
        edges.to.push_back(v / 2);
    }
    const Csr graph = csr_of(edges, false);
    EXPECT_FALSE(graph.undirected);
    check_bfs(graph, {3, 999});
}

TEST_P(Searches, weights)
{
    for (const uint32_t most : {1u, 9u, 100'000u}) {
        SCOPED_TRACE(most);
        Csr roads = grid(40, 60);
        give_weights(roads, most);
        check_paths(roads, {0, 1234});
        Csr hubs = kronecker(9);
        give_weights(hubs, most);
        check_paths(hubs, {5});
    }
}

TEST_P(Searches, weights_of_zero)
{
    Csr graph = grid(30, 30);
    give_weights(graph, 3);
    for (uint32_t& weight : graph.weights) weight -= 1;
    check_paths(graph, {0, 450, 899});
}

TEST_P(Searches, a_path_that_is_too_long)
{
    Csr graph = chain(10);
    graph.weights.assign(graph.arcs(), 1u << 30);
    Search search(graph, device(), compiled_code(), GetParam().threads);
    for (const Method method : methods()) {
        if (of_bfs_alone(method)) continue;
        try {
            search.shortest_paths(0, method);
            ADD_FAILURE() << "a path of 9 * 2^30 was returned by " << to_string(method);
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::oversize) << to_string(method);
        }
    }
}

// A path that is too long does not matter where a shorter one comes.
TEST_P(Searches, a_long_way_round)
{
    Edges edges;
    edges.vertices = 4;
    edges.from = {0, 1, 0, 2};
    edges.to = {1, 3, 2, 3};
    edges.weights = {3u << 29, 3u << 29, 1, 1};
    const Csr graph = csr_of(edges, false);
    check_paths(graph, {0});
}

// Graphs with hubs and few levels are searched by all threads; roads, meshes and chains by one
// block, or one thread of the CPU, as on the CPU what is done before threads have started.
TEST_P(Searches, auto_chooses_by_the_shape_of_the_graph)
{
    const Method alone = on_gpu() ? Method::narrow : Method::serial;
    const Method small = on_gpu() ? Method::wide : Method::serial;
    const std::pair<Csr, Method> graphs[] = {
        {chain(5'000), alone},        {grid(200, 300), alone}, {tree(12), alone},
        {star(100, 5'000), alone},    {kronecker(12), small},  {star(100), small},
        {kronecker(14), Method::wide}};
    for (size_t i = 0; i < std::size(graphs); ++i) {
        SCOPED_TRACE(i);
        Csr graph = graphs[i].first;
        const bool wide = graphs[i].second == Method::wide;
        uint32_t source = 0;
        while (graph.degree(source) == 0) ++source; // ends: all have edges
        give_weights(graph, 100);
        Search search(graph, device(), compiled_code(), GetParam().threads);
        EXPECT_EQ(search.bfs(source).method, graphs[i].second);
        if (!on_gpu()) {
            EXPECT_EQ(search.shortest_paths(source).method, Method::serial);
            continue;
        }
        // Paths: wide where it is for breadth-first, else one after the other, and then the faster.
        EXPECT_EQ(search.shortest_paths(source).method, wide ? Method::wide : Method::narrow);
        EXPECT_EQ(search.shortest_paths(source).method, Method::wide);
    }
}

TEST_P(Searches, what_is_refused)
{
    const Csr graph = chain(10);
    Search search(graph, device(), compiled_code(), GetParam().threads);
    const auto code = [](auto call) {
        try {
            call();
        } catch (const Error& error) {
            return error.code();
        }
        return Errc::ok;
    };
    EXPECT_EQ(code([&] { search.bfs(10); }), Errc::bad_argument);
    EXPECT_EQ(code([&] { search.shortest_paths(0); }), Errc::bad_argument);
    Csr roads = graph;
    give_weights(roads, 3);
    Search weighted(roads, device(), compiled_code(), GetParam().threads);
    for (const Method method : {Method::launches, Method::graph, Method::tasks}) {
        EXPECT_EQ(code([&] { weighted.shortest_paths(0, method); }), Errc::bad_argument);
    }
    if (!on_gpu()) {
        EXPECT_EQ(code([&] { search.bfs(0, Method::launches); }), Errc::bad_argument);
        EXPECT_EQ(code([&] { search.bfs(0, Method::graph); }), Errc::bad_argument);
    } else {
        EXPECT_EQ(code([&] { search.bfs(0, Method::serial); }), Errc::bad_argument);
    }
    Csr broken = graph;
    broken.neighbours[3] = 10;
    EXPECT_EQ(code([&] { bfs(broken, 0, Method::automatic, device()); }), Errc::bad_argument);
}

INSTANTIATE_TEST_SUITE_P(Places, Searches, testing::ValuesIn(places()),
                         [](const auto& at) { return std::string(at.param.name); });

// Of two methods the faster one is found by using both, each once if that is enough.
TEST(Choices, follow_what_was_measured)
{
    const auto searched = [](Method method, uint32_t reached, double seconds) {
        Paths paths;
        paths.method = method;
        paths.reached = reached;
        paths.seconds = seconds;
        return paths;
    };
    Choice choice(Method::narrow, Method::wide, 1000);
    EXPECT_EQ(choice.next(), Method::narrow);
    choice.took(searched(Method::narrow, 1, 1e-6)); // says nothing
    EXPECT_EQ(choice.next(), Method::narrow);
    choice.took(searched(Method::narrow, 1000, 2e-3));
    EXPECT_EQ(choice.next(), Method::wide);
    choice.took(searched(Method::wide, 500, 1.5e-3)); // longer for each vertex
    EXPECT_EQ(choice.next(), Method::narrow);
    choice.took(searched(Method::wide, 1000, 1e-3)); // asked for by name, and faster this time
    EXPECT_EQ(choice.next(), Method::wide);
}

// The rules find out each kind of wrong answer.
TEST(Rules, name_what_is_wrong)
{
    const Csr graph = grid(5, 5);
    const Paths right = bfs(graph, 0, Method::automatic, Device::cpu());
    EXPECT_EQ(broken_rule(graph, 0, right, false), "");
    const auto rule_of = [&](auto change) {
        Paths paths = right;
        change(paths);
        return broken_rule(graph, 0, paths, false).substr(0, 6);
    };
    EXPECT_EQ(rule_of([](Paths& p) { p.parents[0] = 1; }), "rule 1");
    EXPECT_EQ(rule_of([](Paths& p) { p.parents[7] = 99; }), "rule 1");
    EXPECT_EQ(rule_of([](Paths& p) { p.parents[24] = 0; }), "rule 2");
    EXPECT_EQ(rule_of([](Paths& p) { p.distances[24] = 7; }), "rule 2");
    EXPECT_EQ(rule_of([](Paths& p) { p.distances[24] = p.parents[24] = -1; }), "rule 4");
    EXPECT_EQ(rule_of([](Paths& p) { p.parents[24] = -1; }), "rule 1");
    // A tree of real arcs that is not the shortest: 1 by way of 0-5-6-1.
    EXPECT_EQ(rule_of([](Paths& p) {
                  p.parents[6] = 5;
                  p.parents[1] = 6;
                  p.distances[1] = 3;
                  p.parents[2] = 7;
                  p.parents[7] = 6;
                  p.distances[2] = 4;
                  p.parents[3] = 8;
                  p.parents[8] = 7;
                  p.distances[3] = 5;
                  p.parents[4] = 9;
                  p.parents[9] = 8;
                  p.distances[4] = 6;
              }),
              "rule 3");
}

} // namespace
