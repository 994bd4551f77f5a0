# SPDX-License-Identifier: Apache-2.0
"""A program's life: pause and resume, stopped actors, statistics, close, several at once."""

import threading

import numpy as np
import pytest
import sample
from backends import both, rt  # noqa: F401  (fixtures)
from sample import ADD, TOTAL

import denizen


def test_what_is_sent_while_paused_waits(rt):
    (counter,) = rt.spawn("Counter")
    rt.send(counter, "Add", n=1)
    rt.drain()
    rt.pause()
    assert rt.stats()["mode"] == "paused"
    handled = rt.stats()["handled"]
    for _ in range(10):
        rt.send(counter, "Add", n=1)
    with pytest.raises(denizen.DeadlineError):
        rt.ask(counter, "Ask", timeout=0.05)
    assert rt.stats()["handled"] == handled
    rt.resume()
    assert rt.ask(counter, "Ask", timeout=20).tolist() == (11, 11)
    rt.pause()
    rt.pause()
    rt.resume()
    rt.resume()
    assert rt.ask(counter, "Ask", timeout=20)["count"] == 11


def test_drain_waits_for_what_messages_cause(rt):
    a, b = rt.spawn("Hopper", 2)
    for _ in range(20):
        rt.send(a, "Hop", to=int(b), left=500)
    rt.drain()
    answers = rt.ask_many([a, b], "Ask", TOTAL)
    assert answers["sum"].sum() == 20 * 501
    assert answers["count"].sum() == 20


def test_drain_has_a_deadline(rt):
    (counter,) = rt.spawn("Counter")
    rt.pause()
    rt.send(counter, "Add", n=1)
    with pytest.raises(denizen.DeadlineError, match="still being handled"):
        rt.drain(timeout=0.05)
    rt.resume()
    rt.drain()
    assert rt.ask(counter, "Ask")["count"] == 1


def test_what_is_sent_to_created_actors_waits_until_they_run(rt):
    created = rt.create("Counter", 3)
    assert (created.dtype, created.shape) == (np.uint32, (3,))
    for counter in created:
        assert rt.state(counter) == "created"
        rt.send_many(counter, ADD.zeros(5))
    rt.drain()
    assert [rt.inspect(counter).stashed for counter in created] == [5, 5, 5]
    assert rt.stats()["stashed"] == 15
    rt.resume(created[0])
    assert rt.state(created[0]) == "running"
    assert rt.ask(created[0], "Ask", timeout=20)["count"] == 5
    rt.stop(created[1])
    rt.drain()
    assert rt.stats()["dead_letters"] == 5
    assert rt.state(created[2]) == "created"
    assert rt.inspect(created[2]).stashed == 5
    with pytest.raises(denizen.ArgumentError, match='the program has no actor "Clerk"; it has Cou'):
        rt.create("Clerk")


def test_a_stopped_actor_is_gone_and_its_neighbours_are_not(rt):
    counters = rt.spawn("Counter", 4)
    rt.send(counters[1], "Add", n=1)
    rt.stop(counters[1])
    with pytest.raises(denizen.NoActorError, match=r"actor Counter #\d+ of worker \d+ has stopped"):
        rt.send(counters[1], "Add")
    with pytest.raises(denizen.NoActorError):
        rt.stop(counters[1])
    rt.broadcast("Counter", "Add", n=2)
    others = counters[[0, 2, 3]]
    assert rt.ask_many(others, "Ask", TOTAL)["sum"].tolist() == [2, 2, 2]
    assert rt.stats()["dead_letters"] == 0


def test_a_message_between_actors_that_cannot_be_delivered_is_counted(rt):
    a, b = rt.spawn("Hopper", 2)
    (counter,) = rt.spawn("Counter")
    rt.stop(b)
    rt.send(a, "Hop", to=int(b), left=1)
    rt.drain()
    rt.send(a, "Hop", to=int(counter), left=1)
    rt.drain()
    stats = rt.stats()
    assert stats["dead_letters"] == 2
    assert stats["errors"] == 2
    assert "Hop to actor" in stats["first_error"]
    assert "no such actor" in stats["first_error"]
    assert rt.ask(a, "Ask").tolist() == (2, 0)


