// SPDX-License-Identifier: Apache-2.0
// The life of actors as the host and other actors see it: pause, resume, restart, drain and stop;
// messages that wait, in order and once each; watches; dead letters.
#include <actor/places.hpp>

#include <algorithm>
#include <cstring>
#include <map>

struct Note { // numbered: an actor remembers whether they came in order
    uint32_t number;
};
struct Fat { // the same in several slots
    uint32_t number;
    uint32_t filling[40];
};
struct Burst { // sends Note{first}, Note{first + 1}, ... to `to`
    uint32_t to;
    uint32_t first;
    uint32_t count;
};
struct Fail {
    uint32_t code;
};
struct Tell { // to an actor: does to `to` what a host could do
    uint32_t what;
    uint32_t to;
};
struct Stumble {   // has `failing` fail twice, with a restart between, while the outbox is full
    uint32_t away; // takes nothing
    uint32_t failing;
    uint32_t busy;
};
struct Keep {}; // ctx.checkpoint()
struct Look {};
struct Seen {
    uint32_t count;
    uint32_t next;     // number expected next
    uint32_t disorder; // notes that were not
    uint32_t marks;    // Downs and such
    uint32_t last;     // of the last Down: life
    uint32_t code;     // and code
};

enum What : uint32_t { do_stop, do_pause, do_resume, do_restart, do_drain, do_watch, do_unwatch };

struct Scribe {
    static constexpr bool can_fail = true;
    uint32_t count = 0;
    uint32_t next = 0;
    uint32_t disorder = 0;

    DENIZEN_HD void take(uint32_t number)
    {
        disorder += number != next ? 1 : 0;
        next = number + 1;
        ++count;
    }
    DENIZEN_HD void on(const Note& m, auto&) { take(m.number); }
    DENIZEN_HD void on(const Fat& m, auto&)
    {
        bool whole = true;
        for (uint32_t i = 0; i < 40; ++i) {
            whole = whole && m.filling[i] == m.number * 40 + i;
        }
        take(whole ? m.number : ~0u);
    }
    DENIZEN_HD void on(const Fail& m, auto& ctx) { ctx.fail(m.code); }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{count, next, disorder, 0, 0, 0}); }
};

// Keeps checkpoints.
struct Careful {
    static constexpr bool can_fail = true;
    static constexpr auto restart_from = denizen::RestartFrom::snapshot;
    uint64_t sum = 0;
    uint32_t count = 0;

    DENIZEN_HD void on(const Note& m, auto&)
    {
        sum += m.number;
        ++count;
    }
    DENIZEN_HD void on(const Keep&, auto& ctx) { ctx.checkpoint(); }
    DENIZEN_HD void on(const Fail& m, auto& ctx) { ctx.fail(m.code); }
    DENIZEN_HD void on(const Look&, auto& ctx)
    {
        ctx.reply(Seen{count, static_cast<uint32_t>(sum), 0, 0, 0, 0});
    }
};

// Run by the whole warp.
struct Team {
    static constexpr auto grain = denizen::Grain::warp;
    static constexpr bool can_fail = true;
    uint32_t count = 0;
    uint32_t next = 0;
    uint32_t disorder = 0;

    DENIZEN_HD void on(const Note& m, auto& ctx)
    {
        ctx.sync();
        if (ctx.lane() == 0) {
            disorder += m.number != next ? 1 : 0;
            next = m.number + 1;
            ++count;
        }
        ctx.sync();
    }
    DENIZEN_HD void on(const Fail& m, auto& ctx)
    {
        if (ctx.lane() == ctx.lanes() - 1) {
            ctx.fail(m.code);
        }
    }
    DENIZEN_HD void on(const Look&, auto& ctx)
    {
        ctx.sync();
        ctx.reply(Seen{count, next, disorder, 0, 0, 0});
    }
};

// Sends, orders and watches.
struct Boss {
    uint32_t downs = 0;
    uint32_t last = 0;
    uint32_t code = 0;
    uint32_t incarnation = 0;

