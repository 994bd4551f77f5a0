// SPDX-License-Identifier: Apache-2.0
// Supervision: strategies, budgets, escalation, deadlines and invariants; and that under random
// failures every message is accounted for, in order.
#include <actor/places.hpp>

#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <set>

struct Work { // numbered per receiver
    uint32_t number;
    uint32_t fails; // with this code, if not 0
};
struct Toil { // for so long
    uint32_t us;
};
struct Spoil {
    uint32_t value;
};
struct Relay { // sends Work{first...} to `to`, failing as the bits of a hash say
    uint32_t to;
    uint32_t first;
    uint32_t count;
    uint32_t one_in;
};
struct Look {};
struct Seen {
    uint32_t count;    // handled by this incarnation
    uint32_t all;      // by all of them
    uint32_t next;     // the number expected next
    uint32_t disorder; // numbers that were not
    uint32_t value;
};

// Which messages fail: the same on both sides.
DENIZEN_HD inline uint32_t fate(uint32_t to, uint32_t number, uint32_t one_in)
{
    uint32_t h = (to * 2654435761u) ^ (number * 40503u + 12345u);
    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    h ^= h >> 12;
    return one_in != 0 && h % one_in == 0 ? 9 : 0;
}

// Counts across restarts, by going back to a checkpoint made with each message. A failing message
// is counted before it fails, in vain: its count is undone.
struct Counting {
    static constexpr bool can_fail = true;
    static constexpr auto restart_from = denizen::RestartFrom::snapshot;
    uint32_t all = 0;
    uint32_t next = 0;
    uint32_t disorder = 0;

    DENIZEN_HD void on(const Work& m, auto& ctx)
    {
        disorder += m.number < next ? 1 : 0; // failed ones leave gaps
        next = m.number + 1;
        if (m.fails != 0) {
            all = 1'000'000; // the restart takes this back
            ctx.fail(m.fails);
            return;
        }
        ++all;
        ctx.checkpoint();
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{all, all, next, disorder, 0}); }
};

// Keeps nothing over a restart.
struct Child {
    static constexpr bool can_fail = true;
    uint32_t count = 0;

    DENIZEN_HD void on(const Work& m, auto& ctx)
    {
        ++count;
        if (m.fails != 0) {
            ctx.fail(m.fails);
        }
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{count, count, 0, 0, 0}); }
};

struct Punctual {
    static constexpr uint64_t deadline_ns = 20'000'000;
    uint32_t count = 0;

    DENIZEN_HD void on(const Toil& m, auto& ctx)
    {
        const uint64_t begin = ctx.now_ns();
        while (ctx.now_ns() - begin < m.us * 1000ull) { // ends by the clock
        }
        ++count;
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{count, count, 0, 0, 0}); }
};

struct Sound {
    uint32_t value = 7;
    uint32_t count = 0;

    DENIZEN_HD bool invariant() const { return value < 100; }
    DENIZEN_HD void on(const Spoil& m, auto&)
    {
        value = m.value;
        ++count;
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{count, count, 0, 0, value}); }
};

struct Sender {
    uint32_t sent = 0;
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{sent, sent, 0, 0, 0}); }
    DENIZEN_HD void on(const Relay& m, auto& ctx)
    {
        for (uint32_t i = 0; i < m.count; ++i) {
            const uint32_t number = m.first + i;
            ctx.send(denizen::Address{m.to}, Work{number, fate(m.to, number, m.one_in)});
            ++sent;
        }
    }
};

// What goes wrong with a deed. All but the first are in vain: not counted.
enum class Fate : uint32_t { done, fails, is_late, breaks_the_invariant };
struct Deed {
    uint64_t word; // counts those done
    Fate fate;
};
struct Errand { // Deed after Deed to `to`, as the bits of a hash say
    uint64_t word;
    uint32_t to;
    uint32_t first;
    uint32_t count;
};

DENIZEN_HD inline Fate fate_of_deed(uint32_t to, uint32_t number)
{
    if (fate(to, number, 40) == 0) {
        return Fate::done;
    }
    if (fate(to + 1, number, 16) != 0) { // few: each takes its time
        return Fate::is_late;
    }
    return fate(to + 2, number, 2) != 0 ? Fate::fails : Fate::breaks_the_invariant;
}

