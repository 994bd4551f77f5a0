// SPDX-License-Identifier: Apache-2.0
// A program with something in each of its parts, its snapshot taken apart and put together again
// with every checksum as it has to be, and what becomes of one that was changed.
#pragma once

#include "actor/crc32c.hpp"

#include <denizen/actor/runtime.hpp>
#include <denizen/actor/supervisor.hpp>
#include <denizen/actor/topic.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace denizen::test {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

struct Token {
    uint32_t hops;
    uint32_t to[3];
};
struct Freight { // over several slots
    uint32_t hops;
    uint32_t to[3];
    uint32_t load[30];
};
struct Break {
    uint32_t code;
};
struct Alarm { // overtakes
    static constexpr auto priority = Priority::urgent;
    uint32_t to;
};
struct Join {};
struct News {
    uint32_t n;
};
struct Report {
    uint32_t n;
};
struct Look {};
struct Seen {
    uint32_t passed;
};

struct Chore { // a task: others after it, and then it tells
    uint32_t left;
    void run(auto& ctx) const
    {
        if (left == 0 || !ctx.spawn(Chore{left - 1})) {
            ctx.reply(News{0});
        }
    }
};

struct Relay {
    static constexpr bool can_fail = true;
    static constexpr auto restart_from = RestartFrom::snapshot;
    uint32_t passed = 0;

    void on(const Token& m, auto& ctx) { pass(m, ctx); }
    void on(const Freight& m, auto& ctx) { pass(m, ctx); }
    void on(const Break& m, auto& ctx) { ctx.fail(m.code); }
    void on(const Alarm& m, auto& ctx) { ctx.send(Address{m.to}, Token{0, {}}); }
    void on(const Join&, auto& ctx)
    {
        ctx.subscribe("news/*");
        ctx.spawn(Chore{3});
    }
    void on(const News&, auto&) { ++passed; }
    void on(const Down&, auto&) { ++passed; }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{passed}); }

    void pass(auto m, auto& ctx)
    {
        ++passed;
        if (m.hops == 0) {
            ctx.send(host, Report{passed});
            return;
        }
        --m.hops;
        const Address to{m.to[passed % 3]};
        if (passed % 7 == 0) {
            ctx.send(to, Alarm{m.to[0]});
            ctx.spawn(Chore{3});
        }
        ctx.send(to, m);
    }
};
struct alignas(64) Large {
    uint64_t words[40] = {};
    void on(const News&, auto&) { ++words[39]; }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{static_cast<uint32_t>(words[0])}); }
};

struct Grow { // spawn so many, and send later
    uint32_t count;
};
struct Chick {
    static constexpr bool spawned = true;
    uint32_t number = 0;
    void on(const News&, auto&) { ++number; }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{number}); }
};
struct Nest {
    Address second = nowhere;
    void on(const Grow& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            const Address chick = ctx.template spawn<Chick>(i);
            second = i == 1 ? chick : second;
            ctx.send_after(3'600'000'000'000, chick, News{i});
        }
        ctx.send_every(1'000'000, ctx.self(), News{0});
    }
    void on(const News&, auto& ctx) // a vacant place among those that are taken
    {
        if (!(second == nowhere)) {
            ctx.stop(second);
            second = nowhere;
        }
    }
};

using Victim =
    Program<Actors<Relay, Large, Nest, Chick>,
            Messages<Token, Freight, Break, Alarm, Join, News, Report, Look, Seen, Down, Grow>,
            Tasks<Chore>>;

inline Options small(uint32_t workers, uint32_t nodes, const std::string& restore = {})
{
    Options o;
    o.workers = workers;
    o.nodes = nodes;
    o.host_ring_slots = o.inbox_slots = o.local_slots = o.near_slots = o.urgent_slots = 8;
    o.egress_slots = o.dead_letter_slots = 32;
    o.outbox_slots = 256;
    o.stash_slots = o.watch_slots = 16;
    o.subscriptions = 16;
    o.spawn_room = 4;
    o.timer_slots = 8;
    o.task_slots = 8;
    o.asks = 4;
    o.buffers = 4;
    o.max_actors = 64 * workers * nodes;
    o.state_bytes = 32 << 10;
    o.restore = restore;
    return o;
}