    DENIZEN_HD void on(const Burst& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.send(denizen::Address{m.to}, Note{m.first + i});
        }
    }
    DENIZEN_HD void on(const Tell& m, auto& ctx)
    {
        const denizen::Address to{m.to};
        switch (m.what) {
        case do_stop: ctx.stop(to); break;
        case do_pause: ctx.pause(to); break;
        case do_resume: ctx.resume(to); break;
        case do_restart: ctx.restart(to); break;
        case do_drain: ctx.drain(to); break;
        case do_watch: ctx.watch(to); break;
        case do_unwatch: ctx.unwatch(to); break;
        default: break;
        }
    }
    DENIZEN_HD void on(const Stumble& m, auto& ctx)
    {
        for (uint32_t i = 0; i < 60; ++i) {
            ctx.send(denizen::Address{m.away}, Note{i});
        }
        ctx.restart(denizen::Address{m.failing});
        for (uint32_t fall = 0; fall < 2; ++fall) {
            ctx.send(denizen::Address{m.failing}, Fail{7 + fall});
            for (uint32_t i = 0; i < 600; ++i) { // the restart is between the 500th and the 600th
                ctx.send(denizen::Address{m.busy}, Note{600 * fall + i});
            }
        }
    }
    DENIZEN_HD void on(const denizen::Down& m, auto&)
    {
        ++downs;
        last = m.life;
        code = m.code;
        incarnation = m.incarnation;
    }
    DENIZEN_HD void on(const Look&, auto& ctx)
    {
        ctx.reply(Seen{0, incarnation, 0, downs, last, code});
    }
};

// Whoever sends it more than there is room for loses the oldest.
struct Hasty {
    static constexpr auto overflow = denizen::Overflow::drop_oldest;
    uint32_t count = 0;
    uint32_t next = 0;

    DENIZEN_HD void on(const Note& m, auto&)
    {
        ++count;
        next = m.number + 1;
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{count, next, 0, 0, 0, 0}); }
};

using Scriptorium = denizen::Program<
    denizen::Actors<Scribe, Careful, Team, Boss, Hasty>,
    denizen::Messages<Note, Fat, Burst, Fail, Tell, Stumble, Keep, Look, Seen, denizen::Down>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Scriptorium>;

class lives : public AtEveryPlace {
protected:
    static Seen look(Rt& rt, Address a) { return rt.ask<Seen>(a, Look{}, 20s); }

    static void note(Rt& rt, Address a, uint32_t first, uint32_t count)
    {
        std::vector<Note> notes(count);
        for (uint32_t i = 0; i < count; ++i) {
            notes[i] = {first + i};
        }
        rt.send_many(a, notes.data(), count);
    }

    static Fat fat(uint32_t number)
    {
        Fat f{number, {}};
        for (uint32_t i = 0; i < 40; ++i) {
            f.filling[i] = number * 40 + i;
        }
        return f;
    }

    static void pause_and_resume_under_load(Device device, const Options& options);

    static void expect_notes(Rt& rt, Address a, uint32_t count)
    {
        const Seen s = look(rt, a);
        EXPECT_EQ(s.count, count);
        EXPECT_EQ(s.next, count);
        EXPECT_EQ(s.disorder, 0u);
    }

    static void order(Rt& rt, Address boss, What what, Address to)
    {
        rt.send(boss, Tell{what, to.value});
        rt.drain();
    }
};
DENIZEN_AT_EVERY_PLACE(lives);

TEST_P(lives, a_new_actor_runs)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Scribe>();
    const ActorStatus s = rt.inspect(a);
    EXPECT_EQ(s.life, Life::running);
    EXPECT_EQ(s.incarnation, 1u);
    EXPECT_EQ(s.failure, 0u);
    EXPECT_EQ(s.stashed, 0u);
    EXPECT_FALSE(s.supervised());
    const Address never = Address::actor(a.worker(), 1000);
    EXPECT_EQ(error_of([&] { rt.inspect(never); }).code(), Errc::no_actor);
    EXPECT_EQ(error_of([&] { rt.pause(never); }).code(), Errc::no_actor);
    EXPECT_EQ(error_of([&] { rt.inspect(Address::actor(2000, 0)); }).code(), Errc::no_actor);
}

