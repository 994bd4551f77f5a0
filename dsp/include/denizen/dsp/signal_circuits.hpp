// SPDX-License-Identifier: Apache-2.0
// Signal processing from one circuit into others, on the CPU: what makes more samples than it gets,
// whole frames, or several streams. They read quanta however they are cut. Their twins on the
// resident runtime are in resident_circuits.hpp. Host only.
//
//   auto& audio = graph.add<flow::Resampler<float>>("audio", taps, 24u, 125u);
//   graph.connect(fm.samples, audio.in);
//   graph.circuit("audio", audio.out, 4, 1024);
//   graph.connect(audio.out, sink.in);
#pragma once

#include <denizen/dsp/channelizer.hpp>
#include <denizen/dsp/fft.hpp>
#include <denizen/dsp/fir.hpp>
#include <denizen/dsp/sample.hpp>
#include <denizen/flow/block.hpp>

#include <algorithm>
#include <map>

namespace denizen::flow {

// y[m] = the sum over k of taps[k] u[m down - k], where u is the stream with up - 1 zeros after
// each sample: see dsp::Fir, which throws what this does. A tag goes to the first output at or
// after its sample. Buffers have room for the outputs of one sample, up / down.
template <class Sample, class Tap = float>
class Resampler : public Block {
public:
    In<Sample> in{*this, "in"};
    Source<Sample> out{*this, "out"};

    Resampler(std::string name, const std::vector<Tap>& taps, uint32_t up, uint32_t down)
        : Block(std::move(name)), fir_(taps, up, down), up_(up), down_(down)
    {
        out.follow(in, {up, down, Side::after});
        out.needs(fir_.most(1));
    }

private:
    void work() override
    {
        const std::span<const Sample> x = in.view();
        const size_t n = std::min(x.size(), out.room().size() * down_ / up_);
        if (n == 0) { // less room than for the outputs of a sample
            out.flush();
            return;
        }
        const size_t made = fir_.feed(x.data(), n, out.room().data());
        in.consume(n);
        out.produce(made);
    }
    dsp::Fir<Sample, Tap> fir_;
    size_t up_;
    size_t down_;
};

// The transforms of the stream's frames of `points` samples, from its first sample on: output
// f * points + k is number k of frame f, see dsp::Fft, which throws what this does. An incomplete
// last frame is dropped. Quanta hold whole frames; tags keep their numbers, so they stay in theirs.
class Fft : public Block {
public:
    In<dsp::Complex> in{*this, "in"};
    Source<dsp::Complex> out{*this, "out"};

    Fft(std::string name, uint32_t points, bool inverse = false)
        : Block(std::move(name)), fft_(points), inverse_(inverse)
    {
        out.follow(in);
        out.needs(points);
    }

private:
    void work() override
    {
        const size_t points = fft_.points();
        const std::span<const dsp::Complex> x = in.view();
        const size_t room = out.room().size() / points;
        if (room == 0) {
            out.flush();
            return;
        }
        if (begun_.empty() && x.size() >= points) {
            const size_t frames = std::min(x.size() / points, room);
            transform(x.data(), frames);
            in.consume(frames * points);
            return;
        }
        const size_t n = std::min(x.size(), points - begun_.size());
        begun_.insert(begun_.end(), x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n));
        in.consume(n);
        if (begun_.size() == points) {
            transform(begun_.data(), 1);
            begun_.clear();
        }
    }
    void transform(const dsp::Complex* frames, size_t count)
    {
        dsp::Complex* to = out.room().data();
        if (inverse_) {
            fft_.inverse(frames, to, count);
        } else {
            fft_.forward(frames, to, count);
        }
        out.produce(count * fft_.points());
    }
    dsp::Fft fft_;
    bool inverse_;
    std::vector<dsp::Complex> begun_; // of a frame that lies over the border of quanta
};

// Channels of a band, each a stream of its own at 1 / channels of the rate: see dsp::Channelizer,
// which throws what this does. Those that are asked for by channel() are made, each begins a
// circuit. A tag goes to every one of them, to the first output at or after its sample.
class Channelizer : public Block {
public:
    In<dsp::Complex> in{*this, "in"};

    Channelizer(std::string name, const std::vector<float>& taps, uint32_t channels)
        : Block(std::move(name)), bank_(taps, channels)
    {
    }

    // The port of channel k, named "channel k". Before the graph starts. Throws bad_argument.
    Source<dsp::Complex>& channel(uint32_t k)
    {
        if (k >= bank_.channels()) {
            throw Error(Errc::bad_argument, "block \"" + name() + "\": channel " +
                                                std::to_string(k) + " of " +
                                                std::to_string(bank_.channels()));
        }
        const auto [found, fresh] = out_.try_emplace(k, *this, "channel " + std::to_string(k));
        if (fresh) {
            found->second.follow(in, {1, bank_.channels(), Side::after});
        }
        return found->second;
    }

private:
    void work() override
    {
        constexpr size_t most = 16384; // samples at once: all channels' outputs stay in the caches
        const size_t channels = bank_.channels();
        size_t frames = most / channels;
        for (const auto& [k, port] : out_) {
            frames = std::min(frames, port.room().size());
        }
        const std::span<const dsp::Complex> x = in.view();
        const size_t n = std::min(x.size(), frames * channels);
        all_.resize(channels * frames);
        const size_t made = bank_.feed(x.data(), n, all_.data(), frames);
        in.consume(n);
        for (auto& [k, port] : out_) {
            std::copy_n(all_.begin() + static_cast<std::ptrdiff_t>(k * frames), made,
                        port.room().begin());
            port.produce(made);
        }
    }
    dsp::Channelizer bank_;
    std::map<uint32_t, Source<dsp::Complex>> out_;
    std::vector<dsp::Complex> all_; // of all channels, one after the other
};

} // namespace denizen::flow
