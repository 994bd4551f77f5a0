// SPDX-License-Identifier: Apache-2.0
// What the kernels of signal processing give for a whole stream at once: blocks must give the same,
// however their quanta are cut.
#pragma once

#include <denizen/dsp/channelizer.hpp>
#include <denizen/dsp/fft.hpp>
#include <denizen/dsp/fir.hpp>

#include <complex>
#include <vector>

namespace denizen::test {

template <class Sample, class Tap>
std::vector<Sample> resampled(const std::vector<Sample>& in, const std::vector<Tap>& taps,
                              uint32_t up, uint32_t down)
{
    dsp::Fir<Sample, Tap> kernel(taps, up, down);
    std::vector<Sample> out(kernel.most(in.size()));
    out.resize(kernel.feed(in.data(), in.size(), out.data()));
    return out;
}

// Its whole frames.
inline std::vector<std::complex<float>> transformed(const std::vector<std::complex<float>>& in,
                                                    uint32_t points, bool inverse)
{
    const size_t frames = in.size() / points;
    std::vector<std::complex<float>> out(frames * points);
    dsp::Fft kernel(points);
    if (inverse) {
        kernel.inverse(in.data(), out.data(), frames);
    } else {
        kernel.forward(in.data(), out.data(), frames);
    }
    return out;
}

// Channel by channel.
inline std::vector<std::vector<std::complex<float>>>
channelized(const std::vector<std::complex<float>>& in, const std::vector<float>& taps,
            uint32_t channels)
{
    dsp::Channelizer kernel(taps, channels);
    const size_t frames = kernel.outputs(in.size());
    std::vector<std::complex<float>> all(channels * frames);
    kernel.feed(in.data(), in.size(), all.data(), frames);
    std::vector<std::vector<std::complex<float>>> out;
    for (auto first = all.begin(); first != all.end(); first += static_cast<ptrdiff_t>(frames)) {
        out.emplace_back(first, first + static_cast<ptrdiff_t>(frames));
    }
    return out;
}

} // namespace denizen::test