// Can fail in every way there is.
struct Frail {
    static constexpr bool can_fail = true;
    static constexpr uint64_t deadline_ns = 20'000'000;
    bool sound = true;

    DENIZEN_HD bool invariant() const { return sound; }
    DENIZEN_HD void on(const Deed& m, auto& ctx)
    {
        sound = m.fate != Fate::breaks_the_invariant;
        if (m.fate == Fate::done) {
            denizen::fetch_add<denizen::Scope::system>(reinterpret_cast<uint32_t*>(m.word), 1u);
        } else if (m.fate == Fate::fails) {
            ctx.fail(9);
        }
        const uint64_t begin = ctx.now_ns();
        while (m.fate == Fate::is_late && ctx.now_ns() - begin < 25'000'000) { // ends by the clock
        }
    }
};

struct Errands {
    uint32_t sent = 0;
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(Seen{sent, sent, 0, 0, 0}); }
    DENIZEN_HD void on(const Errand& m, auto& ctx)
    {
        for (uint32_t i = m.first; i < m.first + m.count; ++i) {
            ctx.send(denizen::Address{m.to}, Deed{m.word, fate_of_deed(m.to, i)});
            ++sent;
        }
    }
};

using Plant = denizen::Program<
    denizen::Actors<Counting, Child, Punctual, Sound, Sender, Frail, Errands>,
    denizen::Messages<Work, Toil, Spoil, Relay, Look, Seen, Deed, Errand, denizen::Down>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Plant>;

class supervision : public AtEveryPlace {
protected:
    static Seen look(Rt& rt, Address a) { return rt.ask<Seen>(a, Look{}, 20s); }

    // One message each, then one of them fails.
    static void fail_one(Rt& rt, const std::vector<Address>& children, size_t which)
    {
        for (const Address a : children) {
            rt.send(a, Work{0, 0});
        }
        rt.drain();
        rt.send(children[which], Work{1, 42});
        rt.drain();
    }

    static std::vector<uint32_t> incarnations(Rt& rt, const std::vector<Address>& children)
    {
        std::vector<uint32_t> all;
        for (const Address a : children) {
            all.push_back(rt.inspect(a).incarnation);
        }
        return all;
    }

    static std::vector<uint32_t> counts(Rt& rt, const std::vector<Address>& children)
    {
        std::vector<uint32_t> all;
        for (const Address a : children) {
            all.push_back(look(rt, a).count);
        }
        return all;
    }

    using Numbers = std::vector<uint32_t>;
};
class supervision_of_nodes : public supervision {};
DENIZEN_AT_EVERY_PLACE(supervision);
DENIZEN_ON_SEVERAL_NODES(supervision_of_nodes);

TEST_P(supervision, one_for_one_restarts_the_child_alone)
{
    Rt rt(device(), options());
    const auto children = rt.spawn<Child>(4);
    const Address s = rt.supervise(children, Strategy::one_for_one);
    EXPECT_EQ(rt.inspect(children[2]).supervisor, s);
    fail_one(rt, children, 1);
    EXPECT_EQ(incarnations(rt, children), (Numbers{1, 2, 1, 1}));
    EXPECT_EQ(counts(rt, children), (Numbers{1, 0, 1, 1}));
    EXPECT_EQ(rt.state(s), Life::running);
    EXPECT_EQ(rt.inspect(children[1]).failure, 42u);
    EXPECT_EQ(rt.stats().dead_letters, 1u) << "the message that failed, and no other";
}

TEST_P(supervision, one_for_all_restarts_all)
{
    Rt rt(device(), options());
    const auto children = rt.spawn<Child>(70); // more than are ordered in one step
    rt.supervise(children, Strategy::one_for_all);
    fail_one(rt, children, 1);
    EXPECT_EQ(incarnations(rt, children), Numbers(70, 2));
    EXPECT_EQ(counts(rt, children), Numbers(70, 0));
}

