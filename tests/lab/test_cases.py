# SPDX-License-Identifier: Apache-2.0
"""The Python cases really run, count what they say, and notice wrong work."""

import os

import numpy as np
import pytest

import denizen
from denizen import procmine, terminal
from denizen.cache import cache_folder
from denizen.lab import bench, cases, logs, record, table
from denizen.lab.record import Measured, rows_of


def test_ask_answers_every_question():
    (asked,) = cases.ask("cpu:1", quick=True)
    assert asked.verified
    assert (asked.case, asked.unit, asked.n, len(asked.samples)) == (
        "ask from Python", "us", 2_000, 2_000,
    )  # fmt: skip
    assert (asked.samples > 0).all()


def test_a_wrong_answer_is_not_verified(monkeypatch):
    text = "struct Echo { void on(const Ping& p, auto& ctx) { ctx.reply(Pong{p.value}); } };"
    wrong = denizen.Program(text, actors=["Echo"], messages=[cases.PING, cases.PONG])
    monkeypatch.setattr(cases, "echo_program", lambda _variant=0: wrong)
    (asked,) = cases.ask("cpu:1", quick=True)
    assert not asked.verified


def test_batches_are_answered_question_by_question(monkeypatch):
    asked = cases.ask_many("cpu:1", quick=True)
    assert [one.params["batch"] for one in asked] == [10, 100, 1000]
    assert all(one.verified and one.n == 200 * one.params["batch"] for one in asked)
    text = """
    struct Echo {
        void on(const Ping& p, auto& ctx) { ctx.reply(Pong{p.value == 999 ? 0 : p.value + 1}); }
    };
    """
    wrong = denizen.Program(text, actors=["Echo"], messages=[cases.PING, cases.PONG])
    monkeypatch.setattr(cases, "echo_program", lambda: wrong)
    assert not any(one.verified for one in cases.ask_many("cpu:1", quick=True))


def test_patterns_and_widths_are_counted_anew(monkeypatch):
    patterns, widths = logs.analysed("cpu", quick=True)
    assert patterns.verified and widths.verified
    assert patterns.params["found"] > 0 and widths.params["cases"] > 1000
    find, width = procmine.find, procmine.widths
    monkeypatch.setattr(procmine, "find", lambda mined: find(mined)[1:])
    monkeypatch.setattr(procmine, "widths", lambda found, cases: width(found, cases) + 1)
    assert not any(one.verified for one in logs.analysed("cpu", quick=True))


def test_send_many_sums_every_word():
    in_turn, in_runs = cases.send_many("cpu:2", quick=True)
    assert in_turn.verified and in_runs.verified
    assert in_turn.key != in_runs.key
    for sent in (in_turn, in_runs):
        assert (sent.case, sent.unit) == ("send_many from NumPy", "M/s")
        assert sent.n == 5 * 200_000
        assert (sent.samples > 0).all()


def test_a_lost_word_is_not_verified(monkeypatch):
    text = """
    struct Sum {
        uint64_t total = 0;
        uint32_t count = 0;
        void on(const Item& item, auto&) { total += item.value; count += 1; }
        void on(const Query&, auto& ctx) { ctx.reply(Total{total, count}); }
    };
    """
    messages = [cases.ITEM, cases.QUERY, cases.TOTAL]
    lossy = denizen.Program(text, actors=["Sum"], messages=messages)
    monkeypatch.setattr(cases, "sum_program", lambda: lossy)
    assert not any(sent.verified for sent in cases.send_many("cpu:1", quick=True))


def test_items_fill_exactly_one_slot():
    assert cases.ITEM.dtype.itemsize == 36
    assert np.dtype(cases.ITEM.dtype)["rest"].shape == (8,)


@pytest.mark.parametrize(
    "experiment", ["throughput", "sustained", "routes", "sync", "actors", "arena", "group"]
)
def test_experiments_without_python_cases(experiment):
    assert cases.measure(experiment, "cpu", quick=True) == []


def test_start_is_measured_with_and_without_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENIZEN_CACHE", str(tmp_path))
    compiled = []
    compile_cpu = denizen.Program.compile_cpu

    def watched(program):
        before = set(cache_folder().glob("**/*.so"))
        image = compile_cpu(program)
        compiled.append(set(cache_folder().glob("**/*.so")) != before)
        return image

    monkeypatch.setattr(denizen.Program, "compile_cpu", watched)
    cold, cached, again = cases.start("cpu:1", quick=True)
    assert again.arm == "A/A" and again.key == cached.key and again.n == cached.n
    assert cold.params == {"how": "CPU, host compiler cold"}
    assert cached.params == {"how": "CPU, host compiler cached"}
    assert cold.verified and cached.verified
    # Once to find the compiler, a new text each time, once to fill the cache, then from the cache.
    assert compiled == [True] + [True] * cold.n + [True] + [False] * 2 * cached.n
    assert os.environ["DENIZEN_CACHE"] == str(tmp_path)


def test_power_needs_a_gpu():
    assert cases.power("cpu", quick=True) == []


def test_python_cases_are_compared_with_what_does_the_same(monkeypatch):
    def fake(device, quick):
        params = {"memory": "mapped", "process": "its own"}
        return [Measured("ask from Python", params, "us", np.array([6.0]), 1, True)]

    monkeypatch.setitem(cases._CASES, "dispatch", (fake,))
    one = np.array([3.0])
    beside = [
        Measured("raw mailbox", {"memory": "pinned"}, "us", one, 1, True),
        Measured("raw mailbox", {"memory": "mapped"}, "us", one, 1, True),
        Measured("ask", {"memory": "mapped"}, "us", one, 1, True, ("raw mailbox",)),
        Measured("ask", {"memory": "mapped"}, "us", one, 1, True, ("raw mailbox",), "A/A"),
    ]
    (python,) = cases.measure("dispatch", "gpu:0", quick=True, beside=beside)
    assert python.ratio_base == ("ask", "raw mailbox")
    *_, row = rows_of([*beside, python])
    assert row.ratio_to == {"ask": 2.0, "raw mailbox": 2.0}


def test_who_listens_for_errors_hears_those_of_its_own_time():
    with terminal.errors() as outer:
        with terminal.errors() as inner:
            terminal.error("first")
        terminal.error("second")
    terminal.error("third")
    assert (inner, outer) == (["first"], ["first", "second"])


def test_what_is_said_meanwhile_stays_with_the_record(monkeypatch, tmp_path, capsys):
    def measure(_experiment, _device, *, quick, beside):
        assert quick and not beside
        terminal.error("no arm of Nobody: it is not installed")
        return [Measured("ask", {}, "us", np.ones(9), 9, True, ("no such case",))]

    monkeypatch.setattr(cases, "measure", measure)
    made = bench.run("cluster", "cpu", quick=True)
    terminal.error("of another command")
    assert [one.partition(":")[0] for one in made.remarks] == [
        "no arm of Nobody",
        "cluster",
        'case "ask" {} is to be compared with "no such case", of which 0 rows fit',
    ]
    assert "denizen: no arm of Nobody: it is not installed" in capsys.readouterr().err
    record.write(made, tmp_path / "cluster" / "cpu.json")
    kept = record.read(tmp_path / "cluster" / "cpu.json")
    assert kept.remarks == made.remarks
    assert "Said meanwhile: no arm of Nobody: it is not installed" in table.notes(kept)