class Folder {
public:
    Folder()
    {
        char name[] = "/tmp/denizen-fuzz-XXXXXX";
        if (::mkdtemp(name) == nullptr) {
            throw std::runtime_error("mkdtemp failed");
        }
        path_ = name;
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string file(const char* name) const { return (path_ / name).string(); }

private:
    fs::path path_;
};

using Bytes = std::vector<unsigned char>;

// A snapshot in its parts; docs/snapshots.md has the layout.
struct Parts {
    Bytes header;
    std::vector<std::pair<std::string, Bytes>> sections;

    explicit Parts(const std::string& path)
    {
        std::ifstream in(path, std::ios::binary);
        const Bytes all{std::istreambuf_iterator<char>(in), {}};
        header.assign(all.begin(), all.begin() + 40);
        uint32_t count = 0;
        std::memcpy(&count, all.data() + 20, sizeof count);
        for (uint32_t i = 0; i < count; ++i) {
            const unsigned char* entry = all.data() + 40 + 56 * i;
            uint64_t place[2]; // offset, length
            std::memcpy(place, entry + 32, sizeof place);
            sections.emplace_back(reinterpret_cast<const char*>(entry),
                                  Bytes(all.begin() + static_cast<ptrdiff_t>(place[0]),
                                        all.begin() + static_cast<ptrdiff_t>(place[0] + place[1])));
        }
    }

    Bytes& operator[](const std::string& name)
    {
        for (auto& [its, bytes] : sections) {
            if (its == name) {
                return bytes;
            }
        }
        throw std::runtime_error("no section " + name);
    }

