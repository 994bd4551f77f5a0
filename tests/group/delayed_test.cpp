// SPDX-License-Identifier: Apache-2.0
// Ranks whose stores arrive late and overtake each other, as the device's memory model allows: only
// stores to the same place keep their order, and only a fence holds later ones back until earlier
// ones have arrived. Every algorithm must give the exact result nevertheless. What it cannot show:
// loads that are late.
#include "group/calls.hpp"
#include "support/threads.hpp"

#include <denizen/group/group.hpp>
#include <denizen/group/persistent.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

using namespace denizen;
using namespace denizen::group;
using denizen::test::on_threads;

namespace {

// The stores of one rank that are under way.
class Late {
public:
    explicit Late(uint32_t seed) : random_(seed) {}
    ~Late() { arrive_all(); }

    void store(void* to, const void* value, uint32_t bytes, bool packet)
    {
        keep(to, value, bytes, packet);
        while (pending_.size() > 64 || random_() % 4 == 0) { // ends: one arrives in each turn
            if (pending_.empty()) break;
            arrive(random_() % pending_.size());
        }
    }
    void keep(void* to, const void* value, uint32_t bytes, bool packet)
    {
        Pending p{static_cast<unsigned char*>(to), bytes, packet, {}};
        std::memcpy(p.value, value, bytes);
        pending_.push_back(p);
    }
    void arrive_some()
    {
        for (size_t n = pending_.size() / 2 + 1; n != 0 && !pending_.empty(); --n) {
            arrive(random_() % pending_.size());
        }
    }
    void arrive_all()
    {
        while (!pending_.empty()) arrive(0); // ends: one arrives in each turn
    }

    uint64_t overtaken = 0; // stores that arrived before an older one

private:
    struct Pending {
        unsigned char* to;
        uint32_t bytes;
        bool packet;
        unsigned char value[16];
    };

    static bool touch(const Pending& a, const Pending& b)
    {
        return a.to < b.to + b.bytes && b.to < a.to + a.bytes;
    }

    // The oldest of those that touch the same bytes as `which`.
    void arrive(size_t which)
    {
        for (size_t i = 0; i < which; ++i) {
            if (touch(pending_[i], pending_[which])) {
                which = i;
                break;
            }
        }
        const Pending p = pending_[which];
        overtaken += which != 0 ? 1 : 0;
        pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(which));
        if (p.packet) {
            Packet packet;
            std::memcpy(&packet, p.value, sizeof packet);
            store_packet<Scope::system>(reinterpret_cast<Packet*>(p.to), packet);
        } else {
            std::memcpy(p.to, p.value, p.bytes);
        }
    }

    Random random_;
    std::deque<Pending> pending_;
};

struct Delayed {
    using Team = group::Team;
    using Warp = group::Warp;

    Late* late;

    static Packet load(const Packet* p) { return load_packet<Scope::system>(p); }
    void store(Packet* p, const Packet& value) const { late->store(p, &value, sizeof value, true); }
    template <class V>
    void write(V* to, const V& value) const
    {
        late->store(to, &value, sizeof value, false);
    }
    void release() const { late->arrive_all(); }
    static void acquire() {} // loads are not late here
    void idle(uint32_t looks) const
    {
        late->arrive_some(); // nothing is under way for ever
        Direct::idle(looks);
    }
};

// Without the releases, and with headers that are as fast as data are slow: what the test
// must find. The rank that is done first has read what the other had not sent yet.
struct Unfenced : Delayed {
    static void store(Packet* p, const Packet& value) { store_packet<Scope::system>(p, value); }
    template <class V>
    void write(V* to, const V& value) const
    {
        late->keep(to, &value, sizeof value, false);
    }
    void release() const {}
    void idle(uint32_t looks) const { Direct::idle(looks); }
};

struct Outcome {
    uint32_t wrong = 0;
    uint64_t overtaken = 0;
};

template <class Memory>
Outcome run(uint32_t n, const std::vector<Call>& calls, uint32_t seed)
{
    GroupOptions o;
    o.channels = 2;
    o.slots = 8;
    o.stage_bytes = 512;
    o.renew = 50;
    o.timeout = std::chrono::seconds(60);
    auto groups = Group::local(n, Device::cpu(), o);
    std::vector<std::vector<Bytes>> in(calls.size()), out(calls.size());
    for (size_t c = 0; c < calls.size(); ++c) {
        for (uint32_t r = 0; r < n; ++r) {
            in[c].push_back(input(calls[c].type, r, in_elements(calls[c].kind, calls[c].count, n),
                                  seed + static_cast<uint32_t>(c)));
        }
        out[c].resize(n);
    }
    std::vector<uint64_t> overtaken(n);
    on_threads(n, [&](uint32_t r) {
        Late late(seed * 8 + r);
        Memory memory;
        memory.late = &late;
        // Channels side by side in one thread would wait for each other's late stores: in turn.
        for (size_t c = 0; c < calls.size(); ++c) {
            Call call = calls[c];
            out[c][r].resize(out_elements(call.kind, call.count, n) * size_of(call.type));
            call.in = in[c][r].data();
            call.out = out[c][r].data();
            for (uint32_t k = 0; k < call.channels; ++k) {
                Channel<Memory> channel(groups[r].ref(), k, memory);
                EXPECT_TRUE(perform(channel, call));
                channel.close();
            }
            late.arrive_all(); // what this rank itself will read
        }
        overtaken[r] = late.overtaken;
    });
    Outcome outcome;
    for (uint32_t r = 0; r < n; ++r) {
        outcome.overtaken += overtaken[r];
        for (size_t c = 0; c < calls.size(); ++c) {
            outcome.wrong += out[c][r] != expected(calls[c], in[c], r) ? 1 : 0;
        }
    }
    return outcome;
}

