// SPDX-License-Identifier: Apache-2.0
// What a buffer costs: taking memory and giving it back, through Runtime::buffer() and through what
// CUDA (or, without a GPU, the C library) offers. The pools are warm: each has had the memory
// before. Nothing uses a block between the two calls of a pair; that each block can be used is
// proven outside the timed region. RingKernel's comparison is the row of 4 KiB: it quotes 0.88 us
// for its pool against 102.6 us.
#include <denizen/actor/runtime.hpp>

#include "actor_program.hpp"

#if defined(__CUDACC__)
#include "rivals/cuda.cuh"
#endif

#include <cstdlib>
#include <cstring>
#include <functional>

namespace {

using namespace denizen;
using namespace denizen::bench;

struct Fill {
    BufferRef data;
    uint64_t value;
    DENIZEN_BUFFERS(data)
};
struct Sum {
    BufferRef data;
    DENIZEN_BUFFERS(data)
};
struct Total {
    uint64_t sum;
};
// Proves that a block is memory: a word in every 512 bytes is written, and read back by another
// message. Not every word: one warp would take half a second for the largest block.
constexpr uint64_t apart = 64; // words
struct Prover {
    static constexpr auto grain = Grain::warp;
    uint64_t sum = 0;

    DENIZEN_HD void on(const Fill& m, auto& ctx)
    {
        const auto words = ctx.template data<uint64_t>(m.data);
        for (uint64_t i = apart * ctx.lane(); i < words.count; i += apart * ctx.lanes()) {
            words[i] = m.value + i;
        }
        ctx.sync();
        ctx.reply(Total{words.count});
    }
    DENIZEN_HD void on(const Sum& m, auto& ctx)
    {
        if (ctx.lane() == 0) sum = 0;
        ctx.sync();
        const auto words = ctx.template data<uint64_t>(m.data);
        uint64_t mine = 0;
        for (uint64_t i = apart * ctx.lane(); i < words.count; i += apart * ctx.lanes()) {
            mine += words[i];
        }
        fetch_add<Scope::block>(&sum, mine);
        ctx.sync();
        ctx.reply(Total{load<Scope::block>(&sum)});
    }
};
using Proving = Program<Actors<Prover>, Messages<Fill, Sum, Total>>;

constexpr uint64_t kib = 1024;
constexpr uint64_t sizes[] = {4 * kib, 64 * kib, 1024 * kib, 16 * 1024 * kib, 64 * 1024 * kib};

// One way of taking memory and giving it back.
struct Way {
    std::string name;
    std::function<void(uint64_t bytes)> pair;
    std::function<bool(uint64_t bytes)> prove; // takes a block, writes and reads all of it
    std::string arm;
};

// Every way in turn, for every size.
void measure_all(const std::vector<Way>& ways, bool resident, bool quick,
                 const std::vector<std::string>& rivals)
{
    const uint32_t rounds = quick ? 4 : 20;
    for (const uint64_t bytes : sizes) {
        const uint32_t pairs = bytes == 4 * kib ? (quick ? 200 : 1000) : quick ? 10 : 50;
        std::vector<Samples> samples(ways.size(), Samples(rounds));
        std::vector<char> right(ways.size(), 1);
        interleaved(rounds + 1, ways.size(), [&](size_t w) {
            right[w] &= ways[w].prove(bytes);
            ways[w].pair(bytes);
            const uint64_t begin = now_ns();
            for (uint32_t i = 0; i < pairs; ++i) ways[w].pair(bytes);
            const uint64_t end = now_ns();
            if (samples[w].size() < rounds) {
                samples[w].add(static_cast<double>(end - begin) * 1e-3 / pairs);
            }
            right[w] &= ways[w].prove(bytes);
        });
        for (size_t w = 0; w < ways.size(); ++w) {
            Case result(ways[w].name, Json().add("bytes", bytes).add("resident", resident));
            result.n = static_cast<uint64_t>(rounds) * pairs;
            result.verified = right[w] != 0;
            result.arm = ways[w].arm;
            if (ways[w].name.starts_with("buffer")) result.ratio_base = rivals;
            result.print(samples[w]);
        }
    }
}

Way buffers(Runtime<Proving>& runtime, Address prover, BufferKind kind, const char* name,
            const char* arm = "")
{
    return {name, [&runtime, kind](uint64_t bytes) { runtime.buffer(bytes, kind); },
            [&runtime, kind, prover](uint64_t bytes) {
                denizen::Buffer block = runtime.buffer(bytes, kind);
                const uint64_t n = bytes / sizeof(uint64_t);
                bool right = runtime.ask<Total>(prover, Fill{block.ref(), 7}, 60s).sum == n;
                const uint64_t m = n / apart; // words written
                right &= runtime.ask<Total>(prover, Sum{block.ref()}, 60s).sum ==
                         7 * m + apart * (m * (m - 1) / 2);
                block.close();
                while (runtime.buffers().waiting != 0) { // ends: its handler returns
                }
                return right;
            },
            arm};
}

#if defined(__CUDACC__)

void check(cudaError_t error) { check_cuda(error, "a rival"); }

// Made before a program is resident, and gone after it: making and freeing wait for it.
class CudaWays {
public:
    explicit CudaWays(int ordinal) : copy_(*std::max_element(std::begin(sizes), std::end(sizes)))
    {
        check(cudaDeviceGetDefaultMemPool(&pool_, ordinal));
        uint64_t keep = ~uint64_t{0}; // as ours: memory stays in the pool
        check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
    }
    ~CudaWays() { cudaMemPoolTrimTo(pool_, 0); }

