// SPDX-License-Identifier: Apache-2.0
// denizen._core's groups; python/denizen/group is their face.
#include "bind.hpp"

#include <denizen/group/detail/from_handler.hpp>
#include <denizen/group/resident.hpp>
#include <denizen/group/tune.hpp>
#include <nanobind/stl/optional.h>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using namespace group;

template <class Enum>
Enum named(const char* what, const std::string& name, uint32_t count)
{
    std::string all;
    for (uint32_t i = 0; i < count; ++i) {
        const char* const known = to_string(static_cast<Enum>(i));
        if (name == known) return static_cast<Enum>(i);
        all += (i != 0 ? ", " : "") + std::string(known);
    }
    throw Error(Errc::bad_argument, std::string(what) + " \"" + name + "\" is none of " + all);
}

using Row = std::tuple<uint64_t, std::string, uint32_t, std::string>;

std::vector<Choice> choices_of(const std::vector<Row>& rows)
{
    std::vector<Choice> table;
    for (const auto& [up_to, algorithm, channels, kind] : rows) {
        table.push_back({up_to, named<Algorithm>("algorithm", algorithm, algorithms), channels,
                         named<Kind>("collective", kind, kinds)});
    }
    return table;
}

std::vector<Row> rows_of(const std::vector<Choice>& table)
{
    std::vector<Row> rows;
    for (const Choice& c : table) {
        rows.emplace_back(c.up_to, to_string(c.algorithm), c.channels, to_string(c.kind));
    }
    return rows;
}

GroupOptions options_of(double timeout, uint64_t heap_bytes, double least_gbs,
                        const std::vector<Row>& table)
{
    GroupOptions options;
    options.timeout = seconds(timeout);
    options.heap_bytes = heap_bytes;
    options.least_gbs = least_gbs;
    options.table = choices_of(table);
    return options;
}

Code code_of(nb::bytes cubin)
{
    Code code;
    code.cubin.assign(cubin.c_str(), cubin.c_str() + cubin.size());
    return code;
}

Call call_of(const std::string& kind, uintptr_t in, uintptr_t out, uint64_t count,
             const std::string& type, const std::string& op, const std::string& algorithm,
             uint32_t root)
{
    Call call;
    call.kind = named<Kind>("collective", kind, kinds);
    call.type = named<Type>("type", type, types);
    call.op = named<Op>("op", op, ops);
    call.algorithm = named<Algorithm>("algorithm", algorithm, algorithms);
    call.root = root;
    call.channels = 0;
    call.count = count;
    call.in = reinterpret_cast<const void*>(in);
    call.out = reinterpret_cast<void*>(out);
    return call;
}

const char* name_of(nb::dlpack::dtype type)
{
    using Code = nb::dlpack::dtype_code;
    struct Element {
        uint8_t code, bits;
        Type type;
    };
    constexpr auto code = [](Code c) { return static_cast<uint8_t>(c); };
    constexpr Element known[] = {
        {code(Code::Float), 32, Type::f32},
        {code(Code::Float), 16, Type::f16},
        {code(Code::Bfloat), 16, Type::bf16},
        {code(Code::Int), 32, Type::i32},
        {code(Code::Float), 64, Type::f64},
        {code(Code::Int), 64, Type::i64},
        {code(Code::UInt), 8, Type::u8},
        {code(Code::Float8_E4M3FN), 8, Type::f8e4m3},
        {code(Code::Float8_E5M2), 8, Type::f8e5m2},
    };
    for (const Element& n : known) {
        if (type.lanes == 1 && type.code == n.code && type.bits == n.bits) return to_string(n.type);
    }
    return "";
}

// (address, elements, type, on a GPU, its number); type is "" for any that a group does not know.
template <class Array>
nb::tuple view_of(const Array& array)
{
    return nb::make_tuple(reinterpret_cast<uintptr_t>(array.data()), array.size(),
                          name_of(array.dtype()), array.device_type() != nb::device::cpu::value,
                          array.device_id());
}

