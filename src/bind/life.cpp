// SPDX-License-Identifier: Apache-2.0
// denizen._core.Runtime's methods about the life of actors; python/denizen/life.py is their face.
#include "bind.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using OnActor = void (AnyRuntime::*)(Address, nanoseconds);

template <OnActor Call>
void on_actor(AnyRuntime& rt, uint32_t actor, double timeout)
{
    const Unlocked unlocked;
    (rt.*Call)({actor}, seconds(timeout));
}

// (life, incarnation, code of the last failure, messages stashed, supervisor or None)
nb::tuple inspect(AnyRuntime& rt, uint32_t actor, double timeout)
{
    ActorStatus s;
    {
        const Unlocked unlocked;
        s = rt.inspect({actor}, seconds(timeout));
    }
    return nb::make_tuple(to_string(s.life), s.incarnation, s.failure, s.stashed,
                          s.supervised() ? nb::cast(s.supervisor.value) : nb::none());
}

uint32_t supervise(AnyRuntime& rt, const std::vector<uint32_t>& children, uint32_t strategy,
                   uint32_t max_restarts, double window, double timeout)
{
    std::vector<Address> addresses;
    for (const uint32_t child : children) {
        addresses.push_back({child});
    }
    const Unlocked unlocked;
    return rt
        .supervise(addresses.data(), addresses.size(), static_cast<Strategy>(strategy),
                   {max_restarts, seconds(window)}, seconds(timeout))
        .value;
}

// ([(reason, code, sender, destination, type, length, worker, time in ns, payload, text)], lost)
nb::tuple dead_letters(AnyRuntime& rt)
{
    DeadLetters dead;
    {
        const Unlocked unlocked;
        dead = rt.dead_letters();
    }
    nb::list letters;
    for (const DeadLetter& d : dead.letters) {
        const size_t kept = d.length < dead_payload ? d.length : dead_payload;
        letters.append(nb::make_tuple(to_string(d.reason), d.code, d.sender.value,
                                      d.destination.value, d.type, d.length, d.worker, d.time_ns,
                                      nb::bytes(d.payload.data(), kept), d.text));
    }
    return nb::make_tuple(letters, dead.lost);
}

} // namespace

void life(nb::class_<AnyRuntime>& runtime)
{
    runtime.def("inspect", &inspect)
        .def("stop", &on_actor<&AnyRuntime::stop>)
        .def("create",
             [](AnyRuntime& rt, uint32_t type, uint32_t count, double timeout) {
                 std::vector<uint32_t> out;
                 const Unlocked unlocked;
                 for (const Address a : rt.create(type, count, seconds(timeout))) {
                     out.push_back(a.value);
                 }
                 return out;
             })
        .def("pause_actor", &on_actor<&AnyRuntime::pause>)
        .def("resume_actor", &on_actor<&AnyRuntime::resume>)
        .def("restart", &on_actor<&AnyRuntime::restart>)
        .def("drain_actor", &on_actor<&AnyRuntime::drain>)
        .def("checkpoint", &on_actor<&AnyRuntime::checkpoint>)
        .def("watch",
             [](AnyRuntime& rt, uint32_t watcher, uint32_t watched, double timeout) {
                 const Unlocked unlocked;
                 rt.watch({watcher}, {watched}, seconds(timeout));
             })
        .def("unwatch",
             [](AnyRuntime& rt, uint32_t watcher, uint32_t watched, double timeout) {
                 const Unlocked unlocked;
                 rt.unwatch({watcher}, {watched}, seconds(timeout));
             })
        .def("supervise", &supervise)
        .def("dead_letters", &dead_letters);
}

} // namespace denizen::bind
