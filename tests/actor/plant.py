# SPDX-License-Identifier: Apache-2.0
"""The program of test_supervision.py."""

import denizen

WORK = denizen.message("Work", [("number", "u4"), ("fails", "u4")])
LOOK = denizen.message("Look")
SEEN = denizen.message("Seen", [("count", "u4"), ("disorder", "u4"), ("downs", "u4")])
KEEP = denizen.message("Keep")
SEND = denizen.message("Send", [("to", "u4"), ("count", "u4")])
TOIL = denizen.message("Toil", [("ns", "u8")])

TEXT = r"""
struct Worker {
    static constexpr bool can_fail = true;
    uint32_t count = 0;
    uint32_t next = 0;
    uint32_t disorder = 0;
    void on(const Work& m, auto& ctx) {
        ++count;
        disorder += m.number < next ? 1 : 0;
        next = m.number + 1;
        if (m.fails != 0) ctx.fail(m.fails);
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, disorder, 0}); }
};

struct Saver {
    static constexpr auto restart_from = denizen::RestartFrom::snapshot;
    uint32_t count = 0;
    void on(const Work&, auto&) { ++count; }
    void on(const Keep&, auto& ctx) { ctx.checkpoint(); }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, 0, 0}); }
};

struct Strict {
    static constexpr uint64_t deadline_ns = 50'000'000;
    uint32_t count = 0;
    bool invariant() const { return count < 3; }
    void on(const Work&, auto&) { ++count; }
    void on(const Toil& m, auto& ctx) {
        const uint64_t begin = ctx.now_ns();
        while (ctx.now_ns() - begin < m.ns) {}
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{count, 0, 0}); }
};

struct Watcher {
    uint32_t downs = 0;
    void on(const Down&, auto&) { ++downs; }
    void on(const Send& m, auto& ctx) {
        for (uint32_t i = 0; i < m.count; ++i) ctx.send(denizen::Address{m.to}, Work{i, 0});
    }
    void on(const Look&, auto& ctx) { ctx.reply(Seen{0, 0, downs}); }
};
"""


def program() -> denizen.Program:
    return denizen.Program(
        TEXT,
        actors=["Worker", "Saver", "Strict", "Watcher"],
        messages=[WORK, LOOK, SEEN, KEEP, SEND, TOIL, denizen.DOWN],
        name="plant",
    )
