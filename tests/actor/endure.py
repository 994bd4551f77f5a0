#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults at random moments under load, or a long run; every message is accounted for.

    python tests/actor/endure.py faults --device gpu --count 100 --seconds 190 --out faults.json
    python tests/actor/endure.py soak --device gpu --seconds 190 --out soak.json

``faults``: a process with the audit's walkers (denizen.lab.audit) is killed; stopped for a while;
another kernel of it traps; or its device memory is taken. Each ends in a named error or in going
on with every message accounted for, and afterwards a new process has the device. A launch that
fails is simulated (tests/simulation). Exit status 1 if something does not hold.
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
from pathlib import Path
from typing import Any

import numpy as np

import denizen
from denizen.errors import DenizenError
from denizen.lab import audit

PATIENCE = 30.0  # seconds for an answer of the process under load
# Traps: the context is unusable from then on.
PTX = b""".version 7.0
.target sm_80
.address_size 64
.visible .entry end() { trap; }
"""


class Load:
    """In the process under load: a program, and what is done to it."""

    def __init__(self, device: str) -> None:
        self.rt = denizen.Runtime(audit._program(), device, state_bytes=256 << 20)
        count = min(audit._EACH * self.rt.description["workers"], audit._MOST)
        self.actors = np.sort(self.rt.spawn("Walker", count))
        begins = audit.BEGIN.zeros(count * audit._TOKENS)
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


def under_load(device: str) -> int:
    """Does what stdin says, a word a line, and answers each by a line."""
    try:
        load = Load(device)
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
    def __init__(self, device: str) -> None:
        command = [sys.executable, __file__, "load", "--device", device]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.first = self.answer()

    def tell(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """{} if the process has ended without a word."""
        assert self.process.stdout is not None
        late = threading.Timer(4 * PATIENCE, self.process.kill)
        late.start()
        line = self.process.stdout.readline()
        late.cancel()
        return json.loads(line) if line else {}

    def accounts(self) -> str:
        """What is wrong: nothing, it is hoped."""
        self.tell("account")
        told = self.answer().get("account")
        self.process.wait(PATIENCE)
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
        child.process.wait(PATIENCE)
        return "" if named else f"no named error: {answer}"
    return child.accounts() if kind in answer else f"no answer: {answer}"


def faults(device: str, count: int, seconds: float, seed: int) -> dict[str, Any]:
    kinds = ["kill", "stop"] if device.startswith("cpu") else ["kill", "stop", "trap", "memory"]
    draw = random.Random(seed)
    done: Counter[str] = Counter()
    wrong: list[str] = []
    begin = time.monotonic()
    child = Child(device)
    while sum(done.values()) < count and time.monotonic() - begin < seconds:
        kind = draw.choice(kinds)
        if "running" not in child.first:
            wrong.append(f"a new process does not have the device: {child.first}")
            break
        if why := one_fault(kind, child, draw):
            wrong.append(f"{kind}: {why}")
        child.process.kill()
        child.process.wait(PATIENCE)
        done[kind] += 1
        child = Child(device)  # the device is free
    last = child.accounts() if "running" in child.first else "the device is not free"
    if last:
        wrong.append(last)
    return {"seed": seed, "faults": dict(done), "wrong": wrong}


def soak(device: str, seconds: float) -> dict[str, Any]:
    rows = {row.case: row for row in audit.measure(device, quick=True, seconds=seconds)}
    messages = int(rows["messages"].n)
    bad = {case: float(rows[case].samples[0]) for case in ("lost", "doubled or overtaken")}
    right = all(row.verified for row in rows.values())
    wrong = [] if right else [f"not verified: {bad}"]
    return {"messages": messages, "seconds": seconds, **bad, "wrong": wrong}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["faults", "soak", "load"])
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--count", type=int, default=100, help="faults at most")
    parser.add_argument("--seconds", type=float, default=190.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="the record")
    given = parser.parse_args()
    if given.what == "load":
        return under_load(given.device)
    if given.what == "faults":
        record = faults(given.device, given.count, given.seconds, given.seed)
    else:
        record = soak(given.device, given.seconds)
    record = {"what": given.what, "device": given.device, "version": denizen.__version__, **record}
    text = json.dumps(record, indent=2)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")
    return 1 if record["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
