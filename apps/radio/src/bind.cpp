// SPDX-License-Identifier: Apache-2.0
// The radio for Python: bytes in, messages out as dictionaries that hold only what a message says.
#include "bind/bind.hpp"

#include <denizen/base/error.hpp>
#include <denizen/radio/modulate.hpp>
#include <denizen/radio/receiver.hpp>
#include <denizen/radio/resident_receiver.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <deque>

namespace nb = nanobind;
using namespace denizen;
using radio::Position;

namespace {

// The objects whose memory resident workers read, each until so many samples have been released.
struct Read {
    std::deque<std::pair<uint64_t, std::unique_ptr<bind::Bytes>>> objects;
};

// Bases are destroyed in reverse order: the workers leave before the memory does.
struct ResidentReceiver : Read, radio::ResidentReceiver {
    using radio::ResidentReceiver::ResidentReceiver;

    void let_go()
    {
        while (!objects.empty() && objects.front().first <= released()) objects.pop_front();
    }
};

using Degrees = std::optional<std::pair<double, double>>; // latitude, longitude

std::string address(uint32_t icao)
{
    char text[8];
    std::snprintf(text, sizeof text, "%06X", icao & 0xFFFFFF);
    return text;
}

nb::dict to_dict(const radio::Message& m)
{
    nb::dict out;
    out["df"] = m.frame.format();
    out["icao"] = address(m.icao);
    radio::each_field(m, [&](const char* name, const auto& value) {
        if (value) out[name] = *value;
    });
    return out;
}

nb::dict received(const radio::Message& m)
{
    nb::dict out;
    out["time"] = m.time();
    out["sample"] = m.position;
    out["frame"] = radio::to_hex(m.frame);
    out["level"] = m.level;
    out["repaired"] = m.repaired;
    out.update(to_dict(m));
    return out;
}

template <class Work>
nb::list messages(Work&& work)
{
    std::vector<radio::Message> found;
    {
        const bind::Unlocked unlocked;
        work([&](const radio::Message& m) { found.push_back(m); });
    }
    nb::list out;
    for (const radio::Message& m : found) out.append(received(m));
    return out;
}

template <class Receiver>
nb::list aircraft(const Receiver& receiver)
{
    nb::list out;
    for (const radio::Aircraft& a : receiver.airspace().aircraft()) {
        nb::dict one;
        one["icao"] = address(a.icao);
        one["messages"] = a.messages;
        one["first_seen"] = a.first_seen;
        one["last_seen"] = a.last_seen;
        one["level"] = a.level;
        const auto add = [&one](const char* name, const auto& value) {
            if (value) one[name] = *value;
        };
        add("callsign", a.callsign);
        add("squawk", a.squawk);
        add("altitude", a.altitude);
        add("groundspeed", a.groundspeed);
        add("track", a.track);
        add("vertical_rate", a.vertical_rate);
        add("on_ground", a.on_ground);
        if (a.position) {
            one["latitude"] = a.position->latitude;
            one["longitude"] = a.position->longitude;
        }
        out.append(one);
    }
    return out;
}

template <class Receiver>
nb::dict counts(const Receiver& receiver)
{
    const radio::Counts& c = receiver.counts();
    nb::dict out;
    out["samples"] = c.samples;
    out["preambles"] = c.preambles;
    out["readings"] = c.readings;
    out["messages"] = c.messages;
    out["repaired"] = c.repaired;
    return out;
}

// The address that a frame carries openly or, if it is right, in its parity.
nb::dict decode_hex(const std::string& hex)
{
    const radio::Frame frame = radio::frame_of(hex);
    const uint32_t rest = radio::syndrome(frame);
    const bool open = radio::plain_parity(frame.format());
    nb::dict out = to_dict(radio::decode(frame, open ? frame.part(9, 32) : rest));
    if (open) out["syndrome"] = rest;
    return out;
}

using Signal = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;
// frame, start, amplitude, carrier, clock, phase
using Burst = std::tuple<std::string, double, double, double, double, double>;

Signal modulate(const std::vector<Burst>& given, size_t samples, double noise, uint64_t seed)
{
    std::vector<uint8_t>* out = nullptr;
    {
        const bind::Unlocked unlocked;
        std::vector<radio::Burst> bursts;
        for (const auto& [frame, start, amplitude, carrier, clock, phase] : given)
            bursts.push_back({radio::frame_of(frame), start, amplitude, carrier, clock, phase});
        out = new std::vector<uint8_t>(radio::modulate(bursts, samples, noise, seed));
    }
    const nb::capsule owner(out,
                            [](void* p) noexcept { delete static_cast<std::vector<uint8_t>*>(p); });
    return Signal(out->data(), {out->size()}, owner);
}

std::optional<Position> position(const Degrees& at)
{
    if (!at) return {};
    return Position{at->first, at->second};
}

// What both receivers have.
template <class Receiver>
nb::class_<Receiver> receiver(nb::module_& m, const char* name)
{
    return nb::class_<Receiver>(m, name)
        .def("feed",
             [](Receiver& r, nb::handle iq) {
                 const bind::Bytes bytes(iq, false);
                 return messages([&](const radio::Receiver::Sink& sink) {
                     r.feed(bytes.data(), bytes.size(), sink);
                 });
             })
        .def("finish",
             [](Receiver& r) {
                 return messages([&](const radio::Receiver::Sink& sink) { r.finish(sink); });
             })
        .def_prop_ro("released", &Receiver::released)
        .def_prop_ro("aircraft", &aircraft<Receiver>)
        .def_prop_ro("counts", &counts<Receiver>);
}

} // namespace

