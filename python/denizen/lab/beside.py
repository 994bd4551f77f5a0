# SPDX-License-Identifier: Apache-2.0
"""Programs of PyTorch that know nothing of a resident program, beside one that is full of messages.

Each runs in a process of its own, alone or after a runtime was started there, from its first call
of CUDA on: loading kernels, taking memory, waiting for the device. ``python -m denizen.lab.beside
PROGRAM [--beside]`` is that process; it prints one JSON object.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import denizen
from denizen.lab.record import LabError, Measured

_DEADLINE = 300.0
_TOKENS = 512

TOKEN = denizen.message("Token", [("left", "u4")])
STOP = denizen.message("Stop")
QUERY = denizen.message("Query")
TALLY = denizen.message("Tally", [("handled", "u8"), ("ended", "u8")])

_WALKERS = """
struct Walker {
    uint64_t handled = 0;
    uint64_t ended = 0;
    uint32_t stopped = 0;
    void on(const Token& token, auto& ctx) {
        ++handled;
        if (stopped != 0) {
            ++ended;
            return;
        }
        const auto next = (ctx.worker() + 1) % ctx.workers();
        ctx.send(denizen::Address::actor(next, ctx.self().local() % 8), token);
    }
    void on(const Stop&, auto&) { stopped = 1; }
    void on(const Query&, auto& ctx) { ctx.reply(Tally{handled, ended}); }
};
"""


def _training(torch: Any) -> list[float]:
    """Eager training with an optimizer; the loss of every step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 10)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(256, 512, device="cuda")
    labels = torch.randint(0, 10, (256,), device="cuda")
    losses = []
    for step in range(500):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            losses.append(loss.item())
    torch.cuda.synchronize()
    return losses


def _graphs(torch: Any) -> list[float]:
    """A CUDA graph, captured and replayed."""
    x = torch.linspace(0, 1, 1 << 20, device="cuda")
    y = torch.empty_like(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.mul(x, 2, out=y)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            torch.mul(x, 1.01, out=y)
            torch.add(y, 0.5, out=y)
    sums = []
    for i in range(200):
        x.add_(1e-3)
        graph.replay()
        if i % 20 == 0:
            sums.append(y.double().sum().item())
    torch.cuda.synchronize()
    return sums


def _memory(torch: Any) -> list[float]:
    """Allocations that are given back, pinned copies, and waits for the device."""
    sums = []
    for i in range(20):
        host = torch.full((1 << 20,), float(i + 1)).pin_memory()
        there = host.to("cuda", non_blocking=True)
        sums.append((there * 2).sum().item())
        del there
        torch.cuda.empty_cache()
        torch.cuda.synchronize()
    return sums


_PROGRAMS: dict[str, Callable[[Any], list[float]]] = {
    "training": _training,
    "graph": _graphs,
    "memory": _memory,
}


def _run(program: str, beside: bool) -> dict[str, Any]:
    told: dict[str, Any] = {}

    def go() -> None:
        torch = importlib.import_module("torch")
        begin = time.perf_counter()
        told["result"] = _PROGRAMS[program](torch)
        told["seconds"] = time.perf_counter() - begin

    if not beside:
        go()
        return told
    walkers = denizen.Program(
        _WALKERS, actors=["Walker"], messages=[TOKEN, STOP, QUERY, TALLY], name="walkers"
    )
    with denizen.Runtime(walkers, "gpu") as rt:
        actors = rt.spawn("Walker", _TOKENS)
        rt.send_many(actors, TOKEN.zeros(_TOKENS))
        began = time.perf_counter()
        go()
        rt.broadcast("Walker", STOP())
        rt.drain()
        flowed = time.perf_counter() - began
        tallies = rt.ask_many(actors, "Query", TALLY)
        told["messages_per_second"] = int(tallies["handled"].sum()) / flowed
        told["audited"] = int(tallies["ended"].sum()) == _TOKENS and rt.stats()["errors"] == 0
    return told


def _child(program: str, beside: bool) -> dict[str, Any]:
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        __name__,
        program,
        *(["--beside"] if beside else []),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DEADLINE, check=True
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"PyTorch's {program} did not end in {_DEADLINE:g} s") from error
    except subprocess.CalledProcessError as error:
        raise LabError(
            f"PyTorch's {program} ended with {error.returncode}: {error.stderr[-800:]}"
        ) from error
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def pytorch(device: str, *, quick: bool) -> list[Measured]:
    """Seconds of each program alone and beside; none without PyTorch and a GPU.

    Verified: the results are those it has alone, every message is accounted for, and a million of
    them were handled each second.
    """
    if importlib.util.find_spec("torch") is None or device.startswith("cpu"):
        return []
    measured = []
    for program in _PROGRAMS:
        runs = 1 if quick else 3
        alone, beside = [], []
        for _ in range(runs):
            alone.append(_child(program, beside=False))
            beside.append(_child(program, beside=True))
        right = all(
            np.allclose(one["result"], alone[0]["result"], rtol=1e-4)
            and one.get("audited", True)
            and one.get("messages_per_second", 1e6) >= 1e6
            for one in [*alone, *beside]
        )
        name = f"PyTorch, {program}"
        base = f"{name}, alone"
        for title, of, bases in ((base, alone, ()), (name, beside, (base,))):
            seconds = np.array([one["seconds"] for one in of])
            measured.append(Measured(title, {}, "s", seconds, runs, right, bases))
        rates = np.array([one["messages_per_second"] * 1e-6 for one in beside])
        measured.append(Measured(f"messages beside {name}", {}, "M/s", rates, runs, right))
    return measured


if __name__ == "__main__":
    print(json.dumps(_run(sys.argv[1], "--beside" in sys.argv[2:])))