TEST_P(supervision, rest_for_one_restarts_those_behind)
{
    Rt rt(device(), options());
    const auto children = rt.spawn<Child>(5);
    rt.supervise(children, Strategy::rest_for_one);
    fail_one(rt, children, 2);
    EXPECT_EQ(incarnations(rt, children), (Numbers{1, 1, 2, 2, 2}));
    EXPECT_EQ(counts(rt, children), (Numbers{1, 1, 0, 0, 0}));
}

TEST_P(supervision, resume_goes_on_with_the_state)
{
    Rt rt(device(), options());
    const auto children = rt.spawn<Child>(3);
    rt.supervise(children, Strategy::resume);
    fail_one(rt, children, 2);
    EXPECT_EQ(incarnations(rt, children), (Numbers{1, 1, 1}));
    EXPECT_EQ(counts(rt, children), (Numbers{1, 1, 2}));
    EXPECT_EQ(rt.state(children[2]), Life::running);
}

TEST_P(supervision, stop_stops_the_child)
{
    Rt rt(device(), options());
    const auto children = rt.spawn<Child>(3);
    rt.supervise(children, Strategy::stop);
    fail_one(rt, children, 0);
    EXPECT_EQ(rt.state(children[0]), Life::stopped);
    EXPECT_EQ(rt.state(children[1]), Life::running);
}

TEST_P(supervision, escalation_without_anybody_above_stops_all)
{
    Rt rt(device(), options());
    const auto children = rt.spawn<Child>(40);
    const Address s = rt.supervise(children, Strategy::escalate);
    fail_one(rt, children, 3);
    for (const Address a : children) {
        EXPECT_EQ(rt.state(a), Life::stopped);
    }
    EXPECT_EQ(rt.state(s), Life::failed);
    EXPECT_EQ(rt.stats().errors, 2u) << "the message, and the program's";
}

TEST_P(supervision, a_spent_budget_escalates)
{
    Rt rt(device(), options());
    const auto children = rt.spawn<Child>(3);
    const Address s = rt.supervise(children, Strategy::one_for_one, {3, 1h});
    for (uint32_t i = 0; i < 3; ++i) {
        fail_one(rt, children, i);
        EXPECT_EQ(rt.state(children[i]), Life::running);
    }
    EXPECT_EQ(incarnations(rt, children), (Numbers{2, 2, 2}));
    fail_one(rt, children, 1);
    EXPECT_EQ(rt.state(children[0]), Life::stopped);
    EXPECT_EQ(rt.state(children[1]), Life::stopped);
    EXPECT_EQ(rt.state(children[2]), Life::stopped);
    EXPECT_EQ(rt.state(s), Life::failed);

    // Outside the window nothing is spent.
    const auto others = rt.spawn<Child>(2);
    rt.supervise(others, Strategy::one_for_one, {1, 1ns});
    for (uint32_t i = 0; i < 5; ++i) {
        fail_one(rt, others, 0);
    }
    EXPECT_EQ(incarnations(rt, others), (Numbers{6, 1}));

    const auto more = rt.spawn<Child>(2);
    rt.supervise(more, Strategy::one_for_one, {RestartBudget::unlimited, 1h});
    for (uint32_t i = 0; i < 10; ++i) {
        fail_one(rt, more, 0);
    }
    EXPECT_EQ(incarnations(rt, more), (Numbers{11, 1}));
}

// Those whom nobody watches are restarted where they failed, between two messages of a batch.
TEST_P(supervision, however_often_watchers_are_told_and_what_waits_is_handled)
{
    Rt rt(device(), options());
    const auto children = rt.spawn<Child>(5);
    rt.supervise(children, Strategy::one_for_one, {RestartBudget::unlimited, 1h});
    rt.watch(host, children[0]);
    for (uint32_t round = 1; round <= 3; ++round) {
        rt.pause();
        for (const Address a : children) {
            for (uint32_t i = 0; i < 9; ++i) {
                rt.send(a, Work{i, i == 5 ? 40 + round : 0});
            }
        }
        rt.resume();
        rt.drain();
        EXPECT_EQ(counts(rt, children), (Numbers(5, 3))) << "what came behind the failure";
        EXPECT_EQ(incarnations(rt, children), Numbers(5, 1 + round));
        for (const Life life : {Life::failed, Life::running}) {
            Down down{};
            const Message m = rt.receive(20s);
            std::memcpy(&down, m.payload.data(), sizeof down);
            EXPECT_EQ(down.actor, children[0].value);
            EXPECT_EQ(down.life, static_cast<uint32_t>(life));
            EXPECT_EQ(down.code, 40 + round);
        }
        for (const Address a : children) {
            EXPECT_EQ(rt.inspect(a).failure, 40 + round);
        }
    }
}

