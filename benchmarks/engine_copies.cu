// SPDX-License-Identifier: Apache-2.0
#include "engine_copies.hpp"

#include "common.hpp"
#include "driver_calls.hpp"
#include "engine_stream.hpp"
#include "lens/substitute.hpp"
#include "rivals/cuda.cuh"

#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <sys/mman.h>

namespace denizen::bench {
namespace {

constexpr uint64_t kib = 1024;
constexpr uint64_t mib = 1024 * kib;
constexpr uint64_t largest = 32 * mib;
constexpr uint32_t segment_words = mib; // 4 MiB
constexpr uint32_t spare_words = 1024;  // for the driver's own words

// What an engine writes for a timestamp.
struct alignas(16) Stamp {
    uint32_t payload;
    uint32_t unused;
    uint64_t ns;
};

// The functions that the lens exports.
struct Lens {
    decltype(&denizen_lens_substitute) substitute;
    decltype(&denizen_lens_substituted) substituted;

    Lens()
    {
        substitute =
            reinterpret_cast<decltype(substitute)>(dlsym(RTLD_DEFAULT, "denizen_lens_substitute"));
        substituted = reinterpret_cast<decltype(substituted)>(
            dlsym(RTLD_DEFAULT, "denizen_lens_substituted"));
        if (substitute == nullptr || substituted == nullptr)
            throw std::runtime_error("raw copies are submitted through the lens: run this under "
                                     "denizen lens");
    }
};

const char* reason(int32_t code)
{
    switch (code) {
    case denizen_lens_pending: return "the call rang no doorbell";
    case denizen_lens_not_capturing: return "the lens is not capturing";
    case denizen_lens_bad_buffer: return "the buffer is not below 2^40";
    case denizen_lens_no_channel: return "the channel is not known";
    case denizen_lens_not_alone: return "the call submitted other than one segment";
    case denizen_lens_no_room: return "the driver's words are too many";
    case denizen_lens_unreadable: return "the ring or the segment cannot be read";
    case denizen_lens_not_writable: return "the ring cannot be written";
    default: return "no known reason";
    }
}

// Memory that CPU and GPU have at one address below 2^40: a GPFIFO entry has 40 bits.
class LowMemory {
public:
    LowMemory()
    {
        // Where nothing is by default: below lie CUDA's own reservations, above libraries and heap.
        void* const wanted = reinterpret_cast<void*>(uint64_t{1} << 39);
        void* at = mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (at != wanted) throw std::runtime_error("the address 2^39 is taken");
        words_ = static_cast<uint32_t*>(at);
        std::memset(words_, 0, bytes);
        check_cuda(cudaHostRegister(words_, bytes, cudaHostRegisterDefault),
                   "registration of a segment");
        void* device = nullptr;
        check_cuda(cudaHostGetDevicePointer(&device, words_, 0), "address of a segment");
        if (device != words_)
            throw std::runtime_error("the GPU has registered memory at another address");
    }
    std::span<uint32_t> words() { return {words_, segment_words}; }

private:
    static constexpr size_t bytes = segment_words * sizeof(uint32_t);
    uint32_t* words_ = nullptr; // lives until the process ends, like the context
};

// One way for data to go: the engine, its buffers, and the driver's small call whose doorbell
// serves.
struct Way {
    const char* direction;
    Engine engine;
    uint8_t* source;
    uint8_t* target;
    std::function<void()> call;
};

class Rig {
public:
    Rig() : pattern_(largest)
    {
        check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
        check_cuda(cudaMalloc(&device_, 2 * largest + mib), "device memory");
        check_cuda(cudaMallocHost(&pinned_, largest + mib), "pinned memory");
        check_cuda(cudaMallocHost(&stamps_, 2 * sizeof(Stamp)), "pinned memory");
        uint32_t state = 1;
        for (uint8_t& byte : pattern_)
            byte = static_cast<uint8_t>((state = state * 747796405u + 1) >> 24);
        check_cuda(cudaMemcpy(device_, pattern_.data(), largest, cudaMemcpyHostToDevice),
                   "pattern");
        std::memcpy(pinned_, pattern_.data(), largest);
    }

    std::vector<Way> ways()
    {
        uint8_t* const other = device_ + largest; // what the driver's small copies write is here
        const auto copy = [this](uint8_t* to, const uint8_t* from, size_t n, cudaMemcpyKind kind) {
            return [this, to, from, n, kind] {
                check_cuda(cudaMemcpyAsync(to, from, n, kind, stream_), "small copy");
            };
        };
        uint8_t* const last = other + largest; // beyond the largest copy
        return {
            {"to device", Engine::inlined, pinned_, other,
             copy(last, pinned_, 4, cudaMemcpyHostToDevice)},
            {"to device", Engine::copy, pinned_, other,
             copy(last, pinned_, mib, cudaMemcpyHostToDevice)},
            {"to host", Engine::copy, device_, pinned_,
             copy(pinned_ + largest, last, 4, cudaMemcpyDeviceToHost)},
            {"on the device", Engine::copy, device_, other,
             copy(last, pinned_, mib, cudaMemcpyHostToDevice)},
        };
    }

    // The driver's own words, sent from this program's buffer: its call must work as ever, and must
    // go the way that is assumed.
    void rehearse(const Way& way)
    {
        const uint32_t total = submit(way, 0);
        const uint32_t launch = way.engine == Engine::inlined ? 0x2001206c : 0x200180c0;
        const auto sent = low_.words().first(total);
        if (std::find(sent.begin(), sent.end(), launch) == sent.end())
            throw std::runtime_error(std::string("the driver's copy ") + way.direction +
                                     " went by another engine");
    }

