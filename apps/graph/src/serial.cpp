// SPDX-License-Identifier: Apache-2.0
#include "serial.hpp"

#include <denizen/base/interrupt.hpp>

#include <algorithm>
#include <array>
#include <bit>

namespace denizen::graph {
namespace {

// How many vertices before its turn a row is fetched: a miss lasts about as long as eight rows of a
// road graph take.
constexpr size_t ahead = 8;

// A queue of keys that never fall below the last one taken (Ahuja, Mehlhorn, Orlin, Tarjan: Faster
// Algorithms for the Shortest Path Problem, J. ACM 1990). Bucket b > 0 has the keys that differ
// from it first in bit b - 1; so each key moves at most 32 times, always to a lower bucket.
class RadixHeap {
public:
    struct Item {
        uint32_t key;
        uint32_t vertex;
    };

    void push(Item item)
    {
        const auto b = static_cast<uint32_t>(std::bit_width(item.key ^ last_));
        bucket_[b].push_back(item);
        used_ |= uint64_t{1} << b;
    }

    // All items of the least key there is. Empty: there is none. Valid until the next call; what is
    // pushed meanwhile with the same key comes then.
    const std::vector<Item>& pop()
    {
        least_.clear();
        if (used_ == 0) {
            return least_;
        }
        const auto b = static_cast<uint32_t>(std::countr_zero(used_));
        std::vector<Item>& from = bucket_[b];
        used_ &= ~(uint64_t{1} << b);
        if (b == 0) {
            std::swap(least_, from);
            return least_;
        }
        last_ = std::min_element(from.begin(), from.end(), [](Item x, Item y) {
                    return x.key < y.key;
                })->key;
        for (const Item item : from) { // each into a lower bucket, or out
            if (item.key == last_) {
                least_.push_back(item);
            } else {
                push(item);
            }
        }
        from.clear();
        return least_;
    }

private:
    std::array<std::vector<Item>, 33> bucket_;
    std::vector<Item> least_;
    uint64_t used_ = 0; // bit b: bucket b has something
    uint32_t last_ = 0;
};

} // namespace

Visited expand(const Csr& graph, uint32_t source, int32_t* distance, int32_t* parent,
               uint32_t* queue, uint64_t* seen, uint64_t most)
{
    const uint32_t* const offsets = graph.offsets.data();
    const uint32_t* const neighbours = graph.neighbours.data();
    seen[source / 64] |= uint64_t{1} << source % 64;
    distance[source] = 0;
    parent[source] = static_cast<int32_t>(source);
    queue[0] = source;
    size_t tail = 1;
    size_t level_end = 1;
    size_t head = 0;
    uint64_t arcs = 0;
    uint32_t level = 0;
    for (; head < tail && arcs < most; ++head) {
        if (head % items_per_check == 0) check_interrupt();
        if (head == level_end) {
            level_end = tail;
            ++level;
        }
        // Their rows' places, and the rows of those whose places are here by now.
        if (head + 2 * ahead < tail) __builtin_prefetch(&offsets[queue[head + 2 * ahead]]);
        if (head + ahead < tail) __builtin_prefetch(&neighbours[offsets[queue[head + ahead]]]);
        const uint32_t v = queue[head];
        const uint32_t end = offsets[v + 1];
        arcs += end - offsets[v];
        for (uint32_t c = offsets[v]; c < end; ++c) {
            const uint32_t w = neighbours[c];
            uint64_t& word = seen[w / 64];
            const uint64_t bit = uint64_t{1} << w % 64;
            if ((word & bit) != 0) continue;
            word |= bit;
            distance[w] = static_cast<int32_t>(level + 1);
            parent[w] = static_cast<int32_t>(v);
            queue[tail++] = w;
        }
    }
    return {tail, arcs, level + 1, head == tail};
}

uint32_t serial_bfs(const Csr& graph, uint32_t source, int32_t* distance, int32_t* parent,
                    std::vector<uint32_t>& queue, std::vector<uint64_t>& seen)
{
    const uint32_t n = graph.vertices();
    resize_interruptibly(queue, n);
    seen.assign((size_t{n} + 63) / 64, 0);
    interruptibly(0u, n, [&](uint32_t v) { distance[v] = parent[v] = -1; });
    return expand(graph, source, distance, parent, queue.data(), seen.data(), ~0ull).levels;
}

bool serial_shortest_paths(const Csr& graph, uint32_t source, int32_t* distance, int32_t* parent)
{
    constexpr uint32_t most = ~0u >> 1;
    const uint32_t n = graph.vertices();
    interruptibly(0u, n, [&](uint32_t v) { distance[v] = parent[v] = -1; });
    // While it runs a distance is that of the best path so far; -1 as a uint32_t is farthest.
    auto* const best = reinterpret_cast<uint32_t*>(distance);
    best[source] = 0;
    parent[source] = static_cast<int32_t>(source);
    bool fits = true;
    RadixHeap heap;
    heap.push({0, source});
    for (uint32_t turns = 1;; ++turns) { // ends: every arc is looked at once
        if (turns % 256 == 0) check_interrupt();
        const auto& items = heap.pop();
        if (items.empty()) break;
        size_t done = 0;
        for (const auto [far, v] : items) {
            if (++done % items_per_check == 0) check_interrupt();
            if (best[v] != far) continue; // a shorter path has been found since
            for (uint32_t c = graph.offsets[v]; c < graph.offsets[v + 1]; ++c) {
                const uint32_t w = graph.neighbours[c];
                const uint64_t to = uint64_t{far} + graph.weights[c];
                if (to >= best[w]) continue;
                if (to > most) { // unless a shorter one is found
                    fits = false;
                    continue;
                }
                best[w] = static_cast<uint32_t>(to);
                parent[w] = static_cast<int32_t>(v);
                heap.push({best[w], w});
            }
        }
    }
    for (uint32_t u = 0; !fits && u < n; ++u) {
        if (u % items_per_check == 0) check_interrupt();
        for (uint32_t c = graph.offsets[u]; distance[u] >= 0 && c < graph.offsets[u + 1]; ++c) {
            if (distance[graph.neighbours[c]] < 0) return false; // only a path too long comes there
        }
    }
    return true;
}

} // namespace denizen::graph
