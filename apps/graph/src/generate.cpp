// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/interrupt.hpp>

#include <denizen/graph/generate.hpp>

#include <algorithm>
#include <numeric>
#include <string>

namespace denizen::graph {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): the n-th number of a stream by itself.
uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

} // namespace

Csr kronecker(uint32_t scale, uint32_t edge_factor, uint64_t seed)
{
    if (scale > 30 || (uint64_t{edge_factor} << scale) > (uint64_t{1} << 31)) {
        throw Error(Errc::oversize, "Kronecker scale " + std::to_string(scale) +
                                        " with edge factor " + std::to_string(edge_factor) +
                                        ": at most scale 30 and 2^31 edges");
    }
    const uint64_t stream = mix(seed);
    Edges edges;
    edges.vertices = uint64_t{1} << scale;
    const uint64_t count = edges.vertices * edge_factor;
    std::vector<uint32_t> name(edges.vertices); // a random permutation
    std::iota(name.begin(), name.end(), 0u);
    for (uint64_t i = edges.vertices; i > 1; --i) {
        if (i % items_per_check == 0) check_interrupt();
        std::swap(name[i - 1], name[mix(stream + i) % i]);
    }
    // Of 2^16 equal parts: A, then B, then C, the rest D.
    constexpr uint32_t a = 37356, b = 12452, c = 12452;
    edges.from.reserve(count);
    edges.to.reserve(count);
    interruptibly(uint64_t{0}, count, [&](uint64_t e) {
        uint32_t from = 0, to = 0;
        uint64_t bits = 0;
        for (uint32_t level = 0; level < scale; ++level) {
            if (level % 4 == 0) bits = mix(stream ^ mix(e * 8 + level / 4));
            const auto draw = static_cast<uint32_t>(bits & 0xffff);
            bits >>= 16;
            from = from << 1 | (draw >= a + b ? 1 : 0);
            to = to << 1 | ((draw >= a && draw < a + b) || draw >= a + b + c ? 1 : 0);
        }
        edges.from.push_back(name[from]);
        edges.to.push_back(name[to]);
    });
    return csr_of(edges, true);
}

Csr grid(uint32_t rows, uint32_t columns)
{
    Edges edges;
    edges.vertices = uint64_t{rows} * columns;
    if (edges.vertices >> 31 != 0) {
        throw Error(Errc::oversize, "a grid of " + std::to_string(edges.vertices) +
                                        " vertices: at most 2^31 - 1 fit");
    }
    for (uint32_t r = 0; r < rows; ++r) {
        interruptibly(0u, columns, [&](uint32_t c) {
            const uint32_t v = r * columns + c;
            if (c + 1 < columns) {
                edges.from.push_back(v);
                edges.to.push_back(v + 1);
            }
            if (r + 1 < rows) {
                edges.from.push_back(v);
                edges.to.push_back(v + columns);
            }
        });
    }
    return csr_of(edges, true);
}

Csr chain(uint32_t vertices) { return grid(1, vertices); }

void give_weights(Csr& graph, uint32_t most, uint64_t seed)
{
    if (most == 0) throw Error(Errc::bad_argument, "weights of 1 to 0; the most must be 1 or more");
    resize_interruptibly(graph.weights, graph.neighbours.size());
    const uint64_t stream = mix(seed);
    for (uint32_t v = 0; v < graph.vertices(); ++v) {
        for (uint32_t i = graph.offsets[v]; i < graph.offsets[v + 1]; ++i) {
            if (i % items_per_check == 0) check_interrupt();
            const uint64_t w = graph.neighbours[i];
            const uint64_t edge = std::min<uint64_t>(v, w) << 32 | std::max<uint64_t>(v, w);
            graph.weights[i] = static_cast<uint32_t>(mix(stream ^ mix(edge)) % most) + 1;
        }
    }
}

} // namespace denizen::graph
