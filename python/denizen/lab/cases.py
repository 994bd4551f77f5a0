# SPDX-License-Identifier: Apache-2.0
"""Cases measured through the public Python API, merged into the C++ program's record."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import denizen
from denizen import machine
from denizen.lab import (
    adsb,
    audit,
    beside,
    cluster,
    doorbells,
    driver,
    engines,
    filters,
    first,
    frameworks,
    gnuradio,
    handlers,
    infer,
    io,
    layer,
    logs,
    observers,
    partitions,
    payments,
    scale,
    searches,
)
from denizen.lab.record import Measured, Scalar
from denizen.nvml import Nvml
from denizen.quick import Optimise

_TIMEOUT = 30.0

PING = denizen.message("Ping", [("value", "u4")])
PONG = denizen.message("Pong", [("value", "u4")])
# 36 bytes: with the header exactly one slot of 64 bytes.
ITEM = denizen.message("Item", [("value", "u4"), ("rest", "u4", (8,))])
QUERY = denizen.message("Query")
TOTAL = denizen.message("Total", [("total", "u8"), ("count", "u4")])


def echo_program(variant: int = 0) -> denizen.Program:
    """An actor that answers a number with the next. Each variant is a text of its own."""
    text = f"""
    struct Echo {{
        static constexpr uint64_t variant = {variant}u;
        void on(const Ping& ping, auto& ctx) {{ ctx.reply(Pong{{ping.value + 1}}); }}
    }};
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
        memory = rt.description["host_ring_memory"]
        for i in range(-warm, rounds):
            ping = PING(value=i + warm)
            begin = time.perf_counter_ns()
            pong = rt.ask(echo, ping, timeout=_TIMEOUT)
            end = time.perf_counter_ns()
            wrong += int(pong["value"]) != i + warm + 1
            if i >= 0:
                samples[i] = (end - begin) * 1e-3
    # The rivals are in the C++ program's process: these were not interleaved with them.
    params = {"memory": memory, "process": "its own"}
    return [Measured("ask from Python", params, "us", samples, rounds, wrong == 0)]


def ask_many(device: str, *, quick: bool) -> list[Measured]:
    """Microseconds until all answers of a batch are there, asked by one call."""
    rounds = 200 if quick else 2_000
    batches = (10, 100, 1_000)
    samples = np.empty((len(batches), rounds))
    right = True
    with denizen.Runtime(echo_program(), device=device) as rt:
        memory = rt.description["host_ring_memory"]
        echoes = rt.spawn("Echo", max(batches))
        for i in range(-20, rounds):
            for b, batch in enumerate(batches):  # by turns
                pings = PING.zeros(batch)
                pings["value"] = np.arange(batch) + (i + 20)
                begin = time.perf_counter_ns()
                pongs = rt.ask_many(echoes[:batch], pings, PONG, timeout=_TIMEOUT)
                end = time.perf_counter_ns()
                right &= bool((pongs["value"] == pings["value"] + 1).all())
                if i >= 0:
                    samples[b, i] = (end - begin) * 1e-3
    return [
        Measured(
            "ask_many from Python",
            {"batch": batch, "memory": memory, "process": "its own"},
            "us",
            samples[b],
            rounds * batch,
            right,
        )
        for b, batch in enumerate(batches)
    ]


_RUN = 64


