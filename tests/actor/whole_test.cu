// SPDX-License-Identifier: Apache-2.0
// Messages that take all lanes of a worker, from handlers of a warp and of a block: of every length
// around the limits of a packet, of a slot and of what 32 lanes carry in one go, mixed with short
// ones of the same pair, on every route, through rings so small that they fill in the middle of a
// message. Receivers check the order of each pair and every byte.
#include <actor/places.hpp>

#include <algorithm>
#include <memory>
#include <string_view>

namespace whole {

using denizen::Grain;
using denizen::Overflow;

constexpr uint32_t most_senders = 16;
constexpr uint32_t most_receivers = 8;

// What is not of whole words goes another way than what is.
template <uint32_t N>
struct alignas(N % 4 == 0 ? 4 : 1) Parcel {
    unsigned char bytes[N];
};

struct Meet { // tells an actor its place among the senders, and one whom it sends to
    uint32_t me;
    uint32_t to;
};
struct Onward { // an actor that sends on all that it gets, as it gets it
    uint32_t to;
};
struct Send { // so many parcels to each, in one handler
    uint32_t count;
};
struct Sent {};
struct Audit {};
struct Account {
    uint32_t sent;
    uint32_t refused;
    uint32_t received;
    uint32_t disordered;
    uint32_t missed; // numbers that were passed over
    uint32_t wrong;  // bytes, and lengths that are not what their number says
};

DENIZEN_HD inline uint32_t mixed(uint32_t x)
{
    x = (x ^ x >> 16) * 0x45d9f3bu;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return x ^ x >> 16;
}

// Bytes 0 to 3 are the parcel's number, byte 4 its sender's place, the others follow from these.
DENIZEN_HD inline unsigned char byte_of(uint32_t place, uint32_t number, uint32_t i)
{
    return static_cast<unsigned char>(i < 4    ? number >> 8 * i
                                      : i == 4 ? place
                                               : mixed(number * 77 + place) + i * (2 * place + 7));
}

template <Grain G, Overflow O, uint32_t... N>
struct Courier {
    static constexpr auto grain = G;
    static constexpr auto overflow = O;
    static constexpr uint32_t longest = std::max({N...});

    alignas(16) unsigned char room[longest];
    uint32_t me = 0;
    uint32_t count = 0;
    uint32_t to[most_receivers] = {};
    uint32_t onward = denizen::nobody;
    uint32_t number = 0; // of the next parcel
    uint32_t next[most_senders] = {};
    Account account = {};

