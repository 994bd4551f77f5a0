// SPDX-License-Identifier: Apache-2.0
// The rings of the wire where their ends lie on two sides: producers and consumers on CPU threads
// always, and on a GPU where there is one, each side of its own. Every message is numbered, has a
// length and contents of its own, and arrives once.
#include <denizen/base/clock.hpp>
#include <denizen/wire/channel.hpp>

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <ostream>
#include <support/threads.hpp>
#include <vector>

#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#endif

namespace denizen {
namespace {

constexpr uint32_t type = 3;
constexpr uint32_t slots = 32;
constexpr uint32_t first_ticket = 0u - 100; // the sequence wraps on the way
constexpr uint32_t longest = 104;           // three slots
constexpr uint64_t limit_ns = 60'000'000'000;

struct Place {
    const char* name;
    bool producers_on_gpu;
    bool consumers_on_gpu;
};

void PrintTo(const Place& p, std::ostream* out) { *out << p.name; }

// How many there are of each; on a GPU `lanes` of them are one warp.
struct Crowd {
    uint32_t producers;
    uint32_t consumers;
    uint32_t lanes;
    uint32_t messages; // of each producer
};

// What the consumers have found. The side that they are on writes it.
struct Tally {
    alignas(line) uint32_t taken = 0;
    uint32_t wrong = 0;                  // other contents than were sent
    uint32_t disorder = 0;               // behind a later one of its producer
    uint32_t refused = 0;                // by try_receive(), or the time was up
    alignas(line) uint32_t not_sent = 0; // producers that gave up: their side writes it
};

DENIZEN_HD uint32_t length_of(uint32_t producer, uint32_t number)
{
    return 8 + (producer * 7 + number) % 5 * 24;
}

DENIZEN_HD unsigned char byte_of(uint32_t producer, uint32_t number, uint32_t at)
{
    return static_cast<unsigned char>((producer * 131 + number * 17 + at + 1) * 2654435761u >> 24);
}

template <class Sender>
DENIZEN_HD void produce(Sender tx, uint32_t producer, uint32_t messages, Tally* tally)
{
    const uint64_t begin = now_ns();
    unsigned char payload[longest] = {};
    for (uint32_t i = 0; i < messages; ++i) {
        const uint32_t length = length_of(producer, i);
        for (uint32_t at = 0; at < length; ++at) {
            payload[at] = byte_of(producer, i, at);
        }
        const Header h{producer, i, type, 0, length};
        Backoff wait;
        for (;;) { // ends by room or by the time
            const Errc code = tx.try_send(h, payload);
            if (code == Errc::ok) {
                break;
            }
            if (code != Errc::full || now_ns() - begin > limit_ns) {
                fetch_add<Scope::system>(&tally->not_sent, 1u);
                return;
            }
            wait.pause();
        }
    }
}

// `seen`: for each message, how often it has come. `last`: of a lone consumer, the number that is
// due of each producer.
template <class Receiver>
DENIZEN_HD void consume(Receiver rx, const Crowd& crowd, Tally* tally, uint32_t* seen,
                        uint32_t* last)
{
    const uint64_t begin = now_ns();
    const uint32_t all = crowd.producers * crowd.messages;
    unsigned char payload[longest] = {};
    Backoff wait;
    while (load<Scope::system>(&tally->taken) < all) { // ends by all messages or by the time
        Header h;
        const Errc code = rx.try_receive(h, payload, longest);
        if (code == Errc::empty && now_ns() - begin < limit_ns) {
            wait.pause();
            continue;
        }
        if (code != Errc::ok || h.destination >= crowd.producers || h.sender >= crowd.messages) {
            fetch_add<Scope::system>(&tally->refused, 1u);
            return;
        }
        wait.reset();
        bool right = h.type == type && h.length == length_of(h.destination, h.sender);
        for (uint32_t at = 0; right && at < h.length; ++at) {
            right = payload[at] == byte_of(h.destination, h.sender, at);
        }
        fetch_add<Scope::system>(&tally->wrong, right ? 0u : 1u);
        if (crowd.consumers == 1) {
            fetch_add<Scope::system>(&tally->disorder, last[h.destination] == h.sender ? 0u : 1u);
            last[h.destination] = h.sender + 1;
        }
        fetch_add<Scope::system>(&seen[h.destination * crowd.messages + h.sender], 1u);
        fetch_add<Scope::system>(&tally->taken, 1u);
    }
}

#if defined(__CUDACC__)
// Each thread is one end. Blocks before `producers` / lanes are producers, where those are here.
template <class Kind>
__global__ void ends_of(RingView ring, Crowd crowd, bool producers_here, bool consumers_here,
                        Tally* tally, uint32_t* seen, uint32_t* last)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (producers_here) {
        if (i < crowd.producers) {
            produce(typename Kind::Sender(ring), i, crowd.messages, tally);
            return;
        }
        i -= crowd.producers;
    }
    if (consumers_here && i < crowd.consumers) {
        consume(typename Kind::Receiver(ring), crowd, tally, seen, last);
    }
}

bool gpu_here()
{
    int devices = 0;
    return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}
#endif

class RingAt : public testing::TestWithParam<Place> {
protected:
    void SetUp() override
    {
#if defined(__CUDACC__)
        if (on_gpu() && !gpu_here()) {
            GTEST_SKIP() << "this machine has no CUDA device";
        }
#endif
    }