def test_statistics_add_up(rt):
    counters = rt.spawn("Counter", 10)
    rt.drain()  # the reply to spawn() comes a moment before it is counted
    before = rt.stats()
    assert before["launches"] == 1
    assert before["errors"] == 0
    assert before["first_error"] == ""
    rt.send_many(np.tile(counters, 100), ADD.zeros(1000))
    rt.drain()
    after = rt.stats()
    assert after["handled"] - before["handled"] == 1000
    assert sum(after["handled_by_worker"]) == after["handled"]
    assert len(after["handled_by_worker"]) == rt.description["workers"]
    assert rt.stuck() == ""


def test_what_the_description_tells(device):
    with denizen.Runtime(sample.program(), device) as rt:
        d = rt.description
    assert d["on_gpu"] == (device == "gpu")
    assert d["host_ring_memory"] in (("mapped", "pinned") if device == "gpu" else ("host",))
    assert d["workers"] >= 1
    if device.startswith("cpu:"):
        assert (d["device"], d["workers"]) == ("CPU", int(device[4:]))
    # A default runtime stays within its budget of memory: on a GPU inbox and outbox of each worker
    # are 2 MiB.
    assert 0 < d["host_bytes"] <= 64 << 20
    rings = d["workers"] * 5 << 19 if d["on_gpu"] else 0
    assert d["device_bytes"] <= rings + (64 << 20)
    assert d["start_ms"] > 0


def test_state_and_actors_have_limits(device):
    with denizen.Runtime(sample.program(), device, max_actors=100, state_bytes=1 << 16) as rt:
        with pytest.raises(denizen.ExhaustedError, match="exceed max_actors = 100; raise it"):
            rt.spawn("Counter", 1000)
        with pytest.raises(denizen.ExhaustedError, match="bytes of state, 65536 are left; raise"):
            rt.spawn("Counter", 10_000)
        assert len(rt.spawn("Counter", 50)) == 50
        with pytest.raises(denizen.ArgumentError, match="count = -1"):
            rt.spawn("Counter", -1)


def test_a_hundred_thousand_actors(device):
    with denizen.Runtime(sample.program(), device) as rt:
        counters = rt.spawn("Counter", 100_000, timeout=60)
        assert len(np.unique(counters)) == 100_000
        rt.broadcast("Counter", "Add", n=1)
        messages = ADD.zeros(100_000)
        messages["n"] = np.arange(100_000)
        rt.send_many(counters, messages)
        answers = rt.ask_many(counters, "Ask", TOTAL, timeout=60)
        assert np.array_equal(answers["sum"], np.arange(100_000) + 1)


def test_use_after_close(device):
    rt = denizen.Runtime(sample.program(), device)
    (teller,) = rt.spawn("Teller")
    rt.send(teller, "Tell", first=0, count=1)
    rt.close()
    rt.close()
    calls = [
        lambda: rt.send(teller, "Add"),
        lambda: rt.send_many(teller, ADD.zeros(2)),
        lambda: rt.broadcast("Counter", "Add"),
        lambda: rt.ask(teller, "Add"),
        lambda: rt.ask_many(teller, "Add", ADD),
        lambda: rt.spawn("Counter"),
        lambda: rt.stop(teller),
        rt.drain,
        rt.pause,
        rt.resume,
        rt.park,
    ]
    for call in calls:
        with pytest.raises(denizen.ClosedError, match="the runtime is closed"):
            call()
    # What had arrived can still be read, and so can the counters.
    assert rt.receive().type == "Item"
    with pytest.raises(denizen.ClosedError):
        rt.receive()
    assert rt.stats()["mode"] == "left"
    assert rt.parked is False
    assert rt.description["workers"] >= 1


