// SPDX-License-Identifier: Apache-2.0
// Snapshots of whole programs and of single actors. A program is saved while actors pass tokens
// round a ring and the host sends: what is restored goes on from one moment, no message lost,
// doubled or overtaken; and the program that was saved goes on too, as if nothing had been.
#include "actor/places.hpp"

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <set>

namespace {

using namespace denizen;
using namespace denizen::test;
namespace fs = std::filesystem;

struct Connect {
    uint32_t next;
};
struct Token {
    uint32_t id;
    uint32_t hops;
    uint32_t order; // number of the message from its sender
};
struct Freight { // a token over several slots
    uint32_t id;
    uint32_t hops;
    uint32_t order;
    uint32_t load[40];
};
struct Numbered {
    uint32_t n;
};
struct Look {};
struct Seen {
    uint64_t passed;
    uint32_t from_host;
    uint32_t faults;
};
struct Done {
    uint32_t id;
};
struct Hold {}; // an ask that is answered at the next Release
struct Release {};
struct Answer {
    uint32_t n;
};

struct Station {
    uint64_t passed = 0;
    uint32_t next = 0;
    uint32_t sent = 0;
    uint32_t received = 0;
    uint32_t from_host = 0;
    uint32_t faults = 0;
    uint32_t held = 0;

    DENIZEN_HD void on(const Connect& m, auto&) { next = m.next; }
    DENIZEN_HD void on(const Token& m, auto& ctx)
    {
        if (accept(m, ctx)) {
            ctx.send(Address{next}, Token{m.id, m.hops - 1, sent++});
        }
    }
    DENIZEN_HD void on(const Freight& m, auto& ctx)
    {
        for (uint32_t i = 0; i < 40; ++i) {
            faults += m.load[i] != m.id * 40 + i;
        }
        if (accept(m, ctx)) {
            Freight onwards = m;
            --onwards.hops;
            onwards.order = sent++;
            ctx.send(Address{next}, onwards);
        }
    }
    DENIZEN_HD void on(const Numbered& m, auto&)
    {
        faults += m.n != from_host;
        from_host = m.n + 1;
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{passed, from_host, faults}); }
    DENIZEN_HD void on(const Hold&, auto& ctx) { held = ctx.sender().value; }
    DENIZEN_HD void on(const Release&, auto& ctx) { ctx.send(Address{held}, Answer{77}); }

    DENIZEN_HD bool accept(const auto& m, auto& ctx)
    {
        if (!ctx.sender().is_host()) {
            faults += m.order != received;
            received = m.order + 1;
        }
        ++passed;
        if (m.hops == 0) {
            ctx.send(host, Done{m.id});
        }
        return m.hops != 0;
    }
};

using Ring =
    Program<Actors<Station>,
            Messages<Connect, Token, Freight, Numbered, Look, Seen, Done, Hold, Release, Answer>>;

template <class T>
std::string name()
{
    return std::string(detail::type_name<T>());
}

// A folder that is gone after the test.
class Folder {
public:
    Folder()
    {
        char name[] = "/tmp/denizen-snapshot-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        path_ = name;
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string file(const char* name) const { return (path_ / name).string(); }

private:
    fs::path path_;
};

class snapshot : public AtEveryPlace {
protected:
    Folder folder;

