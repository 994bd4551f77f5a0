// SPDX-License-Identifier: Apache-2.0
// Filters and gains over streams cut at random against sums written out, where sanitizers watch the
// buffers. test_dsp.py compares with SciPy.
#include <denizen/base/error.hpp>
#include <denizen/dsp/agc.hpp>
#include <denizen/dsp/channelizer.hpp>
#include <denizen/dsp/fft.hpp>
#include <denizen/dsp/fir.hpp>
#include <denizen/dsp/sample.hpp>

#include <gtest/gtest.h>
#include <random>

namespace denizen::dsp {
namespace {

template <class T>
std::vector<T> noise(size_t count, uint32_t seed)
{
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> parts(count * sizeof(T) / sizeof(float));
    for (float& part : parts) part = normal(random);
    const auto* values = reinterpret_cast<const T*>(parts.data());
    return {values, values + count};
}

// Hands `x` to `feed` in exact copies of pieces, so that a read beyond one is seen.
template <class T, class Feed>
void cut(const std::vector<T>& x, uint32_t seed, Feed&& feed)
{
    std::mt19937 random(seed);
    for (size_t at = 0; at < x.size();) {
        const size_t n = std::min<size_t>(x.size() - at, random() % (random() % 4 ? 20 : 9000));
        const std::vector<T> piece(x.begin() + static_cast<ptrdiff_t>(at),
                                   x.begin() + static_cast<ptrdiff_t>(at + n));
        feed(piece);
        at += n;
    }
}

template <class Sample, class Tap>
void check_fir(size_t taps, uint32_t up, uint32_t down)
{
    SCOPED_TRACE(testing::Message() << taps << " taps, up " << up << ", down " << down);
    const std::vector<Tap> h = noise<Tap>(taps, 1);
    const std::vector<Sample> x = noise<Sample>(12'000, 2);
    Fir<Sample, Tap> fir(h, up, down);
    std::vector<Sample> y;
    cut(x, up + down, [&](const std::vector<Sample>& piece) {
        std::vector<Sample> out(fir.most(piece.size()));
        out.resize(fir.feed(piece.data(), piece.size(), out.data()));
        y.insert(y.end(), out.begin(), out.end());
    });
    ASSERT_EQ(y.size(), (x.size() * up + down - 1) / down);
    for (size_t m = 0; m < y.size(); m += 1 + m % 37) {
        Sample sum{};
        for (size_t k = m * down % up; k < taps && k <= m * down; k += up)
            sum += h[k] * x[(m * down - k) / up];
        ASSERT_LT(std::abs(y[m] - sum), 1e-5f * static_cast<float>(taps + 10)) << "output " << m;
    }
}

TEST(Fir, IsTheSumOverTheTaps)
{
    const std::pair<uint32_t, uint32_t> rates[] = {{1, 1}, {1, 10}, {3, 1}, {24, 125}, {1, 9000}};
    for (const auto& [up, down] : rates) {
        for (const size_t taps : {1, 40, 333}) {
            check_fir<float, float>(taps, up, down);
            check_fir<Complex, float>(taps, up, down);
            check_fir<Complex, Complex>(taps, up, down);
        }
    }
}

TEST(Fir, RefusesWhatItCannotKeep)
{
    const std::vector<float> one(1, 1.0f);
    EXPECT_THROW(Fir<float>({}, 1, 1), Error);
    EXPECT_THROW(Fir<float>(one, 0, 1), Error);
    EXPECT_THROW(Fir<float>(one, 1, (1 << 20) + 1), Error);
    EXPECT_THROW(Fir<float>(one, 1 << 20, 1), Error);
}

TEST(Fft, IsTheSumOverTheSamples)
{
    for (const uint32_t n : {2u, 4u, 8u, 128u, 1024u}) {
        const std::vector<Complex> x = noise<Complex>(3 * n, n);
        std::vector<Complex> y(x.size());
        Fft fft(n);
        fft.forward(x.data(), y.data(), 3);
        for (uint32_t k = 0; k < n; k += 1 + k / 3) {
            std::complex<double> sum = 0;
            for (uint32_t i = 0; i < n; ++i) {
                const auto part = static_cast<double>(uint64_t{i} * k % n) / n;
                sum +=
                    std::complex<double>(x[n + i]) * std::polar(1.0, -2 * 3.14159265358979 * part);
            }
            ASSERT_LT(std::abs(std::complex<double>(y[n + k]) - sum), 1e-5 * n) << n << ", " << k;
        }
        fft.inverse(y.data(), y.data(), 3); // in place
        for (size_t i = 0; i < x.size(); ++i) ASSERT_LT(std::abs(y[i] - x[i]), 1e-5f) << n;
    }
    EXPECT_THROW(Fft(1), Error);
    EXPECT_THROW(Fft(12), Error);
    EXPECT_THROW(Fft(1 << 17), Error);
    EXPECT_THROW(Fft(2048).columns(), Error);
}

TEST(Channelizer, IsAFilterForEachChannel)
{
    const std::pair<uint32_t, size_t> banks[] = {{2, 1}, {2, 40}, {16, 16}, {16, 75}, {64, 700}};
    for (const auto& [channels, taps] : banks) {
        SCOPED_TRACE(testing::Message() << channels << " channels, " << taps << " taps");
        const std::vector<float> h = noise<float>(taps, 1);
        const std::vector<Complex> x = noise<Complex>(20'000, 2);
        Channelizer bank(h, channels);
        std::vector<std::vector<Complex>> y(channels);
        cut(x, channels, [&](const std::vector<Complex>& piece) {
            const size_t n = bank.outputs(piece.size());
            std::vector<Complex> out(n * channels);
            ASSERT_EQ(bank.feed(piece.data(), piece.size(), out.data(), n), n);
            for (uint32_t k = 0; k < channels; ++k)
                for (size_t m = 0; m < n; ++m) y[k].push_back(out[k * n + m]);
        });
        for (uint32_t k = 0; k < channels; k += 1 + k / 4) {
            std::vector<Complex> turned;
            for (size_t i = 0; i < taps; ++i) {
                const double turn = 2 * 3.14159265358979 * static_cast<double>(i * k % channels);
                turned.push_back(h[i] * Complex(std::polar(1.0, turn / channels)));
            }
            Fir<Complex, Complex> fir(turned, 1, channels);
            std::vector<Complex> alone(fir.most(x.size()));
            ASSERT_EQ(fir.feed(x.data(), x.size(), alone.data()), y[k].size());
            for (size_t m = 0; m < y[k].size(); ++m)
                ASSERT_LT(std::abs(alone[m] - y[k][m]), 2e-5f * static_cast<float>(taps + 10)) << m;
        }
    }
    EXPECT_THROW(Channelizer(noise<float>(10, 1), 12), Error);
    EXPECT_THROW(Channelizer({}, 8), Error);
}

TEST(Agc, SettlesAtTheReference)
{
    const std::vector<Complex> x(5000, Complex(0.3f, 0.4f));
    Agc<Complex> agc(2, 0.01f, 100);
    std::vector<Complex> y;
    cut(x, 3, [&](std::vector<Complex> piece) {
        agc.feed(piece.data(), piece.size(), piece.data());
        y.insert(y.end(), piece.begin(), piece.end());
    });
    EXPECT_EQ(y.front(), x.front());
    EXPECT_NEAR(std::abs(y.back()), 2, 1e-4);
    EXPECT_NEAR(agc.gain(), 4, 1e-3);
}

TEST(FmDemodulator, GivesTheAngleBetweenSamples)
{
    std::vector<Complex> x;
    for (int k = 0; k < 4000; ++k)
        x.push_back(std::polar(1.0f + static_cast<float>(k % 7), static_cast<float>(k % 5) * 0.6f));
    FmDemodulator demodulator(2);
    std::vector<float> y;
    cut(x, 5, [&](const std::vector<Complex>& piece) {
        std::vector<float> out(piece.size());
        demodulator.feed(piece.data(), piece.size(), out.data());
        y.insert(y.end(), out.begin(), out.end());
    });
    EXPECT_EQ(y[0], 0);
    for (size_t k = 1; k < x.size(); ++k)
        ASSERT_NEAR(y[k], 2 * std::arg(x[k] * std::conj(x[k - 1])), 4e-6) << k;
}

} // namespace
} // namespace denizen::dsp