TEST_P(supervision, escalation_over_two_levels)
{
    Rt rt(device(), options());
    const auto a = rt.spawn<Child>(3);
    const auto b = rt.spawn<Child>(3);
    const Address inner = rt.supervise(a, Strategy::one_for_one, {1, 1h});
    const Address other = rt.supervise(b, Strategy::one_for_one, {1, 1h});
    const Address middle = rt.supervise({inner, other}, Strategy::one_for_one, {1, 1h});
    const Address outer = rt.supervise({middle}, Strategy::one_for_all, {1, 1h});
    EXPECT_EQ(rt.inspect(inner).supervisor, middle);
    fail_one(rt, a, 0); // inner: restarts a[0]
    EXPECT_EQ(incarnations(rt, a), (Numbers{2, 1, 1}));
    fail_one(rt, a, 0); // inner has spent its budget; middle restarts inner, with all of a
    EXPECT_EQ(incarnations(rt, a), (Numbers{3, 2, 2}));
    EXPECT_EQ(incarnations(rt, b), (Numbers{1, 1, 1}));
    EXPECT_EQ(rt.state(inner), Life::running);
    EXPECT_EQ(rt.inspect(inner).incarnation, 2u);
    fail_one(rt, a, 1); // inner's budget is whole again
    EXPECT_EQ(incarnations(rt, a), (Numbers{3, 3, 2}));
    fail_one(rt, a, 1); // and spent, and middle's too: outer restarts middle, with all
    EXPECT_EQ(rt.state(middle), Life::running);
    EXPECT_EQ(rt.inspect(middle).incarnation, 2u);
    EXPECT_EQ(incarnations(rt, b), (Numbers{2, 2, 2}));
    EXPECT_EQ(incarnations(rt, a), (Numbers{4, 4, 3}));
    for (uint32_t i = 0; i < 4; ++i) { // all the way: a[0] 2 x 2 x 2 times from here
        fail_one(rt, a, 2);
    }
    EXPECT_EQ(rt.state(outer), Life::failed);
    EXPECT_EQ(rt.state(a[2]), Life::stopped);
    EXPECT_EQ(rt.state(b[0]), Life::stopped);
    EXPECT_EQ(rt.stats().dead_letters_by_reason[static_cast<uint32_t>(Reason::failed)], 8u);
}

TEST_P(supervision, what_is_done_to_a_supervisor_is_done_to_its_children)
{
    Rt rt(device(), options());
    const auto children = rt.spawn<Child>(50);
    const Address s = rt.supervise(children);
    const auto all = [&](Life life) {
        return eventually([&] {
            for (const Address a : children) {
                if (rt.state(a) != life) {
                    return false;
                }
            }
            return true;
        });
    };
    rt.pause(s);
    EXPECT_TRUE(all(Life::paused));
    rt.send(children[7], Work{0, 0});
    rt.resume(s);
    EXPECT_TRUE(all(Life::running));
    EXPECT_EQ(look(rt, children[7]).count, 1u);
    rt.restart(s);
    rt.drain();
    EXPECT_EQ(incarnations(rt, children), Numbers(50, 2));
    rt.stop(s);
    EXPECT_TRUE(all(Life::stopped));
    EXPECT_EQ(rt.state(s), Life::stopped);
}

