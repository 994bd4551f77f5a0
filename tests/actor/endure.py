#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults at random moments under load, or a long run; every message is accounted for.

    python tests/actor/endure.py faults --device gpu --count 100 --seconds 190 --out faults.json
    python tests/actor/endure.py soak --device gpu --seconds 190 --out soak.json
    python tests/actor/endure.py soak --device gpu:0-1 --seconds 190 --out soak2.json
    python tests/actor/endure.py table faults.json soak.json soak2.json

``faults``: a process with the audit's walkers (denizen.lab.audit) is killed; stopped for a while;
another kernel of it traps; or its device memory is taken. Each ends in a named error or in going
on with every message accounted for, and afterwards a new process has the device. A launch that
fails is simulated (tests/simulation). ``soak``: as many walkers as there is room for, on several
GPUs if the device names them; a host thread asks meanwhile. ``table`` prints records as Markdown.

A record is there from the start, whatever ends the run. Exit status 1 if something does not hold.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import denizen
from denizen.device import parse_device
from denizen.errors import ArgumentError, DenizenError
from denizen.lab import audit

PATIENCE = 30.0  # seconds for an answer of the process under load
GRACE = 5.0  # seconds for an answer once the time of the run is over
# Traps: the context is unusable from then on.
PTX = b""".version 7.0
.target sm_80
.address_size 64
.visible .entry end() { trap; }
"""


class Load:
    """In the process under load: a program, and what is done to it."""

    def __init__(self, device: str, workers: int | None, tokens: int) -> None:
        self.nodes = parse_device(device).nodes
        self.rt = denizen.Runtime(
            audit._program(self.nodes), device, workers=workers, state_bytes=256 << 20
        )
        self.workers = self.rt.description["workers"]
        count = audit._EACH * self.workers * self.nodes
        if count > audit._MOST:
            self.rt.close()
            raise ArgumentError(f"{count} actors; the audit has room for {audit._MOST}: --workers")
        self.actors = np.sort(self.rt.spawn("Walker", count))
        begins = audit.BEGIN.zeros(count * tokens)
        begins["index"] = np.resize(np.arange(count), begins.size)
        self.tokens = begins.size
        self.rt.send_many(np.resize(self.actors, begins.size), begins)

    def ask(self) -> int:
        return int(self.rt.ask(int(self.actors[0]), audit.QUERY(0), timeout=PATIENCE)["handled"])

    def account(self) -> dict[str, int]:
        self.rt.broadcast("Walker", audit.STOP())
        self.rt.drain()
        queries = audit.QUERY.zeros(len(self.actors))
        queries["index"] = np.arange(len(self.actors))
        told = self.rt.ask_many(self.actors, queries, audit.TALLY)
        self.rt.close()
        sent, handled = int(told["sent"].sum()), int(told["handled"].sum())
        missing = sent - handled + self.tokens - int(told["ended"].sum())
        return {"handled": handled, "missing": missing, "wrong": int(told["wrong"].sum())}

    def trap(self) -> None:
        cu = ctypes.CDLL("libcuda.so.1")
        context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        cu.cuCtxSetCurrent(context)
        for status in (
            cu.cuModuleLoadData(ctypes.byref(module), PTX),
            cu.cuModuleGetFunction(ctypes.byref(function), module, b"end"),
            cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None),
        ):
            if status != 0:
                raise SystemExit(f"the trap could not be launched: CUDA error {status}")
        for _ in range(1000):  # ends: a call fails, with its name
            self.ask()
            time.sleep(0.01)

    def memory(self) -> None:
        """Takes what device memory there is, and asks for more of it in vain."""
        cu = ctypes.CDLL("libcuda.so.1")
        context, taken = ctypes.c_void_p(), []
        cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        cu.cuCtxSetCurrent(context)
        size = 1 << 34
        while size >= 1 << 20:  # ends: the pieces get smaller
            at = ctypes.c_uint64()
            if cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)) == 0:
                taken.append(at)
            else:
                size //= 2
        try:
            with denizen.Runtime(audit._program(), "gpu", state_bytes=256 << 20):
                raise SystemExit("a second program has found memory where there is none")
        except DenizenError as error:
            if not str(error):
                raise SystemExit("the error has no text") from error
        for at in taken:
            cu.cuMemFree_v2(at)
        self.ask()


