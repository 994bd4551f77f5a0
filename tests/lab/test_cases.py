# SPDX-License-Identifier: Apache-2.0
"""The Python cases really run, count what they say, and notice wrong work."""

import numpy as np
import pytest

import denizen
from denizen.lab import cases


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
    monkeypatch.setattr(cases, "echo_program", lambda: wrong)
    (asked,) = cases.ask("cpu:1", quick=True)
    assert not asked.verified


def test_send_many_sums_every_word():
    (sent,) = cases.send_many("cpu:2", quick=True)
    assert sent.verified
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
    (sent,) = cases.send_many("cpu:1", quick=True)
    assert not sent.verified


def test_items_fill_exactly_one_slot():
    assert cases.ITEM.dtype.itemsize == 36
    assert np.dtype(cases.ITEM.dtype)["rest"].shape == (8,)


@pytest.mark.parametrize("experiment", ["throughput", "sustained"])
def test_experiments_without_python_cases(experiment):
    assert cases.measure(experiment, "cpu", quick=True) == []
