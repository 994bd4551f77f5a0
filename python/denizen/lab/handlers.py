# SPDX-License-Identifier: Apache-2.0
"""The experiment ``handlers``: one program with its handlers in Python and as C++ text.

Random targets are measured forth and back, each in a runtime of its own: two at a time would share
the GPU. Round trips go to programs that run at the same time, each on its part of the device, a
thousand to each by turns: the host's mood, which lasts longer, is the same for all. The C++ text is
measured once more in each round, as A/A.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import denizen
from denizen import _core
from denizen.device import parse_device
from denizen.lab.record import Measured, Scalar

log = logging.getLogger(__name__)

TIMEOUT = 60.0
EACH = 64  # actors on each worker


Ping = denizen.message("Ping", [("value", "u4")])
Pong = denizen.message("Pong", [("value", "u4")])
# Goes from actor to actor at random. Actors lie in the same places on each worker.
Hop = denizen.message("Hop", [("seed", "u4"), ("left", "u4"), ("workers", "u4")])
Ask = denizen.message("Ask")
Count = denizen.message("Count", [("hops", "u8")])


class Walker:
    hops: np.uint64 = 0  # type: ignore[assignment]

    def on_ping(self, m: Ping, ctx):  # type: ignore
        ctx.reply(Pong(m.value + 1))

    def on_hop(self, m: Hop, ctx):  # type: ignore
        self.hops += 1
        if m.left != 0:
            seed = np.uint32(m.seed * 1664525 + 1013904223)
            worker = (seed >> 16) % m.workers
            to = worker << 18 | (seed >> 8) % EACH
            ctx.send(to, Hop(seed, m.left - 1, m.workers))

    def on_ask(self, m: Ask, ctx):  # type: ignore
        ctx.reply(Count(self.hops))


_TEXT = f"""
struct Walker {{
    uint64_t hops = 0;
    void on(const Ping& m, auto& ctx) {{ ctx.reply(Pong{{m.value + 1}}); }}
    void on(const Hop& m, auto& ctx) {{
        ++hops;
        if (m.left != 0) {{
            const uint32_t seed = m.seed * 1664525u + 1013904223u;
            const uint32_t worker = (seed >> 16) % m.workers;
            const uint32_t to = worker << 18 | (seed >> 8) % {EACH}u;
            ctx.send(denizen::Address{{to}}, Hop{{seed, m.left - 1, m.workers}});
        }}
    }}
    void on(const Ask&, auto& ctx) {{ ctx.reply(Count{{hops}}); }}
}};
"""


def in_python() -> denizen.Program:
    return denizen.Program(actors=[denizen.actor(Walker)], name="walker in Python")


def as_text() -> denizen.Program:
    messages = [Ping, Hop, Ask, Pong, Count]
    return denizen.Program(_TEXT, actors=["Walker"], messages=messages, name="walker")


WAYS: dict[str, Callable[[], denizen.Program]] = {"C++ text": as_text, "Python": in_python}
_AGAIN = "C++ text"


def measure(device: str, *, quick: bool) -> list[Measured]:
    """Round trips in microseconds, and messages between random actors in M/s."""
    arms = [*((way, "") for way in WAYS), (_AGAIN, "A/A")]
    asks: dict[tuple[str, str], list[NDArray[np.float64]]] = {arm: [] for arm in arms}
    rates: dict[tuple[str, str], list[float]] = {arm: [] for arm in arms}
    right = dict.fromkeys(arms, True)
    turns = [*arms, *reversed(arms)]
    rounds = 2 if quick else 12
    log.info("messages to random targets")
    for arm in turns * (rounds // 2):
        with denizen.Runtime(WAYS[arm[0]](), device) as rt:
            walkers = rt.spawn("Walker", EACH * rt.description["workers"])
            right[arm] &= time_walks(rt, walkers, rates[arm], 2_000 if quick else 20_000)
    log.info("round trips")
    for _ in range(rounds):
        with contextlib.ExitStack() as stack:
            running = {}
            for arm in arms:
                rt = stack.enter_context(_on_a_part(WAYS[arm[0]](), device, len(arms)))
                running[arm] = rt, int(rt.spawn("Walker")[0])
            for arm in turns * (1 if quick else 5):
                right[arm] &= time_asks(*running[arm], asks[arm])
    made = []
    for way, again in arms:
        params: dict[str, Scalar] = {"handlers": way}
        trips = np.concatenate(asks[way, again])
        walks = np.array(rates[way, again])
        for case, unit, samples in (("ask", "us", trips), ("random targets", "M/s", walks)):
            rival = way == "Python"
            made.append(
                Measured(
                    f"{case}, Python" if rival else case,
                    params,
                    unit,
                    samples,
                    samples.size,
                    right[way, again],
                    (case,) if rival else (),
                    again,
                    rounds=rounds,
                )
            )
    return made


def _on_a_part(program: denizen.Program, device: str, parts: int) -> denizen.Runtime:
    where = parse_device(device)
    if not where.on_gpu:
        return denizen.Runtime(program, "cpu:1")
    *_, sms, _ = _core.gpu_info(where.first)
    return denizen.Runtime(program, device, sms=sms // parts)


def time_asks(rt: denizen.Runtime, walker: int, out: list[NDArray[np.float64]]) -> bool:
    """Microseconds of a thousand round trips; false if an answer is wrong."""
    samples = np.empty(1_000)
    wrong = 0
    for i in range(-100, samples.size):  # a hundred that warm up
        ping = Ping(i & 0xFFFF)
        begin = time.perf_counter_ns()
        pong = rt.ask(walker, ping, timeout=TIMEOUT)
        end = time.perf_counter_ns()
        wrong += int(pong["value"]) != (i & 0xFFFF) + 1
        if i >= 0:
            samples[i] = (end - begin) * 1e-3
    out.append(samples)
    return wrong == 0


def tokens(workers: int, steps: int) -> Any:
    """Messages that make so many steps each, eight for each worker."""
    hops = Hop.zeros(8 * workers)
    hops["seed"] = np.random.default_rng(1).integers(0, 2**32, hops.size, dtype=np.uint32)
    hops["left"] = steps - 1
    hops["workers"] = workers
    return hops


def time_walks(
    rt: denizen.Runtime, walkers: NDArray[np.uint32], out: list[float], steps: int
) -> bool:
    """Eight messages for each worker walk at a time; every step must have been counted."""
    hops = tokens(rt.description["workers"], steps)
    repetitions = 3
    for i in range(-1, repetitions):  # the first is a warm-up
        begin = time.perf_counter()
        rt.send_many(walkers[: hops.size], hops)
        rt.drain(timeout=TIMEOUT)
        if i >= 0:
            out.append(steps * hops.size / (time.perf_counter() - begin) * 1e-6)
    counts = rt.ask_many(walkers, "Ask", Count, timeout=TIMEOUT)["hops"]
    return bool(int(counts.sum()) == steps * hops.size * (repetitions + 1))