def loaded(device: str, workers: int | None = None, tokens: int = audit._TOKENS) -> Load:
    """On a GPU with as many workers as the audit has room for, or half where they do not fit."""
    if workers is not None or device.startswith("cpu"):
        return Load(device, workers, tokens)
    most = audit._MOST // audit._EACH // parse_device(device).nodes
    try:
        return Load(device, most, tokens)
    except DenizenError as error:
        print(f"{most} workers: {error}", file=sys.stderr)
    return Load(device, most // 2, tokens)


def under_load(device: str) -> int:
    """Does what stdin says, a word a line, and answers each by a line."""
    try:
        sys.stdin.readline()  # until the device is free
        load = loaded(device)
        print(json.dumps({"running": load.ask()}), flush=True)
        for line in sys.stdin:
            what = line.strip()
            answer = getattr(load, what)()
            print(json.dumps({what: answer}), flush=True)
            if what == "account":
                return 0
    except DenizenError as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error)}), flush=True)
        return 3
    return 0


class Child:
    """A process that has what it needs but the device, until begin()."""

    def __init__(self, device: str, end: float) -> None:
        command = [sys.executable, __file__, "load", "--device", device]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._end = end

    def begin(self) -> str:
        """Why it does not run: because nothing, it is hoped."""
        self.tell("begin")
        first = self.answer()
        return "" if "running" in first else f"a new process does not have the device: {first}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def tell(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """{} if the process has ended without a word."""
        assert self.process.stdout is not None
        left = max(self._end - time.monotonic(), 0.0) + GRACE
        late = threading.Timer(min(4 * PATIENCE, left), self.process.kill)
        late.start()
        line = self.process.stdout.readline()
        late.cancel()
        return json.loads(line) if line else {}

    def accounts(self) -> str:
        """What is wrong: nothing, it is hoped."""
        self.tell("account")
        told = self.answer().get("account")
        self.kill()
        if told is None:
            return "the program did not go on"
        return "" if told["missing"] == told["wrong"] == 0 else f"messages are missing: {told}"


def one_fault(kind: str, child: Child, draw: random.Random) -> str:
    time.sleep(draw.random() * 0.3)
    if kind == "kill":
        child.process.kill()
        child.process.wait(PATIENCE)
        return ""
    if kind == "stop":
        child.process.send_signal(signal.SIGSTOP)
        time.sleep(draw.choice((0.05, 0.5, 2.0)))
        child.process.send_signal(signal.SIGCONT)
        return child.accounts()
    child.tell(kind)
    answer = child.answer()
    if kind == "trap":
        named = bool(answer.get("error")) and bool(answer.get("text"))
        return "" if named else f"no named error: {answer}"
    return child.accounts() if kind in answer else f"no answer: {answer}"


Record = dict[str, Any]


def faults(
    device: str,
    count: int,
    seconds: float,
    seed: int,
    keep: Callable[[Record], None] = lambda _: None,
) -> Record:
    """``keep`` gets the record as it is after each fault."""
    kinds = ["kill", "stop"] if device.startswith("cpu") else ["kill", "stop", "trap", "memory"]
    draw = random.Random(seed)
    done: Counter[str] = Counter()
    wrong: list[str] = []
    begin = time.monotonic()
    end = begin + seconds
    child, spare = Child(device, end), Child(device, end)
    try:
        while not (why := child.begin()):
            if sum(done.values()) >= count or time.monotonic() > end:
                why = child.accounts()  # the last one goes on to its end
                break
            kind = draw.choice(kinds)
            done[kind] += 1
            if why := one_fault(kind, child, draw):
                wrong.append(f"{kind}: {why}")
            child.kill()
            child, spare = spare, Child(device, end)  # the device is free
            keep({"seed": seed, "faults": dict(done), "wrong": wrong})
        if why:
            wrong.append(why)
    finally:
        child.kill()
        spare.kill()
    took = round(time.monotonic() - begin, 1)
    return {"seed": seed, "faults": dict(done), "seconds": took, "wrong": wrong}


def soak(
    device: str,
    seconds: float,
    *,
    workers: int | None = None,
    tokens: int = 32,
    keep: Callable[[Record], None] = lambda _: None,
) -> Record:
    """``tokens`` of each actor are under way. ``keep`` gets the record once a second."""
    load = loaded(device, workers, tokens)
    record: Record = {
        "nodes": load.nodes,
        "workers": load.workers,
        "tokens": load.tokens,
        "asks": 0,
    }
    begin = time.monotonic()
    at = begin
    while time.monotonic() - begin < seconds:
        load.ask()
        record["asks"] += 1
        time.sleep(0.01)
        if time.monotonic() - at > 1.0:
            at = time.monotonic()
            record["messages"] = int(load.rt.stats()["handled"])
            keep({**record, "seconds": round(at - begin, 1), "wrong": ["it has not ended"]})
    took = round(time.monotonic() - begin, 1)
    told = load.account()
    wrong = [] if told["missing"] == told["wrong"] == 0 else [f"messages are missing: {told}"]
    bad = {"lost": told["missing"], "doubled or overtaken": told["wrong"]}
    return {**record, "messages": told["handled"], "seconds": took, **bad, "wrong": wrong}


def table(paths: Sequence[Path]) -> str:
    """The records as Markdown."""
    lines = ["| run | seconds | what | wrong |", "|---|---|---|---|"]
    for path in paths:
        one = json.loads(path.read_text())
        where = f"{one['what']}, {one['device']}"
        if one["what"] == "faults":
            done = one["faults"]
            what = f"{sum(done.values())} faults: " + ", ".join(f"{n} {k}" for k, n in done.items())
        else:
            what = (
                f"{one['messages']:,} messages ({one['workers']} workers, "
                f"{one['tokens']:,} under way): {one['lost']} lost, {one['doubled or overtaken']} "
                f"doubled or overtaken; {one['asks']:,} asks answered"
            )
        lines.append(f"| {where} | {one['seconds']} | {what} | {len(one['wrong'])} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["faults", "soak", "load", "table"])
    parser.add_argument("records", nargs="*", type=Path, help="of table")
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--workers", type=int, help="of soak, on each node")
    parser.add_argument("--tokens", type=int, default=32, help="of soak, for each actor")
    parser.add_argument("--count", type=int, default=100, help="faults at most")
    parser.add_argument("--seconds", type=float, default=190.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="the record")
    given = parser.parse_args()
    if given.what == "load":
        return under_load(given.device)
    if given.what == "table":
        print(table(given.records))
        return 0
    record: Record = {"what": given.what, "device": given.device, "version": denizen.__version__}

    def keep(found: Record) -> None:
        record.update(found)
        if given.out:
            given.out.write_text(json.dumps(record, indent=2) + "\n")

    try:
        if given.what == "faults":
            keep(faults(given.device, given.count, given.seconds, given.seed, keep))
        else:
            sizes = {"workers": given.workers, "tokens": given.tokens}
            keep(soak(given.device, given.seconds, keep=keep, **sizes))
    except BaseException as error:
        keep({"wrong": [*record.get("wrong", []), f"{type(error).__name__}: {error}"]})
        if not isinstance(error, DenizenError | OSError | subprocess.SubprocessError):
            raise
    print(json.dumps(record, indent=2))
    return 1 if record["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