def send_many(device: str, *, quick: bool) -> list[Measured]:
    """Messages of one slot per second (M/s), from the call to the last one handled.

    Each repetition hands over one array, spread over one actor per worker, and waits until all are
    handled: message by message in turn, and in runs of 64 to the same actor. Afterwards the actors
    must have counted and summed every message.
    """
    repetitions, count = (5, 200_000) if quick else (15, 4_000_000)
    items = ITEM.zeros(count)
    random = np.random.default_rng(0)
    items["value"] = random.integers(0, 2**32, count, dtype=np.uint32)
    items["rest"] = random.integers(0, 2**32, (count, 8), dtype=np.uint32)
    expected = int(items["value"].sum(dtype=np.uint64)) + int(items["rest"].sum(dtype=np.uint64))
    with denizen.Runtime(sum_program(), device=device) as rt:
        memory = rt.description["host_ring_memory"]
        actors = rt.spawn("Sum", rt.description["workers"])
        ways = {"in turn": actors, f"in runs of {_RUN}": np.repeat(actors, _RUN)}
        targets = [np.resize(pattern, count) for pattern in ways.values()]
        samples = np.empty((len(ways), repetitions))
        for i in range(-1, repetitions):  # the first is a warm-up
            # Forth and back, so that no way always comes first.
            for way in range(len(ways)) if i % 2 == 0 else reversed(range(len(ways))):
                begin = time.perf_counter()
                rt.send_many(targets[way], items)
                rt.drain(timeout=_TIMEOUT)
                if i >= 0:
                    samples[way, i] = count / (time.perf_counter() - begin) * 1e-6
        totals = rt.ask_many(actors, "Query", TOTAL, timeout=_TIMEOUT)
    sent = len(ways) * (repetitions + 1)
    verified = (
        int(totals["count"].sum(dtype=np.uint64)) == count * sent
        and int(totals["total"].sum(dtype=np.uint64)) == expected * sent
    )
    return [
        Measured(
            "send_many from NumPy",
            {"bytes": 64, "memory": memory, "targets": name},
            "M/s",
            samples[way],
            count * repetitions,
            verified,
        )
        for way, name in enumerate(ways)
    ]


