// SPDX-License-Identifier: Apache-2.0
// What teams compute against the loops of the CPU, which test_dsp.py compares with SciPy: by one
// thread, by three threads with a barrier (ThreadSanitizer sees a sync() that is missing), and by a
// block of a GPU where the file was compiled by nvcc and there is one.
#include <denizen/dsp/agc.hpp>
#include <denizen/dsp/channelizer.hpp>
#include <denizen/dsp/fft.hpp>
#include <denizen/dsp/fir.hpp>
#include <denizen/dsp/sample.hpp>
#include <denizen/dsp/team_fft.hpp>
#include <denizen/dsp/team_fir.hpp>
#include <denizen/dsp/team_sample.hpp>

#include <barrier>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <thread>

namespace denizen::dsp {
namespace {

constexpr uint32_t samples = 3000;
constexpr uint32_t taps = 70;
constexpr uint32_t up = 3;
constexpr uint32_t down = 7;
constexpr uint32_t channels = 32;
constexpr uint32_t points = 512; // steps of four, and one of two
constexpr uint32_t frames = (samples + channels - 1) / channels;
constexpr uint32_t resampled = (samples * up + down - 1) / down;
constexpr uint32_t pieces[] = {1, 31, 0, 1000, 64, 5, 1899};

// All that a team reads and writes, as one piece of memory that may lie anywhere.
struct Work {
    Iq x[samples], h[taps], roots[points], bank_roots[channels];
    float real_h[taps], y[samples];
    Iq product[samples], leveled[samples], filtered[samples], rate[resampled], decimated[samples];
    float squares[samples], frequency[samples], gains[samples + 1];
    Iq banked[channels * frames], spectrum[points], back[points];
    Iq fir_history[2 * taps], rate_history[2 * taps], down_history[2 * taps];
    Iq bank_history[2 * taps], bank_a[channels], bank_b[channels], a[points], b[points];
};

template <class Team>
DENIZEN_HD void everything(Team& team, Work& w, const uint32_t* cuts, uint32_t cut_count)
{
    team::saxpy(team, 0.7f, w.real_h, w.y, taps);
    team::Agc agc{2, 0.01f, 8};
    team::Fir<Iq, Iq> fir{w.h, taps, 1, 1, w.fir_history};
    team::Fir<Iq> resampler{w.real_h, taps, up, down, w.rate_history};
    team::Fir<Iq> decimator{w.real_h, taps, 1, 10, w.down_history};
    team::Channelizer bank{w.real_h,       taps,     channels, w.bank_roots,
                           w.bank_history, w.bank_a, w.bank_b};
    uint32_t at = 0;
    uint32_t filtered = 0;
    uint32_t rate = 0;
    uint32_t decimated = 0;
    uint32_t banked = 0;
    for (uint32_t k = 0; k < cut_count; at += cuts[k], ++k) {
        const Iq* x = w.x + at;
        const uint32_t n = cuts[k];
        team::multiply(team, x, x, w.product + at, n);
        team::magnitude_squared(team, x, w.squares + at, n);
        team::demodulate_fm(team, x, at == 0 ? Iq{} : x[-1], 2.5f, w.frequency + at, n);
        agc.feed(team, x, n, w.leveled + at, w.gains);
        filtered += fir.feed(team, x, n, w.filtered + filtered);
        rate += resampler.feed(team, x, n, w.rate + rate);
        decimated += decimator.feed(team, x, n, w.decimated + decimated);
        banked += bank.feed(team, x, n, w.banked + banked, frames);
    }
    for (uint32_t i = team.rank(); i < points; i += team.size()) w.a[i] = w.x[i];
    team.sync();
    Iq* there = team::fft(team, w.a, w.b, w.roots, points);
    for (uint32_t i = team.rank(); i < points; i += team.size()) w.spectrum[i] = there[i];
    team.sync();
    there = team::fft<true>(team, there, there == w.a ? w.b : w.a, w.roots, points);
    for (uint32_t i = team.rank(); i < points; i += team.size()) w.back[i] = there[i];
    team.sync();
}

void fill(Work& w)
{
    std::memset(static_cast<void*>(&w), 0, sizeof w);
    std::mt19937 random(4);
    std::normal_distribution<float> normal;
    for (Iq& x : w.x) x = {normal(random), normal(random)};
    w.x[700] = {300, 0}; // a gain would turn negative
    for (Iq& x : w.h) x = {normal(random), normal(random)};
    for (float& x : w.real_h) x = normal(random);
    const auto put = [](const std::vector<Iq>& from, Iq* to) {
        std::copy(from.begin(), from.end(), to);
    };
    put(roots_of_unity(points), w.roots);
    put(roots_of_unity(channels), w.bank_roots);
}

float apart(const Iq* got, const std::vector<Complex>& expected)
{
    float most = 0;
    for (size_t i = 0; i < expected.size(); ++i)
        most = std::max(most, std::abs(Complex(got[i].re, got[i].im) - expected[i]));
    return most;
}

float apart(const float* got, const std::vector<float>& expected)
{
    float most = 0;
    for (size_t i = 0; i < expected.size(); ++i)
        most = std::max(most, std::fabs(got[i] - expected[i]));
    return most;
}

template <class Tap>
std::vector<Complex> filtered(const std::vector<Complex>& x, const Tap* h, uint32_t u, uint32_t d)
{
    Fir<Complex, Tap> fir({h, taps}, u, d);
    std::vector<Complex> out(fir.most(x.size()));
    out.resize(fir.feed(x.data(), x.size(), out.data()));
    return out;
}

void check(const Work& w)
{
    const auto* in = reinterpret_cast<const Complex*>(w.x);
    const std::vector<Complex> x(in, in + samples);
    std::vector<Complex> out(samples);
    std::vector<float> real(samples);
    std::vector<float> scaled(taps, 0.0f);
    saxpy(0.7f, w.real_h, scaled.data(), taps);
    EXPECT_LT(apart(w.y, scaled), 1e-6f);
    multiply(x.data(), x.data(), out.data(), samples);
    EXPECT_LT(apart(w.product, out), 1e-2f);
    magnitude_squared(x.data(), real.data(), samples);
    EXPECT_LT(apart(w.squares, real), 1e-2f);
    demodulate_fm(x.data(), 0, 2.5f, real.data(), samples);
    EXPECT_LT(apart(w.frequency, real), 1e-5f);
    dsp::Agc<Complex> agc(2, 0.01f, 8);
    agc.feed(x.data(), samples, out.data());
    EXPECT_LT(apart(w.leveled, out), 2e-3f);
    EXPECT_LT(apart(w.filtered, filtered(x, reinterpret_cast<const Complex*>(w.h), 1, 1)), 1e-2f);
    EXPECT_LT(apart(w.decimated, filtered(x, w.real_h, 1, 10)), 1e-2f);
    const std::vector<Complex> rate = filtered(x, w.real_h, up, down);
    ASSERT_EQ(rate.size(), resampled);
    EXPECT_LT(apart(w.rate, rate), 1e-2f);
    dsp::Channelizer bank({w.real_h, taps}, channels);
    ASSERT_EQ(bank.outputs(samples), frames);
    out.resize(size_t{channels} * frames);
    bank.feed(x.data(), samples, out.data(), frames);
    EXPECT_LT(apart(w.banked, out), 1e-2f);
    Fft fft(points);
    out.resize(points);
    fft.forward(x.data(), out.data(), 1);
    EXPECT_LT(apart(w.spectrum, out), 1e-3f);
    for (uint32_t i = 0; i < points; ++i) out[i] = x[i] * static_cast<float>(points);
    EXPECT_LT(apart(w.back, out), 1e-2f);
    EXPECT_GT(apart(w.back, std::vector<Complex>(points)), 100.0f); // there was something
}

struct OneThread {
    DENIZEN_HD uint32_t rank() const { return 0; }
    DENIZEN_HD uint32_t size() const { return 1; }
    DENIZEN_HD void sync() const {}
};

TEST(Team, OfOneComputesWhatTheLoopsDo)
{
    const auto work = std::make_unique<Work>();
    fill(*work);
    OneThread team;
    everything(team, *work, pieces, std::size(pieces));
    check(*work);
}

TEST(Team, GivesTheSameHoweverTheStreamIsCut)
{
    const auto whole = std::make_unique<Work>();
    const auto cut = std::make_unique<Work>();
    fill(*whole);
    fill(*cut);
    OneThread team;
    const uint32_t one[] = {samples};
    everything(team, *whole, one, 1);
    const std::vector<uint32_t> single(samples, 1);
    everything(team, *cut, single.data(), samples);
    const auto same = [](const auto& a, const auto& b) { return std::equal(a, std::end(a), b); };
    EXPECT_TRUE(same(whole->filtered, cut->filtered));
    EXPECT_TRUE(same(whole->rate, cut->rate));
    EXPECT_TRUE(same(whole->decimated, cut->decimated));
    EXPECT_TRUE(same(whole->banked, cut->banked));
    EXPECT_TRUE(same(whole->leveled, cut->leveled));
    EXPECT_TRUE(same(whole->frequency, cut->frequency));
}

struct Member {
    uint32_t number;
    uint32_t of;
    std::barrier<>* all;
    DENIZEN_HD uint32_t rank() const { return number; }
    DENIZEN_HD uint32_t size() const { return of; }
    DENIZEN_HD void sync() const
    {
#if !DENIZEN_ON_DEVICE
        all->arrive_and_wait();
#endif
    }
};

TEST(Team, OfThreeThreadsComputesTheSame)
{
    const auto work = std::make_unique<Work>();
    fill(*work);
    std::barrier all(3);
    std::vector<std::jthread> threads;
    for (uint32_t k = 0; k < 3; ++k)
        threads.emplace_back([&, k] {
            Member member{k, 3, &all};
            everything(member, *work, pieces, std::size(pieces));
        });
    threads.clear();
    check(*work);
}

#if defined(__CUDACC__)
struct Block {
    __device__ uint32_t rank() const { return threadIdx.x; }
    __device__ uint32_t size() const { return blockDim.x; }
    __device__ void sync() const { __syncthreads(); }
};

__global__ void all_of_it(Work* work, const uint32_t* cuts, uint32_t cut_count)
{
    Block block;
    everything(block, *work, cuts, cut_count);
}

TEST(Team, OfABlockOfAGpuComputesTheSame)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        GTEST_SKIP() << "this machine has no CUDA device";
    const auto work = std::make_unique<Work>();
    fill(*work);
    Work* there = nullptr;
    uint32_t* cuts = nullptr;
    ASSERT_EQ(cudaMalloc(&there, sizeof(Work)), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&cuts, sizeof pieces), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(there, work.get(), sizeof(Work), cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(cuts, pieces, sizeof pieces, cudaMemcpyHostToDevice), cudaSuccess);
    all_of_it<<<1, 96>>>(there, cuts, std::size(pieces));
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(work.get(), there, sizeof(Work), cudaMemcpyDeviceToHost), cudaSuccess);
    check(*work);
    cudaFree(there);
    cudaFree(cuts);
}
#endif

} // namespace
} // namespace denizen::dsp
