// SPDX-License-Identifier: Apache-2.0
// Buffers that messages refer to, on CPU threads and on the GPU: handlers find the very memory, it
// lives as long as the last message, and what comes after that is a typed error.
#include <actor/places.hpp>

#include <cstring>
#include <random>

struct Fill { // every word becomes `value`
    denizen::BufferRef data;
    uint32_t value;
    DENIZEN_BUFFERS(data)
};
struct Sum {
    denizen::BufferRef data;
    DENIZEN_BUFFERS(data)
};
struct Result {
    uint64_t sum;
    uint64_t count;
    uint64_t address;
};
struct Hop { // adds 1 to every word, and goes on to `next` as often as `left` says
    denizen::BufferRef data;
    uint32_t next;
    uint32_t left;
    DENIZEN_BUFFERS(data)
};
struct Long { // several slots
    uint32_t padding[20];
    denizen::BufferRef parts[3];
    denizen::BufferRef last;
    DENIZEN_BUFFERS(parts, last)
};
struct LongHop { // as Hop, in several slots
    uint32_t padding[20];
    denizen::BufferRef data;
    uint32_t next;
    uint32_t left;
    DENIZEN_BUFFERS(data)
};
struct Back { // to the host
    denizen::BufferRef data;
    uint32_t number;
    DENIZEN_BUFFERS(data)
};
struct Keep { // how: 0 remembers only, 1 keeps too
    denizen::BufferRef data;
    uint32_t how;
    DENIZEN_BUFFERS(data)
};
struct Look {}; // at what was remembered
struct Release {};
struct Odd { // as 8-byte words, from an address that is none
    denizen::BufferRef data;
    DENIZEN_BUFFERS(data)
};
struct Forgotten { // a reference that is not named
    denizen::BufferRef data;
};

template <class Self>
struct Using {
    denizen::BufferRef remembered;
    uint32_t looked = 0;

    DENIZEN_HD static Result sum_of(denizen::BufferRef ref, auto& ctx)
    {
        const auto words = ctx.template data<const uint32_t>(ref);
        uint64_t sum = 0;
        for (const uint32_t word : words) {
            sum += word;
        }
        return {sum, words.count, reinterpret_cast<uint64_t>(words.data)};
    }

    DENIZEN_HD void on(const Fill& m, auto& ctx)
    {
        const auto words = ctx.template data<uint32_t>(m.data);
        for (uint64_t i = ctx.lane(); i < words.count; i += ctx.lanes()) {
            words[i] = m.value;
        }
        ctx.sync();
        ctx.reply(Result{0, words.count, reinterpret_cast<uint64_t>(words.data)});
    }
    DENIZEN_HD void on(const Sum& m, auto& ctx) { ctx.reply(sum_of(m.data, ctx)); }
    DENIZEN_HD void on(const Hop& m, auto& ctx)
    {
        const auto words = ctx.template data<uint32_t>(m.data);
        for (uint64_t i = ctx.lane(); i < words.count; i += ctx.lanes()) {
            denizen::fetch_add<denizen::Scope::gpu>(&words[i], 1u); // others may be at it too
        }
        ctx.sync();
        if (m.left != 0) {
            ctx.send(denizen::Address{m.next}, Hop{m.data, ctx.self().value, m.left - 1});
        }
    }
    DENIZEN_HD void on(const LongHop& m, auto& ctx)
    {
        const auto words = ctx.template data<uint32_t>(m.data);
        for (uint64_t i = ctx.lane(); i < words.count; i += ctx.lanes()) {
            denizen::fetch_add<denizen::Scope::gpu>(&words[i], 1u);
        }
        if (m.left != 0) {
            LongHop on = m;
            on.next = ctx.self().value;
            --on.left;
            ctx.send(denizen::Address{m.next}, on);
        }
    }
    DENIZEN_HD void on(const Long& m, auto& ctx)
    {
        Result all{0, 0, 0};
        for (const denizen::BufferRef part : m.parts) {
            if (part) {
                const Result one = sum_of(part, ctx);
                all.sum += one.sum;
                all.count += one.count;
            }
        }
        all.sum += 1000 * sum_of(m.last, ctx).sum;
        ctx.reply(all);
    }
    DENIZEN_HD void on(const Back& m, auto& ctx) { ctx.reply(Back{m.data, m.number + 1}); }
    DENIZEN_HD void on(const Keep& m, auto& ctx)
    {
        if (m.how == 1) {
            ctx.keep(m.data);
        }
        remembered = m.data;
        ctx.sync();
    }
    DENIZEN_HD void on(const Look&, auto& ctx) { ctx.reply(sum_of(remembered, ctx)); }
    DENIZEN_HD void on(const Release&, auto& ctx) { ctx.release(remembered); }
    DENIZEN_HD void on(const Odd& m, auto& ctx)
    {
        const auto words = ctx.template data<uint64_t>(m.data);
        ctx.reply(Result{0, words.count, words ? 1u : 0u});
    }
    DENIZEN_HD void on(const Forgotten& m, auto& ctx) { ctx.reply(sum_of(m.data, ctx)); }
};