// On CPU threads a handler or a task of any grain is one thread.
template <class T>
uint32_t called(void*, const void* buffer, uint64_t bytes, uint32_t kind, uint32_t op,
                uint32_t root, const void* in, uint64_t ins, void* out, uint64_t outs)
{
    return call_from_handler<Grain::thread, T>(buffer, bytes, Kind{kind}, Op{op}, root,
                                               {static_cast<const T*>(in), ins},
                                               {static_cast<T*>(out), outs})
               ? 1
               : 0;
}

uint32_t met(void*, const void* buffer, uint64_t bytes)
{
    return meet_from_handler<Grain::thread>(buffer, bytes) ? 1 : 0;
}

} // namespace

// Of the context of handlers and tasks that run without a compiler;
// python/denizen/handlers/collectives.py names them.
std::vector<std::pair<const char*, void*>> collective_calls()
{
    const auto entry = [](auto* function) { return reinterpret_cast<void*>(function); };
    return {{"collective_f4", entry(&called<float>)},   {"collective_f8", entry(&called<double>)},
            {"collective_i4", entry(&called<int32_t>)}, {"collective_i8", entry(&called<int64_t>)},
            {"collective_u1", entry(&called<uint8_t>)}, {"barrier", entry(&met)}};
}

void groups(nb::module_& m)
{
    nb::class_<Group>(m, "Group")
        .def_prop_ro("rank", &Group::rank)
        .def_prop_ro("ranks", &Group::ranks)
        .def_prop_ro("on_gpu", &Group::on_gpu)
        .def_prop_ro("device", &Group::device)
        .def_prop_ro("engine", &Group::engine)
        .def_prop_ro("table", [](const Group& g) { return rows_of(g.table()); })
        // Of its GroupRef: what kernels and handlers know of the rank.
        .def_prop_ro("address",
                     [](const Group& g) { return reinterpret_cast<uintptr_t>(g.address()); })
        .def_prop_ro_static("reference_bytes", [](nb::handle) { return sizeof(GroupRef); })
        // (peer, its device, GB/s)
        .def_prop_ro("links",
                     [](const Group& g) {
                         std::vector<std::tuple<uint32_t, std::string, double>> all;
                         for (const GroupLink& l : g.links()) {
                             all.emplace_back(l.peer, l.device, l.gbs);
                         }
                         return all;
                     })
        .def(
            "allocate",
            [](Group& g, uint64_t bytes) { return reinterpret_cast<uintptr_t>(g.allocate(bytes)); })
        .def("run",
             [](Group& g, const std::string& kind, uintptr_t in, uintptr_t out, uint64_t count,
                const std::string& type, const std::string& op, const std::string& algorithm,
                uint32_t root, uintptr_t stream) {
                 const Call call = call_of(kind, in, out, count, type, op, algorithm, root);
                 const Unlocked unlocked;
                 g.run(call, reinterpret_cast<void*>(stream));
             })
        .def("lacks",
             [](const Group& g, const std::string& kind, const std::string& type, bool resident) {
                 Call call;
                 call.kind = named<Kind>("collective", kind, kinds);
                 call.type = named<Type>("type", type, types);
                 return g.lacks(call, resident);
             })
        .def("add_code",
             [](Group& g, nb::bytes cubin, bool resident) {
                 const Code code = code_of(cubin);
                 const Unlocked unlocked;
                 g.add_code(code, resident);
             })
        .def("all_reduce_norm",
             [](Group& g, const std::string& type, uint64_t rows, uint32_t width, float eps,
                uintptr_t in, uintptr_t residual, uintptr_t weight, uintptr_t sum, uintptr_t out,
                uintptr_t stream) {
                 NormCall call;
                 call.type = named<Type>("type", type, types);
                 call.rows = rows;
                 call.width = width;
                 call.eps = eps;
                 call.in = reinterpret_cast<const void*>(in);
                 call.residual = reinterpret_cast<const void*>(residual);
                 call.weight = reinterpret_cast<const void*>(weight);
                 call.sum = reinterpret_cast<void*>(sum);
                 call.out = reinterpret_cast<void*>(out);
                 const Unlocked unlocked;
                 g.all_reduce_norm(call, reinterpret_cast<void*>(stream));
             })
        .def("lacks_norm", &Group::lacks_norm)
        .def("add_norm",
             [](Group& g, nb::bytes cubin) {
                 const Code code = code_of(cubin);
                 const Unlocked unlocked;
                 g.add_norm(code);
             })
        .def("wait",
             [](Group& g, uintptr_t stream) {
                 const Unlocked unlocked;
                 g.wait(reinterpret_cast<void*>(stream));
             })
        .def("check", [](const Group& g) {
            const Unlocked unlocked;
            g.check();
        });

    nb::class_<ResidentGroup>(m, "ResidentGroup")
        .def(
            "__init__",
            [](ResidentGroup* self, Group& g, uint32_t channels, double lease,
               std::optional<uint32_t> breath_us) {
                std::optional<std::chrono::microseconds> breath;
                if (breath_us) breath = std::chrono::microseconds(*breath_us);
                const Unlocked unlocked;
                new (self) ResidentGroup(g, channels, seconds(lease), breath);
            },
            nb::arg("group"), nb::arg("channels"), nb::arg("lease"), nb::arg("breath_us").none(),
            nb::keep_alive<1, 2>())
        .def_prop_ro("launches", &ResidentGroup::launches)
        .def_prop_ro("incarnations", &ResidentGroup::incarnations)
        .def("post",
             [](ResidentGroup& g, const std::string& kind, uintptr_t in, uintptr_t out,
                uint64_t count, const std::string& type, const std::string& op,
                const std::string& algorithm, uint32_t root) {
                 const Call call = call_of(kind, in, out, count, type, op, algorithm, root);
                 const Unlocked unlocked;
                 return g.post(call);
             })
        .def("wait", [](ResidentGroup& g, uint32_t number) {
            const Unlocked unlocked;
            g.wait(number);
        });

    m.def("group_local", [](uint32_t ranks, bool on_gpu, int ordinal, nb::bytes cubin,
                            double timeout, uint64_t heap_bytes, double least_gbs,
                            const std::vector<Row>& table) {
        const GroupOptions options = options_of(timeout, heap_bytes, least_gbs, table);
        const Code code = code_of(cubin);
        std::vector<Group> all;
        {
            const Unlocked unlocked;
            all = Group::local(ranks, on_gpu ? Device::gpu(ordinal) : Device::cpu(), options, code);
        }
        nb::list list;
        for (Group& g : all) list.append(nb::cast(std::move(g)));
        return list;
    });
    m.def("group_join",
          [](const std::string& address, uint32_t rank, uint32_t ranks, bool on_gpu, int ordinal,
             nb::bytes cubin, double timeout, uint64_t heap_bytes, double least_gbs,
             const std::vector<Row>& table, const std::string& engine, const std::string& token) {
              GroupOptions options = options_of(timeout, heap_bytes, least_gbs, table);
              options.engine = named<group::Engine>("engine", engine, 3);
              options.token = token;
              const Code code = code_of(cubin);
              const Unlocked unlocked;
              return Group::join(address, rank, ranks,
                                 on_gpu ? Device::gpu(ordinal) : Device::cpu(), options, code);
          });
    m.def(
        "group_input",
        [](const nb::ndarray<nb::ro, nb::c_contig>& array) { return view_of(array); },
        nb::arg().noconvert());
    m.def(
        "group_output", [](const nb::ndarray<nb::c_contig>& array) { return view_of(array); },
        nb::arg().noconvert());
    // ((bytes, algorithm, channels, seconds, collective) of all that was measured, the tables)
    m.def("group_tune",
          [](uint32_t ranks, bool on_gpu, int ordinal, nb::bytes cubin, uint64_t most, bool quick) {
              GroupOptions options;
              options.heap_bytes = 2 * (most + 256);
              const Code code = code_of(cubin);
              std::vector<std::tuple<uint64_t, std::string, uint32_t, double, std::string>> all;
              std::vector<Row> table;
              const Unlocked unlocked;
              auto ranks_of =
                  Group::local(ranks, on_gpu ? Device::gpu(ordinal) : Device::cpu(), options, code);
              const std::vector<Timing> timings = measure(ranks_of, most, quick);
              for (const Timing& t : timings) {
                  all.emplace_back(t.bytes, to_string(t.algorithm), t.channels, t.seconds,
                                   to_string(t.kind));
              }
              return std::make_tuple(all, rows_of(table_of(timings, on_gpu ? team_threads : 0)));
          });
}

} // namespace denizen::bind
