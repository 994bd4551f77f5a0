# SPDX-License-Identifier: Apache-2.0
"""ask and ask_many: each question gets its own answer, or an error that says why not."""

import numpy as np
import pytest
import sample
from backends import both, rt  # noqa: F401  (fixtures)
from sample import ADD, TOTAL

import denizen


def test_an_answer_is_a_record_that_can_be_sent_on(rt):
    (teller,) = rt.spawn("Teller")
    answer = rt.ask(teller, ADD(n=1))
    assert answer.dtype == ADD.dtype
    assert answer["n"] == 2
    assert rt.ask(teller, answer)["n"] == 3


def test_ask_by_name_with_fields(rt):
    (teller,) = rt.spawn("Teller")
    assert [int(rt.ask(teller, "Add", n=i)["n"]) for i in range(500)] == list(range(1, 501))


def test_ask_many_one_question_for_all(rt):
    counters = rt.spawn("Counter", 3000)
    messages = ADD.zeros(3000)
    messages["n"] = np.arange(3000)
    rt.send_many(counters, messages)
    order = np.random.default_rng(3).permutation(3000)
    answers = rt.ask_many(counters[order], "Ask", "Total")
    assert answers.dtype == TOTAL.dtype
    assert np.array_equal(answers["sum"], order)


def test_ask_many_a_question_for_each(rt):
    tellers = rt.spawn("Teller", 64)
    questions = ADD.zeros(10_000)
    questions["n"] = np.arange(10_000)
    answers = rt.ask_many(tellers[np.arange(10_000) % 64], questions, ADD)
    assert np.array_equal(answers["n"], np.arange(10_000) + 1)


def test_ask_many_of_one_actor(rt):
    (teller,) = rt.spawn("Teller")
    questions = ADD.zeros(1000)[::-1]
    questions["n"] = np.arange(1000)
    assert np.array_equal(rt.ask_many(teller, questions, ADD)["n"], np.arange(1000) + 1)
    assert rt.ask_many(teller, ADD(n=9), ADD)["n"].tolist() == [10]
    assert rt.ask_many([], ADD(n=9), ADD).shape == (0,)


def test_ask_many_with_few_reply_cells(device):
    with denizen.Runtime(sample.program(), device, asks=3) as rt:
        tellers = rt.spawn("Teller", 20)
        questions = ADD.zeros(200)
        questions["n"] = np.arange(200)
        answers = rt.ask_many(np.tile(tellers, 10), questions, ADD)
        assert np.array_equal(answers["n"], np.arange(200) + 1)


def test_ask_many_refuses_what_does_not_match(rt):
    tellers = rt.spawn("Teller", 3)
    with pytest.raises(denizen.ArgumentError, match="3 addresses for 2 messages"):
        rt.ask_many(tellers, ADD.zeros(2), ADD)
    with pytest.raises(denizen.MessageError, match="answered with Add, not Total"):
        rt.ask_many(tellers, ADD.zeros(3), TOTAL)
    with pytest.raises(denizen.MessageError, match='no message "Nothing"'):
        rt.ask_many(tellers, ADD.zeros(3), "Nothing")
    assert rt.ask_many(tellers, ADD.zeros(3), ADD)["n"].tolist() == [1, 1, 1]


def test_no_answer_is_an_error_that_names_question_and_actor(rt):
    (counter,) = rt.spawn("Counter")
    with pytest.raises(denizen.DeadlineError, match="ask Add to actor Counter #0 of worker 0"):
        rt.ask(counter, "Add", n=1, timeout=0.05)
    with pytest.raises(TimeoutError):
        rt.ask_many(counter, "Add", TOTAL, timeout=0.05)
    assert rt.ask(counter, "Ask").tolist() == (1, 2)


def test_an_actor_may_answer_later(rt):
    (slow,) = rt.spawn("Slow")
    with pytest.raises(denizen.DeadlineError):
        rt.ask(slow, "Keep", timeout=0.02)
    # The late answer goes to a cell that nobody reads, not to the next question.
    rt.send(slow, "Release")
    rt.drain()
    (counter,) = rt.spawn("Counter")
    rt.send(counter, "Add", n=1)
    assert rt.ask(counter, "Ask").tolist() == (1, 1)


def test_too_many_unanswered_questions(device):
    with denizen.Runtime(sample.program(), device, asks=4) as rt:
        slow = rt.spawn("Slow", 4)
        (counter,) = rt.spawn("Counter")
        for actor in slow:
            with pytest.raises(denizen.DeadlineError):
                rt.ask(actor, "Keep", timeout=0.02)
        with pytest.raises(denizen.ExhaustedError, match=r"all 4 reply cells.*raise asks"):
            rt.ask(counter, "Ask", timeout=0.05)
        # The late answers give the cells back.
        rt.broadcast("Slow", "Release")
        rt.drain()
        assert rt.ask(counter, "Ask").tolist() == (0, 0)