TEST_P(lives, a_created_actor_waits_for_its_start)
{
    Rt rt(device(), options());
    const auto actors = rt.create<Scribe>(5);
    for (const Address a : actors) {
        EXPECT_EQ(rt.state(a), Life::created);
        note(rt, a, 0, 3);
    }
    rt.broadcast<Scribe>(Note{3});
    rt.drain();
    EXPECT_EQ(rt.stats().stashed, 20u);
    for (const Address a : actors) {
        rt.resume(a);
        expect_notes(rt, a, 4);
        EXPECT_EQ(rt.inspect(a).incarnation, 1u);
    }
    const Address b = rt.create<Scribe>(1)[0];
    rt.stop(b);
    EXPECT_EQ(rt.state(b), Life::stopped);
}

TEST_P(lives, what_is_sent_to_a_paused_actor_waits_in_order)
{
    Rt rt(device(), options());
    const auto actors = rt.spawn<Scribe>(6);
    const Address a = actors[0];
    note(rt, a, 0, 10);
    rt.drain();
    rt.pause(a);
    EXPECT_EQ(rt.state(a), Life::paused);
    rt.pause(a); // again: nothing changes
    note(rt, a, 10, 50);
    note(rt, actors[1], 0, 5);
    rt.drain(); // what waits for a paused actor is not under way
    EXPECT_EQ(rt.inspect(a).stashed, 50u);
    EXPECT_EQ(rt.stats().stashed, 50u);
    expect_notes(rt, actors[1], 5);
    rt.resume(a);
    note(rt, a, 60, 5);
    expect_notes(rt, a, 65);
    EXPECT_EQ(rt.state(a), Life::running);
    EXPECT_EQ(rt.inspect(a).stashed, 0u);
    rt.resume(a);
    EXPECT_EQ(rt.state(a), Life::running);
    EXPECT_EQ(rt.stats().stashed, 0u);
    EXPECT_EQ(rt.stats().dead_letters, 0u);
}

TEST_P(lives, long_messages_and_questions_wait_too)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Scribe>();
    const Address team = rt.spawn<Team>();
    rt.pause(a);
    rt.pause(team);
    for (uint32_t i = 0; i < 30; ++i) {
        i % 3 == 0 ? rt.send(a, fat(i)) : rt.send(a, Note{i});
        rt.send(team, Note{i});
    }
    const Address asked = rt.untyped().ask_begin(a, Rt::id<Look>(), "", sizeof(Look), 1s);
    rt.drain();
    EXPECT_FALSE(rt.untyped().ask_ready(asked));
    EXPECT_EQ(rt.inspect(a).stashed, 31u);
    rt.resume(team);
    rt.resume(a);
    Seen s{};
    rt.untyped().ask_end(asked, &s, sizeof s, 20s);
    EXPECT_EQ(s.count, 30u);
    EXPECT_EQ(s.disorder, 0u);
    expect_notes(rt, a, 30);
    expect_notes(rt, team, 30);
}