struct Scalar : Using<Scalar> {};
struct Warp : Using<Warp> {
    static constexpr auto grain = denizen::Grain::warp;
};

using Handing = denizen::Program<denizen::Actors<Scalar, Warp>,
                                 denizen::Messages<Fill, Sum, Result, Hop, Long, LongHop, Back,
                                                   Keep, Look, Release, Odd, Forgotten>>;

namespace {

using namespace denizen;
using namespace denizen::test;
using Rt = Runtime<Handing>;

class buffers : public AtEveryPlace {
protected:
    static Options options()
    {
        Options o = AtEveryPlace::options();
        o.asks = 64;
        o.max_actors = 1024;
        return o;
    }

    // Memory that both sides reach, of `count` words, all `value`.
    static Buffer words(Rt& rt, uint64_t count, uint32_t value)
    {
        Buffer b = rt.buffer(count * sizeof(uint32_t), BufferKind::pinned);
        std::fill_n(static_cast<uint32_t*>(b.cpu()), count, value);
        return b;
    }

    // The kinds of buffers that there are here.
    static std::vector<BufferKind> kinds(Rt& rt)
    {
        std::vector<BufferKind> all = {BufferKind::device, BufferKind::pinned, BufferKind::mapped};
        if (on_gpu() && rt.description().host_ring_memory != "mapped") {
            all.pop_back(); // the machine has none, or this place does without
        }
        return all;
    }

