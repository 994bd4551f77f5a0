// SPDX-License-Identifier: Apache-2.0
// The kernels of signal processing on a stream in pieces of 16 KiB: the CPU's loops on one core,
// and, on a GPU, the same by teams, one block of threads on each SM with a stream of its own, which
// stays for all pieces. Outside the timed region the last piece is compared: of the loops with that
// of a team of one, of a GPU's first and last block with that of the loops.
#include "common.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/dsp/agc.hpp>
#include <denizen/dsp/channelizer.hpp>
#include <denizen/dsp/fft.hpp>
#include <denizen/dsp/fir.hpp>
#include <denizen/dsp/sample.hpp>
#include <denizen/dsp/team_fft.hpp>
#include <denizen/dsp/team_fir.hpp>
#include <denizen/dsp/team_sample.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>

namespace {

using namespace denizen;
using namespace denizen::bench;
using dsp::Complex;
using dsp::Iq;

constexpr uint32_t piece = 2048; // complex samples, 16 KiB
constexpr uint32_t taps = 64;
constexpr uint32_t down = 10;
constexpr uint32_t channels = 64;
constexpr uint32_t points = 1024;

enum Kernel {
    saxpy,
    multiply,
    magnitude,
    demodulate,
    agc,
    fir,
    decimator,
    channelizer,
    fft,
    kernels
};
constexpr const char* names[kernels] = {
    "saxpy",          "complex multiply",     "magnitude squared", "FM demodulation", "AGC",
    "FIR of 64 taps", "FIR of 64 taps by 10", "channelizer of 64", "FFT of 1024"};

// What every stream reads.
struct Given {
    Iq x[piece];
    float h[8 * channels];
    Iq roots[points];
    Iq bank_roots[channels];
};

// What a stream writes: of the last piece.
struct Taken {
    Iq out[piece];
    float real[2 * piece];
};

void fill(Given& given)
{
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (Iq& x : given.x) x = {normal(random), normal(random)};
    for (float& h : given.h) h = normal(random) / 16;
    const std::vector<Iq> roots = dsp::roots_of_unity(points);
    std::copy(roots.begin(), roots.end(), given.roots);
    const std::vector<Iq> bank = dsp::roots_of_unity(channels);
    std::copy(bank.begin(), bank.end(), given.bank_roots);
}

// Of this thread alone: what others do on its core meanwhile is not counted.
uint64_t processor_ns()
{
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

// The CPU's streams, at their begin.
struct Streams {
    explicit Streams(const Given& given)
        : filter(std::span(given.h, taps)), fewer(std::span(given.h, taps), 1, down),
          bank(given.h, channels)
    {
    }
    dsp::FmDemodulator demodulator{1};
    dsp::Agc<Complex> level{1, 1e-3f, 100};
    dsp::Fir<Complex> filter;
    dsp::Fir<Complex> fewer;
    dsp::Channelizer bank;
    dsp::Fft transform{points};
};

// The CPU's loops over `pieces` times the same piece.
void loops(Kernel kernel, Streams& s, const Given& given, uint32_t pieces, Taken& taken)
{
    const auto* x = reinterpret_cast<const Complex*>(given.x);
    auto* out = reinterpret_cast<Complex*>(taken.out);
    for (uint32_t k = 0; k < pieces; ++k) {
        switch (kernel) {
        case saxpy:
            dsp::saxpy(0.5f, reinterpret_cast<const float*>(given.x), taken.real, 2 * piece);
            break;
        case multiply: dsp::multiply(x, x, out, piece); break;
        case magnitude: dsp::magnitude_squared(x, taken.real, piece); break;
        case demodulate: s.demodulator.feed(x, piece, taken.real); break;
        case agc: s.level.feed(x, piece, out); break;
        case fir: s.filter.feed(x, piece, out); break;
        case decimator: s.fewer.feed(x, piece, out); break;
        case channelizer: s.bank.feed(x, piece, out, piece / channels); break;
        case fft: s.transform.forward(x, out, piece / points); break;
        case kernels: break;
        }
    }
}

// What a team keeps from piece to piece, and works with.
struct Kept {
    Iq history[2 * 8 * channels];
};
struct Workspace {
    Iq a[points];
    Iq b[points];
    float gains[piece + 1];
};

// The same by a team. False if it left before its end, `limit` ns after its begin.
template <class Team>
DENIZEN_HD bool by_team(Team& team, Kernel kernel, const Given& given, uint32_t pieces,
                        uint64_t limit, Taken& taken, Kept& kept, Workspace& workspace)
{
    for (uint32_t i = team.rank(); i < 2 * piece; i += team.size()) taken.real[i] = 0;
    for (uint32_t i = team.rank(); i < 2 * 8 * channels; i += team.size()) kept.history[i] = {};
    team.sync();
    dsp::team::Agc level{1, 1e-3f, 100};
    dsp::team::Fir<Iq> filter{given.h, taps, 1, kernel == decimator ? down : 1, kept.history};
    dsp::team::Channelizer bank{given.h,      8 * channels, channels,   given.bank_roots,
                                kept.history, workspace.a,  workspace.b};
    Iq before;
    const uint64_t begin = now_ns();
    for (uint32_t k = 0; k < pieces; ++k) {
        // One looks at the clock and all leave.
        if (team.any(team.rank() == 0 && now_ns() - begin > limit)) return false;
        switch (kernel) {
        case saxpy: dsp::team::saxpy(team, 0.5f, &given.x[0].re, taken.real, 2 * piece); break;
        case multiply: dsp::team::multiply(team, given.x, given.x, taken.out, piece); break;
        case magnitude: dsp::team::magnitude_squared(team, given.x, taken.real, piece); break;
        case demodulate:
            dsp::team::demodulate_fm(team, given.x, before, 1, taken.real, piece);
            before = given.x[piece - 1];
            break;
        case agc: level.feed(team, given.x, piece, taken.out, workspace.gains); break;
        case fir:
        case decimator: filter.feed(team, given.x, piece, taken.out); break;
        case channelizer: bank.feed(team, given.x, piece, taken.out, piece / channels); break;
        case fft:
            for (uint32_t row = 0; row < piece; row += points) {
                for (uint32_t i = team.rank(); i < points; i += team.size())
                    workspace.a[i] = given.x[row + i];
                team.sync();
                const Iq* done =
                    dsp::team::fft(team, workspace.a, workspace.b, given.roots, points);
                for (uint32_t i = team.rank(); i < points; i += team.size())
                    taken.out[row + i] = done[i];
                team.sync();
            }
            break;
        case kernels: break;
        }
        team.sync(); // a piece is whole before the next begins
    }
    return true;
}

struct OneThread {
    DENIZEN_HD uint32_t rank() const { return 0; }
    DENIZEN_HD uint32_t size() const { return 1; }
    DENIZEN_HD void sync() const {}
    DENIZEN_HD bool any(bool member) const { return member; }
};

uint32_t samples_of(Kernel kernel) { return kernel == saxpy ? 2 * piece : piece; }

// Largest difference over the largest value.
bool agree(const Taken& a, const Taken& b)
{
    double most = 0;
    double apart = 0;
    const auto look = [&](const float* p, const float* q, size_t count) {
        for (size_t i = 0; i < count; ++i) {
            most = std::max(most, std::fabs(static_cast<double>(p[i])));
            apart = std::max(apart, std::fabs(static_cast<double>(p[i]) - q[i]));
        }
    };
    look(&a.out[0].re, &b.out[0].re, 2 * piece);
    look(a.real, b.real, 2 * piece);
    return most > 0.1 && apart < 1e-4 * most;
}

#if defined(__CUDACC__)
void check(cudaError_t status)
{
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

struct Block {
    __device__ uint32_t rank() const { return threadIdx.x; }
    __device__ uint32_t size() const { return blockDim.x; }
    __device__ void sync() const { __syncthreads(); }
    __device__ bool any(bool member) const { return __syncthreads_or(member) != 0; }
};

constexpr uint32_t block_threads = 512;
constexpr uint64_t limit_ns = 2'000'000'000;

__global__ void __launch_bounds__(block_threads)
    streams(Kernel kernel, const Given* given, uint32_t pieces, Taken* taken, Kept* kept,
            uint32_t* late)
{
    __shared__ Workspace workspace;
    Block block;
    if (!by_team(block, kernel, *given, pieces, limit_ns, taken[blockIdx.x], kept[blockIdx.x],
                 workspace))
        *late = 1;
}

// A stream on each SM; the first and the last are compared with `expected`.
void on_gpu(int gpu, const Given& given, const std::vector<Taken>& expected, uint32_t pieces,
            uint32_t rounds)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || gpu >= devices) return;
    check(cudaSetDevice(gpu));
    cudaDeviceProp found{};
    check(cudaGetDeviceProperties(&found, gpu));
    print_environment(Json().add("device", static_cast<const char*>(found.name)));
    const auto blocks = static_cast<uint32_t>(found.multiProcessorCount);
    Given* there = nullptr;
    Taken* taken = nullptr;
    Kept* kept = nullptr;
    uint32_t* late = nullptr;
    check(cudaMalloc(&there, sizeof given));
    check(cudaMalloc(&taken, blocks * sizeof(Taken)));
    check(cudaMalloc(&kept, blocks * sizeof(Kept)));
    check(cudaMalloc(&late, sizeof *late));
    check(cudaMemcpy(there, &given, sizeof given, cudaMemcpyHostToDevice));
    check(cudaMemset(late, 0, sizeof *late));
    for (int k = 0; k < kernels; ++k) {
        const auto kernel = static_cast<Kernel>(k);
        check(cudaMemset(taken, 0, blocks * sizeof(Taken)));
        const auto run = [&] {
            const uint64_t begin = now_ns();
            streams<<<blocks, block_threads>>>(kernel, there, pieces, taken, kept, late);
            check(cudaGetLastError());
            check(cudaDeviceSynchronize()); // ends: the kernel has a limit
            const auto ns = static_cast<double>(now_ns() - begin);
            return static_cast<double>(samples_of(kernel)) * pieces * blocks / ns * 1e3;
        };
        run(); // a warm-up
        Samples rates[2] = {Samples(rounds), Samples(rounds)};
        interleaved(rounds, 2, [&](size_t again) { rates[again].add(run()); });
        uint32_t left = 0;
        check(cudaMemcpy(&left, late, sizeof left, cudaMemcpyDeviceToHost));
        Case one(names[k], Json().add("on", "GPU, one stream for each SM"), "Msps");
        one.n = uint64_t{samples_of(kernel)} * pieces * blocks * rounds;
        one.verified = left == 0;
        const auto got = std::make_unique<Taken>();
        for (const uint32_t block : {0u, blocks - 1}) {
            check(cudaMemcpy(got.get(), taken + block, sizeof(Taken), cudaMemcpyDeviceToHost));
            one.verified &= agree(expected[static_cast<size_t>(k)], *got);
        }
        one.print(rates[0]);
        one.arm = "A/A";
        one.print(rates[1]);
    }
    for (void* p : {static_cast<void*>(there), static_cast<void*>(taken), static_cast<void*>(kept),
                    static_cast<void*>(late)})
        check(cudaFree(p));
}
#endif

} // namespace

