// SPDX-License-Identifier: Apache-2.0
// denizen._core: the untyped runtime for Python. Types, names and dtypes are the package's business
// (python/denizen/); this file only crosses the boundary, without the GIL wherever it may wait.
#include "../../apps/radio/src/bind.hpp"
#include "actor/program_table.hpp"
#include "bind.hpp"
#include "buffer.hpp"
#include "device/cuda_library.hpp"
#include "device/nvjitlink.hpp"
#include "device/nvrtc.hpp"
#include "library.hpp"
#include <denizen/device/driver.hpp>

#include <denizen/actor/telemetry.hpp>

#include <chrono>
#include <cstring>
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <thread>

namespace nb = nanobind;
using namespace denizen;

namespace {

using Addresses = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using bind::Bytes;
using bind::seconds;
using bind::Unlocked;

// One address for all messages, or one for each.
const Address* addresses(const Addresses& to, size_t count, bool& to_one)
{
    to_one = to.size() == 1;
    if (!to_one && to.size() != count) {
        throw Error(Errc::bad_argument, std::to_string(to.size()) + " addresses for " +
                                            std::to_string(count) +
                                            " messages; give one or as many");
    }
    static_assert(sizeof(Address) == sizeof(uint32_t));
    return reinterpret_cast<const Address*>(to.data());
}

nb::bytes payload_bytes(const unsigned char* data, uint32_t length)
{
    return nb::bytes(data, length);
}

Image load_library(const nb::bytes& library, std::vector<std::string> actors,
                   std::vector<std::string> messages)
{
    void* handle = bind::load_code(library, "the compiled program");
    Image image;
    const auto* table = static_cast<const ProgramTable*>(dlsym(handle, "denizen_table"));
    void* run = dlsym(handle, "denizen_run_worker");
    if (table == nullptr || run == nullptr) {
        throw Error(Errc::compile, "the compiled library holds no denizen program");
    }
    image.table = *table;
    image.run_worker = reinterpret_cast<void (*)(const Shared&, uint32_t)>(run);
    image.actors = std::move(actors);
    image.messages = std::move(messages);
    return image;
}

Image load_cubin(const nb::bytes& cubin, std::vector<std::string> actors,
                 std::vector<std::string> messages)
{
    Image image;
    image.cubin.assign(cubin.c_str(), cubin.c_str() + cubin.size());
    image.table = table_of(image.cubin);
    image.actors = std::move(actors);
    image.messages = std::move(messages);
    return image;
}

nb::dict describe(const Description& d)
{
    nb::dict out;
    out["device"] = d.device;
    out["on_gpu"] = d.on_gpu;
    out["nodes"] = d.nodes;
    out["workers"] = d.workers;
    out["cluster"] = d.cluster;
    out["per_sm"] = d.per_sm;
    out["geometry"] = d.geometry;
    out["shared_bytes"] = d.shared_bytes;
    out["host_ring_memory"] = d.host_ring_memory;
    out["why_not_mapped"] = d.why_not_mapped;
    out["device_bytes"] = d.device_bytes;
    out["host_bytes"] = d.host_bytes;
    out["start_ms"] = d.start_ms;
    return out;
}

// As python/denizen/telemetry.py has it, in seconds.
nb::dict to_dict(const Durations& d)
{
    nb::dict out;
    out["count"] = d.count;
    out["sum"] = static_cast<double>(d.sum_ns) * 1e-9;
    out["p50"] = d.quantile(0.5) * 1e-9;
    out["p90"] = d.quantile(0.9) * 1e-9;
    out["p99"] = d.quantile(0.99) * 1e-9;
    out["p999"] = d.quantile(0.999) * 1e-9;
    out["max"] = d.quantile(1) * 1e-9;
    out["buckets"] = d.buckets;
    return out;
}

nb::dict to_dict(const WorkerTelemetry& w, const Image& image)
{
    nb::dict out;
    out["node"] = w.place.node();
    out["number"] = w.place.worker();
    out["mode"] = to_string(w.mode);
    out["actors"] = w.actors;
    out["handled"] = w.handled;
    out["batches"] = w.batches;
    out["idle_rounds"] = w.idle_rounds;
    out["dead_letters"] = w.dead_letters;
    out["host_ring"] = w.host_ring;
    out["inbox"] = w.inbox;
    out["near"] = w.near;
    out["outbox"] = w.outbox;
    out["sent"] = std::vector<uint64_t>(w.sent.begin(), w.sent.end());
    out["busy"] = static_cast<double>(w.busy_ns) * 1e-9;
    out["busy_actor"] = w.busy_actor.value;
    out["busy_message"] =
        w.busy_message < image.messages.size() ? image.messages[w.busy_message] : std::string();
    return out;
}

nb::dict telemetry(AnyRuntime& rt)
{
    Telemetry t;
    {
        const Unlocked unlocked;
        t = rt.telemetry();
    }
    nb::dict out;
    out["time"] = static_cast<double>(t.host_ns) * 1e-9;
    out["device_time"] = static_cast<double>(t.device_ns) * 1e-9;
    out["observed"] = t.observed;
    out["mode"] = to_string(t.mode);
    out["handled"] = t.handled;
    out["dead_letters"] = t.dead_letters;
    out["errors"] = t.errors;
    out["launches"] = t.launches;
    out["spawned"] = t.spawned;
    out["not_spawned"] = t.not_spawned;
    out["timers"] = t.timers;
    out["timers_fired"] = t.timers_fired;
    out["timers_refused"] = t.timers_refused;
    out["sent"] = std::vector<uint64_t>(t.sent.begin(), t.sent.end());
    nb::list workers;
    for (const WorkerTelemetry& w : t.workers) {
        workers.append(to_dict(w, rt.image()));
    }
    out["workers"] = workers;
    nb::list types;
    for (const ActorTypeTelemetry& a : t.actor_types) {
        nb::dict type;
        type["name"] = a.name;
        type["live"] = a.live;
        type["handled"] = a.handled;
        type["durations"] = to_dict(a.durations);
        type["latencies"] = to_dict(a.latencies);
        types.append(type);
    }
    out["actor_types"] = types;
    nb::list slowest;
    for (const SlowHandlerTelemetry& s : t.slowest) {
        nb::dict one;
        one["actor"] = s.actor.value;
        one["type"] = s.type;
        one["message"] = s.message;
        one["seconds"] = static_cast<double>(s.ns) * 1e-9;
        slowest.append(one);
    }
    out["slowest"] = slowest;
    return out;
}

// [(address, type, name, node, worker, life)]
nb::list actors(AnyRuntime& rt)
{
    std::vector<ActorListing> all;
    {
        const Unlocked unlocked;
        all = rt.actors();
    }
    nb::list out;
    for (const ActorListing& a : all) {
        out.append(
            nb::make_tuple(a.address.value, a.type, a.name, a.node, a.worker, to_string(a.life)));
    }
    return out;
}

nb::dict stats(AnyRuntime& rt)
{
    Stats s;
    {
        const Unlocked unlocked;
        s = rt.stats();
    }
    nb::dict out;
    out["handled"] = s.handled;
    out["dead_letters"] = s.dead_letters;
    nb::dict by_reason;
    for (uint32_t r = 0; r < reasons; ++r) {
        by_reason[to_string(static_cast<Reason>(r))] = s.dead_letters_by_reason[r];
    }
    out["dead_letters_by_reason"] = by_reason;
    out["stashed"] = s.stashed;
    out["errors"] = s.errors;
    out["first_error"] = s.first_error;
    out["mode"] = to_string(s.mode);
    out["launches"] = s.launches;
    out["incarnations"] = s.incarnations;
    nb::dict handover;
    const auto mean = [](uint64_t sum, uint64_t count) {
        return count == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(count);
    };
    const Handovers& h = s.handovers;
    handover["count"] = h.count;
    handover["min"] = h.min_ns;
    handover["mean"] = mean(h.sum_ns, h.count);
    handover["max"] = h.max_ns;
    handover["attempts"] = h.attempts;
    handover["mean_asking"] = mean(h.asking_ns, h.attempts);
    handover["mean_leaving"] = mean(h.leaving_ns, h.count);
    out["handover_ns"] = handover;
    out["handled_by_worker"] = s.handled_by_worker;
    static constexpr const char* names[routes] = {"worker", "sm", "cluster", "gpu", "peer", "host"};
    nb::dict by_route;
    for (uint32_t r = 0; r < routes; ++r) {
        by_route[names[r]] = s.sent_by_route[r];
    }
    out["sent_by_route"] = by_route;
    return out;
}

// The addresses that `spawn()` returns, as an array that owns them.
template <class Spawn>
nb::ndarray<nb::numpy, uint32_t, nb::ndim<1>> addresses_from(Spawn&& spawn)
{
    std::vector<Address>* out = nullptr;
    {
        const Unlocked unlocked;
        out = new std::vector<Address>(spawn());
    }
    nb::capsule owner(out, [](void* p) noexcept { delete static_cast<std::vector<Address>*>(p); });
    return nb::ndarray<nb::numpy, uint32_t, nb::ndim<1>>(out->data(), {out->size()}, owner);
}

Options options_from(const nb::dict& given)
{
    Options o;
    for (const auto& [key, value] : given) {
        const auto name = nb::cast<std::string>(key);
        if (name == "restore") {
            o.restore = nb::cast<std::string>(value);
            continue;
        }
        const auto number = nb::cast<uint64_t>(value);
        const auto n = static_cast<uint32_t>(number);
        if (name == "workers") {
            o.workers = n;
        } else if (name == "nodes") {
            o.nodes = n;
        } else if (name == "cluster") {
            o.cluster = n;
        } else if (name == "local_slots") {
            o.local_slots = n;
        } else if (name == "near_slots") {
            o.near_slots = n;
        } else if (name == "urgent_slots") {
            o.urgent_slots = n;
        } else if (name == "sms") {
            o.sms = n;
        } else if (name == "host_ring_slots") {
            o.host_ring_slots = n;
        } else if (name == "inbox_slots") {
            o.inbox_slots = n;
        } else if (name == "outbox_slots") {
            o.outbox_slots = n;
        } else if (name == "egress_slots") {
            o.egress_slots = n;
        } else if (name == "stash_slots") {
            o.stash_slots = n;
        } else if (name == "spawn_room") {
            o.spawn_room = n;
        } else if (name == "timer_slots") {
            o.timer_slots = n;
        } else if (name == "subscriptions") {
            o.subscriptions = n;
        } else if (name == "watch_slots") {
            o.watch_slots = n;
        } else if (name == "dead_letter_slots") {
            o.dead_letter_slots = n;
        } else if (name == "trace_slots") {
            o.trace_slots = n;
        } else if (name == "asks") {
            o.asks = n;
        } else if (name == "max_actors") {
            o.max_actors = n;
        } else if (name == "state_bytes") {
            o.state_bytes = number;
        } else if (name == "arena_bytes") {
            o.arena_bytes = number;
        } else if (name == "buffers") {
            o.buffers = n;
        } else if (name == "pool_bytes") {
            o.pool_bytes = number;
        } else if (name == "idle_ms") {
            o.idle = std::chrono::milliseconds(number);
        } else if (name == "breath_us") {
            o.breath = std::chrono::microseconds(number);
        } else if (name == "mapped") {
            o.mapped = number != 0;
        } else if (name == "prefer_l1") {
            o.prefer_l1 = number != 0;
        } else {
            throw Error(Errc::bad_argument, "no option is called \"" + name + "\"");
        }
    }
    return o;
}

} // namespace

