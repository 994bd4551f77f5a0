// SPDX-License-Identifier: Apache-2.0
// What a stamp of the hybrid logical clock costs: reading the physical clock is in it, and stands
// beside it alone. The rival on the host keeps time and count in two words and a mutex around them,
// which they need: with an atomic each, two threads can draw the same stamp. On the device it is an
// atomic increment of the same words: as many numbers drawn, none of them twice, without the time.
// Every thread checks that its stamps rise, and after every sample all of one clock are sorted:
// none may be there twice. Beside them: two stamps compared, and a slot written and read.
#include "clocks.hpp"

#include <denizen/base/hlc.hpp>
#include <denizen/wire/slot.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#if defined(__CUDACC__)
#include "rivals/cuda.cuh"
#endif

namespace denizen::bench {
namespace {

using hlc::Stamp;

// Whether no two of these are equal. Sorts them.
bool unique(uint64_t* begin, uint64_t* end)
{
    std::sort(begin, end);
    return std::adjacent_find(begin, end) == end;
}

// --- clocks of the host ---

// One word; the subject.
struct OneWord {
    alignas(line) uint64_t word = 0;

    uint64_t tick() { return hlc::tick<Scope::system>(&word, hlc::now_us()).value; }
    uint64_t update(uint64_t remote)
    {
        Stamp drawn;
        return hlc::update<Scope::system>(&word, Stamp{remote}, hlc::now_us(), drawn) ? drawn.value
                                                                                      : 0;
    }
};

// Time and count in two words, as the paper has them.
struct TwoWords {
    std::mutex mutex;
    uint64_t time = 0;
    uint64_t count = 0;

    uint64_t tick()
    {
        const uint64_t now = hlc::now_us();
        const std::lock_guard guard(mutex);
        count = now > time ? 0 : count + 1;
        time = std::max(time, now);
        return time << 16 | count;
    }
    uint64_t update(uint64_t remote)
    {
        const uint64_t now = hlc::now_us();
        const std::lock_guard guard(mutex);
        const uint64_t before = time;
        time = std::max({before, remote >> 16, now});
        const uint64_t of_remote = time == remote >> 16 ? (remote & 0xffff) + 1 : 0;
        count = std::max(time == before ? count + 1 : 0, of_remote);
        return time << 16 | count;
    }
};

// The physical clock alone: rises, but not strictly.
struct Physical {
    uint64_t last = 0;
    uint64_t tick() { return hlc::now_us(); }
};

// `threads` draw `count` stamps each from one clock, together. Nanoseconds of one, as a thread sees
// it.
template <class Clock, bool Updates>
class Drawing {
public:
    Drawing(uint32_t threads, uint32_t count)
        : threads_(threads), count_(count), stamps_(size_t{threads} * count)
    {
    }

