// SPDX-License-Identifier: Apache-2.0
// The options of a program of actors, by the names that python/denizen/starting.py gives them.
#include "options.hpp"

#include "bind.hpp"

#include <chrono>
#include <map>
#include <nanobind/stl/string.h>
#include <string_view>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

const std::map<std::string_view, uint32_t Options::*> counts{
    {"workers", &Options::workers},
    {"nodes", &Options::nodes},
    {"cluster", &Options::cluster},
    {"local_slots", &Options::local_slots},
    {"near_slots", &Options::near_slots},
    {"urgent_slots", &Options::urgent_slots},
    {"sms", &Options::sms},
    {"partition", &Options::partition},
    {"host_ring_slots", &Options::host_ring_slots},
    {"inbox_slots", &Options::inbox_slots},
    {"outbox_slots", &Options::outbox_slots},
    {"egress_slots", &Options::egress_slots},
    {"stash_slots", &Options::stash_slots},
    {"spawn_room", &Options::spawn_room},
    {"timer_slots", &Options::timer_slots},
    {"task_slots", &Options::task_slots},
    {"subscriptions", &Options::subscriptions},
    {"watch_slots", &Options::watch_slots},
    {"dead_letter_slots", &Options::dead_letter_slots},
    {"trace_slots", &Options::trace_slots},
    {"asks", &Options::asks},
    {"max_actors", &Options::max_actors},
    {"buffers", &Options::buffers},
    {"hosts", &Options::hosts},
    {"host", &Options::host},
};

const std::map<std::string_view, uint64_t Options::*> sizes{
    {"state_bytes", &Options::state_bytes},
    {"arena_bytes", &Options::arena_bytes},
    {"pool_bytes", &Options::pool_bytes},
};

void set(Options& o, const std::string& name, uint64_t number)
{
    if (const auto count = counts.find(name); count != counts.end()) {
        o.*count->second = static_cast<uint32_t>(number);
    } else if (const auto size = sizes.find(name); size != sizes.end()) {
        o.*size->second = number;
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

} // namespace

Options options_from(const nb::dict& given)
{
    Options o;
    for (const auto& [key, value] : given) {
        const auto name = nb::cast<std::string>(key);
        if (name == "restore") {
            o.restore = nb::cast<std::string>(value);
        } else {
            set(o, name, nb::cast<uint64_t>(value));
        }
    }
    return o;
}

} // namespace denizen::bind