    // Closed buffers that something refers to, once everything has been handled.
    static uint32_t waiting(Rt& rt)
    {
        rt.drain(20s);
        BufferStats stats{};
        // A worker ends its turn a moment after its messages count as handled.
        (void)eventually([&] { return (stats = rt.buffers()).waiting == 0; }, 200ms);
        return stats.waiting;
    }
};
class buffers_between_nodes : public buffers {};
DENIZEN_AT_EVERY_PLACE(buffers);
DENIZEN_ON_SEVERAL_NODES(buffers_between_nodes);

TEST_P(buffers, a_handler_works_on_the_very_memory)
{
    Rt rt(device(), options());
    for (const Address a : {rt.spawn<Scalar>(), rt.spawn<Warp>(), rt.spawn<Scalar>()}) {
        for (const BufferKind kind : kinds(rt)) {
            Buffer b = rt.buffer(4003, kind); // three bytes are no word
            EXPECT_EQ(b.kind(), on_gpu() ? kind : BufferKind::ordinary);
            EXPECT_EQ(b.bytes(), 4003u);
            const Result filled = rt.ask<Result>(a, Fill{b.ref(), 3}, 20s);
            EXPECT_EQ(filled.address, reinterpret_cast<uint64_t>(b.data()));
            EXPECT_EQ(filled.count, 1000u);
            const Result sum = rt.ask<Result>(a, Sum{b.ref()}, 20s);
            EXPECT_EQ(sum.sum, 3000u);
            if (b.cpu() != nullptr) {
                EXPECT_EQ(static_cast<uint32_t*>(b.cpu())[999], 3u);
                static_cast<uint32_t*>(b.cpu())[999] = 5;
                EXPECT_EQ(rt.ask<Result>(a, Sum{b.ref()}, 20s).sum, 3002u);
            }
        }
    }
    EXPECT_EQ(waiting(rt), 0u);
    EXPECT_EQ(rt.buffers().open, 0u);
    EXPECT_EQ(rt.stats().first_error, "");
}

TEST_P(buffers, somebody_elses_memory_lives_as_long_as_the_last_message)
{
    Rt rt(device(), options());
    const auto actors = rt.spawn<Scalar>(6);
    Buffer memory = words(rt, 1000, 0); // stands for theirs: the GPU reaches it too
    auto owner = std::make_shared<int>(0);
    const std::weak_ptr<int> alive = owner;
    Buffer b = rt.wrap(memory.data(), 4000, std::move(owner));
    EXPECT_EQ(b.kind(), BufferKind::external);
    rt.pause(20s);
    rt.send(actors[0], Hop{b.ref(), actors[1].value, 40});
    b.close();
    EXPECT_FALSE(alive.expired());
    EXPECT_EQ(rt.buffers().waiting, 1u);
    rt.resume();
    EXPECT_EQ(waiting(rt), 0u);
    EXPECT_TRUE(alive.expired());
    for (uint32_t i = 0; i < 1000; ++i) {
        ASSERT_EQ(static_cast<uint32_t*>(memory.cpu())[i], 41u) << i;
    }
    EXPECT_EQ(rt.stats().first_error, "");
}

TEST_P(buffers, a_closed_buffer_is_refused_at_once)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Scalar>();
    Buffer b = words(rt, 10, 1);
    const Fill m{b.ref(), 2};
    b.close();
    const std::string text =
        "Fill refers to a buffer that has been closed or is another runtime's; "
        "keep the buffer open until its messages are sent";
    expect_error(Errc::stale, text, [&] { rt.send(a, m); });
    expect_error(Errc::stale, text, [&] { rt.ask<Result>(a, m); });
    expect_error(Errc::stale, text, [&] { rt.broadcast<Scalar>(m); });
    expect_error(Errc::stale, text, [&] { rt.send(a, Fill{{m.data.value + (5u << 24)}, 2}); });
    expect_error(Errc::stale, "the buffer has been closed; use it before, or make another",
                 [&] { (void)b.ref(); });
    {
        Rt other(Device::cpu(), options());
        Buffer theirs = other.buffer(16, BufferKind::pinned);
        expect_error(Errc::stale, text, [&] { rt.send(a, Fill{theirs.ref(), 2}); });
    }
    Buffer good = words(rt, 10, 1);
    const Fill many[] = {{good.ref(), 4}, {good.ref(), 5}, m};
    expect_error(Errc::stale, text + " (0 of 3 messages were accepted before it)",
                 [&] { rt.send_many(a, many, 3); });
    rt.send_many(a, many, 2);
    rt.drain();
    EXPECT_EQ(static_cast<uint32_t*>(good.cpu())[9], 5u);
    good.close();
    EXPECT_EQ(waiting(rt), 0u);
    expect_error(Errc::bad_argument, "a buffer has at least 1 byte", [&] { rt.buffer(0); });
    expect_error(Errc::bad_argument, "there is no memory to wrap: a buffer has at least 1 byte",
                 [&] { rt.wrap(nullptr, 10); });
}

