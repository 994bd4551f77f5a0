// SPDX-License-Identifier: Apache-2.0
// The discrete Fourier transform of 2 to 65536 points, a power of two: what the channelizer and
// blocks of a flow graph need without a library. In Python scipy.fft takes any length. The same
// steps by a team of GPU threads are in team_fft.hpp.
#pragma once

#include <denizen/dsp/butterfly.hpp>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace denizen::dsp {

// roots[k] = exp(-2 pi i k / points): what a team's transform reads.
std::vector<Iq> roots_of_unity(uint32_t points);

// One thread at a time: it has buffers of its own.
class Fft {
public:
    // Throws Errc::bad_argument for other numbers of points.
    explicit Fft(uint32_t points);

    uint32_t points() const { return points_; }

    // out[r][k] = the sum over i of in[r][i] exp(-2 pi i k i / points), row by row. `out` may be
    // `in`. The inverse has the other sign and divides by the number of points.
    void forward(const std::complex<float>* in, std::complex<float>* out, size_t rows);
    void inverse(const std::complex<float>* in, std::complex<float>* out, size_t rows);

    // So many transforms go together, as the lanes of vectors.
    static constexpr size_t lanes = 16;

    // The forward transforms of `lanes` columns, real and imaginary parts apart: element i of
    // transform l is re()[i * lanes + l]. In place, but re() and im() may be others afterwards.
    void columns();
    float* re() { return buffers_[0].data(); }
    float* im() { return buffers_[1].data(); }

private:
    template <size_t side_by_side>
    void run(bool swapped);
    template <bool inverse>
    void rows(const std::complex<float>* in, std::complex<float>* out, size_t rows);

    uint32_t points_;
    std::vector<float> roots_[2];    // of unity; real and imaginary parts
    std::vector<float> first_[3][2]; // the first step's, for p in order: w, w^2, w^3
    std::vector<float> buffers_[4];  // from and to, real and imaginary parts
};

} // namespace denizen::dsp
