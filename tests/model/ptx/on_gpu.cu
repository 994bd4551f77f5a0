// SPDX-License-Identifier: Apache-2.0
// Runs litmus tests on GPUs: many instances at a time, each with places of its own, whose threads
// are of blocks on different SMs. The tests are variants.inc, which on_gpu writes.
//
// What brings rare outcomes about: all blocks of a group begin a round together and then wait for a
// few cycles more, each as many as it draws; some instances' places are in the L1 of who is going
// to read them; places lie side by side or a line apart; other blocks keep memory busy. After "MC
// Mutants" (Levine et al., ASPLOS 2023), whose parallel environment this is.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

constexpr uint32_t block_threads = 256;
constexpr uint32_t rounds = 32;               // of a launch
constexpr uint32_t patience = 1u << 16;       // looks at who has not come to a round
constexpr uint64_t most_words = 256ull << 18; // of all places: 256 MiB
constexpr uint32_t busy_words = 1u << 20;     // that the other blocks write and read
constexpr uint32_t nobody = ~0u;

void check(cudaError_t e, const char* what)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
        std::exit(2);
    }
}
#define CHECK(call) check(call, #call)

struct Seat {                // of a block: which of a group's blocks it is
    uint32_t group = nobody; // nobody: it keeps memory busy
    uint32_t cta = 0;
};

struct Setup {
    uint32_t* places; // [place][instance * stride]
    uint32_t* values; // of registers: [instance][thread][register]
    uint32_t* met;    // [group]
    uint32_t* busy;
    unsigned long long* seen;
    const Seat* seats;
    uint64_t region; // words of a place's
    uint32_t groups;
    uint32_t stride;
    uint32_t touched; // of 256 instances, those that a reader's L1 has
    uint32_t delay;   // cycles, at most; a power of two
    uint32_t seed;
};

__device__ uint32_t hash(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

__device__ void wait_for(uint32_t cycles)
{
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
    } // ends with the clock
}

// Lets the blocks of a group go on together. None waits for ever.
__device__ void meet(uint32_t* met, uint32_t all)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("red.relaxed.sys.global.add.u32 [%0], 1;" ::"l"(met) : "memory");
        uint32_t come = 0;
        for (uint32_t i = 0; i < patience && come < all; ++i) {
            asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(come) : "l"(met) : "memory");
        }
    }
    __syncthreads();
}

__device__ void keep_busy(const Setup& s)
{
    uint32_t x = hash(s.seed ^ blockIdx.x * block_threads ^ threadIdx.x);
    for (uint32_t i = 0; i < 4 * rounds; ++i) {
        x = hash(x + i);
        volatile uint32_t* const at = s.busy + x % busy_words;
        if ((x >> 28) < 8) {
            *at = x;
        } else {
            x ^= *at;
        }
    }
}

template <class V>
__global__ void run(Setup s)
{
    constexpr uint32_t instances = block_threads / V::lanes; // of a group and round
    const Seat seat = s.seats[blockIdx.x];
    if (seat.group == nobody) return keep_busy(s);
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t own = warp / V::lanes * 32 + threadIdx.x % 32;
    const int thread = V::thread(seat.cta, warp % V::lanes);
    for (uint32_t round = 0; round < rounds; ++round) {
        const uint64_t n = (uint64_t{round} * s.groups + seat.group) * instances + own;
        const uint32_t drawn = hash(s.seed ^ static_cast<uint32_t>(n) * V::threads ^ thread);
        uint32_t* at[V::places];
        for (uint32_t p = 0; p < V::places; ++p) at[p] = s.places + p * s.region + n * s.stride;
        if (drawn % 256 < s.touched) {
            for (uint32_t p = 0; p < V::places; ++p) {
                uint32_t before;
                asm volatile("ld.weak.global.u32 %0, [%1];" : "=r"(before) : "l"(at[p]));
            }
        }
        meet(s.met + seat.group, V::ctas * (round + 1));
        wait_for((drawn >> 8) & (s.delay - 1));
        uint32_t r[V::registers] = {};
        V::act(thread, at, r);
        for (uint32_t i = 0; i < V::registers && thread >= 0; ++i) {
            s.values[(n * V::threads + thread) * V::registers + i] = r[i];
        }
    }
}

template <class V>
__global__ void begin(Setup s)
{
    const uint64_t all = uint64_t{rounds} * s.groups * (block_threads / V::lanes);
    for (uint64_t n = blockIdx.x * block_threads + threadIdx.x; n < all;
         n += uint64_t{gridDim.x} * block_threads) {
        for (uint32_t p = 0; p < V::places; ++p) {
            s.places[p * s.region + n * s.stride] = V::initial(p);
        }
    }
    for (uint32_t g = threadIdx.x; blockIdx.x == 0 && g < s.groups; g += block_threads)
        s.met[g] = 0;
}

template <class V>
__global__ void count(Setup s)
{
    const uint64_t all = uint64_t{rounds} * s.groups * (block_threads / V::lanes);
    unsigned long long seen = 0;
    for (uint64_t n = blockIdx.x * block_threads + threadIdx.x; n < all;
         n += uint64_t{gridDim.x} * block_threads) {
        uint32_t last[V::places];
        for (uint32_t p = 0; p < V::places; ++p) last[p] = s.places[p * s.region + n * s.stride];
        seen += V::seen(s.values + n * V::threads * V::registers, last) ? 1 : 0;
    }
    if (seen != 0) atomicAdd(s.seen, seen);
}

