// SPDX-License-Identifier: Apache-2.0
// Graphs out of text files. Host only. Compressed files are the Python package's business: it hands
// the text to parse().
#pragma once

#include <denizen/graph/csr.hpp>

#include <string>
#include <string_view>

namespace denizen::graph {

enum class Format {
    automatic,     // by the file's name: .gr, .mtx, else a list of edges
    dimacs,        // 9th DIMACS challenge, `p sp n m` and `a u v w` (arcs with weights), and PACE's
                   // `p tw n m` and `u v` (undirected edges); vertices from 1, comments `c ...`
    matrix_market, // a square coordinate matrix: row and column from 1; integer values are weights,
                   // others are not read; `symmetric` makes it undirected
    edges,         // `u v` or `u v w`, vertices from 0, comments `#` or `%`; arcs as they stand
};

// `undirected`: adds the twin of every arc. A graph whose arcs all have twins is undirected in any
// case. Errors are Errc::bad_argument and begin with "<name>:<line>:"; a weight is 0 to 2^32 - 1.
// `limit`: of vertices. A line of a few bytes can name 2^31 - 1, which take gigabytes.
Csr parse(std::string_view text, const std::string& name, Format format = Format::automatic,
          bool undirected = false, uint64_t limit = most_vertices);

Csr read(const std::string& path, Format format = Format::automatic, bool undirected = false);

} // namespace denizen::graph
