// SPDX-License-Identifier: Apache-2.0
// Broadcast FM in stereo (ITU-R BS.450, the pilot-tone system): I/Q in, audio at 48 kHz out. The
// stream may be handed over in pieces of any size: the audio is the same. One thread at a time.
#pragma once

#include <denizen/dsp/fir.hpp>
#include <denizen/dsp/sample.hpp>

#include <vector>

namespace denizen::radio {

inline constexpr uint32_t audio_rate = 48000;
inline constexpr double fm_deviation = 75e3; // Hz; full scale of the audio

// Finds the pilot of 19 kHz in a demodulated signal and follows it: a phase-locked loop of second
// order. Its oscillator is a rotating number, so that no sine is computed.
class Pilot {
public:
    explicit Pilot(double rate);

    // Takes the next sample; the subcarrier of 38 kHz at that sample, of amplitude 1, rising
    // through zero where the pilot does.
    float feed(float sample);

    // 0 to 1: how much of the difference channel to let through. It moves over tens of
    // milliseconds as the pilot comes and goes, and is exactly 0 before the first one.
    double blend() const { return blend_; }
    bool locked() const { return locked_; }
    double level() const; // of the pilot, in units of the deviation

private:
    std::complex<double> turn_; // by which the oscillator turns in a sample at 19 kHz
    std::complex<double> oscillator_{1, 0};
    std::complex<double> once_{0, 0}; // the signal around 19 kHz, through one pole
    std::complex<double> near_{0, 0}; // through two
    double offset_ = 0;               // radians a sample by which the pilot is off 19 kHz
    double in_phase_ = 0;             // slow means of near_ and of its power
    double power_ = 0;
    double blend_ = 0;
    bool locked_ = false;
    double pole_, proportional_, integral_, slow_, fade_, most_offset_;
};

class FmReceiver {
public:
    // `rate`: samples a second, a whole number from 200,000 to 25 million. `de_emphasis`: its time
    // constant in seconds: 50e-6 in most of the world, 75e-6 in the Americas and South Korea, 0 for
    // none. Throws Errc::bad_argument for other values.
    FmReceiver(uint32_t rate, double de_emphasis);

    // Appends frames of left and right; 1 stands for the full deviation of 75 kHz.
    void feed(const dsp::Complex* iq, size_t count, std::vector<float>& audio);

    const Pilot& pilot() const { return pilot_; }
    uint64_t frames() const { return frames_; }               // of audio so far
    uint64_t stereo_samples() const { return stereo_; }       // demodulated ones with a pilot
    uint64_t demodulated_samples() const { return samples_; } // all of them

private:
    dsp::Fir<dsp::Complex> channel_;
    dsp::FmDemodulator demodulator_;
    Pilot pilot_;
    dsp::Fir<dsp::Complex> audio_; // its complex samples are (sum, difference)
    double difference_gain_;
    double in_, back_; // of the de-emphasis: y += in (x + x before) - back y
    double floor_;     // of the high-pass
    std::complex<double> before_{0, 0};
    std::complex<double> soft_{0, 0};
    std::complex<double> mean_{0, 0};
    uint64_t frames_ = 0;
    uint64_t stereo_ = 0;
    uint64_t samples_ = 0;
    std::vector<dsp::Complex> narrow_;
    std::vector<float> composite_;
    std::vector<dsp::Complex> pair_;
    std::vector<dsp::Complex> resampled_;
};

} // namespace denizen::radio