void denizen::bind::radios(nb::module_& m)
{
    m.attr("radio_sample_rate") = radio::sample_rate;
    m.def("radio_decode", &decode_hex);
    m.def("radio_syndrome",
          [](const std::string& hex) { return radio::syndrome(radio::frame_of(hex)); });
    m.def("radio_encode_position", [](double latitude, double longitude, bool odd, bool surface) {
        const radio::Encoded e = radio::encode({latitude, longitude}, odd, surface);
        return std::pair(e.latitude, e.longitude);
    });
    m.def("radio_modulate", &modulate);
    receiver<radio::Receiver>(m, "RadioReceiver")
        .def(
            "__init__",
            [](radio::Receiver* self, const Degrees& at) {
                new (self) radio::Receiver(position(at));
            },
            nb::arg("position").none())
        .def("feed_complex", [](radio::Receiver& r, nb::handle iq) {
            const bind::Bytes bytes(iq, false);
            return messages([&](const radio::Receiver::Sink& sink) {
                using Complex = std::complex<float>;
                r.feed(reinterpret_cast<const Complex*>(bytes.data()),
                       bytes.size() / sizeof(Complex), sink);
            });
        });
    receiver<ResidentReceiver>(m, "ResidentReceiver")
        .def(
            "__init__",
            [](ResidentReceiver* self, const Degrees& at, bool on_gpu, int ordinal, nb::bytes cubin,
               uint32_t threads, std::optional<uint32_t> breath_us) {
                std::optional<std::chrono::microseconds> breath;
                if (breath_us) breath = std::chrono::microseconds(*breath_us);
                (void)breath_ns_of(breath); // on the CPU nobody else refuses it
                Code code;
                code.cubin.assign(cubin.c_str(), cubin.c_str() + cubin.size());
                const bind::Unlocked unlocked;
                new (self) ResidentReceiver(on_gpu ? radio::scan_on_gpu(ordinal, code, breath)
                                                   : radio::scan_on_cpu(threads),
                                            position(at));
            },
            nb::arg("position").none(), nb::arg("on_gpu"), nb::arg("ordinal"), nb::arg("cubin"),
            nb::arg("threads"), nb::arg("breath_us").none())
        .def("feed_in_place",
             [](ResidentReceiver& r, nb::handle iq) {
                 // Kept for good if this throws: workers may be reading.
                 r.objects.emplace_back(~uint64_t{0}, std::make_unique<bind::Bytes>(iq, false));
                 nb::list found = messages([&](const radio::Receiver::Sink& sink) {
                     const bind::Bytes& bytes = *r.objects.back().second;
                     r.feed_in_place(bytes.data(), bytes.size(), sink);
                 });
                 r.objects.back().first = r.fed();
                 r.let_go();
                 return found;
             })
        .def_prop_ro("device", &ResidentReceiver::device);
}