    DENIZEN_HD void on(const Meet& m, auto& ctx)
    {
        if (ctx.lane() == 0) {
            me = m.me;
            to[count++] = m.to;
        }
        ctx.sync();
    }
    DENIZEN_HD void on(const Onward& m, auto& ctx)
    {
        if (ctx.lane() == 0) {
            onward = m.to;
        }
        ctx.sync();
    }
    DENIZEN_HD void on(const Send& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            const uint32_t kind = kind_of(me, number + i);
            for (uint32_t t = 0; t < count; ++t) {
                uint32_t k = 0;
                ((k++ == kind ? send<N>(to[t], number + i, ctx) : void()), ...);
            }
        }
        ctx.sync();
        if (ctx.lane() == 0) {
            number += m.count;
        }
        ctx.sync();
        ctx.reply(Sent{});
    }
    template <uint32_t L>
    DENIZEN_HD void on(const Parcel<L>& m, auto& ctx)
    {
        if (onward != denizen::nobody) {
            ctx.send(denizen::Address{onward}, m);
            return;
        }
        const uint32_t place = m.bytes[4];
        uint32_t its_number = 0;
        for (uint32_t i = 0; i < 4; ++i) {
            its_number |= uint32_t{m.bytes[i]} << 8 * i;
        }
        uint32_t wrong = place < most_senders ? 0 : 1;
        for (uint32_t i = ctx.lane(); i < L; i += ctx.lanes()) {
            wrong += m.bytes[i] != byte_of(place, its_number, i) ? 1 : 0;
        }
        uint32_t k = 0;
        uint32_t length = 0;
        const uint32_t kind = kind_of(place, its_number);
        ((length = k++ == kind ? N : length), ...);
        wrong += length != L ? 1 : 0;
        if (wrong != 0) {
            denizen::fetch_add<denizen::Scope::block>(&account.wrong, wrong);
        }
        if (ctx.lane() == 0 && place < most_senders) {
            ++account.received;
            account.disordered += its_number < next[place] ? 1 : 0;
            account.missed += its_number - next[place];
            next[place] = its_number + 1;
        }
        ctx.sync();
    }
    DENIZEN_HD void on(const Audit&, auto& ctx) { ctx.reply(account); }

private:
    DENIZEN_HD static uint32_t kind_of(uint32_t place, uint32_t its_number)
    {
        return mixed(its_number * 31 + place) % sizeof...(N);
    }
    template <uint32_t L>
    DENIZEN_HD void send(uint32_t receiver, uint32_t its_number, auto& ctx)
    {
        for (uint32_t i = ctx.lane(); i < L; i += ctx.lanes()) {
            room[i] = byte_of(me, its_number, i);
        }
        ctx.sync();
        const bool went =
            ctx.send(denizen::Address{receiver}, reinterpret_cast<const Parcel<L>&>(room));
        if (ctx.lane() == 0) {
            ++account.sent;
            account.refused += went ? 0 : 1;
        }
        ctx.sync();
    }
};

template <class A>
struct Twin : A {}; // an actor of another type

template <class Second, Overflow O, uint32_t... N>
using PostOf =
    denizen::Program<denizen::Actors<Courier<Grain::warp, O, N...>, Second>,
                     denizen::Messages<Meet, Onward, Send, Sent, Audit, Account, Parcel<N>...>>;
template <Overflow O, uint32_t... N>
using Post = PostOf<Courier<Grain::thread, O, N...>, O, N...>;
// Without a thread's actor: what comes takes all lanes, whatever its length.
template <Overflow O, uint32_t... N>
using Warps = PostOf<Twin<Courier<Grain::warp, O, N...>>, O, N...>;

// Of a block, to actors of a warp, and from and to actors of a thread.
template <Overflow O, uint32_t... N>
using BlocksForWarps = PostOf<Courier<Grain::block, O, N...>, O, N...>;
template <Overflow O, uint32_t... N>
using BlocksForThreads = denizen::Program<
    denizen::Actors<Courier<Grain::block, O, N...>, Courier<Grain::thread, O, N...>>,
    denizen::Messages<Meet, Onward, Send, Sent, Audit, Account, Parcel<N>...>>;

// Around the ends of a packet, of the first slots, and of 32 and of 160 packets.
using Few = Post<Overflow::wait, 8, 36, 40, 84>;
using Many = Post<Overflow::wait, 8, 36, 37, 40, 48, 63, 64, 65, 84, 85, 88, 132, 255, 256, 372,
                  373, 376, 384, 1024, 1908, 1912, 4092, 4096>;
using Longest = Post<Overflow::wait, 36, 65536>;
using FewWarps = Warps<Overflow::wait, 8, 36, 40, 84, 373, 1908>;
using WarpsToBlocks = BlocksForWarps<Overflow::wait, 8, 36, 40, 84, 373, 1908>;
using BlocksToThreads = BlocksForThreads<Overflow::wait, 8, 36, 40, 84, 373, 1908>;
using StrictBlocks = BlocksForThreads<Overflow::fail, 8, 36, 40, 256>;
using Strict = Post<Overflow::fail, 8, 36, 40, 256>;

} // namespace whole

