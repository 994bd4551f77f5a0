// SPDX-License-Identifier: Apache-2.0
// Graphs out of text, and what is said of text that is none.
#include <denizen/graph/generate.hpp>
#include <denizen/graph/read.hpp>

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

using namespace denizen;
using namespace denizen::graph;

namespace {

using Words = std::vector<uint32_t>;

TEST(Read, pace)
{
    const Csr g = parse("c a triangle with a tail\np tw 4 4\n1 2\n2 3\r\n3 1\n\n3 4", "a.gr");
    EXPECT_EQ(g.offsets, (Words{0, 2, 4, 7, 8}));
    EXPECT_EQ(g.neighbours, (Words{1, 2, 0, 2, 0, 1, 3, 2}));
    EXPECT_FALSE(g.weighted());
    EXPECT_TRUE(g.undirected);
}

TEST(Read, dimacs_with_weights)
{
    const Csr g = parse("p sp 3 3\na 1 2 10\na 2 3 7\na 2 1 10\n", "b.gr");
    EXPECT_EQ(g.offsets, (Words{0, 1, 3, 3}));
    EXPECT_EQ(g.neighbours, (Words{1, 0, 2}));
    EXPECT_EQ(g.weights, (Words{10, 10, 7}));
    EXPECT_FALSE(g.undirected);
    EXPECT_TRUE(parse("p sp 2 2\na 1 2 5\na 2 1 5\n", "b.gr").undirected);
    EXPECT_FALSE(parse("p sp 2 2\na 1 2 5\na 2 1 6\n", "b.gr").undirected);
}

TEST(Read, matrix_market)
{
    const Csr g = parse("%%MatrixMarket matrix coordinate integer symmetric\n% c\n3 3 3\n"
                        "2 1 4\n3 2 5\n3 3 9\n",
                        "m.mtx");
    EXPECT_EQ(g.offsets, (Words{0, 1, 3, 4}));
    EXPECT_EQ(g.neighbours, (Words{1, 0, 2, 1}));
    EXPECT_EQ(g.weights, (Words{4, 4, 5, 5}));
    const Csr pattern =
        parse("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n", "m.mtx");
    EXPECT_EQ(pattern.neighbours, (Words{1}));
    EXPECT_FALSE(pattern.undirected);
    EXPECT_FALSE(parse("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 -0.5\n", "m.mtx")
                     .weighted());
}

TEST(Read, edges)
{
    const Csr g = parse("# u v w\n0 3 8\n3 0 2\n0\t3 6\n2 2 1\n", "g.txt");
    EXPECT_EQ(g.vertices(), 4u);
    EXPECT_EQ(g.offsets, (Words{0, 1, 1, 1, 2})); // the loop is gone, of two arcs the lighter stays
    EXPECT_EQ(g.weights, (Words{6, 2}));
    EXPECT_TRUE(parse("0 1\n", "g.txt", Format::automatic, true).undirected);
    EXPECT_FALSE(parse("0 1\n", "g.txt").undirected);
    EXPECT_EQ(parse("", "g.txt").vertices(), 0u);
}

TEST(Read, a_file)
{
    const std::string path = testing::TempDir() + "denizen_read_test.gr";
    std::ofstream(path) << "p tw 2 1\n1 2\n";
    EXPECT_EQ(read(path).arcs(), 2u);
    std::remove(path.c_str());
    EXPECT_THROW(read(path), Error);
}

// The place comes first, then what is wrong there.
TEST(Read, errors_name_file_and_line)
{
    const std::string banner = "%%MatrixMarket matrix coordinate pattern general\n";
    const struct {
        std::string text, name, begin, has;
    } cases[] = {
        {"p tw 3 2\n1 2\n2 4\n", "x.gr", "x.gr:3: ", "vertex 4 is out of range"},
        {"p tw 3 2\n1 2\n0 1\n", "x.gr", "x.gr:3: ", "vertex 0 is out of range"},
        {"p tw 3 2\n1 2\n2 x\n", "x.gr", "x.gr:3: ", "\"x\""},
        {"p tw 3 2\n1 2\n2\n", "x.gr", "x.gr:3: ", "missing"},
        {"p tw 3 2\n1 2\n2 -1\n", "x.gr", "x.gr:3: ", "\"-1\""},
        {"p tw 3 2\n1 2\n2 3 4\n", "x.gr", "x.gr:3: ", "too many"},
        {"p tw 3 2\n1 2\n", "x.gr", "x.gr:2: ", "1 edges of the 2"},
        {"p tw 3 1\n1 2\n2 3\n", "x.gr", "x.gr:3: ", "more edges"},
        {"p tw 3 1\np tw 3 1\n", "x.gr", "x.gr:2: ", "second"},
        {"p max 3 1\n", "x.gr", "x.gr:1: ", "neither sp nor tw"},
        {"p tw 99999999999 1\n", "x.gr", "x.gr:1: ", "2^31"},
        {"c\n1 2\n", "x.gr", "x.gr:2: ", "before"},
        {"c\n", "x.gr", "x.gr:1: ", "no line"},
        {"p sp 2 1\na 1 2 99999999999\n", "x.gr", "x.gr:2: ", "above"},
        {"p sp 2 1\na 1 2\n", "x.gr", "x.gr:2: ", "weight is missing"},
        {"p sp 2 1\n1 2 3\n", "x.gr", "x.gr:2: ", "neither"},
        {"hello\n", "x.mtx", "x.mtx:1: ", "MatrixMarket"},
        {banner + "3 4 1\n", "x.mtx", "x.mtx:2: ", "square"},
        {banner + "3 3 1\n4 1\n", "x.mtx", "x.mtx:3: ", "row 4 is out of range"},
        {banner + "3 3 2\n1 1\n", "x.mtx", "x.mtx:3: ", "1 edges of the 2"},
        {"%%MatrixMarket matrix array real general\n", "x.mtx", "x.mtx:1: ", "coordinate"},
        {"0 1\n1 2 3\n", "x.txt", "x.txt:2: ", "a weight"},
        {"0 1 3\n1 2\n", "x.txt", "x.txt:2: ", "no weight"},
        {"0 4294967296\n", "x.txt", "x.txt:1: ", "out of range"},
    };
    for (const auto& c : cases) {
        SCOPED_TRACE(c.text);
        try {
            parse(c.text, c.name);
            ADD_FAILURE() << "was read";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::bad_argument);
            const std::string what = error.what();
            EXPECT_EQ(what.substr(0, c.begin.size()), c.begin) << what;
            EXPECT_NE(what.find(c.has), std::string::npos) << what;
        }
    }
}