TEST_P(supervision, errors_of_the_caller)
{
    Options o = options();
    o.workers = 1;
    Rt rt(device(), o);
    const auto children = rt.spawn<Child>(3);
    EXPECT_EQ(error_of([&] { rt.supervise({}); }).code(), Errc::bad_argument);
    const Address s = rt.supervise({children[0]});
    expect_error(Errc::bad_argument,
                 named("Child", children[0]) + " has a supervisor already: " + named("", s),
                 [&] { rt.supervise({children[1], children[0]}); });
    EXPECT_FALSE(rt.inspect(children[1]).supervised()) << "nothing has been begun";
    EXPECT_TRUE(rt.inspect(children[0]).supervised());
    rt.stop(children[2]);
    expect_error(Errc::no_actor, "actor #2 of worker 0 has stopped",
                 [&] { rt.supervise({children[2]}); });
    expect_error(Errc::bad_argument, "max_restarts = 5000; use 0 to 4096, or unlimited",
                 [&] { rt.supervise({children[1]}, Strategy::one_for_one, {5000, 1s}); });
    expect_error(Errc::bad_argument, named("", s) + " is a supervisor; stop it instead",
                 [&] { rt.drain(s); });
    EXPECT_EQ(error_of([&] { rt.send(s, Work{0, 0}); }).code(), Errc::no_actor);
}

