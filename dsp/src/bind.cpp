// SPDX-License-Identifier: Apache-2.0
// Signal processing and the FM receiver for Python. Arrays come and go as buffers of bytes;
// python/denizen/dsp checks their dtypes and shapes and makes the outputs.
#include "bind/bind.hpp"

#include <denizen/base/error.hpp>
#include <denizen/dsp/agc.hpp>
#include <denizen/dsp/channelizer.hpp>
#include <denizen/dsp/fft.hpp>
#include <denizen/dsp/fir.hpp>
#include <denizen/dsp/sample.hpp>
#include <denizen/radio/broadcast_fm.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

namespace nb = nanobind;

namespace denizen::bind {
namespace {

using dsp::Complex;

template <class T>
T* values(const Bytes& bytes)
{
    return reinterpret_cast<T*>(bytes.data());
}

template <class T>
size_t count(const Bytes& bytes)
{
    return bytes.size() / sizeof(T);
}

void need_room(const Bytes& out, size_t bytes)
{
    if (out.size() < bytes)
        throw Error(Errc::bad_argument, "an output of " + std::to_string(out.size()) +
                                            " bytes; give one of " + std::to_string(bytes));
}

// Calls feed(at, count) for pieces of `n` samples in order, each milliseconds long, between which
// the call can be interrupted: what has been fed by then stays fed.
template <class Feed>
void in_pieces(size_t n, size_t piece, Feed&& feed)
{
    for (size_t at = 0; at < n; at += piece) {
        check_interrupt();
        feed(at, std::min(piece, n - at));
    }
}

constexpr size_t piece_samples = size_t{1} << 16;

template <class Sample, class Tap>
void fir(nb::module_& m, const char* name)
{
    using Fir = dsp::Fir<Sample, Tap>;
    nb::class_<Fir>(m, name)
        .def("__init__",
             [](Fir* self, nb::handle taps, uint32_t up, uint32_t down) {
                 const Bytes bytes(taps, false);
                 new (self) Fir(std::span<const Tap>(values<const Tap>(bytes), count<Tap>(bytes)),
                                up, down);
             })
        .def("most", &Fir::most)
        .def("feed", [](Fir& filter, nb::handle in, nb::handle out) {
            const Bytes from(in, false);
            const Bytes to(out, true);
            const size_t n = count<Sample>(from);
            need_room(to, filter.most(n) * sizeof(Sample));
            const Unlocked unlocked;
            size_t made = 0;
            in_pieces(n, piece_samples, [&](size_t at, size_t some) {
                made +=
                    filter.feed(values<const Sample>(from) + at, some, values<Sample>(to) + made);
            });
            return made;
        });
}

template <class Sample>
void agc(nb::module_& m, const char* name)
{
    using Agc = dsp::Agc<Sample>;
    nb::class_<Agc>(m, name)
        .def(nb::init<float, float, float>())
        .def("feed",
             [](Agc& agc, nb::handle in, nb::handle out) {
                 const Bytes from(in, false);
                 const Bytes to(out, true);
                 need_room(to, from.size());
                 const Unlocked unlocked;
                 in_pieces(count<Sample>(from), piece_samples, [&](size_t at, size_t some) {
                     agc.feed(values<const Sample>(from) + at, some, values<Sample>(to) + at);
                 });
             })
        .def_prop_ro("gain", &Agc::gain);
}

nb::object give(std::vector<float>&& audio)
{
    auto* all = std::make_unique<std::vector<float>>(std::move(audio)).release();
    const nb::capsule owner(all,
                            [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
    return nb::cast(
        nb::ndarray<nb::numpy, float, nb::shape<-1, 2>>(all->data(), {all->size() / 2, 2}, owner));
}

} // namespace

void signals(nb::module_& m)
{
    fir<float, float>(m, "FirReal");
    fir<Complex, float>(m, "FirComplex");
    fir<Complex, Complex>(m, "FirComplexTaps");
    agc<float>(m, "AgcReal");
    agc<Complex>(m, "AgcComplex");

    nb::class_<dsp::Fft>(m, "Fft")
        .def(nb::init<uint32_t>())
        .def("transform", [](dsp::Fft& fft, nb::handle in, nb::handle out, bool inverse) {
            const Bytes from(in, false);
            const Bytes to(out, true);
            need_room(to, from.size());
            const size_t rows = count<Complex>(from) / fft.points();
            const Unlocked unlocked;
            const size_t points = fft.points();
            const size_t piece = std::max<size_t>(piece_samples / points, 1);
            in_pieces(rows, piece, [&](size_t row, size_t some) {
                const Complex* const in_row = values<const Complex>(from) + row * points;
                Complex* const out_row = values<Complex>(to) + row * points;
                inverse ? fft.inverse(in_row, out_row, some) : fft.forward(in_row, out_row, some);
            });
        });
    nb::class_<dsp::Channelizer>(m, "Channelizer")
        .def("__init__",
             [](dsp::Channelizer* self, nb::handle taps, uint32_t channels) {
                 const Bytes bytes(taps, false);
                 new (self) dsp::Channelizer(
                     std::span<const float>(values<const float>(bytes), count<float>(bytes)),
                     channels);
             })
        .def("outputs", &dsp::Channelizer::outputs)
        .def("feed", [](dsp::Channelizer& bank, nb::handle in, nb::handle out) {
            const Bytes from(in, false);
            const Bytes to(out, true);
            const size_t n = count<Complex>(from);
            const size_t pitch = bank.outputs(n);
            need_room(to, pitch * bank.channels() * sizeof(Complex));
            const Unlocked unlocked;
            size_t made = 0;
            in_pieces(n, piece_samples, [&](size_t at, size_t some) {
                made += bank.feed(values<const Complex>(from) + at, some,
                                  values<Complex>(to) + made, pitch);
            });
            return made;
        });

    m.def("dsp_low_pass", &dsp::low_pass);
    m.def("dsp_saxpy", [](float a, nb::handle x, nb::handle y) {
        const Bytes from(x, false);
        const Bytes to(y, true);
        need_room(to, from.size());
        const Unlocked unlocked;
        dsp::saxpy(a, values<const float>(from), values<float>(to), count<float>(from));
    });
    m.def("dsp_multiply", [](nb::handle a, nb::handle b, nb::handle out) {
        const Bytes left(a, false);
        const Bytes right(b, false);
        const Bytes to(out, true);
        need_room(right, left.size());
        need_room(to, left.size());
        const Unlocked unlocked;
        dsp::multiply(values<const Complex>(left), values<const Complex>(right),
                      values<Complex>(to), count<Complex>(left));
    });
    m.def("dsp_magnitude_squared", [](nb::handle x, nb::handle out) {
        const Bytes from(x, false);
        const Bytes to(out, true);
        need_room(to, from.size() / 2);
        const Unlocked unlocked;
        dsp::magnitude_squared(values<const Complex>(from), values<float>(to),
                               count<Complex>(from));
    });
    nb::class_<dsp::FmDemodulator>(m, "FmDemodulator")
        .def(nb::init<float>())
        .def("feed", [](dsp::FmDemodulator& demodulator, nb::handle in, nb::handle out) {
            const Bytes from(in, false);
            const Bytes to(out, true);
            need_room(to, from.size() / 2);
            const Unlocked unlocked;
            in_pieces(count<Complex>(from), piece_samples, [&](size_t at, size_t some) {
                demodulator.feed(values<const Complex>(from) + at, some, values<float>(to) + at);
            });
        });

    m.attr("radio_audio_rate") = radio::audio_rate;
    m.attr("radio_fm_deviation") = radio::fm_deviation;
    nb::class_<radio::FmReceiver>(m, "FmReceiver")
        .def(nb::init<uint32_t, double>())
        .def("feed",
             [](radio::FmReceiver& receiver, nb::handle iq) {
                 const Bytes bytes(iq, false);
                 std::vector<float> audio;
                 {
                     const Unlocked unlocked;
                     in_pieces(count<Complex>(bytes), piece_samples, [&](size_t at, size_t some) {
                         receiver.feed(values<const Complex>(bytes) + at, some, audio);
                     });
                 }
                 return give(std::move(audio));
             })
        .def_prop_ro("frames", &radio::FmReceiver::frames)
        .def_prop_ro("stereo",
                     [](const radio::FmReceiver& receiver) { return receiver.pilot().locked(); })
        .def_prop_ro("pilot_level",
                     [](const radio::FmReceiver& receiver) { return receiver.pilot().level(); })
        .def_prop_ro("stereo_share", [](const radio::FmReceiver& receiver) {
            const auto all = static_cast<double>(receiver.demodulated_samples());
            return all > 0 ? static_cast<double>(receiver.stereo_samples()) / all : 0.0;
        });
}

} // namespace denizen::bind
