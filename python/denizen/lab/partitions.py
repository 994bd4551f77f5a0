# SPDX-License-Identifier: Apache-2.0
"""Two programs on one GPU: what a busy neighbour costs the one that is measured, with partitions of
SMs and without.

Both are started anew for each arm. Of the one round trips are measured, then messages between
random actors; the other's actors hand messages on all the time, and each of these is accounted for.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import denizen
from denizen import _core, terminal
from denizen.device import parse_device
from denizen.lab import handlers
from denizen.lab.record import Measured

log = logging.getLogger(__name__)

_ALONE = "alone"


@dataclass
class _Arm:
    name: str
    options: Mapping[str, Any]
    neighbour: Mapping[str, Any] | None = None  # its options, if there is one
    again: bool = False
    trips: list[NDArray[np.float64]] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    right: bool = True


def measure(device: str, *, quick: bool) -> list[Measured]:
    """Round trips in microseconds and messages in M/s, of a program on two fifths of the SMs: two
    partitions are to fit beside each other, and the driver keeps some SMs out of them."""
    where = parse_device(device)
    if not where.on_gpu:
        return []
    *_, all_sms, _ = _core.gpu_info(where.first)
    sms = all_sms * 2 // 5 // 16 * 16
    try:
        denizen.Runtime(handlers.as_text(), device, partition=sms).close()
    except denizen.DeviceError as error:
        terminal.error(f"programs in partitions are not measured: {error}")
        return []
    log.info("programs in partitions")
    return by_turns(device, sms, all_sms, rounds=2 if quick else 8, steps=5_000)


def by_turns(device: str, sms: int, all_sms: int, *, rounds: int, steps: int) -> list[Measured]:
    """A thousand round trips in each round, and three walks in which messages make ``steps``."""
    some, own = {"sms": sms}, {"partition": sms}
    arms = [
        _Arm(_ALONE, some),
        _Arm("alone, in a partition", own),
        _Arm("beside a busy program", some, some),
        _Arm("beside a busy program, in partitions", own, own),
        _Arm("beside a busy program on every SM", some, {"sms": all_sms}),
        _Arm(_ALONE, some, again=True),
    ]
    for i in range(rounds):
        for arm in arms if i % 2 == 0 else reversed(arms):
            _measure(arm, device, steps)
    return [one for arm in arms for one in _measured(arm, sms, rounds)]


def _measure(arm: _Arm, device: str, steps: int) -> None:
    program = handlers.as_text()
    with contextlib.ExitStack() as stack:
        if arm.neighbour is not None:
            other = stack.enter_context(denizen.Runtime(program, device, **arm.neighbour))
            stack.enter_context(_busy(other, arm, steps))
        rt = stack.enter_context(denizen.Runtime(program, device, **arm.options))
        walkers = rt.spawn("Walker", handlers.EACH * rt.description["workers"])
        arm.right &= handlers.time_asks(rt, int(walkers[0]), arm.trips)
        arm.right &= handlers.time_walks(rt, walkers, arm.rates, steps)


@contextlib.contextmanager
def _busy(rt: denizen.Runtime, arm: _Arm, steps: int) -> Iterator[None]:
    """Its actors hand messages on meanwhile; the arm is wrong if one was lost or came twice."""
    workers = rt.description["workers"]
    walkers = rt.spawn("Walker", handlers.EACH * workers)
    hops = handlers.tokens(workers, steps)
    ending = threading.Event()

    def walk() -> int:
        times = 0
        while not ending.is_set():
            rt.send_many(walkers[: hops.size], hops)
            rt.drain(timeout=handlers.TIMEOUT)
            times += 1
        return times

    with ThreadPoolExecutor(1) as pool:
        times = pool.submit(walk)
        try:
            yield
        finally:
            ending.set()
    counts = rt.ask_many(walkers, "Ask", handlers.Count, timeout=handlers.TIMEOUT)["hops"]
    arm.right &= int(counts.sum()) == steps * hops.size * times.result()


def _measured(arm: _Arm, sms: int, rounds: int) -> Iterator[Measured]:
    for case, unit, samples in (
        ("ask", "us", np.concatenate(arm.trips)),
        ("messages", "M/s", np.array(arm.rates)),
    ):
        yield Measured(
            f"two programs: {case}, {arm.name}",
            {"sms": sms},
            unit,
            samples,
            samples.size,
            arm.right,
            () if arm.name == _ALONE else (f"two programs: {case}, {_ALONE}",),
            "A/A" if arm.again else "",
            rounds=rounds,
        )