def test_close_waits_for_what_was_sent(device):
    with denizen.Runtime(sample.program(), device) as rt:
        (counter,) = rt.spawn("Counter")
        rt.drain()
        before = rt.stats()["handled"]
        rt.send_many(counter, ADD.zeros(50_000))
    assert rt.stats()["handled"] - before == 50_000


def test_an_exception_in_the_block_closes_and_gets_out(device):
    with pytest.raises(KeyError), denizen.Runtime(sample.program(), device) as rt:
        raise KeyError("mine")
    with pytest.raises(denizen.ClosedError):
        rt.spawn("Counter")


def test_two_at_once(device):
    options = {"workers": 2} if device == "gpu" else {}
    with (
        denizen.Runtime(sample.program(), device, **options) as one,
        denizen.Runtime(sample.program(), device, **options) as two,
    ):
        (a,) = one.spawn("Counter")
        (b,) = two.spawn("Counter")
        assert a == b  # addresses are each runtime's own
        one.send(a, "Add", n=1)
        two.send(b, "Add", n=2)
        assert one.ask(a, "Ask").tolist() == (1, 1)
        assert two.ask(b, "Ask").tolist() == (2, 1)
        one.close()
        assert two.ask(b, "Ask").tolist() == (2, 1)


def test_one_after_the_other_in_one_process(device):
    program = sample.program()
    for i in range(5):
        with denizen.Runtime(program, device) as rt:
            (counter,) = rt.spawn("Counter")
            rt.send(counter, "Add", n=i)
            assert rt.ask(counter, "Ask").tolist() == (i, 1)


def test_a_runtime_that_is_not_closed_does_not_keep_the_process(run_python, device):
    text = """
import sys, denizen, sample
rt = denizen.Runtime(sample.program(), sys.argv[1])
(counter,) = rt.spawn("Counter")
rt.send(counter, "Add", n=5)
print("sum", rt.ask(counter, "Ask")["sum"])
"""
    assert "sum 5" in run_python(text, device)


def test_threads_send_and_ask_at_once(rt):
    counters = rt.spawn("Counter", 16)
    tellers = rt.spawn("Teller", 4)
    errors = []

    def sender(k):
        try:
            for i in range(20):
                messages = ADD.zeros(500)
                messages["n"] = 1
                rt.send_many(counters[np.arange(500) % 16], messages)
                rt.send(counters[(k + i) % 16], "Add", n=1)
        except Exception as error:
            errors.append(error)

    def asker(k):
        try:
            for i in range(300):
                if int(rt.ask(tellers[k], "Add", n=i, timeout=60)["n"]) != i + 1:
                    raise AssertionError(f"thread {k} got another's answer")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=sender, args=(k,)) for k in range(3)]
    threads += [threading.Thread(target=asker, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    rt.drain()
    answers = rt.ask_many(counters, "Ask", TOTAL)
    assert answers["sum"].sum() == answers["count"].sum() == 3 * 20 * 501


def test_a_handler_that_floods_its_own_worker_is_named(device):
    again = denizen.message("Again", [("times", "u4")])
    text = """
    struct Flooder {
        uint32_t got = 0;
        void on(const Again& m, auto& ctx) {
            ++got;
            for (uint32_t i = 0; i < m.times; ++i) ctx.send(ctx.self(), Again{0});
        }
    };
    """
    program = denizen.Program(text, actors=["Flooder"], messages=[again], name="flood")
    rt = denizen.Runtime(program, device, local_slots=16, outbox_slots=16)
    (flooder,) = rt.spawn("Flooder")
    rt.send(flooder, again(times=30))  # fits into its ring to itself and the outbox
    rt.drain()
    rt.send(flooder, again(times=33))
    with pytest.raises(denizen.ExhaustedError, match=r"outbox of worker 0 .*16.* found no room"):
        rt.drain(timeout=20)
    rt.close()
