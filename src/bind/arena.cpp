// SPDX-License-Identifier: Apache-2.0
// denizen._core.Arena: the owner of an arena; what kernels see of it is its `ref`.
#include "bind.hpp"

#include <denizen/memory/arena.hpp>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace denizen;

namespace denizen::bind {
namespace {

// In the order of denizen.ArenaStats.
nb::tuple to_tuple(const ArenaStats& s)
{
    return nb::make_tuple(s.bytes, s.free_bytes, s.live_bytes, s.live_blocks, s.failed, s.refused,
                          s.moved);
}

} // namespace

void arenas(nb::module_& m)
{
    nb::class_<Arena>(m, "Arena")
        .def("__init__",
             [](Arena* self, bool on_gpu, int ordinal, uint64_t bytes, bool guarded) {
                 const Unlocked unlocked;
                 new (self) Arena(on_gpu ? Device::gpu(ordinal) : Device::cpu(), bytes, guarded);
             })
        .def_prop_ro("ref",
                     [](const Arena& a) { return reinterpret_cast<uintptr_t>(a.ref().map()); })
        .def("stats",
             [](const Arena& a) {
                 ArenaStats s;
                 {
                     const Unlocked unlocked;
                     s = a.stats();
                 }
                 return to_tuple(s);
             })
        .def("reset",
             [](Arena& a) {
                 const Unlocked unlocked;
                 a.reset();
             })
        // (kind, tag, address)
        .def("faults",
             [](const Arena& a) {
                 std::vector<std::tuple<uint32_t, uint32_t, uint64_t>> all;
                 for (const arena::Fault& f : a.faults()) {
                     all.emplace_back(static_cast<uint32_t>(f.kind), f.tag, f.address);
                 }
                 return all;
             })
        // (tag, blocks, bytes)
        .def("leaks",
             [](const Arena& a) {
                 std::vector<std::tuple<uint32_t, uint64_t, uint64_t>> all;
                 for (const ArenaLeak& leak : a.leaks()) {
                     all.emplace_back(leak.tag, leak.blocks, leak.bytes);
                 }
                 return all;
             })
        // A block for the host, where the arena is on the CPU: an address, 0 if there is no room.
        .def("allocate",
             [](const Arena& a, uint64_t bytes, uint32_t tag) {
                 return reinterpret_cast<uintptr_t>(a.ref().allocate(bytes, tag));
             })
        .def("deallocate",
             [](const Arena& a, uintptr_t p) { a.ref().deallocate(reinterpret_cast<void*>(p)); });
    m.def("arena_stats", [](const AnyRuntime& rt, uint32_t node) {
        ArenaStats s;
        {
            const Unlocked unlocked;
            s = rt.arena(node).stats();
        }
        return to_tuple(s);
    });
}

} // namespace denizen::bind
