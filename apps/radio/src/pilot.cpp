// SPDX-License-Identifier: Apache-2.0
#include <denizen/radio/broadcast_fm.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace denizen::radio {
namespace {

using std::numbers::pi;
constexpr double pilot_hz = 19e3;
constexpr double bandwidth = 500;  // Hz around 19 kHz that the loop looks at; audio ends at 15 kHz
constexpr double natural = 8;      // Hz, of the loop; its damping is 1
constexpr double most_offset = 20; // Hz: a clock 1000 ppm off
constexpr double mean_time = 0.05; // seconds
constexpr double fade_time = 0.02;
// The standard's pilot has 0.08 to 0.10 of the deviation.
constexpr double least_level = 0.02;
// Of the amplitude around 19 kHz, the share in phase with the oscillator that is a pilot. Noise
// alone has about sqrt(1 / (2 pi bandwidth mean_time)) = 0.08.
constexpr double lock_above = 0.7;
constexpr double lock_below = 0.5;

double share(double seconds, double rate) { return 1 - std::exp(-1 / (seconds * rate)); }

} // namespace

Pilot::Pilot(double rate)
    : turn_(std::polar(1.0, 2 * pi * pilot_hz / rate)),
      pole_(share(1 / (2 * pi * bandwidth), rate)), proportional_(2 * 2 * pi * natural / rate),
      integral_(std::pow(2 * pi * natural / rate, 2)), slow_(share(mean_time, rate)),
      fade_(share(fade_time, rate)), most_offset_(2 * pi * most_offset / rate)
{
}

float Pilot::feed(float sample)
{
    // sin 2a = 2 sin a cos a
    const double cosine = oscillator_.real();
    const double sine = oscillator_.imag();
    const auto subcarrier = static_cast<float>(2 * sine * cosine);

    // A pilot A sin(a + e) gives (A / 2)(sin e + j cos e) after the poles.
    const std::complex<double> mixed(sample * cosine, sample * sine);
    once_ += pole_ * (mixed - once_);
    near_ += pole_ * (once_ - near_);
    const double power = near_.real() * near_.real() + near_.imag() * near_.imag();
    in_phase_ += slow_ * (near_.imag() - in_phase_);
    power_ += slow_ * (power - power_);
    const double amplitude = std::sqrt(power_);
    if (amplitude > 0) {
        const double error = std::clamp(near_.real() / amplitude, -1.0, 1.0);
        offset_ = std::clamp(offset_ + integral_ * error, -most_offset_, most_offset_);
        // A turn by a small angle d is 1 + jd; what that stretches is taken back below.
        const double angle = offset_ + proportional_ * error;
        oscillator_ = {cosine - angle * sine, sine + angle * cosine};
    }
    const double re = oscillator_.real();
    const double im = oscillator_.imag();
    const double shrink = 1.5 - 0.5 * (re * re + im * im); // Newton's step for 1 / |z| near 1
    oscillator_ = {shrink * (re * turn_.real() - im * turn_.imag()),
                   shrink * (re * turn_.imag() + im * turn_.real())};

    const double coherence = amplitude > 0 ? in_phase_ / amplitude : 0;
    locked_ = level() > least_level && coherence > (locked_ ? lock_below : lock_above);
    blend_ += fade_ * ((locked_ ? 1.0 : 0.0) - blend_);
    return subcarrier;
}

double Pilot::level() const { return 2 * in_phase_; }

} // namespace denizen::radio