int main(int argc, char** argv)
{
    bool quick = false;
    const char* device = "auto";
    for (int i = 1; i < argc; ++i) {
        quick |= std::strcmp(argv[i], "--quick") == 0;
        if (std::strcmp(argv[i], "--device") == 0 && i + 1 < argc) device = argv[i + 1];
    }
    const std::vector<int> cores = allowed_cores();
    const bool pinned = !cores.empty() && pin_to_core(cores.back());
    print_environment(Json().add("pinned", pinned));
    const auto given = std::make_unique<Given>();
    fill(*given);
    const uint32_t pieces = quick ? 50 : 500;
    const uint32_t rounds = quick ? 5 : 31;
    std::vector<Taken> expected(kernels);
    std::vector<Samples> rates(2 * kernels, Samples(rounds)); // each twice
    interleaved(rounds, 2 * kernels, [&](size_t i) {
        const size_t k = i % kernels;
        const auto kernel = static_cast<Kernel>(k);
        Streams fresh(*given);
        std::fill(std::begin(expected[k].real), std::end(expected[k].real), 0.0f);
        const uint64_t begin = processor_ns();
        loops(kernel, fresh, *given, pieces, expected[k]);
        const auto ns = static_cast<double>(processor_ns() - begin);
        rates[i].add(static_cast<double>(samples_of(kernel)) * pieces / ns * 1e3);
    });
    for (size_t k = 0; k < kernels; ++k) {
        const auto kernel = static_cast<Kernel>(k);
        const auto taken = std::make_unique<Taken>();
        const auto kept = std::make_unique<Kept>();
        const auto workspace = std::make_unique<Workspace>();
        OneThread team;
        Case one(names[k], Json().add("on", "one core"), "Msps");
        one.n = uint64_t{samples_of(kernel)} * pieces * rounds;
        one.verified = by_team(team, kernel, *given, pieces, ~0ull, *taken, *kept, *workspace) &&
                       agree(expected[k], *taken);
        one.print(rates[k]);
        one.arm = "A/A";
        one.print(rates[kernels + k]);
    }
#if defined(__CUDACC__)
    if (std::strncmp(device, "cpu", 3) != 0)
        on_gpu(std::strncmp(device, "gpu:", 4) == 0 ? std::atoi(device + 4) : 0, *given, expected,
               pieces, rounds);
#else
    (void)device;
#endif
    return 0;
}
