// SPDX-License-Identifier: Apache-2.0
#include "cpu_rings.hpp"

#include <denizen/wire/channel.hpp>

#include "common.hpp"

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#if __has_include(<boost/lockfree/spsc_queue.hpp>)
#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>
#define HAVE_BOOST 1
#endif
#if __has_include(<readerwriterqueue/readerwriterqueue.h>)
#include <readerwriterqueue/readerwriterqueue.h>
#define HAVE_READERWRITER 1
#endif
#if __has_include(<concurrentqueue/concurrentqueue.h>)
#include <concurrentqueue/concurrentqueue.h>
#define HAVE_CONCURRENT 1
#elif __has_include(<concurrentqueue/moodycamel/concurrentqueue.h>)
#include <concurrentqueue/moodycamel/concurrentqueue.h>
#define HAVE_CONCURRENT 1
#endif

namespace denizen::bench {
namespace {

constexpr uint32_t capacity = 1024;

struct Payload {
    uint32_t word[9];
};

// What a message says, in every queue: destination, sender and type beside 36 bytes. denizen packs
// it into the 64 bytes of a slot; a queue of plain elements gets elements of one cache line, which
// is the best place for it.
struct alignas(64) Element {
    uint32_t destination;
    uint32_t sender;
    uint32_t type;
    Payload payload;
};

// The messages lie ready, as they do for a sender that has something to say.
struct Messages {
    static constexpr uint32_t count = 512;
    Payload payload[count];

