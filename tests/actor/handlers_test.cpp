// SPDX-License-Identifier: Apache-2.0
// Programs whose handlers are functions that are given at run time, lean and full.
#include "actor/handlers.hpp"

#include <denizen/actor/any_runtime.hpp>
#include <denizen/actor/life.hpp>
#include <denizen/base/error.hpp>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>

namespace denizen {
namespace {

constexpr std::chrono::seconds soon{20};

struct Hop {
    uint32_t to;
    uint32_t left;
};
struct Block {
    uint32_t words[100];
};
struct Ask {};
struct Total {
    uint64_t sum;
    uint32_t count;
};

struct Walker {
    uint64_t sum;
    uint32_t count;
};

enum Type : uint32_t { hop, block, ask, total, types };

// The functions that handlers call, by name; one set at a time.
std::map<std::string, void*> calls;

template <class... Args>
uint64_t call(const char* name, Args... args)
{
    return reinterpret_cast<uint64_t (*)(Args...)>(calls.at(name))(args...);
}

void on_hop(void* state, const void* message, void* context)
{
    auto& walker = *static_cast<Walker*>(state);
    const Hop& m = *static_cast<const Hop*>(message);
    ++walker.count;
    walker.sum += m.left;
    if (m.left != 0) {
        alignas(8) unsigned char next[40] = {};
        const auto self = static_cast<uint32_t>(call("self", context));
        const Hop out{self, m.left - 1};
        std::memcpy(next, &out, sizeof out);
        call("send", context, m.to, uint32_t{hop}, static_cast<const void*>(next));
    }
}

void on_block(void* state, const void* message, void*)
{
    auto& walker = *static_cast<Walker*>(state);
    for (const uint32_t word : static_cast<const Block*>(message)->words) {
        walker.sum += word;
    }
}

void on_ask(void* state, const void*, void* context)
{
    alignas(8) unsigned char out[40] = {};
    const auto& walker = *static_cast<Walker*>(state);
    const Total answer{walker.sum, walker.count};
    std::memcpy(out, &answer, sizeof answer);
    const auto sender = static_cast<uint32_t>(call("sender", context));
    call("send", context, sender, uint32_t{total}, static_cast<const void*>(out));
}

void on_ask_or_fail(void* state, const void* message, void* context)
{
    if (static_cast<Walker*>(state)->count == 100) {
        call("fail", context, uint32_t{7});
    }
    on_ask(state, message, context);
}

uint32_t holds(const void* state) { return static_cast<const Walker*>(state)->sum < 1'000'000; }

std::shared_ptr<HandlerTable> table(bool full)
{
    auto t = std::make_shared<HandlerTable>();
    ProgramTable& p = t->program;
    p.abi = layout_abi;
    p.actors = 1;
    p.messages = types;
    p.down = no_type;
    p.actor[0] = {sizeof(Walker), alignof(Walker), 0, 0, 0, 0};
    const Walker initial{40, 0};
    const auto* bytes = reinterpret_cast<const std::byte*>(&initial);
    t->initial[0].assign(bytes, bytes + sizeof initial);
    p.message[hop] = {sizeof(Hop), 4, 0, 0};
    p.message[block] = {sizeof(Block), 4, 0, 0};
    p.message[ask] = {sizeof(Ask), 1, 0, 0};
    p.message[total] = {sizeof(Total), 8, 0, 0};
    p.max_message = sizeof(Block);
    t->handler[0][hop] = on_hop;
    t->handler[0][block] = on_block;
    t->handler[0][ask] = full ? on_ask_or_fail : on_ask;
    p.handles[0][0] = 1u << hop | 1u << block | 1u << ask;
    t->full = full;
    if (full) {
        t->invariant[0] = holds;
    }
    calls.clear();
    for (const auto& [name, function] : handler_calls(full)) {
        calls[name] = function;
    }
    return t;
}

Image image_of(std::shared_ptr<HandlerTable> t)
{
    return handlers_image(std::move(t), {"Walker"}, {"Hop", "Block", "Ask", "Total"});
}

Options options(uint32_t workers)
{
    Options o;
    o.device = Device::cpu();
    o.workers = workers;
    return o;
}

Total ask_for(AnyRuntime& rt, Address to)
{
    Total out{};
    const Ask question{};
    const Header h = rt.ask(to, ask, &question, sizeof question, &out, sizeof out, soon);
    EXPECT_EQ(h.type, uint32_t{total});
    return out;
}

class Handlers : public testing::TestWithParam<bool> {};

TEST_P(Handlers, messages_of_all_lengths_between_workers)
{
    AnyRuntime rt(image_of(table(GetParam())), options(2));
    const auto walkers = rt.spawn(0, 8, soon);
    const uint32_t left = 2000;
    for (size_t i = 0; i < walkers.size(); ++i) {
        const Hop first{walkers[(i + 1) % 8].value, 99};
        rt.send(walkers[i], hop, &first, sizeof first, soon);
    }
    rt.drain(soon);
    uint64_t count = 0;
    uint64_t sum = 0;
    for (const Address walker : walkers) {
        Block words{};
        words.words[3] = left;
        rt.send(walker, block, &words, sizeof words, soon);
        rt.drain(soon);
        const auto bytes = ask_for(rt, walker);
        count += bytes.count;
        sum += bytes.sum;
    }
    EXPECT_EQ(count, 8 * 100u);
    EXPECT_EQ(sum, 8 * (40 + 99 * 100 / 2 + left));
    rt.close(soon);
}

INSTANTIATE_TEST_SUITE_P(both, Handlers, testing::Bool());

TEST(handlers, failures_and_invariants_of_a_full_program)
{
    AnyRuntime rt(image_of(table(true)), options(1));
    const auto walkers = rt.spawn(0, 2, soon);
    const Address supervisor = rt.supervise(walkers.data(), 2, Strategy::one_for_one, {}, soon);
    EXPECT_NE(supervisor.value, walkers[0].value);
    const Hop hops{walkers[0].value, 99};
    rt.send(walkers[0], hop, &hops, sizeof hops, soon); // a hundred to itself
    rt.drain(soon);
    const Ask question{};
    rt.send(walkers[0], ask, &question, sizeof question, soon);
    Block many{};
    many.words[0] = 2'000'000;
    rt.send(walkers[1], block, &many, sizeof many, soon);
    rt.drain(soon);
    EXPECT_EQ(rt.inspect(walkers[0], soon).failure, 7u);
    EXPECT_EQ(rt.inspect(walkers[1], soon).failure, failed_invariant);
    EXPECT_EQ(ask_for(rt, walkers[0]).sum, 40u); // as it was spawned
    rt.close(soon);
}

TEST(handlers, a_handler_without_a_function_is_refused)
{
    const auto t = table(false);
    t->handler[0][hop] = nullptr;
    try {
        image_of(t);
        FAIL() << "accepted";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Errc::bad_argument);
        EXPECT_STREQ(e.what(), "actor Walker has no function for Hop");
    }
}

} // namespace
} // namespace denizen
