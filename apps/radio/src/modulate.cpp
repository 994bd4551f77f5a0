// SPDX-License-Identifier: Apache-2.0
#include <denizen/radio/modulate.hpp>

#include <denizen/base/interrupt.hpp>
#include <denizen/radio/detail/preamble.hpp>
#include <denizen/radio/message.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace denizen::radio {
namespace {

constexpr size_t between_looks = 1 << 16; // values, at Ctrl-C

// Half microseconds with a pulse (1) and without.
std::vector<double> pulses(const Frame& frame)
{
    std::vector<double> out(preamble_samples);
    for (const size_t k : {0, 2, 7, 9}) out[k] = 1;
    for (uint32_t n = 1; n <= frame.bits(); ++n) {
        out.push_back(frame.bit(n));
        out.push_back(1 - frame.bit(n));
    }
    return out;
}

void add(std::vector<double>& signal, const Burst& burst)
{
    const std::vector<double> half = pulses(burst.frame);
    const double length = 1 + burst.clock * 1e-6; // of half a microsecond, in samples
    const double turn = 2 * std::numbers::pi * burst.carrier / sample_rate;
    for (size_t k = 0; k < half.size(); ++k) {
        if (half[k] == 0) continue;
        const double begin = burst.start + static_cast<double>(k) * length;
        const double end = begin + length;
        for (double at = std::floor(begin); at < end; at += 1) {
            if (at < 0 || at >= static_cast<double>(signal.size() / 2)) continue;
            const double share = std::min(end, at + 1) - std::max(begin, at);
            const double angle = turn * at + burst.phase;
            signal[2 * static_cast<size_t>(at)] += burst.amplitude * share * std::cos(angle);
            signal[2 * static_cast<size_t>(at) + 1] += burst.amplitude * share * std::sin(angle);
        }
    }
}

} // namespace

std::vector<uint8_t> modulate(const std::vector<Burst>& bursts, size_t samples, double noise,
                              uint64_t seed)
{
    // Box and Muller's method over 53 bits each: the same numbers with every standard library.
    std::mt19937_64 random(seed);
    const auto uniform = [&random] {
        return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
    };
    // Filled as it grows: zeroing the gigabytes of a minute could not be interrupted.
    std::vector<double> signal;
    signal.reserve(2 * samples);
    for (size_t k = 0; k < samples; ++k) {
        if (k % between_looks == 0) check_interrupt();
        const double magnitude = noise * std::sqrt(-std::log(uniform()));
        const double angle = 2 * std::numbers::pi * uniform();
        signal.push_back(magnitude * std::cos(angle));
        signal.push_back(magnitude * std::sin(angle));
    }
    for (const Burst& burst : bursts) {
        check_interrupt();
        add(signal, burst);
    }
    std::vector<uint8_t> out;
    out.reserve(signal.size());
    for (size_t k = 0; k < signal.size(); ++k) {
        if (k % between_looks == 0) check_interrupt();
        out.push_back(static_cast<uint8_t>(std::clamp(std::floor(signal[k] + 128), 0.0, 255.0)));
    }
    return out;
}

} // namespace denizen::radio
