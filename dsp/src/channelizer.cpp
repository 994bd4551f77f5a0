// SPDX-License-Identifier: Apache-2.0
// A frame is what all channels give at one time: its samples, weighted by the taps and summed
// `channels` apart, then transformed. Sixteen frames are transformed together, as lanes.
#include <denizen/dsp/channelizer.hpp>

#include <denizen/base/levels.hpp>

#include <denizen/base/error.hpp>

#include <algorithm>
#include <string>

namespace denizen::dsp {
namespace {

constexpr size_t block = 16384; // samples taken at once

// out[j] = the sum over t of taps[t * n + j] * x[t * n + j]: the lanes are neighbouring j.
DENIZEN_LEVELS void weigh(const float* __restrict taps, const float* __restrict x, size_t rows,
                          size_t n, float* __restrict out)
{
    for (size_t j = 0; j < n; ++j) out[j] = taps[j] * x[j];
    for (size_t t = 1; t < rows; ++t)
        for (size_t j = 0; j < n; ++j) out[j] += taps[t * n + j] * x[t * n + j];
}

// Complex numbers of `count` lanes.
DENIZEN_LEVELS void join(const float* __restrict re, const float* __restrict im,
                         float* __restrict out, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        out[2 * i] = re[i];
        out[2 * i + 1] = im[i];
    }
}

DENIZEN_LEVELS void part(const float* __restrict x, float* __restrict re, float* __restrict im,
                         size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        re[i] = x[2 * i];
        im[i] = x[2 * i + 1];
    }
}

uint32_t checked(uint32_t channels, size_t taps)
{
    if (channels < 2 || channels > 1024 || (channels & (channels - 1)) != 0)
        throw Error(Errc::bad_argument,
                    std::to_string(channels) + " channels; give a power of two from 2 to 1024");
    if (taps == 0 || taps > 1 << 20)
        throw Error(Errc::bad_argument,
                    std::to_string(taps) + " taps; a channelizer takes 1 to 2^20 of them");
    return channels;
}

} // namespace

Channelizer::Channelizer(std::span<const float> taps, uint32_t channels)
    : fft_(checked(channels, taps.size())), rows_((taps.size() + channels - 1) / channels)
{
    const size_t window = rows_ * channels;
    taps_.assign(window, 0);
    for (size_t i = 0; i < taps.size(); ++i) taps_[window - 1 - i] = taps[i];
    filled_ = window - 1; // zeros, as before the stream
    due_ = filled_;
    for (size_t p = 0; p < 2; ++p) {
        x_[p].assign(filled_ + block, 0);
        sum_[p].resize(channels);
    }
}

size_t Channelizer::outputs(size_t count) const
{
    const size_t end = filled_ + count;
    return end > due_ ? (end - due_ - 1) / channels() + 1 : 0;
}

size_t Channelizer::feed(const Complex* in, size_t count, Complex* out, size_t pitch)
{
    const size_t n = channels();
    size_t written = 0;
    while (count > 0) {
        const size_t taken = std::min(count, x_[0].size() - filled_);
        part(reinterpret_cast<const float*>(in), x_[0].data() + filled_, x_[1].data() + filled_,
             taken);
        filled_ += taken;
        in += taken;
        count -= taken;
        while (due_ < filled_) {
            const size_t frames = std::min((filled_ - due_ - 1) / n + 1, Fft::lanes);
            transform(due_ + 1 - rows_ * n, frames, out + written, pitch);
            written += frames;
            due_ += frames * n;
        }
        const size_t done = due_ - (rows_ * n - 1); // before the next frame's oldest sample
        for (size_t p = 0; p < 2; ++p)
            std::copy(x_[p].begin() + static_cast<ptrdiff_t>(done),
                      x_[p].begin() + static_cast<ptrdiff_t>(filled_), x_[p].begin());
        filled_ -= done;
        due_ -= done;
    }
    return written;
}

// The frames whose windows begin at x_[first], first + channels, ...
void Channelizer::transform(size_t first, size_t frames, Complex* out, size_t pitch)
{
    const size_t n = channels();
    float* const columns[2] = {fft_.re(), fft_.im()};
    for (size_t frame = 0; frame < frames; ++frame) {
        for (size_t p = 0; p < 2; ++p) {
            weigh(taps_.data(), x_[p].data() + first + frame * n, rows_, n, sum_[p].data());
            // The newest sample is number 0 of the transform, the one after the oldest number 1.
            columns[p][frame] = sum_[p][n - 1];
            for (size_t j = 0; j + 1 < n; ++j)
                columns[p][(j + 1) * Fft::lanes + frame] = sum_[p][j];
        }
    }
    for (size_t p = 0; p < 2 && frames < Fft::lanes; ++p) // what lay there could be no number
        for (size_t j = 0; j < n; ++j)
            std::fill(columns[p] + j * Fft::lanes + frames, columns[p] + (j + 1) * Fft::lanes,
                      0.0f);
    fft_.columns();
    for (size_t k = 0; k < n; ++k)
        join(fft_.re() + k * Fft::lanes, fft_.im() + k * Fft::lanes,
             reinterpret_cast<float*>(out + k * pitch), frames);
}

} // namespace denizen::dsp
