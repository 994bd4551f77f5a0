# SPDX-License-Identifier: Apache-2.0
"""The program that most of these tests run."""

import denizen

ADD = denizen.message("Add", [("n", "u4")])
ASK = denizen.message("Ask")
TOTAL = denizen.message("Total", [("sum", "u8"), ("count", "u4")])
# Nine slots.
BLOCK = denizen.message("Block", [("words", "u4", (100,))])
HOP = denizen.message("Hop", [("to", "u4"), ("left", "u4")])
TELL = denizen.message("Tell", [("first", "u4"), ("count", "u4")])
ITEM = denizen.message("Item", [("index", "u4"), ("worker", "u4")])
KEEP = denizen.message("Keep")
RELEASE = denizen.message("Release")

TEXT = r"""
struct Counter {
    uint64_t sum = 0;
    uint32_t count = 0;
    void on(const Add& m, auto&) { sum += m.n; ++count; }
    void on(const Block& m, auto&) {
        for (uint32_t word : m.words) sum += word;
        ++count;
    }
    void on(const Ask&, auto& ctx) { ctx.reply(Total{sum, count}); }
};

// Sends a message on until it has hopped often enough, then counts it.
struct Hopper {
    uint64_t hops = 0;
    uint32_t ended = 0;
    void on(const Hop& m, auto& ctx) {
        ++hops;
        if (m.left == 0) ++ended;
        else ctx.send(denizen::Address{m.to}, Hop{ctx.self().value, m.left - 1});
    }
    void on(const Ask&, auto& ctx) { ctx.reply(Total{hops, ended}); }
};

// Talks to the host.
struct Teller {
    void on(const Tell& m, auto& ctx) {
        for (uint32_t i = 0; i < m.count; ++i) {
            ctx.send(denizen::host, Item{m.first + i, ctx.worker()});
        }
    }
    void on(const Add& m, auto& ctx) { ctx.reply(Add{m.n + 1}); }
};

// Answers when it is told to, not when it is asked.
struct Slow {
    uint32_t asker = 0;
    uint32_t kept = 0;
    void on(const Keep&, auto& ctx) { asker = ctx.sender().value; ++kept; }
    void on(const Release&, auto& ctx) {
        if (asker != 0) ctx.send(denizen::Address{asker}, Total{7, kept});
        asker = 0;
    }
};

// Run by all lanes of a warp, or by one thread.
struct Team {
    static constexpr auto grain = denizen::Grain::warp;
    uint32_t words[64] = {};
    void on(const Add& m, auto& ctx) {
        for (uint32_t i = ctx.lane(); i < 64; i += ctx.lanes()) words[i] += m.n + i;
        ctx.sync();
    }
    void on(const Ask&, auto& ctx) {
        ctx.sync();
        uint64_t sum = 0;
        for (uint32_t word : words) sum += word;
        ctx.reply(Total{sum, ctx.lanes()});
    }
};
"""


def program() -> denizen.Program:
    return denizen.Program(
        TEXT,
        actors=["Counter", "Hopper", "Teller", "Slow", "Team"],
        messages=[ADD, ASK, TOTAL, BLOCK, HOP, TELL, ITEM, KEEP, RELEASE],
        name="sample",
    )
