// SPDX-License-Identifier: Apache-2.0
// Signal processing from one circuit into others on the resident runtime: the twins of the blocks
// of signal_circuits.hpp, with the same ports and the same tags. Host only.
//
//   auto& audio = graph.add<flow::ResidentResampler<float>>("audio", gpu, taps, 24u, 125u);
#pragma once

#include <denizen/dsp/fft.hpp>
#include <denizen/flow/resident_bridge.hpp>

#include <bit>
#include <map>

namespace denizen::flow {

namespace detail {

inline void refuse_unless(bool good, const std::string& name, const std::string& what)
{
    if (!good) {
        throw Error(Errc::bad_argument, "block \"" + name + "\": " + what);
    }
}

// They go to each worker by messages of 56.
inline constexpr size_t most_taps = 32768;

// From 2 to `most`, a power of two.
inline uint32_t checked_points(const std::string& name, uint32_t points, uint32_t most,
                               const char* what)
{
    refuse_unless(points >= 2 && points <= most && (points & (points - 1)) == 0, name,
                  std::to_string(points) + " " + what + "; a resident block takes a power of two " +
                      "from 2 to " + std::to_string(most));
    return points;
}

} // namespace detail

// As Resampler: y[m] = the sum over k of taps[k] u[m down - k], where u is the stream with up - 1
// zeros after each sample. 1 to 32768 taps, `up` and `down` from 1 to 4096. Throws bad_argument.
template <class Sample, class Tap = float>
class ResidentResampler : public ResidentBetween<Sample, Sample> {
public:
    Source<Sample> out{*this, "out"};

    ResidentResampler(std::string name, Resident& resident, std::vector<Tap> taps, uint32_t up,
                      uint32_t down)
        : ResidentBetween<Sample, Sample>(std::move(name), resident,
                                          sizeof(Sample) == sizeof(float) ? "resample, real"
                                          : sizeof(Tap) == sizeof(float)
                                              ? "resample, complex"
                                              : "resample, complex taps"),
          taps_(std::move(taps)), up_(up), down_(down)
    {
        detail::refuse_unless(!taps_.empty() && taps_.size() <= detail::most_taps && up >= 1 &&
                                  up <= most_rate && down >= 1 && down <= most_rate,
                              this->name(),
                              std::to_string(taps_.size()) + " taps, up by " + std::to_string(up) +
                                  ", down by " + std::to_string(down) +
                                  "; a resident block takes 1 to 32768 taps and rates from 1 to "
                                  "4096");
        this->gives(out);
        out.follow(this->in, {up, down, Side::after});
        out.needs((up + down - 1) / down);
    }

    static constexpr uint32_t most_rate = 4096;

private:
    ResidentBridge::Shape shape() const override
    {
        ResidentBridge::Shape s;
        s.before = static_cast<uint32_t>((taps_.size() - 1) / up_);
        s.up = up_;
        s.down = down_;
        s.values = detail::floats(taps_);
        return s;
    }
    std::vector<Tap> taps_;
    uint32_t up_;
    uint32_t down_;
};

// As Fft, of 2 to 4096 points: output f * points + k is number k of the transform of frame f; an
// incomplete last frame is dropped. Throws bad_argument.
class ResidentFft : public ResidentBetween<std::complex<float>, std::complex<float>> {
public:
    Source<std::complex<float>> out{*this, "out"};

    ResidentFft(const std::string& name, Resident& resident, uint32_t points, bool inverse = false)
        : ResidentBetween(name, resident, "fft"),
          points_(detail::checked_points(name, points, most_points, "points")), inverse_(inverse)
    {
        gives(out);
        out.follow(in);
        out.needs(points);
    }

    static constexpr uint32_t most_points = 4096;

private:
    Shape shape() const override
    {
        Shape s;
        s.frame = points_;
        s.scratch = sizeof(std::complex<float>);
        s.values = detail::floats(dsp::roots_of_unity(points_));
        s.a = inverse_ ? 1 : 0;
        return s;
    }
    uint32_t points_;
    bool inverse_;
};

// As Channelizer, of 2 to 1024 channels and 1 to 32768 taps: those that are asked for by channel()
// are made, each begins a circuit. Throws bad_argument.
class ResidentChannelizer : public ResidentBetween<std::complex<float>, std::complex<float>> {
public:
    ResidentChannelizer(const std::string& name, Resident& resident, std::vector<float> taps,
                        uint32_t channels)
        : ResidentBetween(name, resident, "channelizer"), taps_(std::move(taps)),
          channels_(detail::checked_points(name, channels, most_channels, "channels"))
    {
        detail::refuse_unless(!taps_.empty() && taps_.size() <= detail::most_taps, name,
                              std::to_string(taps_.size()) +
                                  " taps; a resident channelizer takes 1 to 32768");
    }

    // The port of channel k, named "channel k". Before the graph starts. Throws bad_argument.
    Source<std::complex<float>>& channel(uint32_t k)
    {
        detail::refuse_unless(k < channels_, name(),
                              "channel " + std::to_string(k) + " of " + std::to_string(channels_));
        const auto [found, fresh] = out_.try_emplace(k, *this, "channel " + std::to_string(k));
        if (fresh) {
            found->second.follow(in, {1, channels_, Side::after});
            chosen_.push_back(k);
            gives(found->second);
        }
        return found->second;
    }

    static constexpr uint32_t most_channels = 1024;

private:
    Shape shape() const override
    {
        Shape s;
        s.before = static_cast<uint32_t>(taps_.size() - 1);
        s.down = channels_;
        s.streams = static_cast<uint32_t>(chosen_.size());
        s.scratch = 2 * channels_ * sizeof(std::complex<float>);
        s.b = static_cast<float>(taps_.size());
        s.values = taps_; // then roots and numbers: dsp/resident/kinds_circuits.hpp
        s.values.resize(taps_.size() + taps_.size() % 2);
        const std::vector<float> roots = detail::floats(dsp::roots_of_unity(channels_));
        s.values.insert(s.values.end(), roots.begin(), roots.end());
        for (const uint32_t k : chosen_) {
            s.values.push_back(std::bit_cast<float>(k));
        }
        return s;
    }
    std::vector<float> taps_;
    uint32_t channels_;
    std::map<uint32_t, Source<std::complex<float>>> out_;
    std::vector<uint32_t> chosen_; // in the order in which they were asked for
};

} // namespace denizen::flow
