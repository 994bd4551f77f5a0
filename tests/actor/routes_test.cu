// SPDX-License-Identifier: Apache-2.0
// An audit of every route: pairs of actors placed so that all their messages take one way, messages
// of mixed length that carry their sender, number and checksum, and receivers that check all three.
// With the smallest rings and with those of ordinary size, while the program is paused, resumed and
// parked again and again; then what becomes of messages that find no room, and which go first.
#include <actor/places.hpp>

#include <array>
#include <cstring>

namespace audit {

using denizen::Overflow;

constexpr uint32_t most_peers = 16;

// A message of N bytes: number, sender's place and a check over all bytes, then what these say.
template <uint32_t N>
struct alignas(N % 4 == 0 ? 4 : 1) Letter {
    unsigned char bytes[N];
};
template <uint32_t N>
struct alignas(N % 4 == 0 ? 4 : 1) Urgent {
    static constexpr auto priority = denizen::Priority::urgent;
    unsigned char bytes[N];
};

struct Head {
    uint32_t number;
    uint16_t place;
    uint16_t check;
};
static_assert(sizeof(Head) == 8);

DENIZEN_HD inline uint32_t mixed(uint32_t x)
{
    x = (x ^ x >> 16) * 0x45d9f3bu;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return x ^ x >> 16;
}

DENIZEN_HD inline void write(unsigned char* bytes, uint32_t length, uint32_t place, uint32_t number)
{
    const uint32_t seed = mixed(place * 65537 + number);
    uint32_t check = length;
    for (uint32_t i = sizeof(Head); i < length; ++i) {
        bytes[i] = static_cast<unsigned char>(seed + i * (2 * place + 7));
        check = check * 31 + bytes[i];
    }
    const auto folded = static_cast<uint16_t>(mixed(check + number) >> 7);
    for (uint32_t i = 0; i < 4; ++i) {
        bytes[i] = static_cast<unsigned char>(number >> 8 * i);
    }
    for (uint32_t i = 0; i < 2; ++i) {
        bytes[4 + i] = static_cast<unsigned char>(place >> 8 * i);
        bytes[6 + i] = static_cast<unsigned char>(folded >> 8 * i);
    }
}

// True if every byte is as write() left it.
DENIZEN_HD inline bool read(const unsigned char* bytes, uint32_t length, Head& head)
{
    head = {0, 0, 0};
    for (uint32_t i = 0; i < 4; ++i) {
        head.number |= uint32_t{bytes[i]} << 8 * i;
    }
    head.place = static_cast<uint16_t>(bytes[4] | bytes[5] << 8);
    head.check = static_cast<uint16_t>(bytes[6] | bytes[7] << 8);
    const uint32_t seed = mixed(head.place * 65537u + head.number);
    uint32_t check = length;
    bool whole = true;
    for (uint32_t i = sizeof(Head); i < length; ++i) {
        whole &= bytes[i] == static_cast<unsigned char>(seed + i * (2u * head.place + 7));
        check = check * 31 + bytes[i];
    }
    return whole && head.check == static_cast<uint16_t>(mixed(check + head.number) >> 7);
}

// Which of `kinds` lengths letter `number` of this sender has.
DENIZEN_HD inline uint32_t kind_of(uint32_t place, uint32_t number, uint32_t kinds)
{
    return mixed(number * 31 + place) % kinds;
}

struct Meet { // tells an actor its place, and one whom it writes to; nobody: only the place
    uint32_t me;
    uint32_t to;
};
struct Write { // letters to each of them, in one handler: first the others, then the urgent ones
    uint32_t count;
    uint32_t urgent;
};
struct Block { // until the word is not 0
    uint64_t word;
};
struct Done {};
struct Audit {};
struct Account {
    uint32_t tried; // by this actor as a sender
    uint32_t refused;
    uint32_t received; // letters, urgent ones too
    uint32_t missed;   // numbers that were passed over
    uint32_t disordered;
    uint32_t torn;       // or of another length than their number says
    uint32_t data_first; // letters received before the first urgent one
    uint32_t orders;     // to write
};
static_assert(sizeof(Account) <= denizen::first_payload);

// Writes letters of N bytes, or of N... bytes mixed, and checks those it gets.
template <Overflow O, bool HasUrgent, uint32_t... N>
struct Party {
    static constexpr auto overflow = O;
    static constexpr uint32_t kinds = sizeof...(N);

