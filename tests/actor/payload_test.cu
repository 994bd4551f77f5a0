// SPDX-License-Identifier: Apache-2.0
// Payloads of every size class, host to actor, actor to actor and back, byte by byte, to actors run
// by one thread and by the whole warp.
#include <actor/places.hpp>

#include <cstring>
#include <memory>
#include <random>

template <uint32_t N>
struct Bytes {
    unsigned char b[N];
};
struct Nothing {};
// Types that come before the others, so that those have numbers above 64.
template <uint32_t N>
struct Filler {
    uint32_t unused;
};
struct Make { // build one of `size` bytes and send it to `to`
    uint32_t to;
    uint32_t size;
    uint32_t seed;
};
struct Judge {};
struct Verdict {
    uint32_t messages;
    uint32_t bad;
    uint64_t bytes;
};

DENIZEN_HD constexpr unsigned char pattern(uint32_t size, uint32_t seed, uint32_t i)
{
    return static_cast<unsigned char>((i * 131 + (i >> 8) * 17 + seed * 29 + size) & 0xff);
}

// The first byte of a message is its seed: it tells the rest.
template <class Self>
struct Checking {
    alignas(16) unsigned char room[65536];
    uint32_t messages = 0;
    uint32_t bad = 0;
    uint64_t bytes = 0;

    template <uint32_t N>
    DENIZEN_HD void on(const Bytes<N>& m, auto& ctx)
    {
        const uint32_t seed = m.b[0];
        uint32_t wrong = 0;
        for (uint32_t i = 1 + ctx.lane(); i < N; i += ctx.lanes()) {
            wrong += m.b[i] != pattern(N, seed, i);
            room[i] = static_cast<unsigned char>(m.b[i] ^ 0xff);
        }
        if (wrong != 0) {
            denizen::fetch_add<denizen::Scope::block>(&bad, wrong);
        }
        if (ctx.lane() == 0) {
            room[0] = static_cast<unsigned char>(seed ^ 0xff);
            ++messages;
            bytes += N;
        }
        ctx.sync();
        if (ctx.sender().is_host()) {
            ctx.reply(reinterpret_cast<const Bytes<N>&>(room));
        }
        ctx.sync();
    }
    DENIZEN_HD void on(const Make& m, auto& ctx)
    {
        const uint32_t seed = m.seed & 0xff;
        if (ctx.lane() == 0) {
            room[0] = static_cast<unsigned char>(seed);
        }
        for (uint32_t i = 1 + ctx.lane(); i < m.size; i += ctx.lanes()) {
            room[i] = pattern(m.size, seed, i);
        }
        ctx.sync();
        const denizen::Address to{m.to};
        switch (m.size) {
        case 1: ctx.send(to, reinterpret_cast<const Bytes<1>&>(room)); break;
        case 35: ctx.send(to, reinterpret_cast<const Bytes<35>&>(room)); break;
        case 36: ctx.send(to, reinterpret_cast<const Bytes<36>&>(room)); break;
        case 37: ctx.send(to, reinterpret_cast<const Bytes<37>&>(room)); break;
        case 84: ctx.send(to, reinterpret_cast<const Bytes<84>&>(room)); break;
        case 300: ctx.send(to, reinterpret_cast<const Bytes<300>&>(room)); break;
        case 65536: ctx.send(to, reinterpret_cast<const Bytes<65536>&>(room)); break;
        default: bad += 1;
        }
        ctx.sync();
    }
    DENIZEN_HD void on(const Nothing&, auto& ctx)
    {
        if (ctx.lane() == 0) {
            ++messages;
        }
        ctx.sync();
        ctx.reply(Verdict{messages, bad, bytes});
    }
    DENIZEN_HD void on(const Judge&, auto& ctx) { ctx.reply(Verdict{messages, bad, bytes}); }
};

struct Scalar : Checking<Scalar> {};
struct Warp : Checking<Warp> {
    static constexpr auto grain = denizen::Grain::warp;
};