// Half of the messages go by way of other actors; what waits for a paused one fills rings.
void lives::pause_and_resume_under_load(Device device, const Options& options)
{
    for (const bool small : {false, true}) {
        Options o = small ? small_rings(options) : options;
        o.stash_slots = small ? 16 : 256;
        o.outbox_slots = small ? 512 : o.outbox_slots; // a Burst is ten messages, of many at once
        Rt rt(device, o);
        const uint32_t pairs = 8;
        const auto scribes = rt.spawn<Scribe>(pairs);
        const auto bosses = rt.spawn<Boss>(pairs);
        const uint32_t n = scaled(small ? 2000 : 20'000) / 10 * 10 + 10;
        // Joins also when a deadline passes below, so that its error is seen.
        std::jthread sender([&] { // half of them by way of other actors
            for (uint32_t i = 0; i < n; i += 10) {
                for (uint32_t k = 0; k < pairs; ++k) {
                    if (k % 2 == 0) {
                        note(rt, scribes[k], i, 10);
                    } else {
                        rt.send(bosses[k], Burst{scribes[k].value, i, 10}, 60s);
                    }
                }
            }
        });
        for (uint32_t i = 0; i < scaled(400); ++i) {
            const Address a = scribes[i * 7 % pairs];
            rt.pause(a, 20s);
            if (i % 3 == 0) {
                std::this_thread::sleep_for(std::chrono::microseconds(200));
            }
            rt.resume(a, 20s);
        }
        sender.join();
        rt.drain();
        for (const Address a : scribes) {
            expect_notes(rt, a, n);
        }
        EXPECT_EQ(rt.stats().errors, 0u) << rt.stats().first_error;
    }
}

TEST_P(lives, pausing_and_resuming_under_load_keeps_every_message_in_order)
{
    pause_and_resume_under_load(device(), options());
}

// The order to resume comes from the host, which a worker with a blocked near ring looks at after
// some hundred rounds: longer than such a breath lasts.
TEST_P(lives, an_order_comes_through_however_short_the_breath)
{
    Options o = options();
    o.breath = std::chrono::microseconds(on_gpu() ? 300 : 10);
    pause_and_resume_under_load(device(), o);
}

TEST_P(lives, a_full_store_holds_back_the_ring_and_loses_nothing)
{
    Options o = options();
    o.workers = 1;
    o.stash_slots = 8;
    o.host_ring_slots = 16;
    Rt rt(device(), o);
    const auto actors = rt.spawn<Scribe>(2);
    rt.pause(actors[0]);
    uint32_t sent = 0;
    for (;; ++sent) {
        const Error e = error_of([&] { rt.send(actors[0], Note{sent}, 100ms); });
        if (e.code() != Errc::ok) {
            EXPECT_EQ(e.code(), Errc::full);
            break;
        }
        ASSERT_LT(sent, 200u) << "the host ring never fills";
    }
    EXPECT_GE(sent, 8u + 16u) << "the stash and the host ring";
    EXPECT_EQ(rt.inspect(actors[0]).stashed, 8u) << "urgent requests get through";
    // What lies behind waits too, for whomever it is.
    EXPECT_EQ(error_of([&] { rt.send(actors[1], Note{0}, 50ms); }).code(), Errc::full);
    EXPECT_EQ(error_of([&] { rt.drain(100ms); }).code(), Errc::timeout);
    rt.resume(actors[0]);
    note(rt, actors[1], 0, 1);
    expect_notes(rt, actors[0], sent);
    expect_notes(rt, actors[1], 1);
    EXPECT_EQ(rt.stats().dead_letters, 0u);
}

TEST_P(lives, a_broadcast_waits_for_those_who_are_paused)
{
    Rt rt(device(), options());
    const auto actors = rt.spawn<Scribe>(40);
    for (size_t i = 0; i < actors.size(); i += 2) {
        rt.pause(actors[i]);
    }
    rt.broadcast<Scribe>(Note{0});
    rt.broadcast<Scribe>(fat(1));
    rt.drain();
    EXPECT_EQ(rt.stats().stashed, 40u);
    expect_notes(rt, actors[1], 2);
    for (size_t i = 0; i < actors.size(); i += 2) {
        rt.resume(actors[i]);
    }
    for (const Address a : actors) {
        expect_notes(rt, a, 2);
    }
}

TEST_P(lives, a_restart_begins_anew_and_keeps_what_waits)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Scribe>();
    note(rt, a, 0, 7);
    rt.drain();
    rt.pause(a);
    note(rt, a, 0, 5);
    rt.restart(a);
    expect_notes(rt, a, 5);
    EXPECT_EQ(rt.inspect(a).incarnation, 2u);
    rt.restart(a);
    expect_notes(rt, a, 0);
    EXPECT_EQ(rt.inspect(a).incarnation, 3u);
    EXPECT_EQ(rt.stats().dead_letters, 0u);
}

TEST_P(lives, a_checkpoint_is_what_a_restart_goes_back_to)
{
    Rt rt(device(), options());
    const auto actors = rt.spawn<Careful>(3);
    const Address a = actors[1];
    note(rt, a, 1, 4);
    rt.restart(a); // overtakes: whatever it finds, there is no checkpoint yet
    rt.drain();
    rt.restart(a);
    EXPECT_EQ(look(rt, a).count, 0u);
    note(rt, a, 1, 4);
    rt.send(a, Keep{});
    note(rt, a, 100, 10);
    rt.drain();
    EXPECT_EQ(look(rt, a).count, 14u);
    rt.restart(a);
    EXPECT_EQ(look(rt, a).count, 4u);
    EXPECT_EQ(look(rt, a).next, 10u);
    note(rt, a, 5, 1);
    rt.checkpoint(a); // behind the note
    note(rt, a, 6, 1);
    rt.drain();
    rt.restart(a);
    EXPECT_EQ(look(rt, a).next, 15u);
    EXPECT_EQ(look(rt, actors[0]).count, 0u);
    EXPECT_EQ(look(rt, actors[2]).count, 0u);
    const Address s = rt.spawn<Scribe>();
    expect_error(Errc::bad_argument,
                 named("Scribe", s) + " keeps no checkpoint; its type declares `static constexpr "
                                      "auto restart_from = denizen::RestartFrom::snapshot`",
                 [&] { rt.checkpoint(s); });
}