    // With every checksum as it has to be.
    void write(const std::string& path) const
    {
        Bytes all(40 + 56 * sections.size());
        uint64_t offset = all.size();
        for (size_t i = 0; i < sections.size(); ++i) {
            const auto& [name, bytes] = sections[i];
            unsigned char* entry = all.data() + 40 + 56 * i;
            std::memcpy(entry, name.data(), name.size());
            const uint64_t place[2] = {offset, bytes.size()};
            std::memcpy(entry + 32, place, sizeof place);
            const uint32_t sum = crc32c(bytes.data(), bytes.size());
            std::memcpy(entry + 48, &sum, sizeof sum);
            offset += bytes.size();
        }
        std::copy(header.begin(), header.end(), all.begin());
        std::memcpy(all.data() + 24, &offset, sizeof offset);
        std::memset(all.data() + 32, 0, 4);
        const uint32_t sum = crc32c(all.data(), all.size());
        std::memcpy(all.data() + 32, &sum, sizeof sum);
        for (const auto& section : sections) {
            all.insert(all.end(), section.second.begin(), section.second.end());
        }
        std::ofstream(path, std::ios::binary | std::ios::trunc)
            .write(reinterpret_cast<const char*>(all.data()),
                   static_cast<std::streamsize>(all.size()));
    }
};

// Calls that may be refused: what a program of wrong state answers is its affair.
template <class Call>
void perhaps(Call&& call)
{
    try {
        call();
    } catch (const Error&) { // named, and so an answer
    }
}

// A program with something in each of its parts.
inline void save_victim(const Options& options, const std::string& path, bool under_load)
{
    Runtime<Victim> rt(Device::cpu(), options);
    const std::vector<Address> relays = rt.spawn<Relay>(12);
    const std::vector<Address> large = rt.spawn<Large>(5);
    const auto others = [&](uint32_t i) { // that run
        return std::array<uint32_t, 3>{relays[(i + 1) % 7].value, relays[(i + 3) % 7].value,
                                       relays[(i + 5) % 7].value};
    };
    for (const Address nest : rt.spawn<Nest>(options.workers * options.nodes)) {
        rt.send(nest, Grow{3});
        rt.send(nest, News{0});
    }
    rt.watch(relays[0], relays[1]);
    rt.watch(relays[2], relays[1]);
    rt.watch(host, relays[3]);
    RestartBudget budget;
    budget.max_restarts = 4;
    const Address inner = rt.supervise({relays[4], relays[5]}, Strategy::one_for_one, budget);
    rt.supervise({inner, relays[6]}, Strategy::rest_for_one);
    for (uint32_t i = 0; i < 4; ++i) {
        rt.send(relays[i], Join{});
    }
    rt.send(relays[4], Break{3}); // restarted
    rt.send(relays[7], Break{4}); // stays failed
    rt.checkpoint(relays[8]);
    rt.drain();
    rt.pause(relays[9]);
    rt.pause(large[1]);
    for (uint32_t i = 0; i < 3; ++i) {
        const auto to = others(i);
        rt.send(relays[9], Token{1, {to[0], to[1], to[2]}});
        rt.send(large[1], News{i});
        rt.send(relays[10], Token{0, {}}); // to the host
    }
    rt.send(relays[9], Freight{1, {relays[0].value, relays[0].value, relays[0].value}, {}});
    rt.send(relays[7], News{1}); // a dead letter
    rt.stop(large[4]);
    if (options.nodes > 1) {
        rt.migrate(relays[11], 1, 1 - relays[11].node());
        rt.migrate(large[2], 0, 1 - large[2].node());
        rt.migrate(large[2], large[2].worker(), large[2].node());
    }
    rt.drain();
    if (under_load) {
        constexpr uint32_t hops = 60;
        for (uint32_t i = 0; i < 7; ++i) {
            const auto to = others(i);
            rt.send(relays[i], Token{hops, {to[0], to[1], to[2]}});
            rt.send(relays[i], Freight{hops, {to[0], to[1], to[2]}, {}});
        }
    } else {
        rt.pause();
        for (uint32_t i = 0; i < 12; ++i) {
            rt.send(relays[i], Alarm{relays[0].value});
            rt.send(relays[i], News{i});
        }
    }
    rt.save(path);
}

enum class Fate { refused, ran, stuck };

// Restores it, and if that is done, uses it. Stuck: it would not end in time, which a mutated
// handler's state or a count of messages may bring about, and says so. Any other error is thrown
// on.
inline Fate fate_of(const Options& options, const std::string& again)
{
    bool closing = false;
    try {
        Runtime<Victim> rt(Device::cpu(), options);
        const Address a = Address::actor(0, 0);
        perhaps([&] { rt.send(a, News{1}, 5ms); });
        perhaps([&] { rt.restart(a, 5ms); });
        perhaps([&] { rt.resume(Address::actor(1, 3), 5ms); });
        perhaps([&] { rt.stop(Address::actor(1, 1), 5ms); });
        perhaps([&] { rt.spawn<Large>(2, 5ms); });
        perhaps([&] { rt.publish("news/1", News{1}, 5ms); });
        perhaps([&] { rt.broadcast<Nest>(Grow{2}, 5ms); });
        perhaps([&] { rt.actors(); });
        perhaps([&] { rt.ask<Seen>(a, Look{}, 5ms); });
        perhaps([&] { rt.receive(1ms); });
        perhaps([&] { rt.dead_letters(); });
        perhaps([&] { rt.save(again, 200ms); });
        closing = true;
        rt.close(200ms);
    } catch (const Error& e) {
        if (closing) {
            if (e.code() != Errc::stuck) {
                throw;
            }
            return Fate::stuck;
        }
        if (e.code() != Errc::bad_snapshot || std::string(e.what()).rfind("snapshot \"", 0) != 0) {
            throw;
        }
        return Fate::refused;
    }
    return Fate::ran;
}

} // namespace denizen::test
