// SPDX-License-Identifier: Apache-2.0
// Text that is to be a graph, in each of the formats. The first byte says which.
#include <denizen/graph/read.hpp>

#include <denizen/base/error.hpp>

using namespace denizen;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    static constexpr graph::Format formats[] = {graph::Format::dimacs, graph::Format::matrix_market,
                                                graph::Format::edges};
    const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
    try {
        const graph::Csr csr =
            graph::parse(text, "fuzzed", formats[data[0] % 3], (data[0] & 4) != 0, 1u << 12);
        // What was read is a graph: rows go up, and arcs end at its vertices.
        const auto n = csr.vertices();
        for (uint32_t v = 0; v < n; ++v) {
            if (csr.offsets[v] > csr.offsets[v + 1]) {
                __builtin_trap();
            }
        }
        for (const auto to : csr.neighbours) {
            if (to >= n) {
                __builtin_trap();
            }
        }
    } catch (const Error& e) {
        if (e.code() != Errc::bad_argument) {
            throw;
        }
    }
    return 0;
}