    Messages()
    {
        for (uint32_t i = 0; i < count; ++i)
            for (uint32_t w = 0; w < 9; ++w) payload[i].word[w] = (i * 4099 + w + 1) * 2654435761u;
    }
    const Payload& operator[](uint32_t i) const { return payload[i % count]; }
    bool is(uint32_t i, uint32_t destination, const Payload& found) const
    {
        uint32_t difference = destination ^ i;
        for (uint32_t w = 0; w < 9; ++w) difference |= found.word[w] ^ (*this)[i].word[w];
        return difference == 0;
    }
};
const Messages messages;

template <class Kind>
class Denizen {
public:
    bool push(uint32_t i)
    {
        if constexpr (requires { tx_.try_send(i, 2u, 3u, messages[i]); }) {
            return tx_.try_send(i, 2, 3, messages[i]) == Errc::ok;
        } else {
            return tx_.try_send({i, 2, 3, 0, sizeof(Payload)}, &messages[i]) == Errc::ok;
        }
    }
    bool pop(uint32_t i, bool& right)
    {
        Header h;
        Payload p;
        if constexpr (requires { rx_.template try_receive_short<sizeof p>(3, h, &p); }) {
            if (rx_.template try_receive_short<sizeof p>(3, h, &p) != Errc::ok) return false;
        } else {
            if (rx_.try_receive(h, &p, sizeof p) != Errc::ok) return false;
        }
        right &= messages.is(i, h.destination, p) && h.sender == 2 && h.type == 3;
        return true;
    }

private:
    Channel<Kind> channel_{"benchmark", capacity};
    typename Kind::Sender tx_{channel_.view()};
    typename Kind::Receiver rx_{channel_.view()};
};

// A queue of elements; `Ops` names its two functions.
template <class Queue, class Ops>
class Plain {
public:
    template <class... A>
    explicit Plain(A... arguments) : queue_(arguments...), ops_(queue_)
    {
    }
    bool push(uint32_t i) { return ops_.push(queue_, Element{i, 2, 3, messages[i]}); }
    bool pop(uint32_t i, bool& right)
    {
        Element e;
        if (!ops_.pop(queue_, e)) return false;
        right &= messages.is(i, e.destination, e.payload) && e.sender == 2 && e.type == 3;
        return true;
    }

private:
    Queue queue_;
    Ops ops_;
};

#if HAVE_BOOST
template <class Queue>
struct BoostOps {
    explicit BoostOps(Queue&) {}
    bool push(Queue& q, const Element& e) { return q.push(e); }
    bool pop(Queue& q, Element& e) { return q.pop(e); }
};
template <class Queue>
struct BoundedOps : BoostOps<Queue> {
    using BoostOps<Queue>::BoostOps;
    bool push(Queue& q, const Element& e) { return q.bounded_push(e); }
};
#endif
#if HAVE_READERWRITER
template <class Queue>
struct MoodyOps {
    explicit MoodyOps(Queue&) {}
    bool push(Queue& q, const Element& e) { return q.try_enqueue(e); }
    bool pop(Queue& q, Element& e) { return q.try_dequeue(e); }
};
#endif
#if HAVE_CONCURRENT
// With tokens, its faster way.
struct TokenOps {
    using Queue = moodycamel::ConcurrentQueue<Element>;
    explicit TokenOps(Queue& q) : producer(q), consumer(q) {}
    bool push(Queue& q, const Element& e) { return q.try_enqueue(producer, e); }
    bool pop(Queue& q, Element& e) { return q.try_dequeue(consumer, e); }
    moodycamel::ProducerToken producer;
    moodycamel::ConsumerToken consumer;
};
#endif

// Calls `ready()` until it holds; false after ten seconds, or when the other thread has given up.
// Yields now and then: on a busy machine the other thread may have no core.
template <class Ready>
bool wait_for(Ready&& ready, const std::atomic<bool>& given_up)
{
    uint64_t begin = 0;
    for (uint32_t tries = 1; !ready(); ++tries) {
        relax();
        if (tries % 1024 != 0) continue;
        sched_yield();
        if (begin == 0) begin = now_ns();
        if (given_up.load(std::memory_order_relaxed) || now_ns() - begin > 10'000'000'000)
            return false;
    }
    return true;
}

int producer_core = -1;
int consumer_core = -1;

// Sends `count` messages from one pinned thread to another; nanoseconds from the start until the
// last has been taken and checked. `right` becomes false if any was not what was sent.
template <class Queue>
uint64_t transfer(Queue& queue, uint32_t count, bool& right)
{
    std::atomic<int> there{0};
    std::atomic<bool> given_up{false};
    const auto meet = [&](int core) {
        if (core >= 0) pin_to_core(core);
        there.fetch_add(1);
        while (there.load() != 2) relax(); // ends when both threads have started
    };
    std::thread producer([&] {
        meet(producer_core);
        for (uint32_t i = 0; i < count; ++i)
            if (!queue.push(i) && !wait_for([&] { return queue.push(i); }, given_up)) {
                given_up = true;
                return;
            }
    });
    uint64_t taken = 0;
    std::thread consumer([&] {
        meet(consumer_core);
        bool good = true;
        const uint64_t begin = now_ns();
        for (uint32_t i = 0; i < count; ++i)
            if (!queue.pop(i, good) && !wait_for([&] { return queue.pop(i, good); }, given_up)) {
                given_up = true;
                good = false;
                break;
            }
        taken = now_ns() - begin;
        right &= good;
    });
    producer.join();
    consumer.join();
    bool nothing_left = true;
    right &= !queue.pop(count, nothing_left);
    return taken;
}

struct Arm {
    Case result;
    Samples samples;
    std::function<uint64_t(uint32_t count, bool& right)> transfer;
    bool right = true;
};

// A core that shares no execution units with `first`, else another one, else -1.
int other_core(int first, const std::vector<int>& cores)
{
    char path[96];
    std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                  first);
    char text[64] = "";
    if (FILE* file = std::fopen(path, "r")) {
        if (std::fgets(text, sizeof text, file) == nullptr) text[0] = 0;
        std::fclose(file);
    }
    // "0,8" or "0-1": the sibling is the number behind the separator.
    const char* separator = std::strpbrk(text, ",-");
    const int sibling = separator == nullptr ? -1 : std::atoi(separator + 1);
    int found = -1;
    for (const int core : cores) {
        if (core == first) continue;
        found = core;
        if (core != sibling) break;
    }
    return found;
}

} // namespace

void measure_cpu_rings(bool quick)
{
    const std::vector<int> cores = allowed_cores();
    if (cores.size() < 2) {
        std::fprintf(stderr, "one core: nothing from CPU thread to CPU thread is measured\n");
        return;
    }
    producer_core = cores[0];
    consumer_core = other_core(cores[0], cores);
    print_environment(Json().add("ring_cores", std::to_string(producer_core) + " and " +
                                                   std::to_string(consumer_core)));
    const uint32_t repetitions = quick ? 5 : 15;
    const uint32_t count = quick ? 300'000 : 1'000'000;
    std::vector<Arm> arms;
    const auto add = [&](const char* name, auto queue, std::vector<std::string> bases = {},
                         const char* arm = "") {
        Case result(std::string("cpu to cpu, ") + name, Json().add("bytes", 64), "M/s");
        for (std::string& base : bases) base = "cpu to cpu, " + base;
        result.ratio_base = std::move(bases);
        result.arm = arm;
        arms.push_back({result, Samples(repetitions),
                        [queue](uint32_t n, bool& right) { return transfer(*queue, n, right); }});
    };
    std::vector<std::string> shared;
    std::vector<std::string> all;
#if HAVE_BOOST
    using BoostSpsc = boost::lockfree::spsc_queue<Element>;
    using BoostQueue = boost::lockfree::queue<Element>;
    add("boost spsc_queue", std::make_shared<Plain<BoostSpsc, BoostOps<BoostSpsc>>>(capacity));
    add("boost queue", std::make_shared<Plain<BoostQueue, BoundedOps<BoostQueue>>>(capacity));
    all.insert(all.end(), {"boost spsc_queue", "boost queue"});
    shared.push_back("boost queue");
#endif
#if HAVE_READERWRITER
    using ReaderWriter = moodycamel::ReaderWriterQueue<Element>;
    add("moodycamel readerwriter",
        std::make_shared<Plain<ReaderWriter, MoodyOps<ReaderWriter>>>(capacity));
    all.push_back("moodycamel readerwriter");
#endif
#if HAVE_CONCURRENT
    add("moodycamel concurrent",
        std::make_shared<Plain<TokenOps::Queue, TokenOps>>(size_t{capacity}, 1, 0));
    all.push_back("moodycamel concurrent");
    shared.push_back("moodycamel concurrent");
#endif
    add("denizen spsc", std::make_shared<Denizen<Spsc>>(), all);
    add("denizen spsc", std::make_shared<Denizen<Spsc>>(), {}, "A/A");
    add("denizen mpsc", std::make_shared<Denizen<Mpsc>>(), shared);
    add("denizen mpmc", std::make_shared<Denizen<Mpmc>>(), shared);
    for (Arm& arm : arms) arm.transfer(count / 4, arm.right); // memory and caches are warm then
    interleaved(repetitions, arms.size(), [&](size_t i) {
        const uint64_t ns = arms[i].transfer(count, arms[i].right);
        arms[i].samples.add(count * 1e3 / static_cast<double>(ns));
    });
    for (Arm& arm : arms) {
        arm.result.n = uint64_t{count} * repetitions;
        arm.result.verified = arm.right;
        arm.result.print(arm.samples);
    }
}

} // namespace denizen::bench
