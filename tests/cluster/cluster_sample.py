# SPDX-License-Identifier: Apache-2.0
"""What the tests of clusters run."""

import time

import numpy as np

import denizen

TEXT = """
struct Sink {
    uint32_t next[8] = {};
    uint64_t count = 0, sum = 0;
    uint32_t wrong = 0;
    void on(const Number& m, auto&) {
        if (m.value != next[m.source]) { ++wrong; }
        next[m.source] = m.value + 1;
        ++count;
        sum += m.value;
    }
    void on(const Ask&, auto& ctx) { ctx.reply(Told{sum, count, wrong, ctx.self().value}); }
    void on(const Who&, auto& ctx) { ctx.reply(Told{0, 0, ctx.sender().value, ctx.self().value}); }
};

struct Source {
    uint32_t sent = 0;
    uint32_t refused = 0;
    void on(const Go& m, auto& ctx) {
        for (uint32_t i = 0; i < m.count; ++i) {
            if (ctx.send(m.to, Number{m.source, sent})) { ++sent; } else { ++refused; }
        }
    }
    void on(const Pass& m, auto& ctx) { ctx.send(m.to, Answer{ctx.sender()}); }
    void on(const Answer& m, auto& ctx) { ctx.send(m.to, Told{7, 8, 9, ctx.self().value}); }
    void on(const Ask&, auto& ctx) { ctx.reply(Told{0, sent, refused, ctx.self().value}); }
};

struct Ping {
    uint32_t rounds = 0;
    void on(const Ball& m, auto& ctx) {
        ++rounds;
        if (m.left != 0) { ctx.send(m.other, Ball{ctx.self(), m.left - 1}); }
    }
    void on(const Ask&, auto& ctx) { ctx.reply(Told{0, rounds, 0, ctx.self().value}); }
};

struct Long {
    uint32_t good = 0, bad = 0;
    void on(const Block& m, auto& ctx) {
        bool same = true;
        for (uint32_t i = 0; i < 250; ++i) { same = same && m.word[i] == m.word[0] + i; }
        if (same) { ++good; } else { ++bad; }
        if (m.back.value != 0) {
            Block b = m;
            b.back.value = 0;
            ctx.send(m.back, b);
        }
    }
    void on(const Ask&, auto& ctx) { ctx.reply(Told{0, good, bad, ctx.self().value}); }
};
"""

NUMBER = denizen.message("Number", [("source", np.uint32), ("value", np.uint32)])
GO = denizen.message("Go", [("to", denizen.ADDRESS), ("source", np.uint32), ("count", np.uint32)])
ASK = denizen.message("Ask")
WHO = denizen.message("Who")
PASS = denizen.message("Pass", [("to", denizen.ADDRESS)])
ANSWER = denizen.message("Answer", [("to", denizen.ADDRESS)])
BALL = denizen.message("Ball", [("other", denizen.ADDRESS), ("left", np.uint32)])
BLOCK = denizen.message("Block", [("back", denizen.ADDRESS), ("word", np.uint32, 250)])
TOLD = denizen.message(
    "Told", [("sum", np.uint64), ("count", np.uint64), ("wrong", np.uint32), ("self", np.uint32)]
)

PROGRAM = denizen.Program(
    TEXT,
    actors=["Sink", "Source", "Ping", "Long"],
    messages=[NUMBER, GO, ASK, WHO, PASS, ANSWER, BALL, BLOCK, TOLD],
    name="cluster sample",
)


def time_of_day(local):
    """What a host's clock says, in s."""
    return time.time()