TEST_P(lives, a_drain_ends_behind_what_was_sent_before)
{
    Rt rt(device(), options());
    const auto scribes = rt.spawn<Scribe>(5);
    const auto bosses = rt.spawn<Boss>(5);
    for (uint32_t i = 0; i < 5; ++i) {
        rt.send(bosses[i], Burst{scribes[i].value, 0, 200});
        rt.ask<Seen>(bosses[i], Look{}, 20s); // its burst has been sent
        note(rt, scribes[i], 200, 10);
    }
    for (const Address a : scribes) {
        rt.drain(a, 20s);
        EXPECT_EQ(rt.state(a), Life::stopped);
    }
    const Stats s = rt.stats();
    EXPECT_EQ(s.dead_letters, 0u) << s.first_error;
    expect_error(Errc::no_actor,
                 named("Scribe", scribes[0]) +
                     " has stopped; an address is not given out again, spawn another",
                 [&] { rt.send(scribes[0], Note{0}); });

    const Address p = rt.spawn<Scribe>();
    rt.pause(p);
    expect_error(Errc::bad_argument, named("Scribe", p) + " is paused; resume or stop it",
                 [&] { rt.drain(p); });
    note(rt, p, 0, 3);
    rt.drain();
    rt.resume(p);
    rt.drain(p, 20s);
    EXPECT_EQ(rt.stats().dead_letters, 0u);
}

TEST_P(lives, what_waits_for_an_actor_that_is_stopped_is_dead)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Scribe>();
    rt.pause(a);
    note(rt, a, 0, 5);
    rt.send(a, fat(5));
    rt.stop(a);
    EXPECT_EQ(rt.state(a), Life::stopped);
    rt.drain();
    const Stats s = rt.stats();
    EXPECT_EQ(s.stashed, 0u);
    EXPECT_EQ(s.dead_letters, 6u);
    EXPECT_EQ(s.dead_letters_by_reason[static_cast<uint32_t>(Reason::stopped)], 6u);
    const DeadLetters dead = rt.dead_letters();
    ASSERT_EQ(dead.letters.size(), 6u);
    EXPECT_EQ(dead.lost, 0u);
    for (uint32_t i = 0; i < 6; ++i) {
        const DeadLetter& d = dead.letters[i];
        EXPECT_EQ(d.reason, Reason::stopped);
        EXPECT_EQ(d.destination, a);
        EXPECT_EQ(d.sender, host);
        EXPECT_EQ(d.worker, a.worker());
        EXPECT_EQ(d.type, i < 5 ? Rt::id<Note>() : Rt::id<Fat>());
        EXPECT_EQ(d.length, i < 5 ? sizeof(Note) : sizeof(Fat));
        uint32_t word[2];
        std::memcpy(word, d.payload.data(), sizeof word);
        EXPECT_EQ(word[0], i);
        EXPECT_EQ(word[1], i < 5 ? 0u : 200u);
    }
    EXPECT_TRUE(rt.dead_letters().letters.empty()) << "they are read once";
}