    double time(bool& right)
    {
        Clock clock;
        std::atomic<uint32_t> ready{0};
        std::atomic<bool> rises{true};
        std::vector<uint64_t> ns(threads_);
        const auto draw = [&](uint32_t thread) {
            uint64_t* mine = stamps_.data() + size_t{thread} * count_;
            ++ready;
            while (ready.load() < threads_) sched_yield(); // ends when all have started
            uint64_t last = 0;
            bool ok = true;
            const uint64_t begin = now_ns();
            for (uint32_t i = 0; i < count_; ++i) {
                uint64_t drawn = 0;
                if constexpr (Updates) { // a peer's stamp, a little ahead of our last one
                    drawn = clock.update(last + 7);
                    ok &= drawn > last + 7;
                } else {
                    drawn = clock.tick();
                    ok &= drawn > last || std::is_same_v<Clock, Physical>;
                }
                mine[i] = last = drawn;
            }
            ns[thread] = now_ns() - begin;
            if (!ok) rises = false;
        };
        std::vector<std::thread> others;
        for (uint32_t t = 1; t < threads_; ++t) others.emplace_back(draw, t);
        draw(0);
        for (std::thread& other : others) other.join();
        right &= rises && (std::is_same_v<Clock, Physical> ||
                           unique(stamps_.data(), stamps_.data() + stamps_.size()));
        double sum = 0;
        for (const uint64_t one : ns) sum += static_cast<double>(one);
        return sum / threads_ / count_;
    }

private:
    uint32_t threads_;
    uint32_t count_;
    std::vector<uint64_t> stamps_;
};

// One case: how a sample is taken.
struct Arm {
    Case result;
    uint64_t per_sample;
    std::function<double(bool& right)> time;
    Samples samples{64};
};

template <class Clock, bool Updates>
Case& add(std::vector<Arm>& arms, const char* name, uint32_t threads, uint32_t count)
{
    const auto drawing = std::make_shared<Drawing<Clock, Updates>>(threads, count);
    Arm& arm = arms.emplace_back();
    arm.result = Case(name, Json().add("on", "host").add("threads", threads), "ns");
    arm.per_sample = uint64_t{threads} * count;
    arm.time = [drawing](bool& right) { return drawing->time(right); };
    return arm.result;
}

// Nanoseconds of one comparison: which of many stamps is the latest.
Arm comparison(uint32_t count)
{
    const auto stamps = std::make_shared<std::vector<Stamp>>();
    std::mt19937_64 draw(1);
    for (uint32_t i = 0; i < count; ++i) stamps->push_back(Stamp{draw()});
    Arm arm;
    arm.result = Case("HLC comparison", Json().add("on", "host").add("threads", 1), "ns");
    arm.per_sample = count;
    arm.time = [stamps](bool& right) {
        const uint64_t begin = now_ns();
        Stamp latest{0};
        for (const Stamp& stamp : *stamps) {
            if (latest < stamp) latest = stamp;
        }
        const uint64_t end = now_ns();
        right &= latest.value == std::max_element(stamps->begin(), stamps->end())->value;
        return static_cast<double>(end - begin) / static_cast<double>(stamps->size());
    };
    return arm;
}

// Nanoseconds to write a message with its header into a slot and to read it again, on one core:
// what a message costs besides its way. Without a trip to another core's cache.
Arm slot_written_and_read(uint32_t count)
{
    struct Payload {
        uint32_t word[9];
    };
    static_assert(sizeof(Payload) == first_payload);
    const auto slots = std::make_shared<std::vector<Slot>>(64);
    Arm arm;
    arm.result = Case("slot, written and read",
                      Json().add("on", "host").add("bytes", sizeof(Payload)), "ns");
    arm.per_sample = count;
    arm.time = [=](bool& right) {
        const uint64_t begin = now_ns();
        uint32_t difference = 0;
        for (uint32_t i = 0; i < count; ++i) {
            Slot* const slot = slots->data() + i % slots->size();
            const Header sent{i, ~i, i & max_type, 0, sizeof(Payload)};
            const Payload payload{{i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7, i + 8}};
            store_short<Scope::system, sizeof(Payload)>(slot, i, sent, &payload);
            Header came;
            Payload found{};
            const bool whole = load_short<Scope::system, sizeof(Payload)>(slot, i, came, &found);
            difference |= whole && came == sent ? found.word[8] ^ (i + 8) : 1;
        }
        const uint64_t end = now_ns();
        right &= difference == 0;
        return static_cast<double>(end - begin) / count;
    };
    return arm;
}

void on_host(std::vector<Arm>& arms, uint32_t count)
{
    arms.push_back(comparison(count));
    arms.push_back(slot_written_and_read(count));
    for (const uint32_t threads : {1u, 2u, 4u}) {
        for (const char* again : {"", "A/A"}) {
            Case& tick = add<OneWord, false>(arms, "HLC tick", threads, count);
            tick.arm = again;
            if (*again == 0) tick.ratio_base = {"clock read", "two words and a mutex"};
        }
        add<OneWord, true>(arms, "HLC update", threads, count).ratio_base = {
            "two words and a mutex, update"};
        add<TwoWords, false>(arms, "two words and a mutex", threads, count);
        add<TwoWords, true>(arms, "two words and a mutex, update", threads, count);
        add<Physical, false>(arms, "clock read", threads, count);
    }
}

#if defined(__CUDACC__)

namespace kernels {

__global__ void read_clock(uint64_t* origin) { *origin = now_ns(); }

enum class Draw { physical, increment, tick, update };

// Each thread draws `count` stamps, from its block's word or from the one of all.
template <Draw D>
__global__ void draw(uint64_t* words, bool word_per_block, const uint64_t* origin, uint32_t count,
                     uint64_t* stamps, unsigned long long* wrong, uint64_t* begins, uint64_t* ends)
{
    uint64_t* word = words + (word_per_block ? blockIdx.x * (line / 8) : 0);
    const uint64_t since = *origin;
    uint64_t* mine = stamps + (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) * count;
    uint64_t last = 0;
    bool ok = true;
    const uint64_t begin = now_ns();
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t now_us = (now_ns() - since) / 1000;
        Stamp drawn{now_us};
        if constexpr (D == Draw::increment) {
            drawn.value = fetch_add<Scope::gpu>(word, uint64_t{1}) + 1;
            ok &= drawn.value > last;
        } else if constexpr (D == Draw::tick) {
            drawn = hlc::tick<Scope::gpu>(word, now_us);
            ok &= drawn.value > last;
        } else if constexpr (D == Draw::update) {
            ok &= hlc::update<Scope::gpu>(word, Stamp{last + 7}, now_us, drawn);
            ok &= drawn.value > last + 7;
        }
        mine[i] = last = drawn.value;
    }
    const uint64_t end = now_ns();
    if (!ok) atomicAdd(wrong, 1ull);
    if (threadIdx.x == 0) {
        begins[blockIdx.x] = begin;
        ends[blockIdx.x] = end;
    }
}

} // namespace kernels

using kernels::Draw;

class DeviceClocks {
public:
    DeviceClocks(uint32_t blocks, uint32_t threads, uint32_t count, bool word_per_block)
        : blocks_(blocks), threads_(threads), count_(count), word_per_block_(word_per_block),
          words_(size_t{blocks} * line / 8), origin_(1), wrong_(1),
          stamps_(size_t{blocks} * threads * count), times_(2 * size_t{blocks}),
          copy_(stamps_.size())
    {
        kernels::read_clock<<<1, 1, 0, stream_>>>(origin_.get());
        stream_.synchronize();
    }