using Post = denizen::Program<
    denizen::Actors<Scalar, Warp>,
    denizen::Messages<
        Filler<0>, Filler<1>, Filler<2>, Filler<3>, Filler<4>, Filler<5>, Filler<6>, Filler<7>,
        Filler<8>, Filler<9>, Filler<10>, Filler<11>, Filler<12>, Filler<13>, Filler<14>,
        Filler<15>, Filler<16>, Filler<17>, Filler<18>, Filler<19>, Filler<20>, Filler<21>,
        Filler<22>, Filler<23>, Filler<24>, Filler<25>, Filler<26>, Filler<27>, Filler<28>,
        Filler<29>, Filler<30>, Filler<31>, Filler<32>, Filler<33>, Filler<34>, Filler<35>,
        Filler<36>, Filler<37>, Filler<38>, Filler<39>, Filler<40>, Filler<41>, Filler<42>,
        Filler<43>, Filler<44>, Filler<45>, Filler<46>, Filler<47>, Filler<48>, Filler<49>,
        Filler<50>, Filler<51>, Filler<52>, Filler<53>, Filler<54>, Filler<55>, Filler<56>,
        Filler<57>, Filler<58>, Filler<59>, Filler<60>, Make, Judge, Verdict, Nothing, Bytes<1>,
        Bytes<35>, Bytes<36>, Bytes<37>, Bytes<84>, Bytes<300>, Bytes<65536>>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Post>;

constexpr uint32_t sizes[] = {1, 35, 36, 37, 84, 300, 65536};

template <class Use>
void with_size(uint32_t size, Use&& use)
{
    switch (size) {
    case 1: use.template operator()<1>(); break;
    case 35: use.template operator()<35>(); break;
    case 36: use.template operator()<36>(); break;
    case 37: use.template operator()<37>(); break;
    case 84: use.template operator()<84>(); break;
    case 300: use.template operator()<300>(); break;
    case 65536: use.template operator()<65536>(); break;
    default: FAIL() << size;
    }
}

std::vector<unsigned char> filled(uint32_t size, uint32_t seed)
{
    std::vector<unsigned char> bytes(size);
    for (uint32_t i = 0; i < size; ++i) {
        bytes[i] = i == 0 ? static_cast<unsigned char>(seed) : pattern(size, seed & 0xff, i);
    }
    return bytes;
}

std::vector<unsigned char> inverted(std::vector<unsigned char> bytes)
{
    for (unsigned char& b : bytes) {
        b = static_cast<unsigned char>(b ^ 0xff);
    }
    return bytes;
}

class payloads : public AtEveryPlace {
protected:
    static Options options()
    {
        Options o = AtEveryPlace::options();
        if (o.workers == 0) {
            o.workers = 16; // a ring for such messages has 256 KiB
        }
        o.asks = 4;
        o.max_actors = 256;
        return o;
    }

    static uint32_t type_of(uint32_t size)
    {
        uint32_t type = 0;
        with_size(size, [&]<uint32_t N>() { type = Rt::id<Bytes<N>>(); });
        return type;
    }

    static Verdict verdict(Rt& rt, Address a) { return rt.ask<Verdict>(a, Judge{}, 20s); }
};
DENIZEN_AT_EVERY_PLACE(payloads);

TEST_P(payloads, asked_and_answered)
{
    EXPECT_GT(type_of(1), 63u);
    Rt rt(device(), options());
    AnyRuntime& any = rt.untyped();
    for (const Address a : {rt.spawn<Scalar>(), rt.spawn<Warp>(), rt.spawn<Scalar>()}) {
        uint64_t bytes = 0;
        for (uint32_t round = 0; round < 4; ++round) {
            for (const uint32_t size : sizes) {
                const auto sent = filled(size, size + round);
                std::vector<unsigned char> reply(size + 8, 0xee);
                const Header h =
                    any.ask(a, type_of(size), sent.data(), size, reply.data(), size + 8, 20s);
                ASSERT_EQ(h.length, size);
                ASSERT_EQ(h.type, type_of(size));
                ASSERT_EQ(std::vector<unsigned char>(reply.end() - 8, reply.end()),
                          std::vector<unsigned char>(8, 0xee))
                    << "nothing beyond the reply is written";
                reply.resize(size);
                ASSERT_EQ(reply, inverted(sent)) << size << " bytes, round " << round;
                bytes += size;
            }
        }
        const Verdict v = verdict(rt, a);
        EXPECT_EQ(v.messages, 4 * std::size(sizes));
        EXPECT_EQ(v.bytes, bytes);
        EXPECT_EQ(v.bad, 0u);
    }
    // A caller with less room gets what fits.
    const auto sent = filled(300, 1);
    unsigned char reply[16] = {};
    const Header h = any.ask(rt.spawn<Scalar>(), type_of(300), sent.data(), 300, reply, 10, 20s);
    EXPECT_EQ(h.length, 300u);
    EXPECT_EQ(std::memcmp(reply, inverted(sent).data(), 10), 0);
    EXPECT_EQ(reply[10], 0u);
    EXPECT_EQ(rt.stats().errors, 0u);
}