TEST_P(lives, a_handler_that_fails_without_a_supervisor)
{
    Rt rt(device(), options());
    for (const Address a : {rt.spawn<Scribe>(), rt.spawn<Team>()}) {
        rt.dead_letters();
        const uint64_t before = rt.stats().dead_letters;
        note(rt, a, 0, 3);
        rt.send(a, Fail{77});
        note(rt, a, 3, 4);
        rt.drain();
        ActorStatus s = rt.inspect(a);
        EXPECT_EQ(s.life, Life::failed);
        EXPECT_EQ(s.failure, 77u);
        const DeadLetters dead = rt.dead_letters();
        ASSERT_EQ(dead.letters.size(), 5u);
        for (const DeadLetter& d : dead.letters) {
            EXPECT_EQ(d.reason, Reason::failed);
            EXPECT_EQ(d.code, 77u);
        }
        EXPECT_EQ(dead.letters[0].type, Rt::id<Fail>());
        EXPECT_EQ(dead.letters[0].text,
                  "Fail to " +
                      named(a == dead.letters[0].destination && s.failure == 77
                                ? rt.untyped().image().actors[before == 0 ? 0 : 2]
                                : "",
                            a) +
                      ": it failed with code 77");
        EXPECT_EQ(rt.stats().dead_letters, before + 5);
        expect_error(Errc::failed,
                     named(rt.untyped().image().actors[before == 0 ? 0 : 2], a) +
                         " has failed with code 77; restart or resume it",
                     [&] { rt.pause(a); });
        rt.resume(a); // with the state it has
        note(rt, a, 3, 2);
        expect_notes(rt, a, 5);
        rt.send(a, Fail{0}); // 0 is no code: 1
        rt.drain();
        EXPECT_EQ(rt.inspect(a).failure, 1u);
        rt.restart(a);
        expect_notes(rt, a, 0);
        EXPECT_EQ(rt.state(a), Life::running);
        s = rt.inspect(a);
        EXPECT_EQ(s.incarnation, 2u);
    }
}

TEST_P(lives, actors_can_do_what_the_host_can)
{
    Rt rt(device(), options());
    const auto scribes = rt.spawn<Scribe>(5);
    const auto bosses = rt.spawn<Boss>(3);
    for (const Address boss : bosses) {
        for (const Address a : scribes) {
            order(rt, boss, do_pause, a);
            EXPECT_EQ(rt.state(a), Life::paused);
            order(rt, boss, do_resume, a);
            EXPECT_EQ(rt.state(a), Life::running);
        }
    }
    const uint32_t before = rt.inspect(scribes[0]).incarnation;
    order(rt, bosses[0], do_restart, scribes[0]);
    EXPECT_EQ(rt.inspect(scribes[0]).incarnation, before + 1);
    rt.send(bosses[1], Burst{scribes[1].value, 0, 100});
    order(rt, bosses[1], do_drain, scribes[1]);
    EXPECT_EQ(rt.state(scribes[1]), Life::stopped);
    EXPECT_EQ(rt.stats().dead_letters, 0u);
    order(rt, bosses[2], do_stop, scribes[2]);
    EXPECT_EQ(rt.state(scribes[2]), Life::stopped);
    EXPECT_EQ(error_of([&] { rt.pause(scribes[2]); }).code(), Errc::no_actor);
    EXPECT_EQ(error_of([&] { rt.send(scribes[2], Note{0}); }).code(), Errc::no_actor);
}

TEST_P(lives, watchers_are_told)
{
    Rt rt(device(), options());
    const auto scribes = rt.spawn<Scribe>(4);
    const auto bosses = rt.spawn<Boss>(3);
    for (const Address boss : bosses) {
        order(rt, boss, do_watch, scribes[0]);
    }
    rt.watch(bosses[0], scribes[0]); // a second time: still one message each
    rt.watch(host, scribes[0]);
    rt.send(scribes[0], Fail{5});
    rt.drain();
    for (const Address boss : bosses) {
        const Seen s = look(rt, boss);
        EXPECT_EQ(s.marks, 1u);
        EXPECT_EQ(s.last, static_cast<uint32_t>(Life::failed));
        EXPECT_EQ(s.code, 5u);
        EXPECT_EQ(s.next, 1u);
    }
    const Message m = rt.receive(20s);
    ASSERT_EQ(m.header.type, Rt::id<Down>());
    Down down;
    std::memcpy(&down, m.payload.data(), sizeof down);
    EXPECT_EQ(down.actor, scribes[0].value);
    EXPECT_EQ(m.header.sender, scribes[0].value);
    EXPECT_EQ(down.code, 5u);
    rt.unwatch(host, scribes[0]);
    order(rt, bosses[2], do_unwatch, scribes[0]);
    rt.restart(scribes[0]);
    rt.drain();
    EXPECT_EQ(look(rt, bosses[0]).marks, 2u);
    EXPECT_EQ(look(rt, bosses[0]).last, static_cast<uint32_t>(Life::running));
    EXPECT_EQ(look(rt, bosses[0]).next, 2u) << "the new incarnation";
    EXPECT_EQ(look(rt, bosses[2]).marks, 1u);
    rt.stop(scribes[0]);
    rt.drain();
    EXPECT_EQ(look(rt, bosses[1]).marks, 3u);
    EXPECT_EQ(look(rt, bosses[1]).last, static_cast<uint32_t>(Life::stopped));
    order(rt, bosses[2], do_watch, scribes[0]); // it has stopped already
    EXPECT_EQ(look(rt, bosses[2]).marks, 2u);
    EXPECT_EQ(look(rt, bosses[2]).last, static_cast<uint32_t>(Life::stopped));
    EXPECT_EQ(error_of([&] { rt.watch(scribes[1], scribes[2]); }).code(), Errc::wrong_type)
        << "a Scribe has no handler for Down";
}