TEST_P(buffers, a_batch_counts_what_was_sent_and_takes_the_rest_back)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Scalar>();
    Buffer memory = words(rt, 10, 0);
    for (const size_t sent : {3, 2, 0}) { // of three; the next names no actor
        auto owner = std::make_shared<int>(0);
        const std::weak_ptr<int> alive = owner;
        Buffer b = rt.wrap(memory.data(), 40, std::move(owner));
        const Fill many[] = {{b.ref(), 4}, {b.ref(), 5}, {b.ref(), 6}};
        Address to[] = {a, a, a};
        rt.pause(20s);
        if (sent == 3) {
            rt.send_many(to, many, 3);
        } else {
            to[sent] = nowhere;
            EXPECT_THROW(rt.send_many(to, many, 3), Error);
        }
        b.close();
        EXPECT_EQ(alive.expired(), sent == 0);
        EXPECT_EQ(rt.buffers().waiting, sent == 0 ? 0u : 1u);
        rt.resume();
        EXPECT_EQ(waiting(rt), 0u);
        EXPECT_TRUE(alive.expired());
        EXPECT_EQ(static_cast<uint32_t*>(memory.cpu())[9], sent == 3 ? 6u : 5u);
    }
    EXPECT_EQ(rt.stats().first_error, "");
}

TEST_P(buffers, a_reference_that_nobody_counts_becomes_stale)
{
    Rt rt(device(), options());
    for (const Address a : {rt.spawn<Scalar>(), rt.spawn<Warp>()}) {
        Buffer b = words(rt, 10, 7);
        rt.send(a, Keep{b.ref(), 0});
        EXPECT_EQ(rt.ask<Result>(a, Look{}, 20s).sum, 70u);
        b.close();
        EXPECT_EQ(waiting(rt), 0u);
        Buffer another = words(rt, 10, 9); // in the same entry, perhaps at the same address
        const uint64_t errors = rt.stats().errors;
        const Result r = rt.ask<Result>(a, Look{}, 20s);
        EXPECT_EQ(r.address, 0u);
        EXPECT_EQ(r.count, 0u);
        rt.drain();
        EXPECT_EQ(rt.stats().errors, errors + 1);
        if (errors == 0) {
            EXPECT_TRUE(matches(rt.stats().first_error,
                                "Look at " + named("Scalar", a) +
                                    ": its buffer was freed, or never existed; keep\\(\\) what "
                                    "outlives its message \\(worker 0\\)"))
                << rt.stats().first_error;
        }
        EXPECT_EQ(rt.ask<Result>(a, Sum{another.ref()}, 20s).sum, 90u);
    }
    // Nor does a field that its message does not name.
    const Address a = rt.spawn<Scalar>();
    Buffer b = words(rt, 10, 7);
    rt.ask<Result>(a, Sum{b.ref()}, 20s);
    EXPECT_EQ(rt.ask<Result>(a, Forgotten{b.ref()}, 20s).sum, 70u);
    const Forgotten late{b.ref()};
    b.close();
    EXPECT_EQ(waiting(rt), 0u);
    EXPECT_EQ(rt.ask<Result>(a, late, 20s).address, 0u);
    EXPECT_EQ(rt.ask<Result>(a, Sum{}, 20s).address, 0u) << "null";
    EXPECT_EQ(rt.ask<Result>(a, Forgotten{{~uint64_t{0}}}, 20s).address, 0u) << "no entry";
}

TEST_P(buffers, kept_until_released)
{
    Rt rt(device(), options());
    for (const Address a : {rt.spawn<Scalar>(), rt.spawn<Warp>()}) {
        Buffer b = words(rt, 10, 7);
        rt.send(a, Keep{b.ref(), 1});
        b.close();
        rt.drain(20s);
        EXPECT_EQ(rt.buffers().waiting, 1u);
        EXPECT_EQ(rt.ask<Result>(a, Look{}, 20s).sum, 70u);
        EXPECT_EQ(rt.buffers().waiting, 1u);
        rt.send(a, Release{});
        EXPECT_EQ(waiting(rt), 0u);
        EXPECT_EQ(rt.stats().errors, 0u);
    }
}

