// SPDX-License-Identifier: Apache-2.0
// denizen._core's process mining; python/denizen/procmine is its face.
#include "bind/bind.hpp"
#include "gpu.hpp"

#include <denizen/procmine/counts.hpp>
#include <denizen/procmine/generate.hpp>
#include <denizen/procmine/mine.hpp>
#include <denizen/procmine/packer.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <bit>
#include <memory>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using namespace procmine;

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> span_of(const Column<T>& column)
{
    return {column.data(), column.size()};
}

// An array that owns `values`.
template <class T>
nb::object give(std::vector<T>&& values)
{
    auto kept = std::make_unique<std::vector<T>>(std::move(values));
    auto* all = kept.release();
    const nb::capsule owner(all, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(all->data(), {all->size()}, owner));
}

// One field of every element.
template <class Struct, class T>
nb::object field(const std::vector<Struct>& of, T Struct::* which)
{
    std::vector<T> values(of.size());
    for (size_t i = 0; i < of.size(); ++i) values[i] = of[i].*which;
    return give(std::move(values));
}

nb::dict to_dict(Mined&& mined)
{
    nb::dict out;
    out["edge_from"] = field(mined.edges, &Edge::from);
    out["edge_to"] = field(mined.edges, &Edge::to);
    out["edge_count"] = field(mined.edges, &Edge::count);
    out["edge_least"] = field(mined.edges, &Edge::least);
    out["edge_most"] = field(mined.edges, &Edge::most);
    out["edge_mean"] = field(mined.edges, &Edge::mean);
    out["edge_median"] = field(mined.edges, &Edge::median);
    out["edge_p95"] = field(mined.edges, &Edge::p95);
    out["activity_counts"] = give(std::move(mined.activity_counts));
    out["starts"] = give(std::move(mined.starts));
    out["ends"] = give(std::move(mined.ends));
    out["variant_count"] = field(mined.variants, &Variant::count);
    out["variant_hash"] = field(mined.variants, &Variant::hash);
    out["variant_offset"] = field(mined.variants, &Variant::offset);
    out["variant_length"] = field(mined.variants, &Variant::length);
    out["variant_example"] = field(mined.variants, &Variant::example);
    out["paths"] = give(std::move(mined.paths));
    out["case_variants"] = give(std::move(mined.case_variants));
    out["case_events"] = give(std::move(mined.case_events));
    out["case_begins"] = give(std::move(mined.case_begins));
    out["case_ends"] = give(std::move(mined.case_ends));
    out["seconds"] = mined.seconds;
    return out;
}

// Where the counters of a stream's graph lie, with room for so many edges in each shard.
nb::dict layout_of(uint64_t activities, uint64_t edges, uint64_t shards)
{
    // A table of all pairs if that is no larger than one that is half full.
    const uint64_t table = std::bit_ceil(2 * edges);
    const uint64_t pairs = activities * activities;
    const CountsLayout layout{activities, pairs <= table ? pairs : table, shards};
    nb::dict out;
    out["head"] = CountsLayout::head;
    out["slots"] = layout.slots;
    out["shards"] = layout.shards;
    out["keys"] = layout.keys();
    out["figures"] = layout.figures();
    out["histograms"] = layout.histograms();
    out["shard_words"] = layout.shard_words();
    out["words"] = layout.words();
    return out;
}

void streams(nb::module_& m)
{
    m.def("procmine_counts", &layout_of);
    nb::class_<Packer>(m, "ProcminePacker")
        .def("__init__",
             [](Packer* self, const Column<uint32_t>& addresses, uint32_t activities, int64_t late,
                uint32_t threads) {
                 const auto all = span_of(addresses);
                 new (self) Packer({all.begin(), all.end()}, activities, late, threads);
             })
        .def("feed", [](Packer& packer, AnyRuntime& rt, uint32_t type,
                        const Column<uint32_t>& cases, const Column<uint32_t>& activities,
                        const Column<int64_t>& times, double timeout) {
            const Unlocked unlocked;
            packer.pack(span_of(cases), span_of(activities), span_of(times),
                        [&](const Packer::Batch& batch) {
                            rt.send_many(reinterpret_cast<const Address*>(batch.targets.data()),
                                         false, type, batch.messages.data(),
                                         sizeof(Packer::Message), sizeof(Packer::Message),
                                         batch.messages.size(), seconds(timeout));
                        });
        });
}

} // namespace

void process_mining(nb::module_& m)
{
    streams(m);
    m.def("procmine_mine",
          [](const Column<uint32_t>& cases, const Column<uint32_t>& activities,
             const Column<int64_t>& times, uint32_t case_count, uint32_t activity_count,
             uint32_t threads, bool quantiles, bool variants) {
              const Events events{span_of(cases), span_of(activities), span_of(times), case_count,
                                  activity_count};
              Mined mined;
              {
                  const Unlocked unlocked;
                  mined = mine(events, {threads, quantiles, variants});
              }
              return to_dict(std::move(mined));
          });
    m.attr("procmine_has_gpu") = gpu_compiled;
    m.def("procmine_mine_gpu",
          [](const Column<uint32_t>& cases, const Column<uint32_t>& activities,
             const Column<int64_t>& times, uint32_t case_count, uint32_t activity_count,
             int ordinal, bool quantiles, bool variants) {
              const Events events{span_of(cases), span_of(activities), span_of(times), case_count,
                                  activity_count};
              std::string name;
              Mined mined;
              {
                  const Unlocked unlocked;
                  GpuLog log(events, ordinal);
                  name = log.device();
                  mined = log.mine({0, quantiles, variants});
              }
              return nb::make_tuple(to_dict(std::move(mined)), name);
          });
    m.def("procmine_generate", [](uint64_t events, uint32_t activities, uint64_t seed) {
        Columns made;
        {
            const Unlocked unlocked;
            made = generate(events, activities, seed);
        }
        return nb::make_tuple(give(std::move(made.cases)), give(std::move(made.activities)),
                              give(std::move(made.times)), made.case_count);
    });
    m.def("procmine_path_hash", [](const Column<uint32_t>& path) {
        uint64_t hash = 0;
        for (size_t i = 0; i < path.size(); ++i) {
            hash += path_term(path.data()[i], static_cast<uint32_t>(i));
        }
        return hash;
    });
}

} // namespace denizen::bind