    // Microseconds of one copy of `bytes`, the mean of `times` behind each other.
    double copy(const Way& way, uint32_t bytes, uint32_t times)
    {
        EngineStream stream(low_.words().first(segment_words - spare_words));
        const auto add = [&] {
            if (way.engine == Engine::inlined) {
                stream.inline_copy(address(way.target),
                                   {reinterpret_cast<uint32_t*>(way.source), bytes / 4});
            } else {
                stream.engine_copy(address(way.target), address(way.source), bytes);
            }
        };
        const uint32_t number = ++rounds_;
        stamps_[0] = stamps_[1] = {};
        add(); // a warm-up: address translations and the engine's state
        stream.stamp(way.engine, address(&stamps_[0]), number);
        for (uint32_t i = 0; i < times; ++i) add();
        stream.stamp(way.engine, address(&stamps_[1]), number);
        submit(way, stream.size());
        if (stamps_[0].payload != number || stamps_[1].payload != number ||
            stamps_[1].ns <= stamps_[0].ns)
            throw std::runtime_error("an engine wrote no timestamp");
        return static_cast<double>(stamps_[1].ns - stamps_[0].ns) * 1e-3 / times;
    }

    // Spoils the target, copies once more and looks.
    bool verify(const Way& way, uint32_t bytes)
    {
        std::vector<uint8_t> found(bytes);
        if (way.target == pinned_) {
            std::memset(pinned_, 0xEE, bytes);
        } else {
            check_cuda(cudaMemset(way.target, 0xEE, bytes), "poison");
            check_cuda(cudaDeviceSynchronize(), "poison"); // other streams do not wait for this one
        }
        copy(way, bytes, 1);
        check_cuda(cudaMemcpy(found.data(), way.target, bytes, cudaMemcpyDefault), "result");
        return std::memcmp(found.data(), pattern_.data(), bytes) == 0;
    }

private:
    static uint64_t address(const void* at) { return reinterpret_cast<uint64_t>(at); }

    // The first `count` words of the buffer and the driver's for its call; done when this returns.
    uint32_t submit(const Way& way, uint32_t count)
    {
        uint32_t total = 0;
        int32_t state = lens_.substitute(low_.words().data(), count, segment_words);
        if (state == denizen_lens_pending) {
            way.call();
            state = lens_.substituted(&total);
        }
        if (state != denizen_lens_done)
            throw std::runtime_error(std::string("copies ") + way.direction +
                                     " cannot be submitted: " + reason(state));
        check_cuda(cudaStreamSynchronize(stream_),
                   "own submission"); // an error here is the engine's about our words
        return total;
    }

    Lens lens_;
    std::vector<uint8_t> pattern_;
    cudaStream_t stream_ = nullptr; // this and the memory live until the process ends
    uint8_t* device_ = nullptr;
    uint8_t* pinned_ = nullptr;
    Stamp* stamps_ = nullptr;
    LowMemory low_;
    uint32_t rounds_ = 0;
};

std::vector<uint32_t> sizes_of(Engine engine, bool quick)
{
    std::vector<uint32_t> sizes;
    if (engine == Engine::inlined) {
        for (uint32_t size = 4; size <= 64 * kib; size *= quick ? 16 : 2) sizes.push_back(size);
        if (!quick) // around what one packet holds, 32,764 bytes
            for (const uint32_t size : {24u, 28u, 31u, 36u, 48u})
                sizes.push_back(size * static_cast<uint32_t>(kib));
    } else {
        for (uint32_t size = 4; size < largest; size *= quick ? 16 : 2) sizes.push_back(size);
        sizes.push_back(static_cast<uint32_t>(largest));
    }
    std::sort(sizes.begin(), sizes.end());
    return sizes;
}

// As many that the timestamps' grain of 32 ns is small and the segment holds them.
uint32_t times_of(Engine engine, uint32_t bytes)
{
    const auto room = static_cast<uint32_t>((segment_words - spare_words - 64) /
                                            EngineStream::words_of(engine, bytes));
    const uint32_t wanted = bytes <= 64 * kib ? 256 : bytes <= mib ? 32 : 8;
    return std::max(1u, std::min(wanted, room - 1));
}

} // namespace

void engine_copies(bool quick)
{
    const uint32_t rounds = quick ? 5 : 31;
    Rig rig;
    for (const Way& way : rig.ways()) {
        rig.rehearse(way);
        const std::vector<uint32_t> sizes = sizes_of(way.engine, quick);
        std::vector<Samples> samples(sizes.size(), Samples(rounds));
        interleaved(rounds, sizes.size(), [&](size_t i) {
            samples[i].add(rig.copy(way, sizes[i], times_of(way.engine, sizes[i])));
        });
        for (size_t i = 0; i < sizes.size(); ++i) {
            Case result{"raw copy"};
            result.params.add("direction", way.direction)
                .add("engine", way.engine == Engine::inlined ? "inline" : "copy engine")
                .add("bytes", sizes[i]);
            result.n = uint64_t{rounds} * times_of(way.engine, sizes[i]);
            result.verified = rig.verify(way, sizes[i]);
            result.print(samples[i]);
        }
    }
}

} // namespace denizen::bench