TEST_P(buffers, long_messages_arrays_and_null)
{
    Rt rt(device(), options());
    for (const Address a : {rt.spawn<Scalar>(), rt.spawn<Warp>()}) {
        Buffer one = words(rt, 10, 1);
        Buffer two = words(rt, 20, 2);
        Long m{};
        m.parts[0] = one.ref();
        m.parts[2] = two.ref();
        m.last = one.ref();
        rt.pause(20s);
        const Address ticket = rt.untyped().ask_begin(a, Rt::id<Long>(), &m, sizeof m, 20s);
        one.close();
        two.close();
        EXPECT_EQ(rt.buffers().waiting, 2u);
        rt.resume();
        Result r{};
        rt.untyped().ask_end(ticket, &r, sizeof r, 20s);
        EXPECT_EQ(r.sum, 50u + 10'000u);
        EXPECT_EQ(r.count, 30u);
        EXPECT_EQ(waiting(rt), 0u);
    }
}

TEST_P(buffers, long_messages_from_handler_to_handler)
{
    Rt rt(device(), options());
    const auto warps = rt.spawn<Warp>(4);
    const auto scalars = rt.spawn<Scalar>(4);
    for (const auto& actors : {warps, scalars}) {
        for (uint32_t i = 0; i < 12; ++i) {
            Buffer b = words(rt, 100, 0);
            const std::shared_ptr<Storage> memory = b.storage();
            LongHop m{};
            m.data = b.ref();
            m.next = actors[(i + 1) % 4].value;
            m.left = 20;
            rt.send(actors[i % 4], m);
            b.close();
            EXPECT_EQ(waiting(rt), 0u);
            for (uint32_t n = 0; n < 100; ++n) {
                ASSERT_EQ(reinterpret_cast<uint32_t*>(memory->cpu)[n], 21u);
            }
        }
    }
    EXPECT_EQ(rt.stats().errors, 0u) << rt.stats().first_error;
}

TEST_P(buffers, messages_that_wait_for_an_actor_keep_it)
{
    Rt rt(device(), options());
    AnyRuntime& any = rt.untyped();
    for (const bool stopped : {false, true}) {
        const Address a = rt.spawn<Scalar>();
        rt.spawn<Scalar>(); // gets the broadcast at once
        Buffer b = words(rt, 100, 0);
        const std::shared_ptr<Storage> memory = b.storage();
        any.pause(a, 20s);
        LongHop m{};
        m.data = b.ref();
        rt.send(a, Hop{b.ref(), a.value, 0});
        rt.send(a, m);
        rt.broadcast<Scalar>(Keep{b.ref(), 0});
        b.close();
        rt.drain(20s);
        EXPECT_EQ(rt.buffers().waiting, 1u);
        if (stopped) {
            rt.stop(a, 20s);
        } else {
            any.resume(a, 20s);
        }
        EXPECT_EQ(waiting(rt), 0u);
        // Handled, or a dead letter.
        EXPECT_EQ(*reinterpret_cast<uint32_t*>(memory->cpu), stopped ? 0u : 2u);
    }
}

TEST_P(buffers, messages_to_the_host_keep_it_until_they_are_taken)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Scalar>();
    Buffer b = words(rt, 10, 1);
    const BufferRef ref = b.ref();
    EXPECT_EQ(rt.ask<Back>(a, Back{ref, 1}, 20s).data, ref);
    rt.send(a, Back{ref, 2});
    rt.send(a, Back{ref, 3});
    rt.send(a, Back{ref, 4});
    b.close();
    rt.drain(20s);
    EXPECT_EQ(rt.buffers().waiting, 1u);
    Back taken{};
    const Message m = rt.receive(20s);
    std::memcpy(&taken, m.payload.data(), sizeof taken);
    EXPECT_EQ(taken.number, 3u);
    EXPECT_EQ(taken.data, ref);
    Back rest[4];
    EXPECT_EQ(rt.receive_many(rest, 1), 1u);
    EXPECT_EQ(rt.buffers().waiting, 1u);
    EXPECT_EQ(rt.receive_many(rest, 4), 1u);
    EXPECT_EQ(waiting(rt), 0u);
}

