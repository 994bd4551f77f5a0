// SPDX-License-Identifier: Apache-2.0
// What the beginning of a search says of a graph, and who answers sooner. The graphs are such that
// a host three times slower or faster would not change the answer.
#include "../src/shape.hpp"
#include "searches.hpp"

#include <denizen/graph/generate.hpp>

#include <gtest/gtest.h>

using namespace denizen::graph;

namespace {

TEST(Shapes, of_a_graph_that_is_searched_whole)
{
    const Shape shape = shape_of(chain(5'000));
    EXPECT_FALSE(shape.hubs);
    EXPECT_EQ(shape.reach, 5'000u);
    EXPECT_EQ(shape.levels, 5'000u);
    EXPECT_GT(shape.host_ns, 0);
    EXPECT_FALSE(shape.shallow());
}

TEST(Shapes, of_a_graph_whose_beginning_is_searched)
{
    const Shape shape = shape_of(chain(300'000));
    EXPECT_EQ(shape.reach, 300'000u);
    EXPECT_NEAR(static_cast<double>(shape.levels), 300'000, 10);
    const Shape wide = shape_of(kronecker(17));
    EXPECT_TRUE(wide.hubs);
    EXPECT_TRUE(wide.shallow());
}

// Its first vertices are a pair of their own.
TEST(Shapes, of_a_graph_in_pieces)
{
    Edges edges;
    edges.vertices = 1'001;
    for (uint32_t v = 1; v < edges.vertices; ++v) {
        if (v == 2) continue;
        edges.from.push_back(v - 1);
        edges.to.push_back(v);
    }
    edges.from.push_back(500);
    edges.to.push_back(1'000);
    const Shape shape = shape_of(csr_of(edges, true));
    EXPECT_EQ(shape.reach, 999u);
    EXPECT_GT(shape.levels, 200u);
}

TEST(Shapes, of_nothing)
{
    EXPECT_EQ(shape_of(chain(0)).reach, 0u);
    EXPECT_EQ(shape_of(chain(1)).levels, 1u);
}

TEST(Shapes, with_a_hub_may_be_deep)
{
    const Shape deep = shape_of(star(100, 5'000));
    EXPECT_TRUE(deep.hubs);
    EXPECT_FALSE(deep.shallow());
    EXPECT_TRUE(shape_of(star(100)).shallow());
}

// A chain of 20,000 took 8.9 ms by an H200 and 0.13 by a thread of the host beside it.
TEST(Places, a_gpu_does_not_get_what_a_thread_answers_sooner)
{
    for (const Csr& graph :
         {chain(20'000), chain(10), grid(5'000, 4), star(100, 20'000), kronecker(8)}) {
        SCOPED_TRACE(graph.vertices());
        for (const Use use : {Use::many, Use::one_bfs, Use::one_shortest_paths}) {
            const Place place = sooner(graph, use);
            EXPECT_FALSE(place.gpu) << place.why;
        }
    }
}

TEST(Places, a_gpu_gets_what_it_answers_sooner)
{
    EXPECT_TRUE(sooner(kronecker(16)).gpu);
    Csr graph = kronecker(16);
    give_weights(graph, 100);
    EXPECT_TRUE(sooner(graph).gpu);
}

// For one search the graph's way to the GPU counts.
TEST(Places, data_s_place_is_considered)
{
    const Csr graph = grid(700, 700);
    const Shape shape{false, graph.vertices(), 1'399, 5e6};
    const Estimate many = estimate(graph, shape, Use::many);
    EXPECT_TRUE(many.gpu());
    const Estimate once = estimate(graph, shape, Use::one_bfs);
    EXPECT_FALSE(once.gpu());
    EXPECT_EQ(once.host_us, many.host_us);
}

TEST(Places, say_why)
{
    const Place place = sooner(chain(20'000));
    EXPECT_NE(place.why.find("20000 levels"), std::string::npos) << place.why;
    EXPECT_NE(sooner(chain(10), Use::one_bfs).why.find("has to be given"), std::string::npos);
}

TEST(Places, arrays_are_checked)
{
    Csr broken = chain(10);
    broken.neighbours[3] = 10;
    EXPECT_THROW(sooner(broken), denizen::Error);
}

} // namespace
