# SPDX-License-Identifier: Apache-2.0
"""send, send_many and broadcast: what arrives is what was sent; what cannot be sent is refused."""

import asyncio

import numpy as np
import pytest
import sample
from backends import both, rt  # noqa: F401  (fixtures)
from sample import ADD, BLOCK, HOP, TOTAL

from denizen import (
    ArgumentError,
    MessageError,
    NoActorError,
    Program,
    RingFullError,
    Runtime,
    message,
)


def totals(rt, actors):
    return rt.ask_many(actors, "Ask", TOTAL)


def test_a_message_by_its_name_with_fields_or_as_a_record(rt):
    (counter,) = rt.spawn("Counter")
    rt.send(counter, "Add", n=5)
    rt.send(counter, ADD(n=6))
    rt.send(counter, ADD.zeros(2)[1])
    rt.send(int(counter), "Add")
    assert rt.ask(counter, "Ask").tolist() == (11, 4)


def test_spawned_addresses_are_distinct_and_spread(rt):
    counters = rt.spawn("Counter", 1000)
    assert counters.dtype == np.uint32
    assert counters.shape == (1000,)
    assert len(np.unique(counters)) == 1000
    workers = rt.description["workers"]
    assert len(np.unique(counters >> 18)) == workers
    assert rt.spawn("Counter", 0).shape == (0,)