    static bool on_gpu() { return GetParam().producers_on_gpu || GetParam().consumers_on_gpu; }

    // Memory that both sides reach. Slots and words may lie in any such memory.
    template <class T>
    static std::shared_ptr<T> shared(size_t count)
    {
#if defined(__CUDACC__)
        if (on_gpu()) {
            void* p = nullptr;
            EXPECT_EQ(cudaHostAlloc(&p, count * sizeof(T), cudaHostAllocMapped), cudaSuccess);
            std::uninitialized_fill_n(static_cast<T*>(p), count, T{});
            return {static_cast<T*>(p), [](T* q) { cudaFreeHost(q); }};
        }
#endif
        return {new T[count](), [](T* q) { delete[] q; }};
    }

    template <class Kind>
    static void run(Crowd crowd)
    {
        const auto [name, producers_on_gpu, consumers_on_gpu] = GetParam();
        if (!on_gpu()) {
            crowd.producers = std::min(crowd.producers, 4u);
            crowd.consumers = std::min(crowd.consumers, 3u);
        }
        const size_t all = size_t{crowd.producers} * crowd.messages;
        const auto memory = shared<Slot>(slots);
        const auto words = shared<RingWords>(1);
        const auto tally = shared<Tally>(1);
        const auto seen = shared<uint32_t>(all);
        const auto last = shared<uint32_t>(crowd.producers);
        Kind::clear(memory.get(), slots, first_ticket);
        words->tail = words->head = words->credit = first_ticket;
        const RingView ring{memory.get(), slots - 1, first_ticket, words.get()};
#if defined(__CUDACC__)
        if (on_gpu()) {
            const uint32_t ends =
                (producers_on_gpu ? crowd.producers : 0) + (consumers_on_gpu ? crowd.consumers : 0);
            ends_of<Kind><<<(ends + crowd.lanes - 1) / crowd.lanes, crowd.lanes>>>(
                ring, crowd, producers_on_gpu, consumers_on_gpu, tally.get(), seen.get(),
                last.get());
            ASSERT_EQ(cudaGetLastError(), cudaSuccess);
        }
#endif
        const uint32_t producers = producers_on_gpu ? 0 : crowd.producers;
        const uint32_t consumers = consumers_on_gpu ? 0 : crowd.consumers;
        if (producers + consumers != 0) {
            test::on_threads(producers + consumers, [&](uint32_t i) {
                if (i < producers) {
                    produce(typename Kind::Sender(ring), i, crowd.messages, tally.get());
                } else {
                    consume(typename Kind::Receiver(ring), crowd, tally.get(), seen.get(),
                            last.get());
                }
            });
        }
#if defined(__CUDACC__)
        if (on_gpu()) {
            ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        }
#endif
        EXPECT_EQ(tally->not_sent, 0u);
        EXPECT_EQ(tally->refused, 0u);
        EXPECT_EQ(tally->wrong, 0u);
        EXPECT_EQ(tally->disorder, 0u);
        EXPECT_EQ(tally->taken, all);
        EXPECT_EQ(std::count(seen.get(), seen.get() + all, 1u), static_cast<std::ptrdiff_t>(all));
    }
};

std::vector<Place> places()
{
    return {
        {"threads", false, false},
#if defined(__CUDACC__)
        {"to_gpu", false, true},
        {"from_gpu", true, false},
        {"on_gpu", true, true},
#endif
    };
}

TEST_P(RingAt, OneProducerAndOneConsumer) { run<Spsc>({1, 1, 1, 5000}); }

TEST_P(RingAt, SeveralProducersAndOneConsumer) { run<Mpsc>({4, 1, 1, 2000}); }

TEST_P(RingAt, SeveralProducersAndSeveralConsumers) { run<Mpmc>({4, 3, 1, 2000}); }

// Lanes of a warp draw from the same word in the same instruction.
TEST_P(RingAt, AWarpOfProducersAndOneConsumer) { run<Mpsc>({64, 1, 32, 100}); }

TEST_P(RingAt, WarpsOfProducersAndOfConsumers) { run<Mpmc>({64, 64, 32, 100}); }

INSTANTIATE_TEST_SUITE_P(Wire, RingAt, testing::ValuesIn(places()),
                         testing::PrintToStringParamName());

} // namespace
} // namespace denizen
