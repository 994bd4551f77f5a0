// SPDX-License-Identifier: Apache-2.0
#include <denizen/dsp/fft.hpp>

#include <denizen/base/levels.hpp>

#include <denizen/base/error.hpp>

#include <bit>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

namespace denizen::dsp {
namespace {

using Complex = std::complex<float>;

// One pass from here to there, real and imaginary parts apart.
struct Pass {
    const float* __restrict re;
    const float* __restrict im;
    float* __restrict to_re;
    float* __restrict to_im;
};

// One butterfly each for `width` neighbours: q of butterfly.hpp, and lanes.
__attribute__((always_inline)) inline void steps(Pass pass, size_t rest, size_t width,
                                                 size_t stride, const float* roots_re,
                                                 const float* roots_im)
{
    const size_t quarter = rest / 4;
    const auto root = [&](size_t k) { return Iq{roots_re[k], roots_im[k]}; };
    for (size_t p = 0; p < quarter; ++p) {
        const Iq w1 = root(p * stride);
        const Iq w2 = root(2 * p * stride);
        const Iq w3 = root(3 * p * stride);
        const float* __restrict re = pass.re + p * width;
        const float* __restrict im = pass.im + p * width;
        float* __restrict to_re = pass.to_re + 4 * p * width;
        float* __restrict to_im = pass.to_im + 4 * p * width;
        const size_t apart = quarter * width;
        for (size_t q = 0; q < width; ++q) {
            Iq out[4];
            radix4({re[q], im[q]}, {re[q + apart], im[q + apart]},
                   {re[q + 2 * apart], im[q + 2 * apart]}, {re[q + 3 * apart], im[q + 3 * apart]},
                   w1, w2, w3, out);
            for (size_t k = 0; k < 4; ++k) {
                to_re[q + k * width] = out[k].re;
                to_im[q + k * width] = out[k].im;
            }
        }
    }
}

// A width known beforehand leaves no loop behind.
DENIZEN_LEVELS void step4(Pass pass, size_t rest, size_t width, size_t stride,
                          const float* roots_re, const float* roots_im)
{
    if (width == 4) {
        steps(pass, rest, 4, stride, roots_re, roots_im);
    } else if (width == Fft::lanes) {
        steps(pass, rest, Fft::lanes, stride, roots_re, roots_im);
    } else {
        steps(pass, rest, width, stride, roots_re, roots_im);
    }
}

// The same for one transform's first step, whose butterflies have no neighbours: p are the lanes.
DENIZEN_LEVELS void first4(Pass pass, size_t points, const float* w1_re, const float* w1_im,
                           const float* w2_re, const float* w2_im, const float* w3_re,
                           const float* w3_im)
{
    const size_t quarter = points / 4;
    const float* __restrict re = pass.re;
    const float* __restrict im = pass.im;
    float* __restrict to_re = pass.to_re;
    float* __restrict to_im = pass.to_im;
    for (size_t p = 0; p < quarter; ++p) {
        Iq out[4];
        radix4({re[p], im[p]}, {re[p + quarter], im[p + quarter]},
               {re[p + 2 * quarter], im[p + 2 * quarter]},
               {re[p + 3 * quarter], im[p + 3 * quarter]}, {w1_re[p], w1_im[p]},
               {w2_re[p], w2_im[p]}, {w3_re[p], w3_im[p]}, out);
        for (size_t k = 0; k < 4; ++k) {
            to_re[4 * p + k] = out[k].re;
            to_im[4 * p + k] = out[k].im;
        }
    }
}

// The last step, if a factor of two is left.
DENIZEN_LEVELS void last2(Pass pass, size_t width)
{
    const float* __restrict re = pass.re;
    const float* __restrict im = pass.im;
    float* __restrict to_re = pass.to_re;
    float* __restrict to_im = pass.to_im;
    for (size_t q = 0; q < width; ++q) {
        to_re[q] = re[q] + re[q + width];
        to_im[q] = im[q] + im[q + width];
        to_re[q + width] = re[q] - re[q + width];
        to_im[q + width] = im[q] - im[q + width];
    }
}

DENIZEN_LEVELS void apart(const float* __restrict x, float* __restrict re, float* __restrict im,
                          size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        re[i] = x[2 * i];
        im[i] = x[2 * i + 1];
    }
}

DENIZEN_LEVELS void together(const float* __restrict re, const float* __restrict im,
                             float* __restrict x, float scale, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        x[2 * i] = re[i] * scale;
        x[2 * i + 1] = im[i] * scale;
    }
}