def test_many_to_one(rt):
    (counter,) = rt.spawn("Counter")
    messages = ADD.zeros(20_000)
    messages["n"] = np.arange(20_000)
    rt.send_many(counter, messages)
    rt.drain()
    assert rt.ask(counter, "Ask").tolist() == (20_000 * 19_999 // 2, 20_000)


def test_many_to_as_many(rt):
    counters = rt.spawn("Counter", 300)
    to = np.random.default_rng(0).integers(0, 300, 30_000)
    messages = ADD.zeros(30_000)
    messages["n"] = np.arange(30_000)
    rt.send_many(counters[to], messages)
    expected = np.bincount(to, weights=messages["n"], minlength=300).astype("u8")
    answers = totals(rt, counters)
    assert np.array_equal(answers["sum"], expected)
    assert np.array_equal(answers["count"], np.bincount(to, minlength=300))


def test_long_messages_in_many(rt):
    counters = rt.spawn("Counter", 7)
    messages = BLOCK.zeros(700)
    messages["words"] = np.random.default_rng(2).integers(0, 2**32, (700, 100), dtype="u4")
    rt.send_many(np.tile(counters, 100), messages)
    answers = totals(rt, counters)
    for i in range(7):
        assert answers["sum"][i] == messages["words"][i::7].sum(dtype="u8")
    assert answers["count"].tolist() == [100] * 7


@pytest.mark.parametrize(
    "part", [np.s_[::2], np.s_[::-1], np.s_[5:500:7], np.s_[[3, 1, 2]], np.s_[:0]]
)
def test_arrays_that_are_not_contiguous(rt, part):
    counters = rt.spawn("Counter", 1000)
    messages = ADD.zeros(1000)
    messages["n"] = np.arange(1000) + 1
    rt.send_many(counters[part], messages[part])
    answers = totals(rt, counters)
    expected = np.zeros(1000, "u8")
    expected[part] = messages["n"][part]
    assert np.array_equal(answers["sum"], expected)


def test_a_column_of_a_table_of_messages(rt):
    counters = rt.spawn("Counter", 10)
    table = ADD.zeros(40).reshape(10, 4)
    table["n"] = np.arange(40).reshape(10, 4)
    rt.send_many(counters, table[:, 2])
    assert totals(rt, counters)["sum"].tolist() == list(range(2, 40, 4))


def test_addresses_of_any_integer_type(rt):
    counters = rt.spawn("Counter", 3)
    messages = ADD.zeros(3)
    messages["n"] = 1
    rt.send_many(counters.tolist(), messages)
    rt.send_many(counters.astype("i8"), messages)
    rt.send_many(tuple(int(c) for c in counters), messages)
    rt.send_many(int(counters[0]), messages)
    assert totals(rt, counters)["count"].tolist() == [6, 3, 3]


def test_broadcast_reaches_every_actor_of_the_type_once(rt):
    counters = rt.spawn("Counter", 500)
    hoppers = rt.spawn("Hopper", 20)
    more = rt.spawn("Counter", 77)
    rt.broadcast("Counter", "Add", n=3)
    rt.broadcast("Counter", ADD(n=4))
    rt.broadcast("Counter", BLOCK(words=np.ones(100, "u4")))
    for actors in (counters, more):
        answers = totals(rt, actors)
        assert set(answers["sum"].tolist()) == {107}
        assert set(answers["count"].tolist()) == {3}
    assert set(totals(rt, hoppers)["sum"].tolist()) == {0}


def test_actors_message_each_other(rt):
    ring = rt.spawn("Hopper", 50)
    # Two actors each pass the ball back and forth: the receiver knows only who to send it to.
    for a, b in zip(ring[::2], ring[1::2], strict=True):
        rt.send(a, HOP(to=int(b), left=1))
    rt.drain()
    answers = totals(rt, ring)
    assert answers["sum"].tolist() == [1] * 50
    assert answers["count"].tolist() == [0, 1] * 25


def test_a_long_chain_of_messages_between_actors(rt):
    a, b = rt.spawn("Hopper", 2)
    rt.send(a, HOP(to=int(b), left=5000))
    rt.drain()
    # Each hop names its sender as the next target.
    answers = totals(rt, [a, b])
    assert answers["sum"].sum() == 5001
    assert answers["count"].sum() == 1


def test_a_warps_worth_of_lanes_or_one_thread(rt):
    team = rt.spawn("Team", 5)
    for n in (1, 2):
        rt.broadcast("Team", "Add", n=n)
    answers = totals(rt, team)
    assert set(answers["sum"].tolist()) == {64 * 3 + 2 * sum(range(64))}
    assert set(answers["count"].tolist()) == {32 if rt.description["on_gpu"] else 1}


def test_a_handler_needs_no_context(device):
    tick, ask, total = (
        message("Tick", [("n", "u4")]),
        message("Ask"),
        message("Total", [("n", "u4")]),
    )
    text = """
    struct Counter {
        uint32_t sum = 0;
        void on(const Tick& m) { sum += m.n; }
        void on(const Ask&, auto& ctx) { ctx.reply(Total{sum}); }
    };
    """
    counting = Program(text, actors=["Counter"], messages=[tick, ask, total])
    with Runtime(counting, device) as rt:
        (counter,) = rt.spawn("Counter")
        rt.send(counter, tick(n=5))
        assert rt.ask(counter, "Ask", timeout=20)["n"] == 5
        with refuses(MessageError, "has no handler for Total"):
            rt.send(counter, total())


# ---- refusals


def refuses(error, text):
    return pytest.raises(error, match=text)


def test_what_is_no_address(rt):
    (counter,) = rt.spawn("Counter")
    with refuses(NoActorError, r"address 0x00000fff names no actor; spawn it first"):
        rt.send(0xFFF, "Add")
    with refuses(NoActorError, "names no actor"):
        rt.ask(2**32 - 1, "Ask")
    for wrong in (-1, 2**32, 2.5, "x", None):
        with refuses(ArgumentError, "is no address; use one that spawn"):
            rt.send(wrong, "Add")
    for wrong in ([-1], [2**40], [1.5], ["x"]):
        with refuses(ArgumentError, "are no addresses"):
            rt.send_many(wrong, ADD.zeros(1))
    with refuses(ArgumentError, r"addresses have shape \(2, 1\)"):
        rt.send_many([[counter], [counter]], ADD.zeros(2))


def test_a_batch_stops_at_the_first_wrong_address_and_says_where(rt):
    counters = rt.spawn("Counter", 10).copy()
    right = counters.copy()
    counters[6] = 0xFFF
    with refuses(NoActorError, r"0x00000fff names no actor.*\(6 of 10 messages were accepted"):
        rt.send_many(counters, ADD.zeros(10))
    rt.drain()
    assert totals(rt, right)["count"].tolist() == [1] * 6 + [0] * 4


def test_lengths_that_do_not_match(rt):
    counters = rt.spawn("Counter", 5)
    with refuses(ArgumentError, "5 addresses for 4 messages; give one or as many"):
        rt.send_many(counters, ADD.zeros(4))
    with refuses(ArgumentError, "0 addresses for 4 messages"):
        rt.send_many([], ADD.zeros(4))
    with refuses(MessageError, r"shape \(2, 2\); give one dimension"):
        rt.send_many(counters[:4], ADD.zeros(4).reshape(2, 2))
    with refuses(MessageError, "is no array of messages"):
        rt.send_many(counters, ADD())
    with refuses(MessageError, "Add has 4 bytes, not 8"):
        rt.send(counters[0], ADD.zeros(2))
    rt.drain()
    assert totals(rt, counters)["count"].tolist() == [0] * 5


def test_messages_and_actors_that_the_program_does_not_have(rt):
    (counter,) = rt.spawn("Counter")
    with refuses(MessageError, 'no message "Nothing"; it has Add, Ask'):
        rt.send(counter, "Nothing")
    with refuses(MessageError, "Foreign is no message of this program; it has Add, Ask"):
        rt.send(counter, message("Foreign", [("x", "f8", (3,))])())
    with refuses(ArgumentError, 'no actor "Nobody"; it has Counter, Hopper'):
        rt.spawn("Nobody")
    with refuses(ArgumentError, 'no actor "Nobody"'):
        rt.broadcast("Nobody", "Add")
    with refuses(MessageError, r"actor Counter #0 of worker 0 has no handler for Hop"):
        rt.send(counter, "Hop")
    with refuses(MessageError, "actor Hopper has no handler for Add"):
        rt.broadcast("Hopper", "Add")
    with refuses(MessageError, "is a type, not a message; call it: Add"):
        rt.send(counter, ADD)
    with refuses(MessageError, "5 is no message"):
        rt.send(counter, 5)
    with refuses(ArgumentError, "fields belong to a message given by its name"):
        rt.send(counter, ADD(), n=5)
    with refuses(MessageError, 'message Add has no field "m"'):
        rt.send(counter, "Add", m=5)


@pytest.mark.parametrize("timeout", [None, "1", float("nan"), 1j, pytest.param(10**400, id="huge")])
def test_a_timeout_is_a_number_of_seconds(rt, timeout):
    (counter,) = rt.spawn("Counter")
    calls = [
        lambda: rt.send(counter, "Add", timeout=timeout),
        lambda: rt.ask(counter, "Ask", timeout=timeout),
        lambda: rt.ask_many(counter, "Ask", TOTAL, timeout=timeout),
        lambda: rt.send_many(counter, ADD.zeros(1), timeout=timeout),
        lambda: rt.spawn("Counter", timeout=timeout),
        lambda: rt.broadcast("Counter", "Add", timeout=timeout),
        lambda: rt.receive(timeout=timeout),
        lambda: rt.drain(timeout=timeout),
        lambda: rt.pause(timeout=timeout),
        lambda: rt.stop(counter, timeout=timeout),
        lambda: rt.stuck(timeout),
        lambda: rt.supervise([counter], timeout=timeout),
        lambda: rt.supervise([counter], window=timeout),
        lambda: rt.close(timeout=timeout),
    ]
    for call in calls:
        with refuses(ArgumentError, "use seconds"):
            call()


@pytest.mark.parametrize("given", [-1, 2**32, 10**30, 1.0, "1"])
def test_a_number_is_a_whole_one(rt, given):
    (counter,) = rt.spawn("Counter")
    calls = [
        lambda: rt.spawn("Counter", given),
        lambda: rt.create("Counter", given),
        lambda: rt.receive_many(TOTAL, given),
        lambda: rt.supervise([counter], max_restarts=given),
    ]
    for call in calls:
        with refuses(ArgumentError, f"= {given!r}; use a whole number from 0 to 42949672"):
            call()
    with refuses(ArgumentError, "window = -1; use seconds from 0"):
        rt.supervise([counter], window=-1)


def test_migrate_takes_whole_numbers_and_seconds():
    with Runtime(sample.program(), "cpu:2") as rt:
        (counter,) = rt.spawn("Counter")
        for wrong in (-1, 2**32, 1.0):
            for of in ("worker", "node"):
                with refuses(ArgumentError, f"{of} = {wrong}; use a whole number from 0"):
                    rt.migrate(counter, **{of: wrong})
        with refuses(ArgumentError, "timeout = nan; use seconds"):
            rt.migrate(counter, worker=1, timeout=float("nan"))


def test_a_text_is_one(rt):
    (counter,) = rt.spawn("Counter")
    half = "a\ud800"
    calls = [
        lambda: rt.spawn("Counter", name=half),
        lambda: rt.find(half),
        lambda: rt.subscribe(counter, half),
        lambda: rt.unsubscribe(counter, half),
        lambda: rt.publish(half, ADD(1)),
    ]
    for call in calls:
        with refuses(ArgumentError, "has half of a surrogate pair"):
            call()


def test_what_is_about_the_program_takes_no_actor_and_the_other_way_round(rt):
    a, b = rt.spawn("Counter", 2)
    rt.pause(a)
    assert rt.state(a) == "paused"
    assert rt.stats()["mode"] == "running"
    assert rt.ask(b, "Ask", timeout=20)["count"] == 0
    rt.resume(a)
    for call in (rt.pause, rt.resume, rt.stop, rt.restart):
        with refuses(
            ArgumentError, r"0.5 is no address; .* or timeout=0.5 if that is the deadline"
        ):
            call(0.5)
        with refuses(ArgumentError, "None is no address"):
            call(None)
        with refuses(ArgumentError, "is no address; use one of its elements"):
            call(rt.spawn("Counter", 2))
    for given in (b, 20, 0.5):
        with refuses(
            ArgumentError, r"drain\(\) waits for the whole program; stop\(actor, drain=True"
        ):
            rt.drain(given)
    for call in (rt.receive, rt.park, rt.close):
        with pytest.raises(TypeError, match="positional"):
            call(5)
    assert rt.ask(b, "Ask", timeout=20)["count"] == 0
    rt.send(a, "Add", n=1)
    rt.stop(a, drain=True, timeout=20)
    assert rt.state(a) == "stopped"


def test_a_message_that_is_not_the_programs_is_refused_by_name(rt):
    (counter,) = rt.spawn("Counter")
    (teller,) = rt.spawn("Teller")
    same_fields = message("Tock", [("n", "u4")])
    other_fields = message("Add", [("n", "f4")])
    for wrong, text in (
        (same_fields, r"Tock is no message of this program; it has Add, Ask"),
        (other_fields, r"this Add is not the program's: it has n f4, the program's has n u4"),
    ):
        calls = [
            lambda m=wrong: rt.send(counter, m(n=1)),
            lambda m=wrong: rt.send_many(counter, m.zeros(2)),
            lambda m=wrong: rt.broadcast("Counter", m(n=1)),
            lambda m=wrong: rt.publish("topic", m(n=1)),
            lambda m=wrong: rt.ask(teller, m(n=1)),
            lambda m=wrong: rt.ask_many(teller, m(n=1), ADD),
            lambda m=wrong: rt.ask_many(teller, ADD(n=1), m),
            lambda m=wrong: rt.receive_many(m, 1),
            lambda m=wrong: asyncio.run(rt.ask_async(teller, m(n=1))),
        ]
        for call in calls:
            with refuses(MessageError, text):
                call()
    for dtype, said in (
        ([("n", "i8")], "n i8"),
        ([("n", "f4")], "n f4"),
        ([("n", "u4", 2)], "n u4"),
    ):
        with refuses(MessageError, f"the array has {said}.*, and Add has n u4: make it with Add.z"):
            rt.send_many(counter, np.zeros(2, dtype))
    for dtype in (np.int64, [("m", "u4")]):
        with refuses(MessageError, "is no message of this program; make the array with the mess"):
            rt.send_many(counter, np.zeros(2, dtype))
    for nothing in (5, None, ADD()):
        with refuses(MessageError, "is no message type"):
            rt.receive_many(nothing, 1)
    rt.send(counter, message("Add", [("n", "u4")])(n=5))  # defined anew, as a notebook does
    assert rt.ask(counter, "Ask", timeout=20).tolist() == (5, 1)


def test_a_full_host_ring_is_an_error_that_names_it(device):
    workers = 1 if device == "gpu" else None
    with Runtime(sample.program(), device, workers=workers, host_ring_slots=32) as rt:
        (counter,) = rt.spawn("Counter")
        rt.pause()
        with refuses(RingFullError, r"host ring of worker 0 \(\d+ slots\) is full.*of 100"):
            rt.send_many(counter, ADD.zeros(100), timeout=0.05)
        with refuses(RingFullError, "is full"):
            rt.send(counter, "Add", timeout=0.01)
        rt.resume()
        rt.drain()
        accepted = int(rt.ask(counter, "Ask")["count"])
        assert 0 < accepted < 100
        rt.send(counter, "Add")
        assert rt.ask(counter, "Ask")["count"] == accepted + 1
