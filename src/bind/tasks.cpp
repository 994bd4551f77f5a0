// SPDX-License-Identifier: Apache-2.0
// denizen._core.TaskRuntime: tasks by number and bytes; python/denizen/tasks is its face.
#include "bind.hpp"
#include "library.hpp"
#include "task/functions.hpp"
#include "task/program_table.hpp"
#include <denizen/device/driver.hpp>

#include <denizen/task/task_runtime.hpp>

#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using task::Image; // which the actors have too, as the next four
using task::Options;
using task::Shared;
using task::Stats;
using task::Table;
using task::TaskRuntime;

// A compiled library stays loaded: a worker that does not return may be in its code.
Image load_tasks(const nb::bytes& library, std::vector<std::string> names)
{
    void* handle = load_code(library, "the compiled tasks");
    const auto* table = static_cast<const Table*>(dlsym(handle, "denizen_tasks_table"));
    void* run = dlsym(handle, "denizen_tasks_run");
    if (table == nullptr || run == nullptr) {
        throw Error(Errc::compile, "the compiled library holds no program of tasks");
    }
    Image image;
    image.table = *table;
    image.names = std::move(names);
    image.run_thread = reinterpret_cast<void (*)(const Shared&, uint32_t)>(run);
    return image;
}

// Name, size, priority, offset and bytes of a member `sum`, address of the function.
using GivenTask = std::tuple<std::string, uint32_t, uint32_t, uint32_t, uint32_t, uint64_t>;

// Tasks that are compiled at run time, by Python: denizen.handlers.
Image tasks_image(const std::vector<GivenTask>& given)
{
    std::vector<task::Function> tasks;
    for (const auto& [name, size, priority, sum_offset, sum_bytes, run] : given) {
        tasks.push_back({name, size, static_cast<task::Priority>(priority), sum_offset, sum_bytes,
                         reinterpret_cast<task::Functions::Run>(run)});
    }
    return task::functions_image(tasks);
}

// The module stays loaded as long as the context.
Image load_tasks_cubin(const nb::bytes& bytes, std::vector<std::string> names)
{
    const std::vector<char> cubin(bytes.c_str(), bytes.c_str() + bytes.size());
    Image image;
    image.table = task::table_of(cubin);
    image.names = std::move(names);
    image.kernel = [cubin]() -> void* {
        gpu::Module module = nullptr;
        gpu::check(gpu::driver().module_load_data(&module, cubin.data()), "cuModuleLoadData",
                   "the tasks' cubin");
        gpu::Function function = nullptr;
        gpu::check(gpu::driver().module_get_function(&function, module, "denizen_tasks"),
                   "cuModuleGetFunction", "denizen_tasks");
        return function;
    };
    return image;
}

Options options_of(bool on_gpu, int ordinal, const std::map<std::string, uint64_t>& given)
{
    Options options;
    options.device = on_gpu ? Device::gpu(ordinal) : Device::cpu();
    const std::pair<const char*, uint32_t*> all[] = {
        {"workers", &options.workers},         {"sms", &options.sms},
        {"queue_slots", &options.queue_slots}, {"counters", &options.counters},
        {"futures", &options.futures},         {"port_slots", &options.port_slots}};
    for (const auto& [name, value] : given) {
        if (name == "arena_bytes") options.arena_bytes = value;
        if (name == "breath_us") options.breath = std::chrono::microseconds(value);
        for (const auto& [known, place] : all) {
            if (name == known) *place = static_cast<uint32_t>(value);
        }
    }
    return options;
}

// `count` tasks of one type, one behind the other.
void spawn(TaskRuntime& rt, const Image& image, uint32_t type, uint32_t group, nb::bytes tasks,
           uint64_t count, double timeout)
{
    const uint32_t bytes = image.table.size[type];
    const uint32_t words = 1 + (bytes + 3) / 4;
    if (tasks.size() < count * bytes) {
        throw Error(Errc::bad_argument, std::to_string(tasks.size()) + " bytes hold fewer than " +
                                            std::to_string(count) + " tasks");
    }
    std::vector<uint32_t> encoded(words * count, 0);
    for (uint64_t i = 0; i < count; ++i) {
        encoded[i * words] = task::header(type, group, image.table.class_of[type]);
        std::memcpy(encoded.data() + i * words + 1, tasks.c_str() + i * bytes, bytes);
    }
    const Unlocked unlocked;
    rt.spawn(encoded.data(), words, count, seconds(timeout));
}