TEST(Generate, kronecker_is_what_graph500_says)
{
    const Csr g = kronecker(10, 16, 7);
    EXPECT_EQ(g.vertices(), 1024u);
    EXPECT_TRUE(g.undirected);
    EXPECT_LE(g.arcs(), 2u * 16 * 1024);
    EXPECT_GT(g.arcs(), 16u * 1024); // some repetitions and loops are gone, not most
    EXPECT_EQ(g.neighbours, kronecker(10, 16, 7).neighbours);
    EXPECT_NE(g.neighbours, kronecker(10, 16, 8).neighbours);
    uint32_t most = 0;
    for (uint32_t v = 0; v < g.vertices(); ++v) most = std::max(most, g.degree(v));
    EXPECT_GT(most, 200u); // hubs: a uniform random graph of this size has none above 60
}

TEST(Generate, grid_and_chain)
{
    EXPECT_EQ(chain(4).neighbours, (Words{1, 0, 2, 1, 3, 2}));
    const Csr g = grid(3, 4);
    EXPECT_EQ(g.vertices(), 12u);
    EXPECT_EQ(g.arcs(), 2u * (3 * 3 + 2 * 4));
    EXPECT_EQ(g.degree(0), 2u);
    EXPECT_EQ(g.degree(5), 4u);
}

TEST(Generate, weights_are_those_of_edges)
{
    Csr g = grid(6, 6);
    give_weights(g, 10);
    for (uint32_t v = 0; v < g.vertices(); ++v) {
        for (uint32_t i = g.offsets[v]; i < g.offsets[v + 1]; ++i) {
            EXPECT_GE(g.weights[i], 1u);
            EXPECT_LE(g.weights[i], 10u);
            const uint32_t w = g.neighbours[i];
            for (uint32_t k = g.offsets[w]; k < g.offsets[w + 1]; ++k) {
                if (g.neighbours[k] == v) {
                    EXPECT_EQ(g.weights[k], g.weights[i]);
                }
            }
        }
    }
}

} // namespace