TEST_P(lives, an_actor_may_fail_again_before_anybody_was_told)
{
    Options o = options();
    if (on_gpu() || o.workers == 1) {
        GTEST_SKIP() << "for two workers that take one message at a time";
    }
    o.local_slots = 2048;
    o.near_slots = o.inbox_slots = 2;
    o.stash_slots = 4;
    o.outbox_slots = 64;
    Rt rt(device(), o);
    const Address boss = rt.spawn<Boss>();
    const auto here = rt.spawn<Scribe>(2, near(boss));
    const auto others = rt.spawn<Scribe>(o.workers);
    const Address away = *std::find_if(others.begin(), others.end(),
                                       [&](Address a) { return a.worker() != boss.worker(); });
    rt.pause(away);
    rt.send(boss, Stumble{away.value, here[0].value, here[1].value});
    EXPECT_TRUE(eventually([&] { return rt.stats().dead_letters == 2; }));
    rt.resume(away);
    rt.drain(20s);
    EXPECT_EQ(look(rt, here[1]).count, 1200u);
    EXPECT_EQ(look(rt, away).count, 60u);
    const ActorStatus status = rt.inspect(here[0]);
    EXPECT_EQ(status.incarnation, 2u);
    EXPECT_EQ(status.failure, 8u);
    EXPECT_EQ(status.life, Life::failed);
    EXPECT_EQ(rt.stats().dead_letters, 2u);
}

TEST_P(lives, the_table_of_watches_is_bounded)
{
    Options o = options();
    o.watch_slots = 4;
    Rt rt(device(), o);
    const Address watched = rt.spawn<Scribe>();
    const auto bosses = rt.spawn<Boss>(6);
    for (uint32_t i = 0; i < 4; ++i) {
        rt.watch(bosses[i], watched);
    }
    expect_error(Errc::exhausted,
                 "table of watches of worker " + std::to_string(watched.worker()) +
                     " (4 entries) is full; raise watch_slots",
                 [&] { rt.watch(bosses[4], watched); });
    rt.unwatch(bosses[2], watched);
    order(rt, bosses[4], do_watch, watched);
    EXPECT_EQ(rt.stats().errors, 1u); // the one above
    order(rt, bosses[5], do_watch, watched);
    EXPECT_EQ(rt.stats().errors, 2u);
    EXPECT_EQ(rt.stats().first_error,
              "table of watches of worker " + std::to_string(watched.worker()) +
                  " (4 entries) is full and " + named("Boss", bosses[4]) + " cannot watch " +
                  named("Scribe", watched) + "; raise watch_slots");
    rt.stop(watched);
    rt.drain();
    uint32_t told = 0;
    for (const Address boss : bosses) {
        told += look(rt, boss).marks;
    }
    EXPECT_EQ(told, 4u);
    const Address next = rt.spawn<Scribe>(); // the entries are free again
    if (next.worker() == watched.worker()) {
        for (uint32_t i = 0; i < 4; ++i) {
            rt.watch(bosses[i], next);
        }
    }
}