namespace denizen::test {
namespace {

using namespace ::whole;

struct Way {
    const char* name;
    Route route;
    Device device;
    uint32_t workers;
    uint32_t cluster;
    uint32_t nodes = 1;
    uint32_t sms = 0;
};
void PrintTo(const Way& w, std::ostream* out) { *out << w.name; }

std::vector<Way> ways()
{
    return {
        {"worker_cpu1", Route::worker, Device::cpu(), 1, 0},
        {"cluster_cpu2", Route::cluster, Device::cpu(), 2, 0},
        {"gpu_cpu2", Route::gpu, Device::cpu(), 2, 1},
        {"peer_cpu2x1", Route::peer, Device::cpu(), 1, 0, 2},
#if defined(__CUDACC__)
        {"worker_gpu", Route::worker, Device::gpu(), 8, 0},
        {"sm_gpu", Route::sm, Device::gpu(), 8, 1, 1, 4},
        {"cluster_gpu", Route::cluster, Device::gpu(), 8, 4},
        {"gpu_gpu", Route::gpu, Device::gpu(), 8, 1},
        {"peer_gpu", Route::peer, Device::gpu(), 4, 0, 2},
#endif
    };
}

class wholes : public testing::TestWithParam<Way> {
protected:
    void SetUp() override
    {
        if (GetParam().device.kind == Device::Kind::gpu && gpus_here() < GetParam().nodes) {
            GTEST_SKIP() << "this machine has " << gpus_here() << " CUDA devices";
        }
    }

    // The smallest rings: they hold the longest message twice.
    static Options options()
    {
        Options o;
        o.workers = GetParam().workers;
        o.cluster = GetParam().cluster;
        o.nodes = GetParam().nodes;
        o.sms = GetParam().sms;
        o.max_actors = 64;
        o.state_bytes = 4u << 20;
        o.host_ring_slots = o.inbox_slots = o.egress_slots = 2;
        o.local_slots = o.near_slots = o.urgent_slots = 2;
        o.outbox_slots = 1u << 15;
        return o;
    }

    static Placement beside(Address first)
    {
        switch (GetParam().route) {
        case Route::worker: return near(first, Near::worker);
        case Route::sm: return near(first, Near::sm);
        case Route::cluster: return near(first, Near::cluster);
        case Route::peer: return on_node(first.node() + 1);
        default: return near(first, Near::node);
        }
    }

    // Two senders on one side, to a whole-warp actor and one of one thread on the other and back;
    // `relayed`: each parcel by way of a third.
    template <class W, class T, class M>
    static Account exchange(Program<Actors<W, T>, M>*, uint32_t rounds, uint32_t burst,
                            bool relayed)
    {
        Runtime<Program<Actors<W, T>, M>> rt(GetParam().device, options());
        const Address first = rt.template spawn<W>(1, on_node(0))[0];
        const Address second = rt.template spawn<W>(1, near(first))[0];
        const Address warp = rt.template spawn<W>(1, beside(first))[0];
        const Address thread = rt.template spawn<T>(1, near(warp))[0];
        const Address relay = rt.template spawn<W>(1, near(warp))[0];
        rt.send(relay, Onward{thread.value}, 20s);
        uint32_t place = 0;
        for (const Address sender : {first, second}) {
            rt.send(sender, Meet{place, warp.value}, 20s);
            rt.send(sender, Meet{place, (relayed ? relay : thread).value}, 20s);
            ++place;
        }
        rt.send(warp, Meet{place, first.value}, 20s);
        rt.drain(30s);
        for (uint32_t i = 0; i < rounds; ++i) {
            for (const Address sender : {first, second, warp}) {
                rt.send(sender, Send{burst}, 60s);
            }
            if (i % 8 == 3) {
                rt.pause(20s);
                rt.resume();
            }
        }
        rt.drain(60s);
        const Stats stats = rt.stats();
        EXPECT_EQ(stats.errors, 0u) << stats.first_error;
        EXPECT_EQ(stats.dead_letters, 0u);
        Account all{};
        for (const Address a : {first, second, warp, thread}) {
            const Account one = rt.template ask<Account>(a, Audit{}, 20s);
            all.sent += one.sent;
            all.refused += one.refused;
            all.received += one.received;
            all.disordered += one.disordered;
            all.missed += one.missed;
            all.wrong += one.wrong;
        }
        if (!relayed) { // near rings that are too short for the longest message are none
            const uint64_t there = stats.sent_by_route[static_cast<uint32_t>(GetParam().route)];
            const uint64_t by_inbox = stats.sent_by_route[static_cast<uint32_t>(Route::gpu)];
            EXPECT_TRUE(there == all.sent - all.refused || (there == 0 && by_inbox == all.sent))
                << there << " there and " << by_inbox << " by inboxes of " << all.sent;
        }
        return all;
    }
    template <class P>
    static Account exchange(uint32_t rounds, uint32_t burst, bool relayed)
    {
        return exchange(static_cast<P*>(nullptr), rounds, burst, relayed);
    }

