// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/interrupt.hpp>

#include <denizen/graph/read.hpp>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace denizen::graph {
namespace {

// The lines of a text, field by field.
class Lines {
public:
    Lines(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

    // The next line that is not blank; false at the end.
    bool next()
    {
        while (!rest_.empty()) {
            if (++number_ % lines_per_check == 0) check_interrupt();
            const size_t end = std::min(rest_.find('\n'), rest_.size());
            line_ = rest_.substr(0, end);
            rest_.remove_prefix(std::min(end + 1, rest_.size()));
            skip_blanks();
            if (!line_.empty()) return true;
        }
        return false;
    }

    char first() const { return line_.front(); }
    bool more() const { return !line_.empty(); }

    std::string_view word()
    {
        const size_t end = std::min(line_.find_first_of(" \t\r"), line_.size());
        const std::string_view found = line_.substr(0, end);
        line_.remove_prefix(end);
        skip_blanks();
        return found;
    }

    uint64_t number(const char* what)
    {
        const std::string_view text = word();
        uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (text.empty()) fail(std::string(what) + " is missing");
        if (error != std::errc{} || end != text.data() + text.size()) {
            fail(std::string(what) + " is \"" + std::string(text.substr(0, 40)) +
                 "\", a number from 0 was expected");
        }
        return value;
    }

    // A vertex counted from `base`, as one counted from 0.
    uint32_t vertex(const char* what, uint64_t base, uint64_t vertices)
    {
        const uint64_t value = number(what);
        if (value < base || value - base >= vertices) {
            fail(std::string(what) + " " + std::to_string(value) + " is out of range: there are " +
                 std::to_string(vertices) + " vertices, from " + std::to_string(base));
        }
        return static_cast<uint32_t>(value - base);
    }

    uint32_t weight()
    {
        const uint64_t value = number("the weight");
        if (value >> 32 != 0) fail("weight " + std::to_string(value) + " is above 2^32 - 1");
        return static_cast<uint32_t>(value);
    }

    void check_vertices(uint64_t vertices, uint64_t limit) const
    {
        if (vertices > most_vertices) fail("more than 2^31 - 1 vertices");
        if (vertices > limit) {
            fail(std::to_string(vertices) + " vertices are over the limit of " +
                 std::to_string(limit) +
                 "; if that is meant, allow more by DENIZEN_MAX_VERTICES (Python) or parse()");
        }
    }

    void end_of_line()
    {
        if (more()) fail("\"" + std::string(line_.substr(0, 40)) + "\" is one field too many");
    }

    [[noreturn]] void fail(const std::string& what) const
    {
        throw Error(Errc::bad_argument, name_ + ":" + std::to_string(number_) + ": " + what);
    }

    // What the header promised and the file does not hold.
    void check_count(uint64_t promised, uint64_t found) const
    {
        if (promised != found) {
            fail("the file ends here with " + std::to_string(found) + " edges of the " +
                 std::to_string(promised) + " that its header promises");
        }
    }

private:
    static constexpr uint64_t lines_per_check = 1024;

    void skip_blanks()
    {
        line_.remove_prefix(std::min(line_.find_first_not_of(" \t\r"), line_.size()));
    }

    std::string_view rest_;
    std::string_view line_;
    const std::string& name_;
    uint64_t number_ = 0;
};

struct Parsed {
    Edges edges;
    bool undirected = false;
};

void reserve(Edges& edges, uint64_t count, uint64_t text_bytes)
{
    // A header may promise anything; four bytes of text are the least that an edge takes.
    const uint64_t likely = std::min(count, text_bytes / 4);
    edges.from.reserve(likely);
    edges.to.reserve(likely);
}

Parsed parse_dimacs(Lines& lines, uint64_t text_bytes, uint64_t limit)
{
    Parsed parsed;
    Edges& edges = parsed.edges;
    bool header = false;
    bool weighted = false;
    uint64_t promised = 0;
    while (lines.next()) {
        const char kind = lines.first();
        if (kind == 'c') continue;
        if (kind == 'p') {
            if (header) lines.fail("a second line \"p\"");
            lines.word();
            const std::string_view problem = lines.word();
            if (problem != "sp" && problem != "tw") {
                lines.fail("problem \"" + std::string(problem) + "\" is neither sp nor tw");
            }
            weighted = problem == "sp";
            parsed.undirected = !weighted;
            edges.vertices = lines.number("the number of vertices");
            lines.check_vertices(edges.vertices, limit);
            promised = lines.number("the number of edges");
            lines.end_of_line();
            reserve(edges, promised, text_bytes);
            header = true;
            continue;
        }
        if (!header) lines.fail("an edge before the line \"p tw <vertices> <edges>\"");
        if (edges.from.size() == promised) {
            lines.fail("more edges than the " + std::to_string(promised) + " of the header");
        }
        if (weighted && lines.word() != "a") lines.fail("neither \"a\" nor \"c\" begins this line");
        edges.from.push_back(lines.vertex("vertex", 1, edges.vertices));
        edges.to.push_back(lines.vertex("vertex", 1, edges.vertices));
        if (weighted) edges.weights.push_back(lines.weight());
        lines.end_of_line();
    }
    if (!header) lines.fail("no line \"p tw <vertices> <edges>\"");
    lines.check_count(promised, edges.from.size());
    return parsed;
}

Parsed parse_matrix_market(Lines& lines, uint64_t text_bytes, uint64_t limit)
{
    Parsed parsed;
    Edges& edges = parsed.edges;
    if (!lines.next() || lines.word() != "%%MatrixMarket" || lines.word() != "matrix" ||
        lines.word() != "coordinate") {
        lines.fail("not \"%%MatrixMarket matrix coordinate ...\"");
    }
    const std::string_view field = lines.word();
    const std::string_view symmetry = lines.word();
    if (field != "pattern" && field != "integer" && field != "real" && field != "complex") {
        lines.fail("field \"" + std::string(field) +
                   "\" is none of pattern, integer, real, complex");
    }
    if (symmetry != "general" && symmetry != "symmetric" && symmetry != "skew-symmetric" &&
        symmetry != "hermitian") {
        lines.fail("symmetry \"" + std::string(symmetry) +
                   "\" is none of general, symmetric, skew-symmetric, hermitian");
    }
    parsed.undirected = symmetry != "general";
    uint64_t promised = 0;
    bool header = false;
    while (lines.next()) {
        if (lines.first() == '%') continue;
        if (!header) {
            edges.vertices = lines.number("the number of rows");
            const uint64_t columns = lines.number("the number of columns");
            if (columns != edges.vertices) {
                lines.fail("a matrix of " + std::to_string(edges.vertices) + " x " +
                           std::to_string(columns) + " is no graph: it must be square");
            }
            lines.check_vertices(edges.vertices, limit);
            promised = lines.number("the number of entries");
            lines.end_of_line();
            reserve(edges, promised, text_bytes);
            header = true;
            continue;
        }
        if (edges.from.size() == promised) {
            lines.fail("more entries than the " + std::to_string(promised) + " of the header");
        }
        edges.from.push_back(lines.vertex("row", 1, edges.vertices));
        edges.to.push_back(lines.vertex("column", 1, edges.vertices));
        if (field == "integer") {
            edges.weights.push_back(lines.weight());
        } else if (field != "pattern") {
            if (lines.word().empty()) lines.fail("the value is missing");
            if (field == "complex") lines.word();
        }
        lines.end_of_line();
    }
    if (!header) lines.fail("no line of rows, columns and entries");
    lines.check_count(promised, edges.from.size());
    return parsed;
}

Parsed parse_edges(Lines& lines, uint64_t limit)
{
    Parsed parsed;
    Edges& edges = parsed.edges;
    while (lines.next()) {
        if (lines.first() == '#' || lines.first() == '%') continue;
        const uint32_t from = lines.vertex("vertex", 0, most_vertices);
        const uint32_t to = lines.vertex("vertex", 0, most_vertices);
        const bool weighted = lines.more();
        if (!edges.from.empty() && weighted == edges.weights.empty()) {
            lines.fail(weighted ? "a weight, where the lines before have none"
                                : "no weight, where the lines before have one");
        }
        edges.from.push_back(from);
        edges.to.push_back(to);
        if (weighted) edges.weights.push_back(lines.weight());
        lines.end_of_line();
        edges.vertices = std::max<uint64_t>(edges.vertices, uint64_t{std::max(from, to)} + 1);
        lines.check_vertices(edges.vertices, limit);
    }
    return parsed;
}

bool has_twins(const Csr& graph)
{
    for (uint32_t v = 0; v < graph.vertices(); ++v) {
        for (uint32_t i = graph.offsets[v]; i < graph.offsets[v + 1]; ++i) {
            if (i % items_per_check == 0) check_interrupt();
            const uint32_t w = graph.neighbours[i];
            const auto begin = graph.neighbours.begin() + graph.offsets[w];
            const auto end = graph.neighbours.begin() + graph.offsets[w + 1];
            const auto twin = std::lower_bound(begin, end, v);
            if (twin == end || *twin != v) return false;
            const auto at = static_cast<size_t>(twin - graph.neighbours.begin());
            if (graph.weighted() && graph.weights[at] != graph.weights[i]) return false;
        }
    }
    return true;
}

bool ends_with(const std::string& name, const std::string& end)
{
    return name.size() >= end.size() &&
           name.compare(name.size() - end.size(), end.size(), end) == 0;
}

} // namespace

Csr parse(std::string_view text, const std::string& name, Format format, bool undirected,
          uint64_t limit)
{
    if (format == Format::automatic) {
        format = ends_with(name, ".gr")    ? Format::dimacs
                 : ends_with(name, ".mtx") ? Format::matrix_market
                                           : Format::edges;
    }
    Lines lines(text, name);
    const Parsed parsed = format == Format::dimacs ? parse_dimacs(lines, text.size(), limit)
                          : format == Format::matrix_market
                              ? parse_matrix_market(lines, text.size(), limit)
                              : parse_edges(lines, limit);
    Csr graph = csr_of(parsed.edges, parsed.undirected || undirected);
    graph.undirected = graph.undirected || has_twins(graph);
    return graph;
}

Csr read(const std::string& path, Format format, bool undirected)
{
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file) throw Error(Errc::bad_argument, path + ": cannot be read");
    return parse(text, path, format, undirected);
}

} // namespace denizen::graph
