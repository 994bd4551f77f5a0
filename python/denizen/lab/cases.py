# SPDX-License-Identifier: Apache-2.0
"""Cases measured through the public Python API, merged into the C++ program's record."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import denizen
from denizen.lab.record import Measured

_TIMEOUT = 30.0

PING = denizen.message("Ping", [("value", "u4")])
PONG = denizen.message("Pong", [("value", "u4")])
# 36 bytes: with the header exactly one slot of 64 bytes.
ITEM = denizen.message("Item", [("value", "u4"), ("rest", "u4", (8,))])
QUERY = denizen.message("Query")
TOTAL = denizen.message("Total", [("total", "u8"), ("count", "u4")])


def echo_program() -> denizen.Program:
    """An actor that answers a number with the next."""
    text = """
    struct Echo {
        void on(const Ping& ping, auto& ctx) { ctx.reply(Pong{ping.value + 1}); }
    };
    """
    return denizen.Program(text, actors=["Echo"], messages=[PING, PONG], name="echo")


def sum_program() -> denizen.Program:
    """An actor that adds up all nine words of every message."""
    text = """
    struct Sum {
        uint64_t total = 0;
        uint32_t count = 0;
        void on(const Item& item, auto&) {
            total += item.value;
            for (uint32_t word : item.rest) total += word;
            count += 1;
        }
        void on(const Query&, auto& ctx) { ctx.reply(Total{total, count}); }
    };
    """
    return denizen.Program(text, actors=["Sum"], messages=[ITEM, QUERY, TOTAL], name="sum")


def ask(device: str, *, quick: bool) -> list[Measured]:
    """Round trips of ``ask`` in microseconds, one at a time; every answer is checked."""
    rounds, warm = (2_000, 200) if quick else (20_000, 1_000)
    samples = np.empty(rounds)
    wrong = 0
    with denizen.Runtime(echo_program(), device=device) as rt:
        (echo,) = rt.spawn("Echo").tolist()
        for i in range(-warm, rounds):
            ping = PING(value=i + warm)
            begin = time.perf_counter_ns()
            pong = rt.ask(echo, ping, timeout=_TIMEOUT)
            end = time.perf_counter_ns()
            wrong += int(pong["value"]) != i + warm + 1
            if i >= 0:
                samples[i] = (end - begin) * 1e-3
    return [Measured("ask from Python", {}, "us", samples, rounds, wrong == 0)]


def send_many(device: str, *, quick: bool) -> list[Measured]:
    """Messages of one slot per second (M/s), from the call to the last one handled.

    Each repetition hands over one array, spread over one actor per worker, and waits until all are
    handled. Afterwards the actors must have counted and summed every message.
    """
    repetitions, count = (5, 200_000) if quick else (15, 4_000_000)
    items = ITEM.zeros(count)
    random = np.random.default_rng(0)
    items["value"] = random.integers(0, 2**32, count, dtype=np.uint32)
    items["rest"] = random.integers(0, 2**32, (count, 8), dtype=np.uint32)
    expected = int(items["value"].sum(dtype=np.uint64)) + int(items["rest"].sum(dtype=np.uint64))
    samples = np.empty(repetitions)
    with denizen.Runtime(sum_program(), device=device) as rt:
        actors = rt.spawn("Sum", rt.description["workers"])
        targets = np.resize(actors, count)
        for i in range(-1, repetitions):  # the first is a warm-up
            begin = time.perf_counter()
            rt.send_many(targets, items)
            rt.drain(_TIMEOUT)
            if i >= 0:
                samples[i] = count / (time.perf_counter() - begin) * 1e-6
        totals = rt.ask_many(actors, "Query", TOTAL, timeout=_TIMEOUT)
        verified = int(totals["count"].sum(dtype=np.uint64)) == count * (repetitions + 1) and int(
            totals["total"].sum(dtype=np.uint64)
        ) == expected * (repetitions + 1)
    events = count * repetitions
    return [Measured("send_many from NumPy", {"bytes": 64}, "M/s", samples, events, verified)]


_CASES: dict[str, Callable[..., list[Measured]]] = {"dispatch": ask, "ring": send_many}


def measure(experiment: str, device: str, *, quick: bool) -> list[Measured]:
    """The Python cases of ``experiment`` on ``device``, none for most experiments."""
    cases = _CASES.get(experiment)
    return [] if cases is None else cases(device, quick=quick)