    // Those that wait for nothing but their stream, so that a program may be resident beside them.
    std::vector<Way> by_stream()
    {
        return {
            {"cudaMallocAsync", [this](uint64_t n) { give_async(take_async(n)); },
             [this](uint64_t n) {
                 void* p = take_async(n);
                 const bool right = usable(p, n);
                 give_async(p);
                 return right;
             },
             ""},
            {"cudaMallocAsync + sync",
             [this](uint64_t n) {
                 void* p = take_async(n);
                 check(cudaStreamSynchronize(stream_)); // usable by others than this stream
                 give_async(p);
             },
             [this](uint64_t n) {
                 void* p = take_async(n);
                 const bool right = usable(p, n);
                 give_async(p);
                 return right;
             },
             ""},
        };
    }

    // Those that wait for the whole GPU.
    std::vector<Way> by_device()
    {
        return {
            {"cudaMalloc", [](uint64_t n) { check(cudaFree(take(n))); },
             [this](uint64_t n) {
                 void* p = take(n);
                 const bool right = usable(p, n);
                 check(cudaFree(p));
                 return right;
             },
             ""},
            {"cudaMallocHost", [](uint64_t n) { check(cudaFreeHost(take_host(n))); },
             [this](uint64_t n) {
                 void* p = take_host(n);
                 const bool right = usable(p, n);
                 check(cudaFreeHost(p));
                 return right;
             },
             ""},
        };
    }

private:
    static void* take(uint64_t bytes)
    {
        void* p = nullptr;
        check(cudaMalloc(&p, bytes));
        return p;
    }
    static void* take_host(uint64_t bytes)
    {
        void* p = nullptr;
        check(cudaMallocHost(&p, bytes));
        return p;
    }
    void* take_async(uint64_t bytes)
    {
        void* p = nullptr;
        check(cudaMallocAsync(&p, bytes, stream_));
        return p;
    }
    void give_async(void* p) { check(cudaFreeAsync(p, stream_)); }

    // The GPU writes every byte; a copy of all of them is looked at here.
    bool usable(void* p, uint64_t bytes)
    {
        std::fill_n(copy_.get(), bytes, uint8_t{0});
        check(cudaMemsetAsync(p, ++value_, bytes, stream_));
        check(cudaMemcpyAsync(copy_.get(), p, bytes, cudaMemcpyDefault, stream_));
        check(cudaStreamSynchronize(stream_));
        return std::all_of(copy_.get(), copy_.get() + bytes,
                           [this](uint8_t b) { return b == value_; });
    }