    uint32_t me = 0;
    uint32_t count = 0;
    bool alarmed = false;
    uint32_t to[most_peers] = {};
    uint32_t sent[2] = {}; // to each of them: data, urgent
    uint32_t next[2][most_peers] = {};
    Account account = {};

    DENIZEN_HD void on(const Meet& m, auto&)
    {
        me = m.me;
        if (m.to != denizen::nobody) {
            to[count++] = m.to;
        }
    }
    DENIZEN_HD void on(const Write& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count + m.urgent; ++i) {
            const uint32_t urgent = i < m.count ? 0 : 1;
            const uint32_t kind = kind_of(me, sent[urgent], kinds);
            for (uint32_t t = 0; t < count; ++t) {
                uint32_t k = 0;
                ((k++ == kind ? send<N>(to[t], urgent != 0, ctx) : void()), ...);
            }
            ++sent[urgent];
        }
        ++account.orders;
        ctx.reply(Done{});
    }
    template <uint32_t L>
    DENIZEN_HD void on(const Letter<L>& m, auto&)
    {
        take<L>(m.bytes, 0);
        account.data_first += alarmed ? 0 : 1;
    }
    template <uint32_t L>
    DENIZEN_HD void on(const Urgent<L>& m, auto&)
    {
        take<L>(m.bytes, 1);
        alarmed = true;
    }
    DENIZEN_HD void on(const Block& m, auto& ctx)
    {
        ctx.send(denizen::host, Done{});
        const auto* word = reinterpret_cast<const uint32_t*>(m.word);
        while (denizen::load<denizen::Scope::system>(word) == 0) { // ends by the test
        }
    }
    DENIZEN_HD void on(const Audit&, auto& ctx) { ctx.reply(account); }

private:
    template <uint32_t L>
    DENIZEN_HD void send(uint32_t receiver, bool urgent, auto& ctx)
    {
        bool went = false;
        if (urgent) {
            Urgent<L> letter;
            write(letter.bytes, L, me, sent[1]);
            if constexpr (HasUrgent) {
                went = ctx.send(denizen::Address{receiver}, letter);
            }
        } else {
            Letter<L> letter;
            write(letter.bytes, L, me, sent[0]);
            went = ctx.send(denizen::Address{receiver}, letter);
        }
        ++account.tried;
        account.refused += went ? 0 : 1;
    }
    template <uint32_t L>
    DENIZEN_HD void take(const unsigned char* bytes, uint32_t urgent)
    {
        Head head;
        const bool whole = read(bytes, L, head) && head.place < most_peers;
        uint32_t k = 0;
        uint32_t length = 0;
        const uint32_t kind = kind_of(head.place, head.number, kinds);
        ((length = k++ == kind ? N : length), ...);
        ++account.received;
        if (!whole || length != L) {
            ++account.torn;
            return;
        }
        uint32_t& expected = next[urgent][head.place];
        account.disordered += head.number < expected;
        account.missed += head.number - expected;
        expected = head.number + 1;
    }
};

// Rings of two slots; of 16; and of 256, for lengths of 1, 2, 6 and 86 slots.
template <uint32_t... N>
using Plain =
    denizen::Program<denizen::Actors<Party<Overflow::wait, false, N...>>,
                     denizen::Messages<Meet, Write, Block, Done, Audit, Account, Letter<N>...>>;
using Short = Plain<8, 36>;
using Middle = Plain<8, 36, 37, 256>;
using Long = Plain<8, 36, 37, 256, 4096>;
template <uint32_t... N>
using Mixed = denizen::Program<
    denizen::Actors<Party<Overflow::wait, true, N...>, Party<Overflow::fail, true, N...>,
                    Party<Overflow::drop_oldest, true, N...>>,
    denizen::Messages<Meet, Write, Block, Done, Audit, Account, Letter<N>..., Urgent<N>...>>;
using Strict = Mixed<8, 36, 37, 256>;

} // namespace audit