TEST_P(buffers, dead_letters_let_go)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Scalar>();
    const Address gone = rt.spawn<Scalar>();
    Buffer b = words(rt, 10, 1);
    // A worker that is not there, and an actor that is not there.
    rt.send(a, Hop{b.ref(), Address::actor(2000, 1).value, 1});
    rt.send(a, Hop{b.ref(), Address::actor(0, 900).value, 1});
    rt.pause(20s);
    rt.send(gone, Hop{b.ref(), a.value, 1});
    rt.resume();
    rt.stop(gone, 20s);
    rt.broadcast<Scalar>(Hop{b.ref(), a.value, 0});
    rt.broadcast<Warp>(Hop{b.ref(), a.value, 0}); // there are none
    b.close();
    EXPECT_EQ(waiting(rt), 0u);
    EXPECT_GE(rt.stats().dead_letters, 2u);
}

TEST_P(buffers, memory_of_the_wrong_alignment)
{
    Rt rt(device(), options());
    const Address a = rt.spawn<Scalar>();
    Buffer memory = words(rt, 10, 1);
    Buffer odd = rt.wrap(static_cast<char*>(memory.data()) + 4, 32);
    EXPECT_EQ(rt.ask<Result>(a, Odd{odd.ref()}, 20s).count, 0u);
    EXPECT_EQ(rt.ask<Result>(a, Odd{memory.ref()}, 20s).count, 5u);
    rt.drain();
    EXPECT_TRUE(matches(rt.stats().first_error, "Odd: bad argument.*")) << rt.stats().first_error;
}

TEST_P(buffers, a_handle_outlives_its_runtime)
{
    Buffer b;
    Buffer closed;
    BufferRef ref;
    {
        Rt rt(device(), options());
        b = words(rt, 10, 4);
        closed = words(rt, 10, 4);
        ref = closed.ref();
        rt.send(rt.spawn<Scalar>(), Keep{ref, 1});
        rt.close(20s);
        expect_error(Errc::closed, "the runtime is closed", [&] { rt.buffer(10); });
    }
    EXPECT_EQ(static_cast<uint32_t*>(b.cpu())[9], 4u);
    b.close();
    closed.close();
}

// More than the pool has at first: it grows, on a GPU with the program away for that moment, while
// messages hop.
// While the driver waits for the device, a program that does not breathe leaves it and comes back.
TEST_P(buffers, the_pool_grows)
{
    Options o = options();
    o.breath = std::chrono::microseconds(0);
    o.pool_bytes = 1u << 20;
    Rt rt(device(), o);
    const auto actors = rt.spawn<Warp>(4);
    Buffer hopping = words(rt, 100, 0);
    const uint32_t hops = on_gpu() ? 20'000 : 100;
    rt.send(actors[0], Hop{hopping.ref(), actors[1].value, hops});
    constexpr uint64_t bytes = 16u << 20;
    constexpr uint64_t count = bytes / sizeof(uint32_t);
    std::vector<Buffer> all;
    const uint64_t launches = rt.stats().launches;
    for (uint32_t i = 0; i < 6; ++i) { // 96 MiB
        all.push_back(rt.buffer(bytes));
        EXPECT_EQ(rt.ask<Result>(actors[i % 4], Fill{all[i].ref(), i + 1}, 60s).count, count);
    }
    for (uint32_t i = 0; i < 6; ++i) { // no two of them share memory
        EXPECT_EQ(rt.ask<Result>(actors[i % 4], Sum{all[i].ref()}, 60s).sum, (i + 1) * count);
    }
    if (on_gpu()) {
        EXPECT_GT(rt.stats().launches, launches);
    }
    rt.drain();
    EXPECT_EQ(rt.buffers().bytes, 6 * bytes + hopping.bytes());
    EXPECT_EQ(waiting(rt), 0u);
    EXPECT_EQ(static_cast<uint32_t*>(hopping.cpu())[99], hops + 1);
    EXPECT_EQ(rt.stats().errors, 0u) << rt.stats().first_error;
}

