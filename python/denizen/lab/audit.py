# SPDX-License-Identifier: Apache-2.0
"""The experiment ``audit``: minutes of messages between random actors, each of them accounted for,
while programs of PyTorch run beside them and the host asks.

Every message carries who sent it and the how many-th to that receiver it is, so a receiver notices
what was lost, doubled or overtaken.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import threading
import time

import numpy as np
from numpy.typing import NDArray

import denizen
from denizen import terminal
from denizen.lab import neighbours
from denizen.lab.record import LabError, Measured, Scalar

_EACH = 4  # actors on each worker, in the same places
_MOST = 2048  # actors
_TOKENS = 8  # for each actor
_WINDOW = 1.0  # seconds for a sample of the rate
_BREATH_US = 1000
_LASTS = 300.0  # seconds: whole, with what it sets up, it ends well before a job of ten minutes
_PATIENCE = 120.0  # seconds that a program of PyTorch may take; alone it takes some

HOP = denizen.message("Hop", [("origin", "u4"), ("number", "u4")])
BEGIN = denizen.message("Begin", [("index", "u4")])
STOP = denizen.message("Stop")
QUERY = denizen.message("Query", [("index", "u4")])
TALLY = denizen.message(
    "Tally", [("index", "u4"), ("wrong", "u4"), ("handled", "u8"), ("sent", "u8"), ("ended", "u8")]
)

_WALKERS = f"""
struct Walker {{
    uint64_t handled = 0;
    uint64_t sent = 0;
    uint64_t ended = 0;
    uint32_t wrong = 0;
    uint32_t seed = 0;
    uint32_t stopped = 0;
    uint32_t given[{_MOST}] = {{}};   // to each other actor
    uint32_t awaited[{_MOST}] = {{}}; // number of the next from each
    static constexpr uint32_t nodes = 1;
    static uint32_t index_of(auto& ctx) {{
        const denizen::Address self = ctx.self();
        return (self.node() * ctx.workers() + self.worker()) * {_EACH}u + self.local();
    }}
    void go_on(auto& ctx) {{
        const uint32_t index = index_of(ctx);
        if (seed == 0) seed = index * 2654435761u + 1;
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        const uint32_t to = seed % (nodes * ctx.workers() * {_EACH}u);
        const uint32_t worker = to / {_EACH}u;
        const auto there = denizen::Address::actor(
            worker % ctx.workers(), to % {_EACH}u, worker / ctx.workers());
        ++sent;
        ctx.send(there, Hop{{index, given[to]++}});
    }}
    void on(const Begin& m, auto& ctx) {{
        if (m.index != index_of(ctx)) ++wrong;
        go_on(ctx);
    }}
    void on(const Hop& m, auto& ctx) {{
        ++handled;
        if (m.number != awaited[m.origin]++) ++wrong;
        if (stopped != 0) {{
            ++ended;
        }} else {{
            go_on(ctx);
        }}
    }}
    void on(const Stop&, auto&) {{ stopped = 1; }}
    void on(const Query& m, auto& ctx) {{
        const uint32_t index = index_of(ctx);
        ctx.reply(Tally{{index, wrong + (m.index != index), handled, sent, ended}});
    }}
}};
"""


def _program(nodes: int = 1) -> denizen.Program:
    messages = [HOP, BEGIN, STOP, QUERY, TALLY]
    text = _WALKERS.replace("nodes = 1;", f"nodes = {nodes};")
    return denizen.Program(text, actors=["Walker"], messages=messages, name="audit")


def _neighbours(device: str) -> list[str]:
    if device.startswith("cpu"):
        return []
    if importlib.util.find_spec("torch") is None:
        terminal.error("nothing runs beside the audit: there is no Python package torch")
        return []
    return [name for name, (_, modules) in neighbours.ALL.items() if modules == ("torch",)]


class _Asker(threading.Thread):
    """Asks a random actor about a thousand times a second, until it is told to stop."""

    def __init__(self, rt: denizen.Runtime, actors: NDArray[np.uint32]) -> None:
        super().__init__(name="audit-asker", daemon=True)
        self.microseconds: list[float] = []
        self.wrong = 0
        self.error: BaseException | None = None
        self.ending = threading.Event()
        self._rt = rt
        self._actors = actors

    def run(self) -> None:
        random = np.random.default_rng(0)
        try:
            while not self.ending.wait(1e-3):
                index = int(random.integers(len(self._actors)))
                begin = time.perf_counter_ns()
                tally = self._rt.ask(int(self._actors[index]), QUERY(index), timeout=30.0)
                self.microseconds.append((time.perf_counter_ns() - begin) * 1e-3)
                self.wrong += int(tally["wrong"] != 0)
        except BaseException as error:  # told by who joins
            self.error = error


def measure(device: str, *, quick: bool, seconds: float | None = None) -> list[Measured]:
    """Messages in M/s, those that were lost and those that were doubled, overtaken or misled, the
    host's round trips in microseconds, and seconds of each program of PyTorch.

    Five minutes (``quick``: ten seconds) with a breath of one millisecond. Verified: each message
    was accounted for, and each program had the results it has alone. Raises LabError if an ask
    fails.
    """
    lasts = seconds if seconds is not None else 10.0 if quick else _LASTS
    programs = _neighbours(device)
    alone = {name: neighbours.ALL[name][0]() for name in programs}
    on_gpu = not device.startswith("cpu")
    with denizen.Runtime(
        _program(),
        device,
        breath_us=_BREATH_US if on_gpu else "auto",
        state_bytes=256 << 20,
    ) as rt:
        count = _EACH * rt.description["workers"]
        if count > _MOST:
            raise LabError(f"{count} actors; the audit has room for {_MOST}: use fewer workers")
        actors = np.sort(rt.spawn("Walker", count))
        begins = BEGIN.zeros(count * _TOKENS)
        begins["index"] = np.resize(np.arange(count), begins.size)
        rt.send_many(np.resize(actors, begins.size), begins)
        asker = _Asker(rt, actors)
        asker.start()
        rates, runs, same = _run_beside(rt, alone, lasts)
        asker.ending.set()
        asker.join()
        if asker.error is not None:
            raise LabError(f"an ask failed: {asker.error}") from asker.error
        rt.broadcast("Walker", STOP())
        rt.drain()
        queries = QUERY.zeros(count)
        queries["index"] = np.arange(count)
        told = rt.ask_many(actors, queries, TALLY)
        stats = rt.stats()
    handled, sent = int(told["handled"].sum()), int(told["sent"].sum())
    wrong = int(told["wrong"].sum()) + asker.wrong
    lost = sent - handled
    right = lost == 0 and wrong == 0 and int(told["ended"].sum()) == begins.size
    right = right and stats["errors"] == 0 and stats["dead_letters"] == 0
    params: dict[str, Scalar] = {"breath_us": _BREATH_US} if on_gpu else {}
    asks = np.array(asker.microseconds)
    made = [
        *(
            Measured("messages", params, "M/s", arm, handled, right, arm=name, rounds=arm.size)
            for name, arm in _arms(np.array(rates) * 1e-6).items()
        ),
        Measured("lost", params, "messages", np.array([float(lost)]), sent, right),
        Measured("doubled or overtaken", params, "messages", np.array([float(wrong)]), sent, right),
        Measured("ask meanwhile", params, "us", asks, asks.size, right),
    ]
    for name, took in runs.items():
        made.append(Measured(f"{name}, meanwhile", params, "s", np.array(took), len(took), same))
    return made


def _arms(windows: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Windows in a row as two arms, one of each in two windows, which are a round: by a sequence of
    no period (Thue and Morse's). A last one without its other is left out."""
    if windows.size == 1:
        return {"": windows}
    windows = windows[: windows.size // 2 * 2]
    second = np.array([i.bit_count() % 2 == 1 for i in range(windows.size)])
    return {"": windows[~second], "A/A": windows[second]}


class _Neighbours(threading.Thread):
    """Runs programs of PyTorch in turn until it is told to stop, and compares their results."""

    def __init__(self, alone: dict[str, list[float]]) -> None:
        super().__init__(name="audit-neighbours", daemon=True)
        self.runs: dict[str, list[float]] = {name: [] for name in alone}  # seconds of each
        self.same = True
        self.error: BaseException | None = None
        self.ending = threading.Event()
        self._alone = alone
        self._begun = ("", 0.0)  # which runs, and since when

    def run(self) -> None:
        try:
            for name in itertools.cycle(self._alone):
                if self.ending.is_set():
                    return
                self._begun = (name, time.perf_counter())
                result = neighbours.ALL[name][0]()
                self.runs[name].append(time.perf_counter() - self._begun[1])
                self.same = self.same and bool(np.allclose(result, self._alone[name], rtol=1e-4))
        except BaseException as error:  # told by check()
            self.error = error

    def check(self, rt: denizen.Runtime) -> None:
        """LabError if a program failed, or does not return."""
        if self.error is not None:
            raise LabError(f"{self._begun[0]} failed beside the audit: {self.error}")
        name, since = self._begun
        if self.is_alive() and since and time.perf_counter() - since > _PATIENCE:
            stats = rt.stats()
            raise LabError(
                f"{name} has not returned for {_PATIENCE:g} s beside the audit: see "
                f"py-spy dump --pid {os.getpid()}. {stats['handled']:,} messages were handled in "
                f"{stats['incarnations']:,} incarnations. {rt.stuck()}".rstrip()
            )


def _run_beside(
    rt: denizen.Runtime, alone: dict[str, list[float]], lasts: float
) -> tuple[list[float], dict[str, list[float]], bool]:
    """Runs the programs in turn until the time is over: messages a second, seconds of each run,
    and whether each had the results it has alone."""
    rates: list[float] = []
    begin = at = time.perf_counter()
    seen = rt.stats()["handled"]
    beside = _Neighbours(alone)
    beside.start()
    while (now := time.perf_counter()) - begin < lasts or not rates or beside.is_alive():
        time.sleep(0.05)
        beside.check(rt)
        if now - begin >= lasts:
            beside.ending.set()
        if now - at >= _WINDOW:
            handled = rt.stats()["handled"]
            rates.append((handled - seen) / (now - at))
            at, seen = now, handled
    beside.check(rt)
    return rates, beside.runs, beside.same