TEST_P(supervision, a_handler_that_is_late_has_failed)
{
    Rt rt(device(), options());
    const auto actors = rt.spawn<Punctual>(2);
    rt.supervise(actors, Strategy::one_for_one, {RestartBudget::unlimited, 1s});
    rt.send(actors[0], Toil{40'000});
    rt.drain();
    EXPECT_EQ(rt.inspect(actors[0]).failure, failed_deadline);
    EXPECT_EQ(rt.inspect(actors[0]).incarnation, 2u);
    EXPECT_EQ(look(rt, actors[0]).count, 0u);
    EXPECT_EQ(rt.stats().dead_letters_by_reason[static_cast<uint32_t>(Reason::failed)], 1u);
}

TEST_P(supervision, a_broken_invariant_is_a_failure)
{
    Rt rt(device(), options());
    const auto actors = rt.spawn<Sound>(2);
    rt.supervise(actors);
    rt.send(actors[1], Spoil{99});
    rt.drain();
    EXPECT_EQ(look(rt, actors[1]).value, 99u);
    rt.send(actors[1], Spoil{100});
    rt.drain();
    EXPECT_EQ(rt.inspect(actors[1]).failure, failed_invariant);
    EXPECT_EQ(look(rt, actors[1]).value, 7u) << "as it was at first";
    EXPECT_EQ(rt.inspect(actors[0]).incarnation, 1u);
}

TEST_P(supervision, a_child_that_had_failed_before_is_restarted)
{
    Rt rt(device(), options());
    const auto children = rt.spawn<Child>(2);
    fail_one(rt, children, 1);
    EXPECT_EQ(rt.state(children[1]), Life::failed);
    rt.supervise(children);
    rt.drain();
    EXPECT_EQ(incarnations(rt, children), (Numbers{1, 2}));
}

TEST_P(supervision_of_nodes, children_of_all_nodes)
{
    Rt rt(device(), options());
    const auto children = rt.spawn<Child>(8);
    const auto others = rt.spawn<Child>(8);
    const Address inner = rt.supervise(children, Strategy::one_for_all, {1, 1h});
    const std::vector<Address> all = {others[3], inner, others[4]};
    rt.supervise(all, Strategy::one_for_all, {1, 1h});
    for (uint32_t i = 0; i < 3; ++i) {
        fail_one(rt, children, i == 0 ? 0 : 7);
        if (i == 0) {
            EXPECT_EQ(incarnations(rt, children), Numbers(8, 2));
        } else if (i == 1) { // inner's budget is spent
            EXPECT_EQ(incarnations(rt, children), Numbers(8, 3));
            EXPECT_EQ(rt.inspect(others[3]).incarnation, 2u);
            EXPECT_EQ(rt.inspect(others[5]).incarnation, 1u);
        }
    }
    const auto senders = rt.spawn<Sender>(4);
    for (uint32_t k = 0; k < 4; ++k) {
        rt.send(senders[k], Relay{others[k].value, 0, 100, 0});
        rt.pause(others[7 - k]);
        rt.send(senders[k], Relay{others[7 - k].value, 0, 100, 0});
    }
    for (const Address a : senders) {
        look(rt, a);
    }
    for (uint32_t k = 0; k < 4; ++k) {
        rt.resume(others[7 - k], 20s);
        rt.drain(others[k], 20s);
        EXPECT_EQ(rt.state(others[k]), Life::stopped);
    }
    rt.drain();
    EXPECT_EQ(rt.stats().dead_letters, 3u) << "those that failed on purpose";
}

TEST_P(supervision, many_children)
{
    Rt rt(device(), options());
    const uint32_t n = scaled(5000);
    const auto children = rt.spawn<Child>(n);
    rt.supervise(children, Strategy::one_for_one, {RestartBudget::unlimited, 1s});
    std::vector<Work> work(n);
    uint32_t failing = 0;
    for (uint32_t i = 0; i < n; ++i) {
        work[i] = {0, i % 3 == 0 ? 1u : 0u};
        failing += i % 3 == 0 ? 1 : 0;
    }
    rt.send_many(children.data(), work.data(), n);
    rt.drain();
    EXPECT_EQ(rt.stats().dead_letters, failing);
    for (uint32_t i = 0; i < n; i += 7) {
        ASSERT_EQ(rt.inspect(children[i]).incarnation, i % 3 == 0 ? 2u : 1u);
    }
}

// 1 in 100 handlers fails at random, under load from the host and from other actors. Each message
// is handled once by one incarnation or is one dead letter, and what an actor handles is in order.
TEST_P(supervision, every_message_is_accounted_for_under_random_failures)
{
    for (const Strategy strategy :
         {Strategy::one_for_one, Strategy::one_for_all, Strategy::resume}) {
        for (const bool small : {false, true}) {
            Options o = small ? small_rings(options()) : options();
            o.stash_slots = small ? 8 : 256;
            Rt rt(device(), o);
            const uint32_t actors = 12;
            const auto workers = rt.spawn<Counting>(actors);
            const auto senders = rt.spawn<Sender>(actors);
            rt.supervise(workers, strategy, {RestartBudget::unlimited, 1s});
            const uint32_t n = scaled(small ? 2000 : 20'000) / 20 * 20 + 20;
            std::vector<uint32_t> fails(actors, 0);
            for (uint32_t k = 0; k < actors; ++k) {
                for (uint32_t i = 0; i < n; ++i) {
                    fails[k] += fate(workers[k].value, i, 100) != 0 ? 1 : 0;
                }
            }
            const uint32_t part = small ? 1 : 20; // of a handler to its own worker
            std::vector<Work> batch(part);
            for (uint32_t i = 0; i < n; i += part) {
                for (uint32_t k = 0; k < actors; ++k) {
                    if (k % 2 == 0) {
                        rt.send(senders[k], Relay{workers[k].value, i, part, 100}, 60s);
                        continue;
                    }
                    for (uint32_t j = 0; j < part; ++j) {
                        batch[j] = {i + j, fate(workers[k].value, i + j, 100)};
                    }
                    rt.send_many(workers[k], batch.data(), batch.size());
                }
            }
            rt.drain();
            const Stats s = rt.stats();
            uint64_t failing = 0;
            uint64_t handled = 0;
            for (uint32_t k = 0; k < actors; ++k) {
                const Seen seen = look(rt, workers[k]);
                if (strategy != Strategy::resume) {
                    EXPECT_EQ(seen.all, n - fails[k]) << "actor " << k;
                    handled += seen.all;
                }
                EXPECT_EQ(seen.disorder, 0u) << "actor " << k;
                failing += fails[k];
                if (strategy == Strategy::one_for_one) {
                    EXPECT_EQ(rt.inspect(workers[k]).incarnation, 1 + fails[k]);
                }
            }
            EXPECT_GT(failing, 0u);
            EXPECT_EQ(s.dead_letters, failing);
            EXPECT_EQ(s.dead_letters_by_reason[static_cast<uint32_t>(Reason::failed)], failing);
            EXPECT_EQ(s.stashed, 0u);
            if (strategy != Strategy::resume) {
                EXPECT_EQ(handled + s.dead_letters, uint64_t{n} * actors);
            }
        }
    }
}

// Children fail in every way, and the host restarts and stops them at random, while it and other
// actors send: whatever the supervisor then does, each message was handled once, or is one entry of
// the ring of dead letters.
TEST_P(supervision, every_message_is_accounted_for_whatever_is_done_to_the_children)
{
    for (const Strategy strategy :
         {Strategy::one_for_one, Strategy::rest_for_one, Strategy::stop, Strategy::escalate}) {
        SCOPED_TRACE(static_cast<uint32_t>(strategy));
        constexpr uint32_t actors = 12;
        const uint32_t each = scaled(400);
        Options o = options();
        o.dead_letter_slots = 1u << 16; // for all of them
        Rt rt(device(), o);
        const auto children = rt.spawn<Frail>(actors);
        const auto errands = rt.spawn<Errands>(actors);
        rt.supervise(children, strategy, {RestartBudget::unlimited, 1s});
        std::deque<SharedWord> done;
        for (uint32_t k = 0; k < actors; ++k) {
            done.emplace_back(on_gpu());
        }
        const auto done_or_gone = [](auto&& call) { // true: done
            const Error e = error_of(call);
            EXPECT_TRUE(e.code() == Errc::ok || e.code() == Errc::no_actor) << e.what();
            return e.code() == Errc::ok;
        };
        std::atomic<bool> over{false};
        std::atomic<uint32_t> meddled{0};
        std::thread meddler([&] {
            std::minstd_rand random(7);
            for (uint32_t i = 0; !over.load(); meddled = ++i) { // ends with what is sent
                const Address child = children[random() % actors];
                done_or_gone([&] { rt.restart(child, 60s); });
                if (i % 8 == 7 && i < 32) { // four at most
                    done_or_gone([&] { rt.stop(child, 60s); });
                }
            }
        });
        std::vector<uint32_t> sent(actors, 0);
        // Where failures alone do not stop any of them, the host must have.
        const bool stops = strategy == Strategy::stop || strategy == Strategy::escalate;
        for (uint32_t i = 0; i < each || (!stops && meddled < 40); i += 4) { // ends: as above
            if (i >= each) {
                std::this_thread::sleep_for(1ms);
            }
            for (uint32_t k = 0; k < actors; ++k) {
                const uint32_t to = children[k].value;
                const uint64_t word = done[k].address();
                rt.send(errands[k], Errand{word, to, 2 * i, 4}, 60s);
                for (uint32_t n = 2 * i + 4; n < 2 * i + 8; ++n) {
                    const Deed deed{word, fate_of_deed(to, n)};
                    sent[k] += done_or_gone([&] { rt.send(children[k], deed, 60s); }) ? 1 : 0;
                }
            }
        }
        over = true;
        meddler.join();
        rt.drain();
        const Stats s = rt.stats();
        const DeadLetters dead = rt.dead_letters();
        EXPECT_EQ(dead.lost, 0u);
        EXPECT_EQ(dead.letters.size(), s.dead_letters);
        EXPECT_EQ(s.stashed, 0u);
        std::map<uint32_t, uint32_t> died; // by destination
        std::map<Reason, uint64_t> reasons;
        std::set<uint32_t> codes;
        for (const DeadLetter& letter : dead.letters) {
            ASSERT_EQ(letter.type, Rt::id<Deed>());
            Deed deed{};
            std::memcpy(&deed, letter.payload.data(), sizeof deed);
            ++reasons[letter.reason];
            if (letter.reason == Reason::failed) {
                codes.insert(letter.code);
            }
            // What was done and then late all the same, on a busy machine, is counted already.
            const bool counted = letter.reason == Reason::failed && deed.fate == Fate::done;
            EXPECT_TRUE(!counted || letter.code == failed_deadline);
            died[letter.destination.value] += counted ? 0 : 1;
        }
        for (const auto& [reason, n] : reasons) {
            EXPECT_EQ(n, s.dead_letters_by_reason[static_cast<uint32_t>(reason)]);
        }
        for (uint32_t k = 0; k < actors; ++k) {
            sent[k] += look(rt, errands[k]).count;
            EXPECT_EQ(done[k].get() + died[children[k].value], sent[k]) << "child " << k;
        }
        EXPECT_GT(reasons[Reason::stopped], 0u);
        if (strategy == Strategy::one_for_one && each > 100) {
            EXPECT_EQ(codes, (std::set<uint32_t>{9, failed_deadline, failed_invariant}));
        }
        EXPECT_FALSE(codes.empty());
    }
}

} // namespace
