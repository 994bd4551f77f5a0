// SPDX-License-Identifier: Apache-2.0
// denizen._core.Link: what carries the messages between two hosts of a cluster, and the addresses
// that mean the same on both. Who may connect is python/denizen/cluster's business.
#include "bind.hpp"

#include <denizen/cluster/link.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using Words = nb::ndarray<uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

LinkOptions options_of(double deadline, double spin)
{
    LinkOptions o;
    o.deadline = std::chrono::milliseconds(std::llround(deadline * 1e3));
    o.spin = std::chrono::microseconds(std::llround(spin * 1e6));
    return o;
}

nb::dict counts(const Link& link)
{
    const LinkCounts c = link.counts();
    nb::dict out;
    out["taken"] = c.taken;
    out["acknowledged"] = c.acknowledged;
    out["delivered"] = c.delivered;
    out["refused"] = c.refused;
    out["lost"] = c.lost;
    out["resumed"] = c.resumed;
    out["by_workers"] = c.by_workers;
    out["looks"] = c.looks;
    return out;
}

} // namespace

void clusters(nb::module_& m)
{
    m.attr("link_memory") = Link::memory_bytes;
    // In place: the form of an address that means the same on every host, or the one by which this
    // host's calls know its actors.
    m.def("to_far", [](AnyRuntime& rt, const Words& addresses) {
        const FarFormat f = rt.far().format();
        for (size_t i = 0; i < addresses.size(); ++i) {
            addresses.data()[i] = f.to_far({addresses.data()[i]}).value;
        }
    });
    m.def("to_short", [](AnyRuntime& rt, uint32_t address) {
        return rt.far().format().to_short({address}).value;
    });
    // -1: it is no address of a cluster's.
    m.def("host_of", [](AnyRuntime& rt, uint32_t address) {
        const FarFormat f = rt.far().format();
        const Address a{address};
        return a.is_far() && f.host_of(a) < f.hosts ? static_cast<int64_t>(f.host_of(a)) : -1;
    });

    // Changes of the patterns that are subscribed to here that have left for a host; None: some
    // wait.
    m.def("topics_told", [](AnyRuntime& rt, uint32_t host) -> std::optional<uint64_t> {
        uint64_t count = 0;
        return rt.far().told(host, count) ? std::optional(count) : std::nullopt;
    });
    m.def("topics_heard", [](AnyRuntime& rt, uint32_t host) { return rt.far().heard(host); });
    m.def("topics_settle",
          [](AnyRuntime& rt, uint32_t host, const std::string& pattern, double timeout) {
              const Unlocked unlocked;
              rt.far().settle_topics(host, pattern, seconds(timeout));
          });

    // For a snapshot of the cluster.
    m.def("hold", [](AnyRuntime& rt, double timeout) {
        const Unlocked unlocked;
        rt.hold(seconds(timeout));
    });
    m.def("let_go", [](AnyRuntime& rt) {
        const Unlocked unlocked;
        rt.let_go();
    });
    m.def("renew", [](AnyRuntime& rt, uint32_t host) {
        const Unlocked unlocked;
        return rt.far().renew(host);
    });
    m.def("recount", [](AnyRuntime& rt, uint32_t host) { rt.far().recount(host); });

    // Durable actors: see far.hpp.
    m.def("durable", [](AnyRuntime& rt, const std::vector<std::string>& types, uint64_t bytes) {
        rt.far().durable(types, bytes);
    });
    m.def("open_logs", [](AnyRuntime& rt, bool open) { rt.far().open_logs(open); });
    m.def("mark_log", [](AnyRuntime& rt, uint32_t host) { rt.far().mark_log(host); });
    m.def("cut_log", [](AnyRuntime& rt, uint32_t host) { rt.far().cut_log(host); });

    nb::class_<UcxEnd>(m, "UcxEnd")
        .def_static("open",
                    [](const std::string& library, bool loopback) {
                        const Unlocked unlocked;
                        return UcxEnd::open(library, loopback);
                    })
        .def("reach",
             [](const UcxEnd& end, const nb::bytes& address) {
                 const std::string bytes(address.c_str(), address.size());
                 const Unlocked unlocked;
                 end.reach(bytes);
             })
        .def_prop_ro("address", [](const UcxEnd& end) {
            return nb::bytes(end.address().data(), end.address().size());
        });

    nb::class_<Link>(m, "Link")
        .def_static(
            "rings",
            [](AnyRuntime& rt, uint32_t host, int memory, int socket, bool first, double deadline,
               double spin) {
                return Link::rings(rt, host, memory, socket, first, options_of(deadline, spin));
            },
            nb::keep_alive<0, 1>())
        .def_static(
            "stream",
            [](AnyRuntime& rt, uint32_t host, int socket, uint64_t nonce, double deadline,
               double spin, std::shared_ptr<UcxEnd> ucx, const nb::bytes& address) {
                return Link::stream(rt, host, socket, nonce, options_of(deadline, spin),
                                    std::move(ucx), std::string(address.c_str(), address.size()));
            },
            nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
            nb::arg("ucx").none() = nb::none(), nb::arg("address") = nb::bytes("", 0),
            nb::keep_alive<0, 1>())
        .def_static(
            "loop", [](AnyRuntime& rt) { return Link::loop(rt); }, nb::keep_alive<0, 1>())
        .def_prop_ro("state",
                     [](const Link& link) {
                         switch (link.state()) {
                         case Link::State::up: return "up";
                         case Link::State::broken: return "broken";
                         default: return "lost";
                         }
                     })
        .def_prop_ro("why", &Link::why)
        .def_prop_ro("settled", &Link::settled)
        .def("counts", &counts)
        .def("idle", &Link::idle)
        .def("lose",
             [](Link& link, const std::string& why) {
                 const Unlocked unlocked;
                 link.lose(why);
             })
        .def("halt",
             [](Link& link) {
                 const Unlocked unlocked;
                 return link.halt();
             })
        .def("pause", &Link::pause)
        .def_prop_ro("paused", &Link::paused)
        .def(
            "resume",
            [](Link& link, int socket, uint64_t nonce, uint64_t arrived,
               std::shared_ptr<UcxEnd> ucx, const nb::bytes& address) {
                const std::string where(address.c_str(), address.size());
                const Unlocked unlocked;
                link.resume(socket, nonce, arrived, std::move(ucx), where);
            },
            nb::arg(), nb::arg(), nb::arg(), nb::arg("ucx").none() = nb::none(),
            nb::arg("address") = nb::bytes("", 0))
        .def("close", [](Link& link) {
            const Unlocked unlocked;
            link.close();
        });
}

} // namespace denizen::bind