    OwnStream stream_;
    cudaMemPool_t pool_ = nullptr;
    PinnedBuffer<uint8_t> copy_;
    uint8_t value_ = 0;
};

// A program that is off the GPU leaves it to the rivals; asking it brings it back, so it parks
// again after each proof.
Way parked(Runtime<Proving>& runtime, Way way)
{
    way.prove = [&runtime, prove = way.prove](uint64_t bytes) {
        const bool right = prove(bytes);
        runtime.drain();
        runtime.park();
        return right && runtime.parked();
    };
    return way;
}

void measure_gpu(const Arguments& arguments)
{
    Options options = options_of(arguments);
    options.workers = 1;
    options.sms = 1;
    options.pool_bytes = 256 * 1024 * kib; // twice the largest block, and one more
    CudaWays cuda(arguments.device.ordinal);
    Runtime<Proving> runtime(options.device, options);
    print_environment(environment(arguments, runtime.description()));
    const Address prover = runtime.spawn<Prover>();
    const Way device = buffers(runtime, prover, BufferKind::device, "buffer");
    const Way again = buffers(runtime, prover, BufferKind::device, "buffer", "A/A");
    std::vector<Way> ours = {device, again,
                             buffers(runtime, prover, BufferKind::pinned, "buffer, pinned")};
    if (runtime.description().host_ring_memory == "mapped") {
        ours.push_back(buffers(runtime, prover, BufferKind::mapped, "buffer, mapped"));
    } else {
        std::fprintf(stderr, "buffer, mapped is left out: %s\n",
                     runtime.description().why_not_mapped.c_str());
    }
    for (const uint64_t bytes : sizes) { // the pools get what they need: that parks the program
        for (const Way& way : ours) way.prove(bytes);
    }
    runtime.drain();
    runtime.park();
    std::vector<Way> ways;
    for (const Way& way : ours) ways.push_back(parked(runtime, way));
    for (Way& rival : cuda.by_stream()) ways.push_back(std::move(rival));
    for (Way& rival : cuda.by_device()) ways.push_back(std::move(rival));
    measure_all(ways, false, arguments.quick,
                {"cudaMallocAsync", "cudaMallocAsync + sync", "cudaMalloc", "cudaMallocHost"});
    const bool came_back = device.prove(4 * kib);
    const uint64_t launches = runtime.stats().launches;
    for (Way& rival : cuda.by_stream()) ours.push_back(std::move(rival));
    measure_all(ours, true, arguments.quick, {"cudaMallocAsync", "cudaMallocAsync + sync"});
    // It stayed on the GPU throughout, and answers from there.
    if (!came_back || runtime.parked() || runtime.stats().launches != launches) {
        throw std::runtime_error("the program left the GPU while its pool was measured");
    }
    runtime.close();
}

#endif

void measure_cpu(const Arguments& arguments)
{
    Options options = options_of(arguments);
    options.device = Device::cpu();
    options.workers = 1;
    Runtime<Proving> runtime(options.device, options);
    print_environment(environment(arguments, runtime.description()));
    const Address prover = runtime.spawn<Prover>();
    const auto plain = [](uint64_t bytes) {
        void* p = std::aligned_alloc(256, bytes);
        if (p == nullptr) throw std::bad_alloc();
        asm volatile("" : : "r"(p) : "memory"); // or the compiler removes the pair
        return p;
    };
    measure_all({buffers(runtime, prover, BufferKind::device, "buffer"),
                 buffers(runtime, prover, BufferKind::device, "buffer", "A/A"),
                 {"aligned_alloc", [plain](uint64_t bytes) { std::free(plain(bytes)); },
                  [plain](uint64_t bytes) {
                      auto* p = static_cast<uint8_t*>(plain(bytes));
                      std::memset(p, 7, bytes);
                      asm volatile("" : : "r"(p) : "memory");
                      const bool right = std::count(p, p + bytes, 7) == static_cast<long>(bytes);
                      std::free(p);
                      return right;
                  },
                  ""}},
                true, arguments.quick, {"aligned_alloc"});
    runtime.close();
}

void measure(const Arguments& arguments)
{
#if defined(__CUDACC__)
    if (arguments.gpu()) {
        measure_gpu(arguments);
        return;
    }
#endif
    measure_cpu(arguments);
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }
