// SPDX-License-Identifier: Apache-2.0
// A stage's snapshot as a file of the runtime's format (docs/snapshots.md), kind 3: sections
// "rules", "stream" (the next record's sequence and the horizon), "customers" and "edges".
#include <denizen/actor/detail/snapshot_file.hpp>

#include <denizen/transactions/stage.hpp>

namespace denizen::transactions {
namespace {

// To be raised when Customer, Edge or Rules change.
constexpr uint32_t layout = 3;

template <class T>
SnapshotSection section(const char* name, const std::vector<T>& values)
{
    SnapshotSection s(name);
    s.put(values.data(), values.size() * sizeof(T));
    return s;
}

template <class T>
std::vector<T> values(SnapshotBytes bytes)
{
    if (bytes.left() % sizeof(T) != 0) {
        bytes.refuse("has " + std::to_string(bytes.left()) + " bytes, no multiple of " +
                     std::to_string(sizeof(T)));
    }
    std::vector<T> all(bytes.left() / sizeof(T));
    const auto from = bytes.take(bytes.left());
    if (!all.empty()) std::memcpy(static_cast<void*>(all.data()), from.data(), from.size());
    return all;
}

} // namespace

void write_snapshot(const std::string& path, const Snapshot& snapshot)
{
    SnapshotSection rules("rules");
    rules.put(snapshot.rules);
    SnapshotSection stream("stream");
    stream.put(snapshot.next);
    stream.put(snapshot.horizon);
    denizen::write_snapshot(path, SnapshotKind::transactions, layout,
                            {std::move(rules), std::move(stream),
                             section("customers", snapshot.customers),
                             section("edges", snapshot.edges)});
}

Snapshot read_snapshot(const std::string& path)
{
    const SnapshotFile file(path, SnapshotKind::transactions, layout);
    Snapshot s;
    s.rules = file.section("rules").take<Rules>();
    SnapshotBytes stream = file.section("stream");
    s.next = stream.take<uint64_t>();
    s.horizon = stream.take<uint32_t>();
    s.customers = values<Customer>(file.section("customers"));
    s.edges = values<Edge>(file.section("edges"));
    if (s.edges.size() > s.horizon || s.edges.size() > s.next) {
        file.refuse("makes no sense: " + std::to_string(s.edges.size()) +
                    " edges, with a horizon of " + std::to_string(s.horizon) + " before record " +
                    std::to_string(s.next));
    }
    return s;
}

} // namespace denizen::transactions
