// SPDX-License-Identifier: Apache-2.0
#include <denizen/dsp/fir.hpp>

#include "loops.hpp"

#include <denizen/base/error.hpp>

#include <algorithm>
#include <string>

namespace denizen::dsp {
namespace {

// What is taken at once and its outputs stay in the caches.
constexpr size_t most_samples = 8192;
constexpr size_t most_outputs = 16384;

template <class T>
float part(const T& value, size_t p)
{
    return reinterpret_cast<const float*>(&value)[p]; // what std::complex promises
}

size_t rate(uint32_t value, const char* name)
{
    if (value < 1 || value > 1u << 20)
        throw Error(Errc::bad_argument, std::string(name) + " is " + std::to_string(value) +
                                            "; give a whole number from 1 to 2^20");
    return value;
}

} // namespace

template <class Sample, class Tap>
Fir<Sample, Tap>::Fir(std::span<const Tap> taps, uint32_t up, uint32_t down)
    : up_(rate(up, "up")), down_(rate(down, "down")), given_(taps.size())
{
    const size_t needed = (taps.size() + up_ - 1) / up_;
    taps_ = (needed + loops::lanes - 1) / loops::lanes * loops::lanes;
    if (taps.size() > 1 << 22 || taps_ * up_ > 1 << 22)
        throw Error(Errc::bad_argument,
                    std::to_string(taps.size()) + " taps in " + std::to_string(up_) +
                        " phases; at most 2^22 values are kept, every phase being filled up to a "
                        "multiple of 16");
    set_taps(taps);
    block_ = std::clamp<size_t>(most_outputs * down_ / up_, 1, most_samples);
    const size_t room = most(block_) + loops::across;
    for (size_t p = 0; p < parts; ++p) {
        // correlate() may read on for as many outputs as it computes too many.
        x_[p].assign(taps_ - 1 + block_ + loops::across * down_, 0);
        y_[p].resize(room);
    }
    of_phase_.resize(2 * room);
    filled_ = taps_ - 1;
}

template <class Sample, class Tap>
void Fir<Sample, Tap>::set_taps(std::span<const Tap> taps)
{
    if (taps.empty()) throw Error(Errc::bad_argument, "a filter needs at least one tap");
    if (taps.size() > given_)
        throw Error(Errc::bad_argument, std::to_string(taps.size()) + " taps where there were " +
                                            std::to_string(given_) +
                                            ": make the filter with as many, the rest 0");
    for (size_t p = 0; p < tap_parts; ++p) {
        h_[p].assign(taps_ * up_, 0);
        for (size_t k = 0; k < taps.size(); ++k)
            h_[p][k % up_ * taps_ + taps_ - 1 - k / up_] = part(taps[k], p);
    }
}

template <class Sample, class Tap>
size_t Fir<Sample, Tap>::most(size_t count) const
{
    return count / down_ * up_ + (count % down_ * up_ + down_ - 1) / down_;
}

// Output i of the block's is at u's index next_ + i * down_. Those that have the same phase lie
// up_ outputs and down_ samples apart: for each phase they are one correlation.
template <class Sample, class Tap>
size_t Fir<Sample, Tap>::outputs() const
{
    const uint64_t end = (filled_ - (taps_ - 1)) * up_;
    return next_ >= end ? 0 : static_cast<size_t>((end - next_ + down_ - 1) / down_);
}

template <class Sample, class Tap>
size_t Fir<Sample, Tap>::feed(const Sample* in, size_t count, Sample* out)
{
    size_t written = 0;
    while (count > 0) {
        const size_t taken = std::min(count, block_);
        for (size_t p = 0; p < parts; ++p)
            for (size_t i = 0; i < taken; ++i) x_[p][filled_ + i] = part(in[i], p);
        filled_ += taken;
        in += taken;
        count -= taken;

        const size_t n = outputs();
        for (size_t first = 0; first < std::min(n, up_); ++first) {
            const uint64_t at = next_ + first * down_;
            const size_t sample = static_cast<size_t>(at / up_);
            const size_t of_phase = (n - first + up_ - 1) / up_;
            const auto correlate = [&](size_t tap_part, size_t sample_part, float* to) {
                loops::correlate(h_[tap_part].data() + at % up_ * taps_, taps_,
                                 x_[sample_part].data() + sample, down_, of_phase, to);
            };
            float* const a = of_phase_.data();
            float* const b = a + of_phase_.size() / 2;
            for (size_t p = 0; p < parts; ++p) {
                correlate(0, p, a);
                if constexpr (tap_parts == 2) {
                    correlate(1, 1 - p, b);
                    for (size_t i = 0; i < of_phase; ++i) a[i] = p == 0 ? a[i] - b[i] : a[i] + b[i];
                }
                for (size_t i = 0; i < of_phase; ++i) y_[p][first + i * up_] = a[i];
            }
        }
        interleave(n, out + written);
        written += n;
        next_ = next_ + n * down_ - taken * up_;
        for (size_t p = 0; p < parts; ++p)
            std::copy_n(x_[p].begin() + static_cast<ptrdiff_t>(taken), taps_ - 1, x_[p].begin());
        filled_ = taps_ - 1;
    }
    return written;
}

template <class Sample, class Tap>
void Fir<Sample, Tap>::interleave(size_t count, Sample* out)
{
    auto* to = reinterpret_cast<float*>(out);
    for (size_t i = 0; i < count; ++i)
        for (size_t p = 0; p < parts; ++p) to[parts * i + p] = y_[p][i];
}

template class Fir<float, float>;
template class Fir<std::complex<float>, float>;
template class Fir<std::complex<float>, std::complex<float>>;

} // namespace denizen::dsp