nb::dict to_dict(const Stats& s)
{
    nb::dict out;
    out["run"] = s.run;
    out["batches"] = s.batches;
    out["steals"] = s.steals;
    out["stolen"] = s.stolen;
    out["spilled"] = s.spilled;
    out["joins"] = s.joins;
    out["refused"] = s.refused;
    out["launches"] = s.launches;
    out["incarnations"] = s.incarnations;
    out["run_by_worker"] = s.run_by_worker;
    return out;
}

struct Runtime {
    Runtime(Image&& code, const Options& options) : image(code), rt(std::move(code), options) {}
    Image image;
    TaskRuntime rt;
};

} // namespace

void tasks(nb::module_& m)
{
    nb::class_<Image>(m, "TaskImage");
    m.def("tasks_image", &tasks_image);
    m.def("task_calls", [] {
        nb::dict out;
        for (const auto& [name, function] : task::task_calls()) {
            out[name] = reinterpret_cast<uint64_t>(function);
        }
        for (const auto& [name, function] : collective_calls()) {
            out[name] = reinterpret_cast<uint64_t>(function);
        }
        return out;
    });
    m.def("load_tasks", &load_tasks);
    m.def("load_tasks_cubin", &load_tasks_cubin);
    nb::class_<Runtime>(m, "TaskRuntime")
        .def("__init__",
             [](Runtime* self, const Image& image, bool on_gpu, int ordinal,
                const std::map<std::string, uint64_t>& options) {
                 const Unlocked unlocked;
                 new (self) Runtime(Image(image), options_of(on_gpu, ordinal, options));
             })
        .def_prop_ro("workers", [](const Runtime& r) { return r.rt.workers(); })
        .def_prop_ro("on_gpu", [](const Runtime& r) { return r.rt.on_gpu(); })
        .def_prop_ro("device", [](const Runtime& r) { return r.rt.device(); })
        .def("spawn",
             [](Runtime& r, uint32_t type, uint32_t group, nb::bytes tasks, uint64_t count,
                double timeout) { spawn(r.rt, r.image, type, group, tasks, count, timeout); })
        .def("open_group",
             [](Runtime& r, double lifetime) {
                 const Unlocked unlocked;
                 return r.rt.open_group(seconds(lifetime));
             })
        .def("cancel",
             [](Runtime& r, uint32_t group) {
                 const Unlocked unlocked;
                 r.rt.cancel(group);
             })
        // (Cancelled, tasks that were dropped)
        .def("wait",
             [](Runtime& r, uint32_t group, double timeout) {
                 task::Ended ended;
                 {
                     const Unlocked unlocked;
                     ended = r.rt.wait(group, seconds(timeout));
                 }
                 return nb::make_tuple(static_cast<uint32_t>(ended.cancelled), ended.dropped);
             })
        .def("close_group", [](Runtime& r, uint32_t group) { r.rt.close_group(group); })
        .def("open_answer",
             [](Runtime& r) {
                 const auto [answer, sequence] = r.rt.open_answer();
                 return nb::make_tuple(answer, sequence);
             })
        .def("answered", [](Runtime& r, uint32_t answer, uint32_t sequence,
                            uint32_t bytes) { return r.rt.answered(answer, sequence, bytes); })
        .def("read_answer",
             [](Runtime& r, uint32_t answer, uint32_t sequence, uint32_t bytes, double timeout) {
                 unsigned char value[task::answer_payload];
                 if (bytes > sizeof value) {
                     throw Error(Errc::bad_argument, "a result has at most 48 bytes");
                 }
                 {
                     const Unlocked unlocked;
                     r.rt.read_answer(answer, sequence, value, bytes, seconds(timeout));
                 }
                 return nb::bytes(value, bytes);
             })
        .def("close_answer", [](Runtime& r, uint32_t answer,
                                uint32_t sequence) { r.rt.close_answer(answer, sequence); })
        .def("stats",
             [](Runtime& r) {
                 Stats stats;
                 {
                     const Unlocked unlocked;
                     stats = r.rt.stats();
                 }
                 return to_dict(stats);
             })
        .def("close", [](Runtime& r, double timeout) {
            const Unlocked unlocked;
            r.rt.close(seconds(timeout));
        });
}

} // namespace denizen::bind