def start(device: str, *, quick: bool) -> list[Measured]:
    """Milliseconds from a program's text to its first answer: compiled anew, and from the cache.

    On a GPU what is compiled anew begins with its quick code, as people's programs do; what is
    cached is optimised. Importing the package is not in it, nor what is found once per process
    (compiler, headers).
    """
    cold, warm = (2, 5) if quick else (7, 20)
    on_gpu = False

    def once(value: int, variant: int, optimise: Optimise = "wait") -> tuple[float, bool]:
        nonlocal on_gpu
        program = echo_program(variant)
        begin = time.perf_counter()
        with denizen.Runtime(program, device=device, optimise=optimise) as rt:
            (echo,) = rt.spawn("Echo").tolist()
            right = int(rt.ask(echo, PING(value=value), timeout=_TIMEOUT)["value"]) == value + 1
            seconds = time.perf_counter() - begin
            on_gpu = bool(rt.description["on_gpu"])
        return 1e3 * seconds, right

    once(0, 0)  # finds the compiler
    found: dict[str, list[tuple[float, bool]]] = {"cold": [], "cached": []}
    with _empty_cache() as clear:
        for i in range(cold):
            clear()
            # A new text each time: NVRTC and the driver have caches of their own.
            found["cold"].append(once(i, time.time_ns(), "background"))
        once(0, 0)
        again: list[tuple[float, bool]] = []
        for i in range(2 * warm):  # forth and back
            (again if (i + 1) // 2 % 2 else found["cached"]).append(once(i, 0))
    compiler = "NVRTC" if on_gpu else "CPU, host compiler"
    return [
        Measured(
            "start",
            {"how": f"{compiler} {how}"},
            "ms",
            np.array([ms for ms, _ in runs]),
            len(runs),
            all(right for _, right in runs),
            arm=arm,
        )
        for how, arm, runs in (
            *((how, "", runs) for how, runs in found.items()),
            ("cached", "A/A", again),
        )
    ]


@contextmanager
def _empty_cache() -> Iterator[Callable[[], None]]:
    """A cache of compiled programs for this process alone; gives a call that empties it."""
    before = os.environ.get("DENIZEN_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        os.environ["DENIZEN_CACHE"] = str(cache)
        try:
            yield lambda: shutil.rmtree(cache, ignore_errors=True)
        finally:
            if before is None:
                del os.environ["DENIZEN_CACHE"]
            else:
                os.environ["DENIZEN_CACHE"] = before


def power(device: str, *, quick: bool) -> list[Measured]:
    """Watts of the GPU without a program, with an idle one, a parked one, and one at work.

    Nothing without a GPU whose driver tells its power. The driver's figure is a mean over about a
    second, so each state settles before it is read.
    """
    index = machine.gpu_index(device)
    gpu = None if index is None else Nvml.open(index)
    if gpu is None or gpu.read().power_w is None:
        return []
    settle, seconds = (1.5, 1.5) if quick else (2.0, 6.0)
    measured: list[Measured] = []

    def watch(state: str, busy: Callable[[], None], true_to_name: Callable[[], bool]) -> None:
        watts: list[float] = []
        right = True
        begin = time.monotonic()
        while (now := time.monotonic() - begin) < settle + seconds:  # ends by the clock
            busy()
            right &= true_to_name()
            if now >= settle and (watt := gpu.read().power_w) is not None:
                watts.append(watt)
        params: dict[str, Scalar] = {"state": state}
        measured.append(Measured("power", params, "W", np.array(watts), len(watts), right))

    def rest() -> None:
        time.sleep(0.05)

    watch("no program", rest, lambda: True)
    items = ITEM.zeros(1_000_000)
    with denizen.Runtime(sum_program(), device=device) as rt:
        if not rt.description["on_gpu"]:
            return []
        targets = np.resize(rt.spawn("Sum", rt.description["workers"]), len(items))
        watch("resident, idle", rest, lambda: not rt.parked)
        rt.park(timeout=_TIMEOUT)
        watch("parked", rest, lambda: rt.parked)
        watch("resident, at work", lambda: rt.send_many(targets, items), lambda: not rt.parked)
        rt.drain(timeout=_TIMEOUT)
    return measured


_CASES: dict[str, tuple[Callable[..., list[Measured]], ...]] = {
    "beside": (beside.loads, beside.kills, partitions.measure),
    "frameworks": (frameworks.measure,),
    "audit": (audit.measure,),
    "cluster": (cluster.measure,),
    "scale": (scale.measure,),
    "bfs": (searches.bfs,),
    "dispatch": (ask, ask_many),
    "flow": (gnuradio.chains,),
    "handlers": (handlers.measure, first.measure),
    "infer": (infer.measure,),
    "io": (io.measure,),
    "layer": (layer.measure,),
    "ring": (send_many,),
    "start": (start, power),
    "transactions": (payments.scored,),
    "adsb": (adsb.detection,),
    "dsp": (filters.streams,),
    "procmine": (logs.streamed, logs.analysed, logs.rivals),
}


def measure(
    experiment: str, device: str, *, quick: bool, beside: Sequence[Measured] = ()
) -> list[Measured]:
    """The Python cases of ``experiment`` on ``device``, none for some experiments.

    They are compared with those cases of the C++ program, ``beside``, that do the same; and those
    with what is a rival of theirs.
    """
    measured = [item for case in _CASES.get(experiment, ()) for item in case(device, quick=quick)]
    if experiment == "driver":
        measured += driver.counts(device, quick=quick, beside=beside)
        measured += doorbells.measure(device, quick=quick, beside=beside)
        measured += engines.raw(device, quick=quick, beside=beside)
        measured += observers.measure(device, quick=quick, beside=beside)
    for item in measured:
        same = _SAME.get(item.case)
        for other in beside:
            if other.case == same and not other.arm and other.params.items() <= item.params.items():
                item.ratio_base = (other.case, *other.ratio_base)
    for other in beside:
        other.ratio_base += tuple(
            item.case
            for item in measured
            if item.case in _RIVALS.get((experiment, other.case), ())
            and not other.arm
            and item.params.items() <= other.params.items()
        )
    return measured


_SAME = {
    "ask from Python": "ask",
    "send_many from NumPy": "host to device",
}
_RIVALS = {
    ("bfs", "auto"): ("SciPy", "NetworkX"),
    ("bfs", "shortest paths"): ("shortest paths, SciPy", "shortest paths, NetworkX"),
}