    uint64_t stamps() const { return stamps_.size(); }

    // Nanoseconds from the first thread's begin to the last one's end.
    template <Draw D>
    double time(bool& right)
    {
        check_cuda(cudaMemsetAsync(words_.get(), 0, words_.size() * 8, stream_), "memset");
        kernels::draw<D><<<blocks_, threads_, 0, stream_>>>(
            words_.get(), word_per_block_, origin_.get(), count_, stamps_.get(), wrong_.get(),
            times_.get(), times_.get() + blocks_);
        check_cuda(cudaGetLastError(), "launch");
        unsigned long long wrong = 0;
        check_cuda(cudaMemcpyAsync(copy_.data(), stamps_.get(), copy_.size() * 8,
                                   cudaMemcpyDeviceToHost, stream_),
                   "copy of the stamps");
        check_cuda(cudaMemcpyAsync(&wrong, wrong_.get(), 8, cudaMemcpyDeviceToHost, stream_),
                   "copy of a counter");
        stream_.synchronize();
        const uint64_t of_word = word_per_block_ ? uint64_t{threads_} * count_ : copy_.size();
        right &= wrong == 0;
        for (uint64_t i = 0; i < copy_.size() && D != Draw::physical; i += of_word)
            right &= unique(copy_.data() + i, copy_.data() + i + of_word);
        const uint64_t begin = *std::min_element(times_.get(), times_.get() + blocks_);
        const uint64_t end =
            *std::max_element(times_.get() + blocks_, times_.get() + 2 * size_t{blocks_});
        return static_cast<double>(end - begin);
    }

private:
    uint32_t blocks_;
    uint32_t threads_;
    uint32_t count_;
    bool word_per_block_;
    OwnStream stream_;
    DeviceBuffer<uint64_t> words_;
    DeviceBuffer<uint64_t> origin_;
    DeviceBuffer<unsigned long long> wrong_;
    DeviceBuffer<uint64_t> stamps_;
    PinnedBuffer<uint64_t> times_;
    std::vector<uint64_t> copy_;
};

void on_device(std::vector<Arm>& arms, const Arguments& arguments)
{
    int sms = 0;
    check_cuda(
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, arguments.device.ordinal),
        "cudaDeviceGetAttribute");
    const auto blocks = static_cast<uint32_t>(sms);
    const auto add = [&](const char* name, const std::shared_ptr<DeviceClocks>& clocks,
                         const Json& params, bool rate, auto draw) -> Case& {
        Arm& arm = arms.emplace_back();
        arm.result = Case(name, params, rate ? "M/s" : "ns");
        arm.per_sample = clocks->stamps();
        arm.time = [=](bool& right) {
            const double ns = clocks->template time<draw()>(right);
            const auto stamps = static_cast<double>(clocks->stamps());
            return rate ? stamps * 1e3 / ns : ns / stamps;
        };
        return arm.result;
    };
    constexpr std::integral_constant<Draw, Draw::physical> physical;
    constexpr std::integral_constant<Draw, Draw::increment> increment;
    constexpr std::integral_constant<Draw, Draw::tick> tick;
    constexpr std::integral_constant<Draw, Draw::update> update;