namespace denizen::test {
namespace {

using namespace audit;

// A route, and on what workers there is one.
struct Setting {
    const char* name;
    Route route;
    Device device;
    uint32_t workers;
    uint32_t cluster;
    uint32_t nodes = 1;
    uint32_t sms = 0;
};

void PrintTo(const Setting& s, std::ostream* out) { *out << s.name; }

std::vector<Setting> settings(Route farthest)
{
    std::vector<Setting> all = {
        {"worker_cpu1", Route::worker, Device::cpu(), 1, 0},
        {"worker_cpu3", Route::worker, Device::cpu(), 3, 0},
        {"cluster_cpu2", Route::cluster, Device::cpu(), 2, 0},
        {"cluster_cpu4", Route::cluster, Device::cpu(), 4, 4},
        {"gpu_cpu2", Route::gpu, Device::cpu(), 2, 1},
        {"gpu_cpu4", Route::gpu, Device::cpu(), 4, 2},
        {"peer_cpu2x1", Route::peer, Device::cpu(), 1, 0, 2},
        {"peer_cpu2x2", Route::peer, Device::cpu(), 2, 0, 2},
        {"host_cpu2", Route::to_host, Device::cpu(), 2, 0},
#if defined(__CUDACC__)
        {"worker_gpu", Route::worker, Device::gpu(), 8, 0},
        {"sm_gpu", Route::sm, Device::gpu(), 8, 0, 1, 2},
        {"cluster_gpu", Route::cluster, Device::gpu(), 16, 8},
        {"gpu_gpu", Route::gpu, Device::gpu(), 16, 1},
        {"gpu_gpu_beside_clusters", Route::gpu, Device::gpu(), 16, 4},
        {"peer_gpu", Route::peer, Device::gpu(), 8, 0, 2},
        {"host_gpu", Route::to_host, Device::gpu(), 8, 0},
#endif
    };
    std::erase_if(all, [&](const Setting& s) { return s.route > farthest; });
    return all;
}

// Every route.
class routes : public testing::TestWithParam<Setting> {
protected:
    void SetUp() override
    {
        if (on_gpu() && gpus_here() < GetParam().nodes) {
            GTEST_SKIP() << "this machine has " << gpus_here() << " CUDA devices";
        }
    }
    static bool on_gpu() { return GetParam().device.kind == Device::Kind::gpu; }
    static Route route() { return GetParam().route; }

    // `small`: 2 slots, or as many as the longest message takes twice.
    static Options options(bool small)
    {
        Options o;
        o.workers = GetParam().workers;
        o.cluster = GetParam().cluster;
        o.nodes = GetParam().nodes;
        o.sms = GetParam().sms;
        o.max_actors = 1024;
        o.state_bytes = 4u << 20;
        if (small) {
            o.host_ring_slots = o.inbox_slots = o.egress_slots = 2;
            o.local_slots = o.near_slots = o.urgent_slots = 2;
        }
        o.outbox_slots = 1u << 15; // for all that the writers of a worker can write at once
        return o;
    }

    struct Pairs {
        std::vector<Address> actors;
        uint64_t links = 0; // from a sender to a receiver
        uint32_t fan = 0;   // receivers of each sender
    };

    // Actors of type A that write to each other, or to the host, by the route of this setting only.
    template <class A, class Rt>
    static Pairs pairs(Rt& rt, uint32_t each)
    {
        Pairs p;
        const std::vector<Address> here =
            rt.template spawn<A>(each, near(rt.template spawn<A>(1, on_node(0))[0]));
        std::vector<Address> there;
        switch (route()) {
        case Route::worker: there = here; break;
        case Route::sm: there = rt.template spawn<A>(each, near(here[0], Near::sm)); break;
        case Route::cluster:
            there = rt.template spawn<A>(each, near(here[0], Near::cluster));
            break;
        case Route::gpu: there = rt.template spawn<A>(each, near(here[0], Near::node)); break;
        case Route::peer: there = rt.template spawn<A>(each, on_node(1)); break;
        case Route::to_host: there = {host}; break;
        }
        const auto introduce = [&](const std::vector<Address>& from, uint32_t first,
                                   const std::vector<Address>& to) {
            for (uint32_t i = 0; i < from.size(); ++i) {
                for (const Address b : to) {
                    rt.send(from[i], Meet{first + i, b.value}, 20s);
                    ++p.links;
                }
                p.actors.push_back(from[i]);
            }
        };
        introduce(here, 0, there);
        p.fan = static_cast<uint32_t>(there.size());
        if (route() != Route::worker && route() != Route::to_host) {
            introduce(there, each, here);
        }
        rt.drain(30s);
        return p;
    }