    static Options restoring(Options o, const std::string& path)
    {
        o.restore = path;
        return o;
    }
};

class snapshot_of_nodes : public snapshot {};

struct Load {
    uint32_t stations;
    uint32_t tokens;
    uint32_t hops;
};

void start_tokens(Runtime<Ring>& rt, const std::vector<Address>& ring, const Load& load)
{
    for (uint32_t i = 0; i < ring.size(); ++i) {
        rt.send(ring[i], Connect{ring[(i + 1) % ring.size()].value});
    }
    rt.drain();
    for (uint32_t t = 0; t < load.tokens; ++t) {
        if (t % 3 == 0) {
            Freight freight{t, load.hops, 0, {}};
            std::iota(std::begin(freight.load), std::end(freight.load), t * 40);
            rt.send(ring[t % ring.size()], freight, 60s);
        } else {
            rt.send(ring[t % ring.size()], Token{t, load.hops, 0}, 60s);
        }
    }
}

// Everything has been handled exactly once, in order; returns how far the host's numbers got.
std::vector<uint32_t> settle(Runtime<Ring>& rt, const std::vector<Address>& ring, const Load& load)
{
    std::set<uint32_t> done;
    while (done.size() < load.tokens) {
        const Message m = rt.receive(60s);
        EXPECT_EQ(m.header.type, (Runtime<Ring>::id<Done>()));
        Done d{};
        std::memcpy(&d, m.payload.data(), sizeof d);
        EXPECT_TRUE(done.insert(d.id).second) << "token " << d.id << " came twice";
    }
    rt.drain();
    EXPECT_EQ(error_of([&] { rt.receive(1ms); }).code(), Errc::timeout);
    uint64_t passed = 0;
    std::vector<uint32_t> from_host;
    for (const Seen& s : rt.ask_many<Seen>(ring, Look{})) {
        passed += s.passed;
        EXPECT_EQ(s.faults, 0u);
        from_host.push_back(s.from_host);
    }
    EXPECT_EQ(passed, uint64_t{load.tokens} * (load.hops + 1));
    EXPECT_EQ(rt.stats().dead_letters, 0u);
    return from_host;
}

void under_load(const Device& device, const Options& options, const std::string& path,
                const Load& load, uint32_t seed)
{
    std::mt19937 random(seed);
    Runtime<Ring> rt(device, options);
    const std::vector<Address> ring = rt.spawn<Station>(load.stations);
    start_tokens(rt, ring, load);
    // The host's numbers: sent for certain, and begun, for each station.
    std::vector<std::atomic<uint32_t>> sent(load.stations);
    std::vector<std::atomic<uint32_t>> begun(load.stations);
    std::atomic<bool> over{false};
    std::thread sender([&] {
        for (uint32_t k = 0; !over.load(); ++k) {
            const uint32_t i = k % load.stations;
            const uint32_t n = sent[i].load();
            begun[i].store(n + 1);
            rt.send(ring[i], Numbered{n}, 60s);
            sent[i].store(n + 1);
        }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    std::vector<uint32_t> least(load.stations);
    std::vector<uint32_t> most(load.stations);
    for (uint32_t i = 0; i < load.stations; ++i) {
        least[i] = sent[i].load();
    }
    rt.save(path);
    for (uint32_t i = 0; i < load.stations; ++i) {
        most[i] = begun[i].load();
    }
    {
        Options o = options;
        o.restore = path;
        Runtime<Ring> again(device, o);
        const std::vector<uint32_t> got = settle(again, ring, load);
        for (uint32_t i = 0; i < load.stations; ++i) {
            EXPECT_GE(got[i], least[i]);
            EXPECT_LE(got[i], most[i]);
            again.send(ring[i], Numbered{got[i]}); // and on
        }
        again.drain();
        EXPECT_EQ(again.ask<Seen>(ring[0], Look{}).from_host, got[0] + 1);
    }
    over = true;
    sender.join();
    const std::vector<uint32_t> got = settle(rt, ring, load);
    for (uint32_t i = 0; i < load.stations; ++i) {
        EXPECT_EQ(got[i], sent[i].load());
    }
}

TEST_P(snapshot, under_load_loses_and_doubles_nothing)
{
    for (uint32_t seed = 0; seed < scaled(4) + 1; ++seed) {
        under_load(device(), options(), folder.file("ring"), {24, 60, scaled(600)}, seed);
    }
}

TEST_P(snapshot, under_load_with_full_rings_and_outboxes)
{
    Options o = small_rings(options());
    o.egress_slots = 256;
    o.outbox_slots = 4096;
    for (uint32_t seed = 0; seed < scaled(4) + 1; ++seed) {
        under_load(device(), o, folder.file("ring"), {24, 60, scaled(200)}, seed);
    }
}

TEST_P(snapshot_of_nodes, under_load_loses_and_doubles_nothing)
{
    for (uint32_t seed = 0; seed < scaled(4) + 1; ++seed) {
        under_load(device(), options(), folder.file("ring"), {24, 60, scaled(200)}, seed);
    }
}

TEST_P(snapshot, of_a_program_at_rest_is_all_there)
{
    const Load load{12, 20, 50};
    std::vector<Address> ring;
    {
        Runtime<Ring> rt(device(), options());
        ring = rt.spawn<Station>(load.stations);
        start_tokens(rt, ring, load);
        rt.drain();
        rt.save(folder.file("ring"));
    }
    Runtime<Ring> rt(device(), restoring(options(), folder.file("ring")));
    settle(rt, ring, load);
    // The places after those taken.
    for (const Address a : rt.spawn<Station>(30)) {
        EXPECT_EQ(std::count(ring.begin(), ring.end(), a), 0);
        EXPECT_EQ(rt.ask<Seen>(a, Look{}).passed, 0u);
    }
    EXPECT_EQ(rt.ask<Seen>(ring[3], Look{}).faults, 0u);
}

TEST_P(snapshot, says_what_the_options_of_who_restores_it_leave_open)
{
    Options o = options();
    o.workers = 3;
    o.inbox_slots = 2048;
    uint32_t clusters = 0;
    std::vector<Address> all;
    {
        Runtime<Ring> rt(device(), o);
        clusters = rt.description().cluster;
        all = rt.spawn<Station>(7);
        rt.save(folder.file("ring"));
    }
    Options nothing = restoring(options(), folder.file("ring"));
    nothing.workers = 0;
    Runtime<Ring> rt(device(), nothing);
    EXPECT_EQ(rt.description().workers, 3u);
    EXPECT_EQ(rt.description().cluster, clusters);
    EXPECT_EQ(rt.ask<Seen>(all[6], Look{}).faults, 0u);
}

TEST_P(snapshot, keeps_messages_that_the_host_has_not_received)
{
    {
        Runtime<Ring> rt(device(), options());
        const Address a = rt.spawn<Station>();
        for (uint32_t i = 0; i < 100; ++i) {
            rt.send(a, Token{i, 0, 0});
        }
        rt.drain();
        for (uint32_t i = 0; i < 40; ++i) {
            const Message m = rt.receive();
            EXPECT_EQ(m.payload[0], i);
        }
        rt.save(folder.file("ring"));
        EXPECT_EQ(rt.receive().payload[0], 40);
    }
    Runtime<Ring> rt(device(), restoring(options(), folder.file("ring")));
    for (uint32_t i = 40; i < 100; ++i) {
        EXPECT_EQ(rt.receive().payload[0], i);
    }
    EXPECT_EQ(error_of([&] { rt.receive(1ms); }).code(), Errc::timeout);
}

TEST_P(snapshot, a_late_answer_to_an_old_ask_is_not_a_new_ones)
{
    Options o = options();
    o.asks = 2;
    const Hold hold{};
    const Look question{};
    Address a;
    {
        Runtime<Ring> rt(device(), o);
        a = rt.spawn<Station>();
        const Address open =
            rt.untyped().ask_begin(a, Runtime<Ring>::id<Hold>(), &hold, sizeof hold, 1s);
        rt.drain();
        rt.save(folder.file("ring"));
        rt.send(a, Release{});
        Answer answer{};
        rt.untyped().ask_end(open, &answer, sizeof answer, 10s);
        EXPECT_EQ(answer.n, 77u);
    }
    Runtime<Ring> rt(device(), restoring(o, folder.file("ring")));
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(rt.ask<Seen>(a, Look{}).passed, 0u);
    }
    rt.send(a, Release{}); // into the cell of an ask that nobody waits for
    rt.drain();
    // From now on both cells are there.
    const auto look = Runtime<Ring>::id<Look>();
    for (int i = 0; i < 5; ++i) {
        const Address one = rt.untyped().ask_begin(a, look, &question, sizeof question, 1s);
        const Address two = rt.untyped().ask_begin(a, look, &question, sizeof question, 1s);
        Seen seen{};
        EXPECT_EQ(rt.untyped().ask_end(one, &seen, sizeof seen, 10s).type,
                  (Runtime<Ring>::id<Seen>()));
        EXPECT_EQ(rt.untyped().ask_end(two, &seen, sizeof seen, 10s).type,
                  (Runtime<Ring>::id<Seen>()));
    }
}

TEST_P(snapshot, of_a_paused_program)
{
    {
        Runtime<Ring> rt(device(), options());
        const Address a = rt.spawn<Station>();
        rt.pause();
        rt.send(a, Numbered{0});
        rt.save(folder.file("ring"));
        rt.resume();
        rt.drain();
        EXPECT_EQ(rt.ask<Seen>(a, Look{}).from_host, 1u);
    }
    Runtime<Ring> rt(device(), restoring(options(), folder.file("ring")));
    rt.drain(); // a restored program runs
    EXPECT_EQ(rt.ask<Seen>(Address::actor(0, 0), Look{}).from_host, 1u);
}

TEST_P(snapshot, of_ten_thousand_actors_is_small)
{
    Runtime<Ring> rt(device(), options());
    rt.spawn<Station>(10'000);
    rt.save(folder.file("ring"));
    EXPECT_LT(fs::file_size(folder.file("ring")), 10'000u * 200);
}

TEST_P(snapshot, has_nothing_of_a_message_that_has_been_handled)
{
    constexpr uint32_t secret = 0x5ca1ab1e;
    const std::string path = folder.file("ring");
    Runtime<Ring> rt(device(), options());
    const std::vector<Address> ring = rt.spawn<Station>(24);
    for (uint32_t i = 0; i < ring.size(); ++i) {
        rt.send(ring[i], Connect{ring[(i + 1) % ring.size()].value});
    }
    rt.drain();
    rt.send(ring[0], Token{secret, 100, 0});
    EXPECT_EQ(rt.receive(60s).header.type, Runtime<Ring>::id<Done>());
    rt.drain();
    rt.pause(ring[5]);
    rt.send(ring[5], Numbered{secret + 1});
    rt.drain();
    rt.save(path);
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const auto has = [&](uint32_t word) {
        char text[sizeof word];
        std::memcpy(text, &word, sizeof word);
        return bytes.find(std::string(text, sizeof text)) != std::string::npos;
    };
    EXPECT_FALSE(has(secret));
    EXPECT_TRUE(has(secret + 1)); // waits
}

TEST_P(snapshot, holds_what_waits_for_an_actor_and_dead_letters)
{
    std::vector<Address> stations;
    {
        Runtime<Ring> rt(device(), options());
        stations = rt.spawn<Station>(4);
        rt.pause(stations[1]);
        for (uint32_t i = 0; i < 10; ++i) {
            rt.send(stations[1], Numbered{i});
            rt.send(stations[2], Connect{Address::actor(0, 9999).value});
            rt.send(stations[2], Token{i, 1, 0}); // to nobody
        }
        rt.stop(stations[3]);
        rt.drain();
        rt.save(folder.file("ring"));
    }
    Runtime<Ring> rt(device(), restoring(options(), folder.file("ring")));
    EXPECT_EQ(rt.inspect(stations[1]).life, Life::paused);
    EXPECT_EQ(rt.inspect(stations[1]).stashed, 10u);
    rt.resume(stations[1]);
    EXPECT_EQ(rt.ask<Seen>(stations[1], Look{}).from_host, 10u);
    EXPECT_EQ(rt.ask<Seen>(stations[1], Look{}).faults, 0u);
    EXPECT_EQ(rt.dead_letters().letters.size(), 10u);
    EXPECT_EQ(error_of([&] { rt.send(stations[3], Numbered{0}); }).code(), Errc::no_actor);
}

// ---- refusals

struct Transfer {
    uint32_t to;
    uint32_t amount;
};
struct Other {
    uint32_t a;
    DENIZEN_HD void on(const Numbered&, auto&) {}
};
using OtherActor =
    Program<Actors<Other>,
            Messages<Connect, Token, Freight, Numbered, Look, Seen, Done, Hold, Release, Answer>>;
using MoreMessages =
    Program<Actors<Station>, Messages<Connect, Token, Freight, Numbered, Look, Seen, Done, Hold,
                                      Release, Answer, Transfer>>;

TEST_P(snapshot, is_refused_by_what_is_wrong_with_it)
{
    const std::string path = folder.file("ring");
    const std::string prefix = "snapshot \"" + path + "\" ";
    {
        Options o = options();
        o.inbox_slots = 1024;
        Runtime<Ring> rt(device(), o);
        rt.spawn<Station>(5);
        rt.save(path);
    }
    const auto refused = [&](auto program, Options o) {
        o.restore = path;
        const Error e =
            error_of([&] { const Runtime<typename decltype(program)::type> rt(device(), o); });
        EXPECT_EQ(e.code(), Errc::bad_snapshot) << e.what();
        const std::string text = e.what();
        EXPECT_EQ(text.substr(0, prefix.size()), prefix);
        return text.size() > prefix.size() ? text.substr(prefix.size()) : text;
    };
    EXPECT_EQ(refused(std::type_identity<OtherActor>{}, options()),
              "is of another program: its actor type 0 is " + name<Station>() +
                  ", this program's is " + name<Other>());
    EXPECT_EQ(refused(std::type_identity<MoreMessages>{}, options()),
              "is of another program: it has 10 message types, this program has 11");
    Options o = options();
    o.inbox_slots = 2048;
    EXPECT_EQ(refused(std::type_identity<Ring>{}, o),
              "is of another geometry: inbox_slots is 1024 in it, 2048 here; restore it with the "
              "options it was saved with");
    std::string bytes;
    {
        std::ifstream in(path, std::ios::binary);
        bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    std::mt19937 random(5);
    for (uint32_t i = 0; i < scaled(20) + 2; ++i) {
        std::string altered = bytes;
        const size_t at = random() % bytes.size();
        altered[at] = static_cast<char>(altered[at] ^ (1 << random() % 8));
        if (i % 4 == 0) {
            altered.resize(at);
        }
        std::ofstream(path, std::ios::binary | std::ios::trunc) << altered;
        refused(std::type_identity<Ring>{}, options());
    }
}

// ---- one actor

TEST_P(snapshot, one_actor_is_saved_and_loaded_between_two_messages)
{
    const std::string path = folder.file("station");
    Runtime<Ring> rt(device(), options());
    const auto stations = rt.spawn<Station>(3);
    for (uint32_t i = 0; i < 10; ++i) {
        rt.send(stations[0], Numbered{i});
    }
    rt.drain();
    rt.save_actor(stations[0], path);
    rt.send(stations[0], Numbered{10});
    rt.load_actor(stations[2], path);
    EXPECT_EQ(rt.ask<Seen>(stations[0], Look{}).from_host, 11u);
    EXPECT_EQ(rt.ask<Seen>(stations[2], Look{}).from_host, 10u);
    EXPECT_EQ(rt.ask<Seen>(stations[1], Look{}).from_host, 0u);
    rt.load_actor(stations[0], path);
    EXPECT_EQ(rt.ask<Seen>(stations[0], Look{}).from_host, 10u);

    Runtime<OtherActor> other(device(), options());
    const Address a = other.spawn<Other>();
    expect_error(Errc::bad_snapshot,
                 "snapshot \"" + path + "\" is of an actor " + name<Station>() + ", " +
                     named(name<Other>(), a) + " is an actor " + name<Other>(),
                 [&] { other.load_actor(a, path); });
    expect_error(Errc::bad_snapshot,
                 "snapshot \"" + path + "\" holds one actor, not a whole program",
                 [&] { const Runtime<Ring> no(device(), restoring(options(), path)); });
    EXPECT_EQ(error_of([&] { rt.save_actor(Address::actor(0, 7777), path); }).code(),
              Errc::no_actor);
}

DENIZEN_AT_EVERY_PLACE(snapshot);
DENIZEN_ON_SEVERAL_NODES(snapshot_of_nodes);

// ---- killed while it saves

struct Deposit {
    uint32_t amount;
};
struct Balance {
    int64_t amount;
};

struct Account {
    int64_t balance = 1000;

    DENIZEN_HD void on(const Transfer& m, auto& ctx)
    {
        balance -= m.amount;
        ctx.send(Address{m.to}, Deposit{m.amount});
    }
    DENIZEN_HD void on(const Deposit& m, auto&) { balance += m.amount; }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Balance{balance}); }
};

using Bank = Program<Actors<Account>, Messages<Transfer, Deposit, Look, Balance>>;

constexpr uint32_t accounts = 60;

// The process that is killed: saves as often as it can while money moves.
[[noreturn]] void save_for_ever(const std::string& path, Device device, const Options& options)
{
    Runtime<Bank> rt(device, options);
    const std::vector<Address> account = rt.spawn<Account>(accounts);
    std::thread mover([&] {
        for (std::mt19937 random(static_cast<uint32_t>(getpid()));;) {
            rt.send(
                account[random() % accounts],
                Transfer{account[random() % accounts].value, static_cast<uint32_t>(random() % 100)},
                60s);
        }
    });
    for (;;) { // ends by SIGKILL
        rt.save(path);
    }
}

std::vector<Place> banks()
{
    return {
        {"cpu2", Device::cpu(), 2, false},
        {"cpu2x2", Device::cpu(), 2, false, 2},
#if defined(__CUDACC__)
        {"gpu2", Device::gpu(), 2, true},
        {"gpu2x2", Device::gpu(), 2, false, 2},
#endif
    };
}

class snapshot_killed : public AtEveryPlace {
protected:
    static Options bank_options()
    {
        Options o = options();
        o.host_ring_slots = 64;
        return o;
    }
    // On a GPU the saver takes a second to start: --gtest_repeat=5 makes it a hundred there too.
    static uint32_t kills() { return on_gpu() ? 20 : std::max(scaled(100), 5u); }
};
DENIZEN_AT_PLACES(snapshot_killed, banks());

TEST_P(snapshot_killed, the_last_complete_one_always_restores)
{
    if (const char* path = std::getenv("DENIZEN_TEST_SAVES_TO")) {
        save_for_ever(path, device(), bank_options());
    }
    // The saver's: the same program places them alike.
    const std::vector<Address> account =
        Runtime<Bank>(device(), bank_options()).spawn<Account>(accounts);
    const Folder folder;
    const std::string path = folder.file("bank");
    const auto saved = [&] {
        return fs::exists(path) ? fs::last_write_time(path) : fs::file_time_type::min();
    };
    std::mt19937 random(1);
    const std::string filter =
        std::string("--gtest_filter=at/snapshot_killed.*/") + GetParam().name;
    const char* arguments[] = {"saver", filter.c_str(), nullptr};
    uint32_t moved = 0;
    for (uint32_t kill_number = 0; kill_number < kills(); ++kill_number) {
        const fs::file_time_type before = saved();
        pid_t child = 0;
        setenv("DENIZEN_TEST_SAVES_TO", path.c_str(), 1);
        ASSERT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr,
                              const_cast<char* const*>(arguments), environ),
                  0);
        unsetenv("DENIZEN_TEST_SAVES_TO");
        // There is a last complete one from the first on. On a GPU each is waited for: all of them
        // would be killed while they start.
        if (kill_number == 0 || on_gpu()) {
            ASSERT_TRUE(eventually([&] { return saved() != before; }, 60s));
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
        ASSERT_EQ(kill(child, SIGKILL), 0);
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status)) << "the saver ended by itself";

        Options o = bank_options();
        o.restore = path;
        Runtime<Bank> rt(device(), o);
        rt.drain();
        int64_t sum = 0;
        bool differs = false;
        for (const Balance& b : rt.ask_many<Balance>(account, Look{})) {
            sum += b.amount;
            differs |= b.amount != 1000;
        }
        EXPECT_EQ(sum, 1000 * static_cast<int64_t>(accounts));
        EXPECT_EQ(rt.stats().dead_letters, 0u);
        moved += differs ? 1 : 0;
    }
    EXPECT_GT(moved, 0u); // it was under load
}

} // namespace