// An empty C++ struct has a byte; a program from Python may have messages without.
TEST_P(payloads, of_no_bytes)
{
    Image image = image_of<Post>();
    image.table.message[Rt::id<Nothing>()].size = 0;
    Options o = options();
    o.device = device();
    AnyRuntime rt(image, o);
    for (const uint32_t type : {0u, 1u}) {
        const Address a = rt.spawn(type, 1, 10s)[0];
        Verdict v{};
        for (uint32_t i = 0; i < 5; ++i) {
            rt.send(a, Rt::id<Nothing>(), nullptr, 0, 10s);
            rt.ask(a, Rt::id<Nothing>(), nullptr, 0, &v, sizeof v, 10s);
            EXPECT_EQ(v.messages, 2 * i + 2);
        }
        rt.send_many(&a, true, Rt::id<Nothing>(), nullptr, 0, 0, 100, 10s);
        rt.broadcast(type, Rt::id<Nothing>(), nullptr, 0, 10s);
        rt.ask(a, Rt::id<Nothing>(), nullptr, 0, &v, sizeof v, 10s);
        EXPECT_EQ(v.messages, 10u + 100 + 1 + 1);
        EXPECT_EQ(v.bad, 0u);
    }
}

TEST_P(payloads, to_the_host_through_the_egress_ring)
{
    Rt rt(device(), options());
    AnyRuntime& any = rt.untyped();
    for (const Address a : {rt.spawn<Warp>(), rt.spawn<Scalar>()}) {
        for (uint32_t round = 0; round < 3; ++round) {
            for (const uint32_t size : sizes) {
                const auto sent = filled(size, 7 * size + round);
                any.send(a, type_of(size), sent.data(), size, 20s);
            }
            for (const uint32_t size : sizes) {
                const Message m = rt.receive(20s);
                ASSERT_EQ(m.header.type, type_of(size));
                ASSERT_EQ(m.header.sender, a.value);
                ASSERT_EQ(m.payload, inverted(filled(size, 7 * size + round)));
            }
        }
        EXPECT_EQ(verdict(rt, a).bad, 0u);
    }
    // And typed, several at a time.
    const Address a = rt.spawn<Scalar>();
    auto three = std::make_unique<Bytes<300>[]>(3);
    for (uint32_t i = 0; i < 3; ++i) {
        std::memcpy(three[i].b, filled(300, i).data(), 300);
    }
    rt.send_many(a, three.get(), 3);
    auto back = std::make_unique<Bytes<300>[]>(3);
    size_t n = 0;
    ASSERT_TRUE(eventually([&] { return (n += rt.receive_many(back.get() + n, 3 - n)) == 3; }));
    for (uint32_t i = 0; i < 3; ++i) {
        const auto expected = inverted(filled(300, i));
        EXPECT_EQ(std::memcmp(back[i].b, expected.data(), 300), 0);
    }
}

