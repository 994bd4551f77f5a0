// SPDX-License-Identifier: Apache-2.0
#include "engine.hpp"

#include <denizen/base/interrupt.hpp>

namespace denizen::graph {

std::vector<Record> records_of(const Csr& graph)
{
    const uint32_t n = graph.vertices();
    constexpr uint32_t capacity = Record::capacity;
    Record empty;
    std::fill_n(empty.place, capacity, Record::none);
    std::vector<Record> records;
    assign_interruptibly(records, size_t{2} * n, empty);
    interruptibly(0u, n, [&](uint32_t v) {
        const uint32_t* row = graph.neighbours.data() + graph.offsets[v];
        for (uint32_t k = 0; k < std::min(graph.degree(v), 2 * capacity); ++k) {
            const uint32_t big = graph.degree(row[k]) > capacity ? Record::big : 0;
            records[k < capacity ? v : size_t{n} + v].place[k % capacity] = row[k] | big;
        }
        if (graph.degree(v) > 2 * capacity) records[size_t{n} + v].place[0] |= Record::more;
    });
    return records;
}

uint32_t journal_places(const Csr& graph)
{
    uint32_t places = graph.vertices();
    interruptibly(0u, graph.vertices(),
                  [&](uint32_t v) { places += graph.degree(v) > Record::capacity ? 1 : 0; });
    return places;
}

std::vector<WeightedRecord> weighted_records_of(const Csr& graph)
{
    WeightedRecord empty{};
    std::fill_n(empty.id, WeightedRecord::capacity, WeightedRecord::mask);
    std::vector<WeightedRecord> records;
    assign_interruptibly(records, graph.vertices(), empty);
    interruptibly(0u, graph.vertices(), [&](uint32_t v) {
        const uint32_t first = graph.offsets[v];
        for (uint32_t k = 0; k < std::min(graph.degree(v), WeightedRecord::capacity); ++k) {
            records[v].id[k] = graph.neighbours[first + k];
            records[v].weight[k] = graph.weights[first + k];
        }
        if (graph.degree(v) > WeightedRecord::capacity) records[v].id[0] |= ~WeightedRecord::mask;
    });
    return records;
}

} // namespace denizen::graph
