// SPDX-License-Identifier: Apache-2.0
// Frames with right parity, and signals made of them, for the tests.
#pragma once

#include <denizen/radio/crc24.hpp>
#include <denizen/radio/modulate.hpp>

#include <cmath>
#include <random>

namespace denizen::radio::test {

inline constexpr double noise = 4; // root mean square of its magnitude, in steps of the converter

// A DF17 frame of aircraft `icao`, or a DF11.
inline Frame squitter(uint32_t icao, uint64_t payload)
{
    Frame f{17ull << 51 | 5ull << 48 | static_cast<uint64_t>(icao) << 24 |
                (payload >> 32 & 0xFFFFFF),
            (payload & 0xFFFFFFFF) << 24};
    f.tail |= syndrome(f);
    return f;
}

inline Frame all_call(uint32_t icao, uint32_t interrogator = 0)
{
    Frame f{11ull << 51 | 5ull << 48 | static_cast<uint64_t>(icao) << 24, 0};
    f.head |= syndrome(f) ^ interrogator;
    return f;
}

// A DF4 reply: its parity is combined with the address.
inline Frame altitude_reply(uint32_t icao, uint32_t code)
{
    Frame f{4ull << 51 | static_cast<uint64_t>(code) << 24, 0};
    f.head |= syndrome(f) ^ icao;
    return f;
}

class Signal {
public:
    Signal(size_t samples, uint32_t seed) : samples_(samples), seed_(seed), random_(seed) {}

    // Adds a frame that begins at sample `at`, which may have a fraction, with pulses `snr` dB over
    // the noise.
    void add(const Frame& frame, double at, double snr)
    {
        std::uniform_real_distribution<> any(-1, 1);
        const double amplitude = noise * std::pow(10, snr / 20);
        bursts_.push_back(
            {frame, at, amplitude, 50e3 * any(random_), 50 * any(random_), 3.14 * any(random_)});
    }

    std::vector<uint8_t> bytes() const { return modulate(bursts_, samples_, noise, seed_); }
    std::mt19937& random() { return random_; }

private:
    size_t samples_;
    uint32_t seed_;
    std::mt19937 random_;
    std::vector<Burst> bursts_;
};

} // namespace denizen::radio::test