    template <class Rt>
    static Account sum(Rt& rt, const Pairs& p)
    {
        Account all{};
        for (const Account& a : rt.template ask_many<Account>(p.actors, Audit{}, 30s)) {
            all.tried += a.tried;
            all.refused += a.refused;
            all.received += a.received;
            all.missed += a.missed;
            all.disordered += a.disordered;
            all.torn += a.torn;
            all.data_first += a.data_first;
            all.orders += a.orders;
        }
        return all;
    }

    // Every writer writes `rounds` times `burst` letters to each of its receivers, all of them or
    // (`urgent`) half of them data. Meanwhile the program is paused, resumed and (GPU) parked.
    template <class Rt>
    static void write_all(Rt& rt, const Pairs& p, uint32_t rounds, uint32_t burst,
                          bool urgent = false, bool interrupted = true)
    {
        for (uint32_t r = 0; r < rounds; ++r) {
            for (const Address a : p.actors) {
                rt.send(a, Write{urgent ? burst / 2 : burst, urgent ? burst / 2 : 0}, 60s);
            }
            if (interrupted && r % 8 == 3) {
                rt.pause(20s);
                rt.resume();
            }
            if (interrupted && on_gpu() && r % 32 == 9) {
                rt.park(20s);
            }
        }
    }

    // Takes what was written to the host, and returns how many answers to Write came with it.
    template <class P, uint32_t... N>
    static void take_at_host(Runtime<P>& rt, const Pairs& p, uint32_t letters, uint32_t answers)
    {
        std::vector<uint32_t> next(most_peers, 0);
        const std::array<uint32_t, sizeof...(N)> lengths = {N...};
        for (uint32_t n = 0; n < letters + answers; ++n) {
            const Message m = rt.receive(30s);
            if (m.header.type == Runtime<P>::template id<Done>()) {
                --answers;
                ++letters;
                continue;
            }
            Head head;
            ASSERT_TRUE(read(m.payload.data(), m.header.length, head));
            ASSERT_LT(head.place, p.actors.size());
            ASSERT_EQ(m.header.sender, p.actors[head.place].value);
            ASSERT_EQ(head.number, next[head.place]++) << "the order of one sender";
            ASSERT_EQ(m.header.length, lengths[kind_of(head.place, head.number, sizeof...(N))]);
        }
        EXPECT_EQ(answers, 0u);
    }

    // Messages by route that handlers have sent; the answers to the host left out.
    template <class Rt>
    static std::vector<uint64_t> sent(Rt& rt)
    {
        rt.drain(60s);
        const Stats s = rt.stats();
        EXPECT_EQ(s.errors, 0u) << s.first_error;
        return {s.sent_by_route, s.sent_by_route + static_cast<uint32_t>(Route::to_host)};
    }
    static void expect_only(const std::vector<uint64_t>& now, std::vector<uint64_t> before,
                            Route way, uint64_t n)
    {
        before[static_cast<uint32_t>(way)] += n;
        EXPECT_EQ(now, before) << "worker, sm, cluster, gpu, peer";
    }