    template <class P>
    static void nothing_is_lost(uint32_t rounds, uint32_t burst)
    {
        for (const bool relayed : {false, true}) {
            const Account all = exchange<P>(rounds, burst, relayed);
            EXPECT_EQ(all.sent, 5 * rounds * burst);
            EXPECT_EQ(all.received, all.sent) << (relayed ? "relayed" : "direct");
            EXPECT_EQ(all.refused, 0u);
            EXPECT_EQ(all.disordered, 0u) << "the order of a pair";
            EXPECT_EQ(all.missed, 0u);
            EXPECT_EQ(all.wrong, 0u) << "bytes";
        }
    }

    template <class P>
    static void what_finds_no_room_is_refused()
    {
        const Account all = exchange<P>(scaled(32), 16, false);
        EXPECT_EQ(all.sent, 5 * scaled(32) * 16);
        EXPECT_EQ(all.received + all.refused, all.sent);
        EXPECT_GT(all.refused, 0u) << "rings of a few slots take no 16 messages at once";
        EXPECT_LE(all.missed, all.refused);
        EXPECT_EQ(all.disordered, 0u);
        EXPECT_EQ(all.wrong, 0u);
    }

    static bool of_one_sm() { return std::string_view(GetParam().name) == "sm_gpu"; }
};
INSTANTIATE_TEST_SUITE_P(at, wholes, testing::ValuesIn(ways()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(wholes, of_a_few_slots) { nothing_is_lost<Few>(scaled(64), 8); }
TEST_P(wholes, between_warps_alone) { nothing_is_lost<FewWarps>(scaled(32), 12); }
TEST_P(wholes, from_warps_to_blocks)
{
    if (of_one_sm()) {
        GTEST_SKIP() << "blocks of several warps have an SM to themselves";
    }
    nothing_is_lost<WarpsToBlocks>(scaled(32), 12);
}
TEST_P(wholes, from_blocks_to_threads)
{
    if (of_one_sm()) {
        GTEST_SKIP() << "blocks of several warps have an SM to themselves";
    }
    nothing_is_lost<BlocksToThreads>(scaled(32), 12);
}
TEST_P(wholes, of_every_length_around_the_limits) { nothing_is_lost<Many>(scaled(32), 12); }
TEST_P(wholes, of_the_greatest_length)
{
    if (std::string_view(GetParam().name) == "cluster_gpu") {
        GTEST_SKIP() << "no near ring takes it, and without these there are no clusters";
    }
    nothing_is_lost<Longest>(scaled(4), 3);
}

// What finds no room is refused as a whole, and what was taken comes in order.
TEST_P(wholes, refused_where_the_actor_wants_it) { what_finds_no_room_is_refused<Strict>(); }
TEST_P(wholes, refused_to_all_threads_of_a_block)
{
    if (of_one_sm()) {
        GTEST_SKIP() << "blocks of several warps have an SM to themselves";
    }
    what_finds_no_room_is_refused<StrictBlocks>();
}

} // namespace
} // namespace denizen::test
