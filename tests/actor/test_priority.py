# SPDX-License-Identifier: Apache-2.0
"""Messages that declare a priority: what Python says is what the C++ struct says."""

import pytest

import denizen

DATA = denizen.message("Data", [("number", "u4")])
STOP = denizen.message("Stop", [("number", "u4")], priority="urgent")
LEVEL = denizen.message("Level", [("priority", "u4")])  # a field of that name is none
GO = denizen.message("Go", [("count", "u4")])
LOOK = denizen.message("Look")
SEEN = denizen.message("Seen", [("data", "u4"), ("stops", "u4"), ("before", "u4"), ("level", "u4")])

TEXT = """
struct Reader {
    Seen seen{};
    void on(const Data&, auto&) { ++seen.data; }
    void on(const Stop&, auto&) { seen.before = seen.stops++ == 0 ? seen.data : seen.before; }
    void on(const Level& m, auto&) { seen.level = m.priority; }
    void on(const Go& m, auto& ctx) {
        for (uint32_t i = 0; i < m.count; ++i) ctx.send(ctx.self(), Data{i});
        ctx.send(ctx.self(), Stop{0});
    }
    void on(const Look&, auto& ctx) { ctx.reply(seen); }
};
"""


def test_the_struct_says_it():
    assert STOP.priority == "urgent"
    assert "static constexpr auto priority = denizen::Priority::urgent;" in STOP.struct
    assert DATA.priority == "data"
    assert "Priority" not in DATA.struct


def test_urgent_messages_overtake_data(device):
    program = denizen.Program(
        TEXT, actors=["Reader"], messages=[DATA, STOP, LEVEL, GO, LOOK, SEEN], name="priority"
    )
    with denizen.Runtime(program, device) as rt:
        (by_host, by_actor) = rt.spawn("Reader", 2)
        rt.pause()
        for number in range(20):
            rt.send(by_host, DATA(number=number))
        rt.send(by_host, STOP())
        rt.resume()
        rt.send(by_actor, GO(count=10))
        rt.send(by_actor, LEVEL(priority=7))
        rt.drain()
        assert rt.ask(by_host, LOOK()).tolist() == (20, 1, 0, 0)
        assert rt.ask(by_actor, LOOK()).tolist() == (10, 1, 0, 7)


def test_other_priorities_are_refused():
    with pytest.raises(denizen.ArgumentError, match='message M has priority "high"; use "data" or'):
        denizen.message("M", [("n", "u4")], priority="high")
    with pytest.raises(denizen.ArgumentError, match="message M is urgent and has a field priority"):
        denizen.message("M", [("priority", "u4")], priority="urgent")