std::vector<Call> mixture(uint32_t n, uint32_t seed)
{
    Random random(seed);
    std::vector<Call> calls;
    for (uint32_t i = 0; i < 60; ++i) {
        const std::vector<Call> all = all_calls();
        Call call = all[random() % all.size()];
        call.type = static_cast<Type>(random() % types);
        call.op = static_cast<Op>(random() % ops);
        call.root = random() % n;
        call.channels = 1 + random() % 2;
        call.count = random() % 300;
        do { // the same call again goes without headers
            calls.push_back(call);
        } while (random() % 2 == 0);
    }
    return calls;
}

class DelayedStores : public testing::TestWithParam<uint32_t> {};

TEST_P(DelayedStores, EveryAlgorithmIsExact)
{
    for (uint32_t seed = 1; seed <= 4; ++seed) {
        const Outcome outcome = run<Delayed>(GetParam(), mixture(GetParam(), seed), seed);
        EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
        EXPECT_GT(outcome.overtaken, 1000u);
    }
}

// Calls of one object, by the short way (a packet) and the long one; with others in between, and
// without (of 2 elements).
TEST_P(DelayedStores, PersistentSums)
{
    const uint32_t n = GetParam();
    GroupOptions o;
    o.channels = 1;
    o.renew = 30;
    o.timeout = std::chrono::seconds(60);
    for (const uint32_t count : {1u, 2u, 3u, 100u}) {
        auto groups = Group::local(n, Device::cpu(), o);
        std::vector<uint32_t> wrong(n);
        on_threads(n, [&](uint32_t r) {
            Late late(count * 8 + r);
            Delayed memory;
            memory.late = &late;
            std::vector<int32_t> in(count), out(count);
            Channel<Delayed> channel(groups[r].ref(), 0, memory);
            const AllReduce<int32_t, Delayed> sum(channel, 1, in.data(), out.data(), count);
            for (int32_t round = 0; round < 80; ++round) {
                for (uint32_t i = 0; i < count; ++i) {
                    in[i] = round * static_cast<int32_t>(r + 1) + static_cast<int32_t>(i);
                }
                int32_t scale = static_cast<int32_t>(n * (n + 1) / 2);
                int32_t each = static_cast<int32_t>(n);
                if (count != 2 && round % 7 == 3) {
                    EXPECT_TRUE(all_reduce(channel, 1, in.data(), out.data(), count, Op::max));
                    scale = each;
                    each = 1;
                } else {
                    EXPECT_TRUE(sum(channel));
                }
                late.arrive_all();
                for (uint32_t i = 0; i < count; ++i) {
                    wrong[r] += out[i] != round * scale + each * static_cast<int32_t>(i) ? 1 : 0;
                }
            }
            channel.close();
        });
        EXPECT_EQ(wrong, std::vector<uint32_t>(n, 0)) << count << " elements";
    }
}

// Rows of several turns, with other calls in between.
TEST_P(DelayedStores, NormsOfSums)
{
    const uint32_t n = GetParam();
    GroupOptions o;
    o.channels = 1;
    o.slots = 16;
    o.renew = 30;
    o.timeout = std::chrono::seconds(60);
    auto groups = Group::local(n, Device::cpu(), o);
    std::vector<uint32_t> wrong(n);
    on_threads(n, [&](uint32_t r) {
        constexpr uint32_t rows = 3, width = 100;
        Late late(7 + r);
        Delayed memory;
        memory.late = &late;
        std::vector<float> in(rows * width), residual(rows * width), sum(rows * width);
        std::vector<float> out(rows * width), weight(width, 2);
        NormCall call;
        call.type = Type::f32;
        call.rows = rows;
        call.width = width;
        call.channels = 1;
        call.in = in.data();
        call.residual = residual.data();
        call.weight = weight.data();
        call.sum = sum.data();
        call.out = out.data();
        Channel<Delayed> channel(groups[r].ref(), 0, memory);
        for (uint32_t round = 0; round < 40; ++round) {
            for (uint32_t i = 0; i < rows * width; ++i) {
                in[i] = static_cast<float>(round * (r + 1) + i);
                residual[i] = static_cast<float>(i % 7);
            }
            EXPECT_TRUE(all_reduce_norm(channel, call));
            if (round % 5 == 3) {
                EXPECT_TRUE(all_reduce(channel, 1, in.data(), in.data(), 50u));
            }
            late.arrive_all();
            for (uint32_t i = 0; i < rows * width; ++i) {
                const uint32_t wanted = round * n * (n + 1) / 2 + n * i + i % 7;
                wrong[r] += sum[i] != static_cast<float>(wanted) ? 1 : 0;
                // A norm has the sums' proportions.
                const uint32_t first = i / width * width;
                wrong[r] += std::abs(out[i] * sum[first] - out[first] * sum[i]) >
                                    1e-4f * out[i] * sum[first]
                                ? 1
                                : 0;
            }
        }
        channel.close();
    });
    EXPECT_EQ(wrong, std::vector<uint32_t>(n, 0));
}

INSTANTIATE_TEST_SUITE_P(, DelayedStores, testing::Values(2, 3, 4, 8));

} // namespace

// The control: with the releases left out, stages are read that are not there yet.
TEST(MissingReleases, AreFound)
{
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a race on purpose";
#endif
    for (const Algorithm algorithm : {Algorithm::pull, Algorithm::push, Algorithm::push_twice}) {
        Call call;
        call.kind = Kind::all_reduce;
        call.algorithm = algorithm;
        call.count = 100; // one round
        EXPECT_GT(run<Unfenced>(2, {call}, 1).wrong, 0u) << to_string(algorithm);
    }
}
