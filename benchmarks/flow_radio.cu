// SPDX-License-Identifier: Apache-2.0
#include "flow_radio.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/dsp/fir.hpp>
#include <denizen/dsp/resident/kinds.hpp>
#include <denizen/dsp/sample.hpp>

#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <stdexcept>

#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#endif

namespace denizen::bench {

RadioSignal radio_signal()
{
    RadioSignal signal;
    const size_t period = 16 * radio_quantum;
    for (size_t n = 0; n < period; ++n) { // its frequency stays inside of the filter, far from +-pi
        const double t =
            2 * std::numbers::pi * static_cast<double>(n) / static_cast<double>(period);
        const double phase = 12 * std::sin(3 * t) + 5 * std::cos(17 * t);
        signal.iq.emplace_back(static_cast<float>(std::cos(phase)),
                               static_cast<float>(std::sin(phase)));
    }
    signal.taps = dsp::low_pass(0.05, 0.06, 60);
    signal.taps.resize(radio_taps);
    dsp::Fir<std::complex<float>> fir(signal.taps, 1, radio_down);
    dsp::FmDemodulator demodulator(1.0f);
    std::vector<std::complex<float>> low(period / radio_down);
    signal.expected.resize(low.size());
    for (int pass = 0; pass < 2; ++pass) {
        fir.feed(signal.iq.data(), period, low.data());
        demodulator.feed(low.data(), low.size(), signal.expected.data());
    }
    return signal;
}

bool radio_right(const RadioSignal& signal, uint64_t first, const float* got, size_t count)
{
    const size_t period = signal.expected.size();
    for (size_t i = 0; i < count; ++i) {
        if (first + i < period) continue; // the beginning
        if (!(std::fabs(got[i] - signal.expected[(first + i) % period]) < 1e-3f)) return false;
    }
    return true;
}

#if defined(__CUDACC__)
namespace {

using flow::resident::Iq;
using flow::resident::Piece;
using flow::resident::Stage;

constexpr uint32_t streams = 4;
constexpr uint32_t fm_before = 1;
constexpr uint32_t before = fm_before * radio_down + radio_taps - 1;
constexpr size_t made = radio_quantum / radio_down;

struct Grid { // all threads of a launch, as a kind's team
    __device__ uint32_t lane() const { return blockIdx.x * blockDim.x + threadIdx.x; }
    __device__ uint32_t lanes() const { return gridDim.x * blockDim.x; }
};

template <class Kind>
__global__ void launch(Stage stage, float* values, const void* from, void* to, uint32_t keeps,
                       uint32_t count)
{
    const Grid team;
    Kind::make(Piece<Grid>{team, stage, values, from, nullptr, to, nullptr, 0, 0,
                           -static_cast<int64_t>(keeps), static_cast<int64_t>(count)});
}

void check(cudaError_t status)
{
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

struct Buffer { // one buffer under way
    cudaStream_t stream = nullptr;
    cudaEvent_t done = nullptr;
    std::complex<float>* in = nullptr; // pinned: `before` samples, then the quantum
    float* out = nullptr;              // pinned
    unsigned char* device = nullptr;
    uint64_t number = 0;
    bool busy = false;
};

constexpr size_t in_bytes = (before + radio_quantum) * sizeof(Iq);
constexpr size_t low_bytes = (fm_before + made) * sizeof(Iq);

void submit(Buffer& buffer, const RadioSignal& signal, float* taps, uint64_t number)
{
    const size_t period = signal.iq.size();
    const size_t begin = number * radio_quantum % period;
    std::memcpy(buffer.in + before, signal.iq.data() + begin, radio_quantum * sizeof(Iq));
    // What is in front of a quantum is the end of the one before.
    const size_t past = (begin + period - before) % period;
    const size_t first = std::min<size_t>(before, period - past);
    std::memcpy(buffer.in, signal.iq.data() + past, first * sizeof(Iq));
    std::memcpy(buffer.in + first, signal.iq.data(), (before - first) * sizeof(Iq));
    auto* in = reinterpret_cast<Iq*>(buffer.device);
    auto* low = reinterpret_cast<Iq*>(buffer.device + in_bytes);
    auto* out = reinterpret_cast<float*>(buffer.device + in_bytes + low_bytes);
    check(cudaMemcpyAsync(in, buffer.in, in_bytes, cudaMemcpyHostToDevice, buffer.stream));
    Stage fir;
    fir.down = radio_down;
    fir.values = radio_taps;
    launch<flow::resident::Fir<Iq, float>>
        <<<3, 128, 0, buffer.stream>>>(fir, taps, in + before, low + fm_before, fm_before, made);
    Stage fm;
    fm.a = 1;
    launch<flow::resident::DemodulateFm>
        <<<2, 128, 0, buffer.stream>>>(fm, nullptr, low + fm_before, out, 0, made);
    check(cudaMemcpyAsync(buffer.out, out, made * sizeof(float), cudaMemcpyDeviceToHost,
                          buffer.stream));
    check(cudaEventRecord(buffer.done, buffer.stream));
    buffer.number = number;
    buffer.busy = true;
}

void wait(Buffer& buffer)
{
    check(cudaEventSynchronize(buffer.done));
    buffer.busy = false;
}

bool right(const Buffer& buffer, const RadioSignal& signal)
{
    return buffer.number == 0 || radio_right(signal, buffer.number * made, buffer.out, made);
}

} // namespace

RadioFigures radio_by_launches(const RadioSignal& signal, uint32_t in_flight, uint64_t quanta,
                               uint32_t rounds)
{
    RadioFigures figures;
    figures.right = true;
    float* taps = nullptr;
    check(cudaMalloc(&taps, radio_taps * sizeof(float)));
    check(cudaMemcpy(taps, signal.taps.data(), radio_taps * sizeof(float), cudaMemcpyHostToDevice));
    cudaStream_t stream[streams];
    for (cudaStream_t& s : stream) check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    std::vector<Buffer> buffers(in_flight);
    const auto finish = [&](Buffer& buffer) {
        wait(buffer);
        figures.right &= right(buffer, signal);
    };
    for (size_t i = 0; i < buffers.size(); ++i) {
        Buffer& buffer = buffers[i];
        buffer.stream = stream[i % streams];
        check(cudaEventCreateWithFlags(&buffer.done, cudaEventDisableTiming));
        check(cudaHostAlloc(&buffer.in, in_bytes, cudaHostAllocDefault));
        check(cudaHostAlloc(&buffer.out, made * sizeof(float), cudaHostAllocDefault));
        check(cudaMalloc(&buffer.device, in_bytes + low_bytes + made * sizeof(float)));
    }
    for (uint64_t k = 0; k < quanta + 100; ++k) { // the first hundred are a warm-up
        const uint64_t begin = now_ns();
        submit(buffers[0], signal, taps, k);
        wait(buffers[0]);
        if (k >= 100) figures.latency_us.push_back(static_cast<double>(now_ns() - begin) * 1e-3);
        figures.right &= right(buffers[0], signal);
    }
    for (uint32_t round = 0; round < rounds; ++round) {
        const uint64_t begin = now_ns();
        for (uint64_t k = 0; k < quanta; ++k) {
            Buffer& buffer = buffers[k % in_flight];
            if (buffer.busy) finish(buffer);
            submit(buffer, signal, taps, k);
        }
        for (Buffer& buffer : buffers)
            if (buffer.busy) finish(buffer);
        figures.msps.push_back(static_cast<double>(quanta * radio_quantum) /
                               static_cast<double>(now_ns() - begin) * 1e3);
    }
    figures.quanta = quanta;
    for (Buffer& buffer : buffers) {
        check(cudaFreeHost(buffer.in));
        check(cudaFreeHost(buffer.out));
        check(cudaFree(buffer.device));
        check(cudaEventDestroy(buffer.done));
    }
    for (cudaStream_t s : stream) check(cudaStreamDestroy(s));
    check(cudaFree(taps));
    return figures;
}
#else
RadioFigures radio_by_launches(const RadioSignal&, uint32_t, uint64_t, uint32_t) { return {}; }
#endif

} // namespace denizen::bench