TEST_P(buffers, more_than_there_are)
{
    Options o = options();
    o.buffers = 4;
    Rt rt(device(), o);
    std::vector<Buffer> all;
    for (int i = 0; i < 4; ++i) {
        all.push_back(words(rt, 10, 1));
    }
    expect_error(Errc::exhausted,
                 "all 4 buffers are taken (messages still refer to 0 that are closed); close some "
                 "or raise buffers",
                 [&] { words(rt, 10, 1); });
    all.pop_back();
    all.push_back(words(rt, 10, 1));
    o.buffers = 0;
    expect_error(Errc::bad_argument, "buffers = 0; use 1 to 16,777,216", [&] { Rt(device(), o); });
}

// Buffers come and go while messages with them hop between workers: every hop adds one to all
// words.
void come_and_go(Rt& rt, uint32_t rounds)
{
    const auto actors = rt.spawn<Scalar>(16);
    constexpr uint32_t count = 64;
    std::minstd_rand random(7);
    std::vector<Buffer> checked;
    std::vector<uint32_t> hops;
    for (uint32_t i = 0; i < rounds; ++i) {
        Buffer memory = rt.buffer(count * sizeof(uint32_t), BufferKind::pinned);
        std::fill_n(static_cast<uint32_t*>(memory.cpu()), count, i);
        const std::shared_ptr<Storage> keep = memory.storage();
        Buffer b = rt.wrap(memory.data(), count * sizeof(uint32_t), keep);
        const uint32_t left = static_cast<uint32_t>(random() % 8);
        const Address from = actors[random() % 16];
        rt.send(from, Hop{b.ref(), actors[random() % 16].value, left});
        if (i % 2 == 0) {
            b.close();
            checked.push_back(std::move(memory));
            hops.push_back(i + left + 1);
        } // else both go now, with the message under way
        if (checked.size() == 100) {
            rt.drain(20s);
            for (size_t k = 0; k < checked.size(); ++k) {
                const auto* w = static_cast<const uint32_t*>(checked[k].cpu());
                for (uint32_t n = 0; n < count; ++n) {
                    ASSERT_EQ(w[n], hops[k]) << k;
                }
            }
            checked.clear();
            hops.clear();
        }
    }
    checked.clear();
    rt.drain(20s);
    EXPECT_TRUE(eventually([&] { return rt.buffers().bytes == 0; }));
    EXPECT_EQ(rt.stats().errors, 0u) << rt.stats().first_error;
}

TEST_P(buffers, come_and_go_under_load)
{
    Rt rt(device(), options());
    come_and_go(rt, scaled(on_gpu() ? 300 : 2000));
}

TEST_P(buffers_between_nodes, none_is_of_memory_that_one_gpu_alone_reaches)
{
    Rt rt(device(), options());
    if (!on_gpu()) {
        EXPECT_EQ(rt.buffer(64, BufferKind::mapped).kind(), BufferKind::ordinary);
        return;
    }
    expect_error(Errc::bad_argument,
                 "a mapped buffer lies on the first of a program's GPUs, and handlers on the "
                 "others would not reach it; use pinned or device",
                 [&] { rt.buffer(64, BufferKind::mapped); });
}

TEST_P(buffers_between_nodes, come_and_go_under_load)
{
    Rt rt(device(), options());
    come_and_go(rt, scaled(on_gpu() ? 300 : 2000));
}

} // namespace