    template <uint32_t... N>
    static void nothing_is_lost(bool small, uint32_t rounds)
    {
        using P = Plain<N...>;
        Runtime<P> rt(GetParam().device, options(small));
        const Pairs p = pairs<Party<Overflow::wait, false, N...>>(rt, 4);
        const auto before = sent(rt);
        const uint32_t burst = 2;
        const auto writers = static_cast<uint32_t>(p.actors.size());
        const uint32_t letters = rounds * burst * static_cast<uint32_t>(p.links);
        std::thread feeding([&] { write_all(rt, p, rounds, burst); });
        if (route() == Route::to_host) {
            take_at_host<P, N...>(rt, p, letters, rounds * writers);
        } else {
            for (uint32_t i = 0; i < rounds * writers; ++i) {
                ASSERT_EQ(rt.receive(60s).header.type, Runtime<P>::template id<Done>());
            }
        }
        feeding.join();
        const auto after = sent(rt);
        const Account a = sum(rt, p);
        EXPECT_EQ(a.tried, letters);
        EXPECT_EQ(a.refused, 0u);
        EXPECT_EQ(a.disordered + a.missed + a.torn, 0u);
        if (route() != Route::to_host) {
            EXPECT_EQ(a.received, letters);
            expect_only(after, before, route(), letters);
        }
        EXPECT_EQ(rt.stats().dead_letters, 0u);
    }
};

TEST_P(routes, short_letters_arrive_once_in_order_and_whole)
{
    for (const bool small : {true, false}) {
        nothing_is_lost<8, 36>(small, scaled(400));
    }
}

TEST_P(routes, letters_of_several_slots_take_the_same_way_as_short_ones)
{
    for (const bool small : {true, false}) {
        nothing_is_lost<8, 36, 37, 256>(small, scaled(200));
    }
}

// Rings of 256 slots, 16 KiB, at least.
class routes_of_long_letters : public routes {};

// On a GPU with so few near workers that their rings fit into half of an SM's shared memory: with
// more there would be none, and all would go through the GPU's memory.
std::vector<Setting> settings_of_long_letters()
{
    std::vector<Setting> all = settings(Route::to_host);
    for (Setting& s : all) {
        if (s.device.kind == Device::Kind::gpu && s.route == Route::sm) {
            s.workers = 2;
            s.cluster = s.sms = 1;
        } else if (s.device.kind == Device::Kind::gpu && s.route == Route::cluster) {
            s.workers = s.cluster = 2;
        }
    }
    return all;
}

TEST_P(routes_of_long_letters, letters_of_many_slots)
{
    nothing_is_lost<8, 36, 37, 256, 4096>(true, scaled(60));
}

// Those to actors: the host has no policy.
class routes_to_actors : public routes {};

// Those within a node: to another node urgent messages go with the others.
class routes_of_a_node : public routes {};

// ---- what finds no room

// Letters to actors of type A, more at a time than there is room for.
TEST_P(routes_to_actors, what_is_refused_is_what_is_missing)
{
    using A = Party<Overflow::fail, true, 8, 36, 37, 256>;
    uint64_t refused = 0;
    for (const bool small : {true, false}) {
        Runtime<Strict> rt(GetParam().device, options(small));
        const Pairs p = pairs<A>(rt, 4);
        const auto before = sent(rt);
        // A refused letter fills its tickets with nothing, which takes room from those that follow:
        // of 100 rounds of 16 nearly all were refused, and delivering their nothings took 6 to 20
        // s. So a jam comes in few rounds, and the pauses in many that are half refused.
        write_all(rt, p, scaled(100), 4);
        write_all(rt, p, scaled(10), 16);
        const auto after = sent(rt);
        const Account a = sum(rt, p);
        EXPECT_EQ(a.tried, (scaled(100) * 4 + scaled(10) * 16) * p.links);
        EXPECT_EQ(a.received + a.refused, a.tried);
        EXPECT_EQ(a.disordered + a.torn, 0u);
        EXPECT_LE(a.missed, a.refused) << "those before the last that arrived";
        expect_only(after, before, route(), a.received);
        EXPECT_EQ(rt.stats().dead_letters, 0u) << "the sender was told";
        refused += small ? a.refused : 0;
    }
    EXPECT_GT(refused, 0u) << "there was no overload";
}

TEST_P(routes_to_actors, what_is_dropped_is_counted)
{
    using A = Party<Overflow::drop_oldest, true, 8, 36, 37, 256>;
    struct Load {
        bool small;
        uint32_t rounds;
        uint32_t burst;
    };
    uint64_t dropped = 0;
    for (const Load& load :
         {Load{true, 100, 4}, Load{false, 100, 4}, Load{true, 10, 16}, Load{false, 10, 16}}) {
        const uint32_t rounds = scaled(load.rounds);
        Runtime<Strict> rt(GetParam().device, options(load.small));
        const Pairs p = pairs<A>(rt, 4);
        write_all(rt, p, rounds, load.burst, true);
        rt.drain(60s);
        const Stats s = rt.stats();
        const Account a = sum(rt, p); // these questions would be dropped were there more to drop
        // Orders from the host are messages like all others.
        const auto lost_orders = rounds * static_cast<uint32_t>(p.actors.size()) - a.orders;
        EXPECT_EQ(a.tried, a.orders * load.burst * p.fan);
        EXPECT_EQ(a.refused, 0u);
        EXPECT_EQ(a.disordered + a.torn, 0u);
        const auto by_reason = s.dead_letters_by_reason[static_cast<uint32_t>(Reason::dropped)];
        EXPECT_EQ(s.dead_letters, by_reason);
        EXPECT_EQ(rt.stats().dead_letters, by_reason);
        EXPECT_EQ(by_reason, lost_orders + a.tried - a.received);
        EXPECT_LE(a.missed, by_reason);
        dropped += load.small ? by_reason : 0;
    }
    EXPECT_GT(dropped, 0u) << "there was no overload";
}

// Actors that wait beside actors that do not.
TEST_P(routes_to_actors, those_who_wait_lose_nothing_beside_those_who_do_not)
{
    Runtime<Strict> rt(GetParam().device, options(true));
    const Pairs waits = pairs<Party<Overflow::wait, true, 8, 36, 37, 256>>(rt, 4);
    const Pairs fails = pairs<Party<Overflow::fail, true, 8, 36, 37, 256>>(rt, 4);
    std::thread other([&] { write_all(rt, fails, scaled(60), 4, true, false); });
    write_all(rt, waits, scaled(60), 4, true);
    other.join();
    rt.drain(60s);
    const Account a = sum(rt, waits);
    EXPECT_EQ(a.received, a.tried);
    EXPECT_EQ(a.tried, scaled(60) * 4 * waits.links);
    EXPECT_EQ(a.refused + a.missed + a.disordered + a.torn, 0u);
    const Account b = sum(rt, fails);
    EXPECT_EQ(b.received + b.refused, b.tried);
    EXPECT_EQ(b.disordered + b.torn, 0u);
    EXPECT_EQ(rt.stats().dead_letters, 0u);
}

// ---- which go first

TEST_P(routes_of_a_node, urgent_letters_overtake_those_that_wait)
{
    SharedWord go(on_gpu());
    for (const bool small : {true, false}) {
        go.set(0);
        Runtime<Strict> rt(GetParam().device, options(small));
        using A = Party<Overflow::wait, true, 8, 36, 37, 256>;
        const Pairs p = pairs<A>(rt, 1);
        const Address writer = p.actors.front();
        const Address reader = p.actors.back(); // on the same worker: the same
        const bool elsewhere = route() != Route::worker;
        if (elsewhere) { // its worker takes nothing until all are written
            rt.send(reader, Block{go.address()});
            EXPECT_EQ(rt.receive(20s).header.sender, reader.value);
        }
        const uint32_t data = 5;
        const uint32_t urgent = 3;
        rt.send(writer, Write{data, urgent}, 20s);
        EXPECT_EQ(rt.receive(20s).header.sender, writer.value);
        go.set(1);
        rt.drain(20s);
        const auto a = rt.template ask<Account>(reader, Audit{}, 20s);
        EXPECT_EQ(a.received, data + urgent);
        EXPECT_EQ(a.disordered + a.missed + a.torn, 0u) << "in order among themselves";
        EXPECT_EQ(a.data_first, 0u);
    }
}

const auto name_of = [](const auto& instance) { return std::string(instance.param.name); };
INSTANTIATE_TEST_SUITE_P(on, routes, testing::ValuesIn(settings(Route::to_host)), name_of);
INSTANTIATE_TEST_SUITE_P(on, routes_of_long_letters, testing::ValuesIn(settings_of_long_letters()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(on, routes_to_actors, testing::ValuesIn(settings(Route::peer)), name_of);
INSTANTIATE_TEST_SUITE_P(on, routes_of_a_node, testing::ValuesIn(settings(Route::gpu)), name_of);

} // namespace
} // namespace denizen::test