TEST_P(lives, old_dead_letters_are_overwritten_and_counted)
{
    Options o = options();
    o.dead_letter_slots = 16;
    Rt rt(device(), o);
    const Address boss = rt.spawn<Boss>();
    const Address a = rt.spawn<Scribe>();
    rt.stop(a);
    const auto bury = [&](uint32_t first, uint32_t count) {
        rt.send(boss, Burst{a.value, first, count});
        rt.drain();
    };
    bury(0, 10);
    DeadLetters d = rt.dead_letters();
    EXPECT_EQ(d.letters.size(), 10u);
    EXPECT_EQ(d.lost, 0u);
    bury(10, 16);
    d = rt.dead_letters();
    EXPECT_EQ(d.letters.size(), 16u);
    EXPECT_EQ(d.lost, 0u);
    bury(26, 100);
    d = rt.dead_letters();
    ASSERT_EQ(d.letters.size(), 16u);
    EXPECT_EQ(d.lost, 84u);
    for (uint32_t i = 0; i < 16; ++i) {
        uint32_t number = 0;
        std::memcpy(&number, d.letters[i].payload.data(), sizeof number);
        EXPECT_EQ(number, 110 + i) << "the newest, in order";
        EXPECT_EQ(d.letters[i].sender, boss);
        if (i > 0) {
            EXPECT_GE(d.letters[i].time_ns, d.letters[i - 1].time_ns);
        }
    }
    EXPECT_EQ(rt.stats().dead_letters, 126u);
    EXPECT_EQ(rt.stats().dead_letters_by_reason[static_cast<uint32_t>(Reason::stopped)], 126u);
}

TEST_P(lives, the_oldest_are_dropped_by_those_who_want_it)
{
    Options o = options();
    o.workers = 1;
    o.local_slots = 8;
    o.inbox_slots = 8;
    Rt rt(device(), o);
    const Address a = rt.spawn<Hasty>();
    const Address boss = rt.spawn<Boss>();
    rt.send(boss, Burst{a.value, 0, 100}); // 8 have room
    rt.drain();
    EXPECT_EQ(look(rt, a).count, 8u);
    EXPECT_EQ(look(rt, a).next, 100u) << "the newest";
    const Stats s = rt.stats();
    EXPECT_EQ(s.dead_letters_by_reason[static_cast<uint32_t>(Reason::dropped)], 92u);
    EXPECT_EQ(s.errors, 0u);
    const DeadLetters dead = rt.dead_letters();
    ASSERT_EQ(dead.letters.size(), 92u);
    for (uint32_t i = 0; i < 92; ++i) {
        uint32_t number = 0;
        std::memcpy(&number, dead.letters[i].payload.data(), sizeof number);
        EXPECT_EQ(number, i) << "the oldest";
        EXPECT_EQ(dead.letters[i].reason, Reason::dropped);
    }

    // Paused, it keeps the newest that there is room for.
    o.stash_slots = 16;
    o.local_slots = o.inbox_slots = 64;
    Rt other(device(), o);
    const Address b = other.spawn<Hasty>();
    other.pause(b);
    for (uint32_t i = 0; i < 50; ++i) {
        other.send(b, Note{i}, 10s);
    }
    other.drain();
    EXPECT_EQ(other.inspect(b).stashed, 16u);
    other.resume(b);
    EXPECT_EQ(look(other, b).count, 16u);
    EXPECT_EQ(look(other, b).next, 50u);
    EXPECT_EQ(other.stats().dead_letters, 34u);
}

TEST_P(lives, reasons_are_told_apart)
{
    Rt rt(device(), options());
    const Address boss = rt.spawn<Boss>();
    const Address other = rt.spawn<Boss>();
    const Address a = rt.spawn<Scribe>();
    rt.stop(a);
    rt.send(boss, Burst{a.value, 1, 1});
    rt.send(boss, Burst{Address::actor(0, 5000).value, 2, 1});
    rt.send(boss, Burst{Address::actor(2047, 0).value, 3, 1});
    rt.send(boss, Burst{other.value, 4, 1});
    rt.drain();
    std::map<uint32_t, Reason> reasons_of;
    for (const DeadLetter& d : rt.dead_letters().letters) {
        uint32_t number = 0;
        std::memcpy(&number, d.payload.data(), sizeof number);
        reasons_of[number] = d.reason;
    }
    const std::map<uint32_t, Reason> expected = {{1, Reason::stopped},
                                                 {2, Reason::no_actor},
                                                 {3, Reason::no_actor},
                                                 {4, Reason::wrong_type}};
    EXPECT_EQ(reasons_of, expected);
}

} // namespace