    const auto one = std::make_shared<DeviceClocks>(1, 1, 20'000, false);
    const Json alone = Json().add("on", "device").add("threads", 1);
    for (const char* again : {"", "A/A"}) {
        Case& result = add("HLC tick", one, alone, false, tick);
        result.arm = again;
        if (*again == 0) result.ratio_base = {"clock read", "atomic increment"};
    }
    add("HLC update", one, alone, false, update).ratio_base = {"clock read", "atomic increment"};
    add("clock read", one, alone, false, physical);
    add("atomic increment", one, alone, false, increment);

    const uint32_t count = arguments.quick ? 8 : 64;
    for (const bool per_block : {false, true}) {
        const auto all = std::make_shared<DeviceClocks>(blocks, 256, count, per_block);
        const Json params = Json()
                                .add("on", "device")
                                .add("threads", blocks * 256)
                                .add("words", per_block ? blocks : 1);
        add("HLC ticks", all, params, true, tick).ratio_base = {"atomic increments"};
        add("HLC updates", all, params, true, update).ratio_base = {"atomic increments"};
        add("atomic increments", all, params, true, increment);
    }
}

#endif

} // namespace

void measure_clocks(const Arguments& arguments)
{
    std::vector<Arm> arms;
    on_host(arms, arguments.quick ? 5'000 : 50'000);
#if defined(__CUDACC__)
    if (arguments.gpu()) on_device(arms, arguments);
#endif
    const uint32_t repetitions = arguments.quick ? 5 : 21;
    for (Arm& arm : arms) {
        arm.result.verified = true;
        arm.time(arm.result.verified); // a warm-up
    }
    interleaved(repetitions, arms.size(),
                [&](size_t i) { arms[i].samples.add(arms[i].time(arms[i].result.verified)); });
    for (Arm& arm : arms) {
        arm.result.n = arm.per_sample * repetitions;
        arm.result.print(arm.samples);
    }
}

} // namespace denizen::bench