NB_MODULE(_core, m)
{
#ifdef NDEBUG
    // A daemon thread that is in a call when the interpreter ends holds its runtime for good; that
    // is no news to the user of a finished package.
    nb::set_leak_warnings(false);
#endif
    // errors.py registers its classes by code; here only (code, text) crosses.
    m.attr("_error") = nb::none();
    nb::register_exception_translator(
        [](const std::exception_ptr& p, void* module) {
            try {
                std::rethrow_exception(p);
            } catch (const Error& e) {
                try {
                    nb::object make = nb::handle(static_cast<PyObject*>(module)).attr("_error");
                    // It may quote a file's bytes, which need not be UTF-8.
                    nb::object text = nb::steal(PyUnicode_DecodeUTF8(
                        e.what(), static_cast<Py_ssize_t>(std::strlen(e.what())),
                        "backslashreplace"));
                    nb::object error = make(static_cast<uint32_t>(e.code()), text);
                    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
                } catch (nb::python_error& other) { // as Ctrl-C, whose handler runs in Python code
                    other.restore();
                }
            }
        },
        m.ptr());

    m.attr("layout_abi") = layout_abi;
    m.attr("max_short") = first_payload;
    m.attr("near") = std::vector<std::string>{"worker", "sm", "cluster", "node"}; // by Near
    m.def("gpu_count", [] { return gpu::driver_present() ? gpu::device_count() : 0; });
    m.def("gpu_problem", [] { return gpu::driver_problem(); });
    m.def("gpu_info", [](int ordinal) {
        const gpu::DeviceInfo info = gpu::device_info(ordinal);
        return nb::make_tuple(info.name, info.major, info.minor, info.sm_count,
                              info.driver_cuda_version);
    });
    m.def("set_cuda_folders", &gpu::set_cuda_folders);
    m.def("nvrtc_version", &gpu::nvrtc_version);
    m.def("nvrtc_architectures", &gpu::nvrtc_architectures);
    m.def("compile_cubin", [](const std::string& source, const std::string& name,
                              const std::vector<std::string>& options) {
        gpu::Compiled out;
        {
            const Unlocked unlocked;
            out = gpu::compile_cubin(source, name, options);
        }
        return nb::make_tuple(nb::bytes(out.code.data(), out.code.size()), out.log);
    });
    m.def("compile_ltoir", [](const std::string& source, const std::string& name,
                              const std::vector<std::string>& options) {
        gpu::Compiled out;
        {
            const Unlocked unlocked;
            out = gpu::compile_ltoir(source, name, options);
        }
        return nb::bytes(out.code.data(), out.code.size());
    });
    m.def("nvjitlink_version", &gpu::nvjitlink_version);
    m.def("link_cubin", [](const std::vector<std::pair<std::string, nb::bytes>>& parts,
                           const std::vector<std::string>& options) {
        std::vector<gpu::LinkInput> inputs;
        for (const auto& [name, code] : parts) {
            inputs.push_back({name, {code.c_str(), code.size()}});
        }
        std::vector<char> cubin;
        {
            const Unlocked unlocked;
            cubin = gpu::link_cubin(inputs, options);
        }
        return nb::bytes(cubin.data(), cubin.size());
    });

    nb::class_<Image>(m, "Image")
        .def_prop_ro("state_sizes",
                     [](const Image& i) {
                         std::vector<uint32_t> sizes;
                         for (uint32_t a = 0; a < i.table.actors; ++a) {
                             sizes.push_back(i.table.actor[a].size);
                         }
                         return sizes;
                     })
        // By message type: the offsets of its references to buffers.
        .def_rw("buffers", &Image::buffers)
        .def("handles", [](const Image& i, uint32_t actor, uint32_t message) {
            return actor < i.table.actors && message < i.table.messages &&
                   i.table.can_handle(actor, message);
        });
    m.def("load_library", &load_library);
    m.def("load_cubin", &load_cubin);
    bind_buffers(m);
    bind_radio(m);
    bind::flows(m);
    bind::graphs(m);
    bind::groups(m);
    bind::waves(m);
    bind::process_mining(m);
    bind::arenas(m);
    bind::handlers(m);
    bind::signals(m);
    bind::transaction_stages(m);
    bind::tasks(m);

    nb::class_<AnyRuntime> runtime(m, "Runtime");
    runtime
        .def("__init__",
             [](AnyRuntime* self, const Image& image, bool on_gpu, int ordinal,
                const nb::dict& given) {
                 Options o = options_from(given);
                 o.device = on_gpu ? Device::gpu(ordinal) : Device::cpu();
                 const Unlocked unlocked;
                 new (self) AnyRuntime(image, o);
             })
        .def_prop_ro("description", [](const AnyRuntime& rt) { return describe(rt.description()); })
        .def("spawn",
             [](AnyRuntime& rt, uint32_t type, uint32_t count, double timeout) {
                 return addresses_from([&] { return rt.spawn(type, count, seconds(timeout)); });
             })
        .def("spawn_named",
             [](AnyRuntime& rt, uint32_t type, const std::string& name, double timeout) {
                 return addresses_from(
                     [&] { return std::vector{rt.spawn(type, name, seconds(timeout))}; });
             })
        .def("find",
             [](AnyRuntime& rt, const std::string& name, double timeout) {
                 const Unlocked unlocked;
                 return rt.find(name, seconds(timeout)).value;
             })
        .def("actors", &actors)
        .def("spawn_near",
             [](AnyRuntime& rt, uint32_t type, uint32_t count, uint32_t beside, uint32_t how,
                double timeout) {
                 return addresses_from([&] {
                     return rt.spawn(type, count, near({beside}, static_cast<Near>(how)),
                                     seconds(timeout));
                 });
             })
        .def("spawn_on_node",
             [](AnyRuntime& rt, uint32_t type, uint32_t count, uint32_t node, double timeout) {
                 return addresses_from(
                     [&] { return rt.spawn(type, count, on_node(node), seconds(timeout)); });
             })
        .def("stop",
             [](AnyRuntime& rt, uint32_t actor, double timeout) {
                 const Unlocked unlocked;
                 rt.stop({actor}, seconds(timeout));
             })
        .def("send",
             [](AnyRuntime& rt, uint32_t to, uint32_t type, nb::handle message, double timeout) {
                 const Bytes payload(message, false);
                 const Unlocked unlocked;
                 rt.send({to}, type, payload.data(), static_cast<uint32_t>(payload.size()),
                         seconds(timeout));
             })
        .def("send_many",
             [](AnyRuntime& rt, const Addresses& to, uint32_t type, nb::handle messages,
                uint32_t length, size_t count, double timeout) {
                 const Bytes payloads(messages, false);
                 if (payloads.size() != count * length) {
                     throw Error(Errc::bad_argument, std::to_string(payloads.size()) +
                                                         " bytes are not " + std::to_string(count) +
                                                         " messages of " + std::to_string(length));
                 }
                 bool to_one = false;
                 const Address* a = addresses(to, count, to_one);
                 const Unlocked unlocked;
                 rt.send_many(a, to_one, type, payloads.data(), length, length, count,
                              seconds(timeout));
             })
        .def("broadcast",
             [](AnyRuntime& rt, uint32_t actor_type, uint32_t type, nb::handle message,
                double timeout) {
                 const Bytes payload(message, false);
                 const Unlocked unlocked;
                 rt.broadcast(actor_type, type, payload.data(),
                              static_cast<uint32_t>(payload.size()), seconds(timeout));
             })
        // Returns (message type, payload).
        .def("ask",
             [](AnyRuntime& rt, uint32_t to, uint32_t type, nb::handle message, double timeout) {
                 const Bytes payload(message, false);
                 const uint32_t room = rt.image().table.max_message;
                 unsigned char small[256];
                 std::vector<unsigned char> large(room > sizeof small ? room : 0);
                 unsigned char* reply = large.empty() ? small : large.data();
                 Header h;
                 {
                     const Unlocked unlocked;
                     h = rt.ask({to}, type, payload.data(), static_cast<uint32_t>(payload.size()),
                                reply, room, seconds(timeout));
                 }
                 return nb::make_tuple(h.type, payload_bytes(reply, h.length));
             })
        .def("ask_many",
             [](AnyRuntime& rt, const Addresses& to, uint32_t type, nb::handle messages,
                uint32_t length, bool one_message, size_t count, uint32_t reply_type,
                nb::handle replies, uint32_t reply_length, double timeout) {
                 const Bytes payloads(messages, false);
                 const Bytes out(replies, true);
                 if (payloads.size() != (one_message ? 1 : count) * length ||
                     out.size() != count * reply_length) {
                     throw Error(Errc::bad_argument, "messages or replies of another length than " +
                                                         std::to_string(count));
                 }
                 bool to_one = false;
                 const Address* a = addresses(to, count, to_one);
                 const Unlocked unlocked;
                 rt.ask_many(a, to_one, type, payloads.data(), length, one_message ? 0 : length,
                             count, reply_type, out.data(), reply_length, reply_length,
                             seconds(timeout));
             })
        .def("ask_begin",
             [](AnyRuntime& rt, uint32_t to, uint32_t type, nb::handle message, double timeout) {
                 const Bytes payload(message, false);
                 const Unlocked unlocked;
                 return rt
                     .ask_begin({to}, type, payload.data(), static_cast<uint32_t>(payload.size()),
                                seconds(timeout))
                     .value;
             })
        // The tickets whose replies have arrived; waits until there is one, at most `timeout`.
        .def("ask_ready",
             [](const AnyRuntime& rt, const std::vector<uint32_t>& tickets, double timeout) {
                 std::vector<uint32_t> ready;
                 const Unlocked unlocked;
                 const auto until = std::chrono::steady_clock::now() + seconds(timeout);
                 for (uint32_t tries = 0;; ++tries) { // ends by a reply or the time-out
                     for (const uint32_t t : tickets) {
                         if (rt.ask_ready({t})) {
                             ready.push_back(t);
                         }
                     }
                     if (!ready.empty() || std::chrono::steady_clock::now() >= until) {
                         return ready;
                     }
                     check_interrupt();
                     if (tries > 2000) {
                         std::this_thread::sleep_for(std::chrono::microseconds(50));
                     }
                 }
             })
        .def("ask_end",
             [](AnyRuntime& rt, uint32_t ticket) {
                 std::vector<unsigned char> reply(rt.image().table.max_message);
                 Header h;
                 {
                     const Unlocked unlocked;
                     h = rt.ask_end({ticket}, reply.data(), static_cast<uint32_t>(reply.size()),
                                    seconds(1));
                 }
                 return nb::make_tuple(h.type, payload_bytes(reply.data(), h.length));
             })
        .def("ask_abandon", [](AnyRuntime& rt, uint32_t ticket) { rt.ask_abandon({ticket}); })
        // Returns (message type, payload, sender).
        .def("receive",
             [](AnyRuntime& rt, double timeout) {
                 Message message;
                 {
                     const Unlocked unlocked;
                     message = rt.receive(seconds(timeout));
                 }
                 return nb::make_tuple(message.header.type,
                                       payload_bytes(message.payload.data(), message.header.length),
                                       message.header.sender);
             })
        .def("receive_many",
             [](AnyRuntime& rt, uint32_t type, nb::handle messages, uint32_t length, size_t count,
                nb::handle senders) {
                 const Bytes out(messages, true);
                 const Bytes from(senders, true);
                 if (out.size() < count * length || from.size() < count * sizeof(Address)) {
                     throw Error(Errc::bad_argument, "the buffers hold fewer than " +
                                                         std::to_string(count) + " messages");
                 }
                 const Unlocked unlocked;
                 return rt.receive_many(type, out.data(), length, length, count,
                                        reinterpret_cast<Address*>(from.data()));
             })
        .def("drain",
             [](AnyRuntime& rt, double timeout) {
                 const Unlocked unlocked;
                 rt.drain(seconds(timeout));
             })
        .def("pause",
             [](AnyRuntime& rt, double timeout) {
                 const Unlocked unlocked;
                 rt.pause(seconds(timeout));
             })
        .def("resume", [](AnyRuntime& rt) { rt.resume(); })
        .def("park",
             [](AnyRuntime& rt, double timeout) {
                 const Unlocked unlocked;
                 rt.park(seconds(timeout));
             })
        .def("parked", &AnyRuntime::parked)
        .def("stats", &stats)
        .def("observe",
             [](AnyRuntime& rt, bool on) {
                 const Unlocked unlocked;
                 rt.observe(on);
             })
        .def("telemetry", &telemetry)
        .def("stuck",
             [](AnyRuntime& rt, double at_least) {
                 const Unlocked unlocked;
                 return rt.stuck(seconds(at_least));
             })
        .def("close", [](AnyRuntime& rt, double timeout) {
            const Unlocked unlocked;
            rt.close(seconds(timeout));
        });
    bind::life(runtime);
    bind::snapshots(runtime);
    bind::topics(runtime);
    bind::tracing(runtime);
}