// The GPUs that take part, and what lies in the first one's memory.
struct Machine {
    std::vector<int> sms;
    uint32_t* places = nullptr;
    uint32_t* values = nullptr;
    uint32_t* met = nullptr;
    uint32_t* busy = nullptr;
    unsigned long long* seen = nullptr;
    std::vector<Seat*> seats;
    std::vector<cudaStream_t> streams;
    std::mt19937 random;

    Machine(int most, uint32_t seed) : random(seed)
    {
        int there = 0;
        CHECK(cudaGetDeviceCount(&there));
        for (int d = 0; d < std::min(there, most); ++d) {
            CHECK(cudaSetDevice(d));
            if (d != 0) CHECK(cudaDeviceEnablePeerAccess(0, 0));
            int count = 0;
            CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, d));
            sms.push_back(count);
            seats.emplace_back();
            streams.emplace_back();
            CHECK(cudaMalloc(&seats.back(), sizeof(Seat) * 4 * count));
            CHECK(cudaStreamCreateWithFlags(&streams.back(), cudaStreamNonBlocking));
        }
        CHECK(cudaSetDevice(0));
        CHECK(cudaMalloc(&places, most_words * 4));
        CHECK(cudaMalloc(&values, most_words * 4));
        CHECK(cudaMalloc(&met, 4096 * 4));
        CHECK(cudaMalloc(&busy, busy_words * 4));
        CHECK(cudaMalloc(&seen, 8));
    }
};

struct Counts {
    uint64_t runs = 0;
    uint64_t seen = 0;
};

template <class V>
Counts measure(Machine& m, double seconds)
{
    Counts counts;
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    const auto devices = static_cast<uint32_t>(m.sms.size());
    while (std::chrono::steady_clock::now() < end) {
        Setup s{};
        s.places = m.places;
        s.values = m.values;
        s.met = m.met;
        s.busy = m.busy;
        s.seen = m.seen;
        s.stride = 1u << m.random() % 6;
        s.touched = m.random() % 2 == 0 ? 0 : 32u << m.random() % 4;
        s.delay = 1u << m.random() % 12;
        s.seed = static_cast<uint32_t>(m.random());
        s.groups = static_cast<uint32_t>(m.sms[0]) / V::ctas;
        const uint64_t instances = uint64_t{rounds} * s.groups * (block_threads / V::lanes);
        s.stride = std::min<uint64_t>(s.stride, most_words / V::places / instances);
        s.region = instances * s.stride;
        CHECK(cudaSetDevice(0));
        CHECK(cudaMemsetAsync(m.seen, 0, 8, m.streams[0]));
        begin<V><<<m.sms[0], block_threads, 0, m.streams[0]>>>(s);
        CHECK(cudaStreamSynchronize(m.streams[0]));
        for (uint32_t d = 0; d < devices; ++d) {
            std::vector<Seat> seats;
            for (uint32_t g = 0; g < s.groups; ++g) {
                for (uint32_t c = 0; c < V::ctas; ++c) {
                    if (V::gpu(c) % devices == d) seats.push_back({g, c});
                }
            }
            seats.resize(seats.size() + m.random() % (m.sms[d] + 1));
            std::shuffle(seats.begin(), seats.end(), m.random);
            CHECK(cudaSetDevice(static_cast<int>(d)));
            s.seats = m.seats[d];
            CHECK(cudaMemcpy(m.seats[d], seats.data(), seats.size() * sizeof(Seat),
                             cudaMemcpyHostToDevice));
            run<V><<<static_cast<uint32_t>(seats.size()), block_threads, 0, m.streams[d]>>>(s);
        }
        for (uint32_t d = 0; d < devices; ++d) CHECK(cudaStreamSynchronize(m.streams[d]));
        CHECK(cudaSetDevice(0));
        count<V><<<m.sms[0], block_threads, 0, m.streams[0]>>>(s);
        unsigned long long seen = 0;
        CHECK(cudaMemcpyAsync(&seen, m.seen, 8, cudaMemcpyDeviceToHost, m.streams[0]));
        CHECK(cudaStreamSynchronize(m.streams[0]));
        counts.runs += instances;
        counts.seen += seen;
    }
    return counts;
}

struct Variant {
    const char* name;
    const char* weakening; // "": none
    Counts (*measure)(Machine&, double);
};

#include "variants.inc"

} // namespace

// on_gpu SECONDS SEED GPUS: of each variant a line of its name, weakening, runs, and in how many of
// them the outcome came about, with tabs between.
int main(int argc, char** argv)
{
    if (argc != 4) {
        std::fprintf(stderr, "%s SECONDS SEED GPUS\n", argv[0]);
        return 2;
    }
    const double seconds = std::atof(argv[1]);
    Machine machine(std::atoi(argv[3]), static_cast<uint32_t>(std::atoi(argv[2])));
    cudaDeviceProp about{};
    CHECK(cudaGetDeviceProperties(&about, 0));
    std::printf("%zu\t%s\n", machine.sms.size(), about.name);
    for (const Variant& v : variants) {
        const Counts c = v.measure(machine, seconds);
        std::printf("%s\t%s\t%llu\t%llu\n", v.name, v.weakening,
                    static_cast<unsigned long long>(c.runs),
                    static_cast<unsigned long long>(c.seen));
        std::fflush(stdout);
    }
}
