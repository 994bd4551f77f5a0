// SPDX-License-Identifier: Apache-2.0
#include <denizen/radio/broadcast_fm.hpp>

#include <denizen/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>

namespace denizen::radio {
namespace {

using std::numbers::pi;
constexpr size_t block = 1 << 16; // samples taken at once
constexpr double floor_hz = 3;    // below it the audio is cut: a receiver off the station is silent

uint32_t checked(uint32_t rate)
{
    if (rate < 200'000 || rate > 25'000'000)
        throw Error(Errc::bad_argument,
                    "rate is " + std::to_string(rate) +
                        " Hz; broadcast FM needs 200,000 to 25,000,000 samples a second");
    return rate;
}

// The channel keeps 200 to 480 kHz: the station's 2 (75 + 53) kHz by Carson's rule.
uint32_t decimation(uint32_t rate) { return std::max(1u, rate / 240'000); }

// `rate` / decimation() as a ratio of whole numbers to the rate of the audio.
struct Ratio {
    uint32_t up, down;
};
Ratio to_audio(uint32_t rate)
{
    const uint64_t up = uint64_t{audio_rate} * decimation(rate);
    const uint64_t common = std::gcd(up, uint64_t{rate});
    const uint64_t u = up / common;
    const uint64_t d = rate / common;
    if (u > 5000 || d > 1'000'000) // the filter has about 300 taps for each of u phases
        throw Error(Errc::bad_argument, "rate is " + std::to_string(rate) +
                                            " Hz, which has too little in common with 48,000; "
                                            "give a multiple of 1,000 Hz");
    return {static_cast<uint32_t>(u), static_cast<uint32_t>(d)};
}

// Half of the level is left at the edge of what the lower rate holds, or at 128 kHz.
dsp::Fir<dsp::Complex> channel_filter(uint32_t rate)
{
    const uint32_t down = decimation(rate);
    const double edge = std::min(0.5 * rate / down, 128e3);
    const std::vector<float> taps = dsp::low_pass(edge / rate, 0.16 / down, 60);
    return dsp::Fir<dsp::Complex>(taps, 1, down);
}

// Passes 15 kHz and stops the pilot at 19 kHz, by 80 dB.
dsp::Fir<dsp::Complex> audio_filter(uint32_t rate)
{
    const Ratio ratio = to_audio(rate);
    const double fine = 1.0 * audio_rate * ratio.down;
    std::vector<float> taps = dsp::low_pass(17e3 / fine, 3.8e3 / fine, 80);
    for (float& tap : taps) tap *= static_cast<float>(ratio.up);
    return dsp::Fir<dsp::Complex>(taps, ratio.up, ratio.down);
}

// The mean of the frequency over a sample, which demodulation gives, has less of 38 kHz than of
// audio; taking the difference channel's two sidebands together, this is by how much.
double mean_over_sample(double rate)
{
    const double x = pi * 38e3 / rate;
    return std::sin(x) / x;
}

} // namespace

FmReceiver::FmReceiver(uint32_t rate, double de_emphasis)
    : channel_(channel_filter(checked(rate))),
      demodulator_(static_cast<float>(rate / (2 * pi * fm_deviation * decimation(rate)))),
      pilot_(1.0 * rate / decimation(rate)), audio_(audio_filter(rate))
{
    if (!(de_emphasis >= 0 && de_emphasis <= 1e-3))
        throw Error(Errc::bad_argument, "de-emphasis is " + std::to_string(de_emphasis) +
                                            " s; give 0 to 0.001, usually 50e-6 or 75e-6");
    const double exact_rate = 1.0 * rate / decimation(rate);
    difference_gain_ = 2 / mean_over_sample(exact_rate);
    // One pole by the bilinear transform, at a rate where it hardly bends the curve.
    const double c = 2 * de_emphasis * exact_rate;
    in_ = 1 / (1 + c);
    back_ = 2 / (1 + c);
    floor_ = 2 * pi * floor_hz / exact_rate;
    const size_t most = channel_.most(block);
    narrow_.resize(most);
    composite_.resize(most);
    pair_.resize(most);
    resampled_.resize(audio_.most(most));
}

void FmReceiver::feed(const dsp::Complex* iq, size_t count, std::vector<float>& audio)
{
    while (count > 0) {
        const size_t taken = std::min(count, block);
        const size_t n = channel_.feed(iq, taken, narrow_.data());
        demodulator_.feed(narrow_.data(), n, composite_.data());
        for (size_t i = 0; i < n; ++i) {
            const float subcarrier = pilot_.feed(composite_[i]);
            const double blend = pilot_.blend();
            stereo_ += pilot_.locked();
            const std::complex<double> now(composite_[i],
                                           difference_gain_ * blend * subcarrier * composite_[i]);
            soft_ += in_ * (now + before_) - back_ * soft_;
            before_ = now;
            mean_ += floor_ * (soft_ - mean_);
            const std::complex<double> out = soft_ - mean_;
            pair_[i] = {static_cast<float>(out.real()), static_cast<float>(out.imag())};
        }
        samples_ += n;
        const size_t frames = audio_.feed(pair_.data(), n, resampled_.data());
        for (size_t i = 0; i < frames; ++i) {
            audio.push_back(resampled_[i].real() + resampled_[i].imag());
            audio.push_back(resampled_[i].real() - resampled_[i].imag());
        }
        frames_ += frames;
        iq += taken;
        count -= taken;
    }
}

} // namespace denizen::radio