TEST_P(payloads, between_actors)
{
    Rt rt(device(), options());
    std::vector<Address> actors = rt.spawn<Scalar>(5);
    const auto warps = rt.spawn<Warp>(5);
    actors.insert(actors.end(), warps.begin(), warps.end());
    std::vector<uint64_t> bytes(actors.size(), 0);
    std::vector<uint32_t> messages(actors.size(), 0);
    for (uint32_t from = 0; from < actors.size(); ++from) {
        for (uint32_t k = 0; k < std::size(sizes); ++k) {
            const uint32_t to = (from * 3 + k) % static_cast<uint32_t>(actors.size());
            rt.send(actors[from], Make{actors[to].value, sizes[k], from + k}, 20s);
            bytes[to] += sizes[k];
            ++messages[to];
        }
    }
    rt.drain();
    for (size_t i = 0; i < actors.size(); ++i) {
        const Verdict v = verdict(rt, actors[i]);
        EXPECT_EQ(v.messages, messages[i]) << "actor " << i;
        EXPECT_EQ(v.bytes, bytes[i]) << "actor " << i;
        EXPECT_EQ(v.bad, 0u) << "actor " << i;
    }
    EXPECT_EQ(rt.stats().errors, 0u);
}

TEST_P(payloads, broadcast_of_every_size)
{
    Rt rt(device(), options());
    const auto scalars = rt.spawn<Scalar>(7);
    const auto warps = rt.spawn<Warp>(3);
    uint64_t bytes = 0;
    for (const uint32_t size : sizes) {
        const auto sent = filled(size, size);
        rt.untyped().broadcast(0, type_of(size), sent.data(), size, 20s);
        rt.untyped().broadcast(1, type_of(size), sent.data(), size, 20s);
        bytes += size;
    }
    rt.drain();
    for (const auto& group : {scalars, warps}) {
        for (const Address a : group) {
            const Verdict v = verdict(rt, a);
            EXPECT_EQ(v.messages, std::size(sizes));
            EXPECT_EQ(v.bytes, bytes);
            EXPECT_EQ(v.bad, 0u);
        }
    }
    // Everybody answered the host.
    size_t answers = 0;
    while (answers < std::size(sizes) * 10) {
        const Message m = rt.receive(20s);
        ASSERT_EQ(m.payload, inverted(filled(m.header.length, m.header.length)));
        ++answers;
    }
}

// Long and short messages by turns, many laps of every ring: each offset of a long message in its
// ring comes up, and parts of old laps lie beside new ones.
TEST_P(payloads, mixed_sizes_over_many_laps)
{
    Rt rt(device(), options());
    const auto actors = rt.spawn<Scalar>(6);
    std::vector<uint64_t> bytes(actors.size(), 0);
    std::vector<uint32_t> messages(actors.size(), 0);
    std::minstd_rand engine(20);
    const auto random = [&](uint32_t below) { return static_cast<uint32_t>(engine() % below); };
    uint32_t expected_at_host = 0;
    uint32_t at_host = 0;
    const auto take_some = [&] {
        // Single-slot egress messages come in between as well.
        const Message m = rt.receive(20s);
        ASSERT_EQ(m.payload,
                  inverted(filled(m.header.length, m.payload.empty() ? 0u : m.payload[0] ^ 0xffu)));
        ++at_host;
    };
    const uint32_t n = scaled(40'000);
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t a = random(6);
        const uint32_t b = random(6);
        const uint32_t size = i % 100 == 99 ? 65536 : sizes[random(6u)];
        if (i % 2 == 0) {
            const auto sent = filled(size, i & 0xff);
            rt.untyped().send(actors[a], type_of(size), sent.data(), size, 20s);
            bytes[a] += size;
            ++messages[a];
            ++expected_at_host;
        } else {
            rt.send(actors[a], Make{actors[b].value, size, i}, 20s);
            bytes[b] += size;
            ++messages[b];
        }
        if (expected_at_host - at_host > 100) {
            take_some();
        }
    }
    rt.drain();
    while (at_host < expected_at_host) {
        take_some();
    }
    for (size_t i = 0; i < actors.size(); ++i) {
        const Verdict v = verdict(rt, actors[i]);
        EXPECT_EQ(v.messages, messages[i]) << "actor " << i;
        EXPECT_EQ(v.bytes, bytes[i]) << "actor " << i;
        EXPECT_EQ(v.bad, 0u) << "actor " << i;
    }
    EXPECT_EQ(rt.stats().errors, 0u);
}

} // namespace