constexpr uint32_t most_points = 65536;
// Of `lanes` transforms side by side more than this would leave the second-level cache.
constexpr uint32_t most_side_by_side = 1024;

} // namespace

std::vector<Iq> roots_of_unity(uint32_t points)
{
    std::vector<Iq> roots(points);
    for (uint32_t k = 0; k < points; ++k) {
        const double turn = -2 * std::numbers::pi * k / points;
        roots[k] = {static_cast<float>(std::cos(turn)), static_cast<float>(std::sin(turn))};
    }
    return roots;
}

Fft::Fft(uint32_t points) : points_(points)
{
    if (points < 2 || points > most_points || !std::has_single_bit(points))
        throw Error(Errc::bad_argument, "a Fourier transform of " + std::to_string(points) +
                                            " points; give a power of two from 2 to 65536");
    const std::vector<Iq> roots = roots_of_unity(points);
    for (const Iq& root : roots) {
        roots_[0].push_back(root.re);
        roots_[1].push_back(root.im);
    }
    for (size_t k = 0; k < 3; ++k) {
        for (size_t p = 0; p < points / 4; ++p) {
            first_[k][0].push_back(roots[(k + 1) * p].re);
            first_[k][1].push_back(roots[(k + 1) * p].im);
        }
    }
    const size_t room = points <= most_side_by_side ? points * lanes : points;
    for (std::vector<float>& buffer : buffers_) buffer.resize(room);
}

// From buffers_[0] and [1], through [2] and [3], back into the first two; `swapped`: the parts
// change their roles, which is the inverse transform but for its scale.
template <size_t side_by_side>
void Fft::run(bool swapped)
{
    size_t stride = 1;
    for (size_t rest = points_; rest > 1; rest /= 4, stride *= 4) {
        const size_t width = stride * side_by_side;
        const int re = swapped ? 1 : 0;
        const Pass pass = {buffers_[re].data(), buffers_[1 - re].data(), buffers_[2 + re].data(),
                           buffers_[3 - re].data()};
        if (rest == 2) {
            last2(pass, width);
        } else if (width == 1) {
            first4(pass, points_, first_[0][0].data(), first_[0][1].data(), first_[1][0].data(),
                   first_[1][1].data(), first_[2][0].data(), first_[2][1].data());
        } else {
            step4(pass, rest, width, stride, roots_[0].data(), roots_[1].data());
        }
        std::swap(buffers_[0], buffers_[2]);
        std::swap(buffers_[1], buffers_[3]);
        if (rest == 2) return;
    }
}

void Fft::columns()
{
    if (points_ > most_side_by_side)
        throw Error(Errc::bad_argument, "side by side go transforms of at most 1024 points, not " +
                                            std::to_string(points_));
    run<lanes>(false);
}

template <bool inverse>
void Fft::rows(const Complex* in, Complex* out, size_t rows)
{
    const float scale = inverse ? 1 / static_cast<float>(points_) : 1.0f;
    const size_t n = points_;
    for (; rows > 0; --rows, in += n, out += n) {
        apart(reinterpret_cast<const float*>(in), re(), im(), n);
        run<1>(inverse);
        together(re(), im(), reinterpret_cast<float*>(out), scale, n);
    }
}

void Fft::forward(const Complex* in, Complex* out, size_t rows)
{
    this->rows<false>(in, out, rows);
}

void Fft::inverse(const Complex* in, Complex* out, size_t rows) { this->rows<true>(in, out, rows); }

} // namespace denizen::dsp
