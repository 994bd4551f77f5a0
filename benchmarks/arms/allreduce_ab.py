# SPDX-License-Identifier: Apache-2.0
"""Does asynchronous copy help an all-reduce, where, and why?

    denizen ab run benchmarks/arms/allreduce_ab.py --json allreduce.json

Ways of getting a peer's vectors, in the plainest all-reduce that they fit in, on GPUs 0 and 1:
loads with 1, 2, 4 in flight per thread, cp.async with 2, 3, 4 stages, bulk copies on mbarriers,
stores and bulk stores to the peer, packets; in one stage and in two. Expected: with all
multiprocessors no difference, since plain loads keep bandwidth x latency (about 415 KB) in flight
by themselves; with 8 or 16, which would have to hold 26 to 52 KB each, asynchronous copies win.

DENIZEN_DEVICES=0,1 names the ranks' GPUs; the same one twice checks results, but measures nothing.
"""

import functools
import json
import os
import subprocess
from dataclasses import replace

import numpy as np

from denizen import ab
from denizen.lab import programs
from denizen.lab.record import LabError
from denizen.nvml import Nvml

DEVICES = [int(device) for device in os.environ.get("DENIZEN_DEVICES", "0,1").split(",")]
RANKS = len(DEVICES)
KIB = 1024
LARGE = 1024 * KIB  # from here on a copy is bound by bandwidth, not by latency
MOST_BY_PACKETS = 256 * KIB

# Arms by the instruction that they must consist of.
ONE_STAGE = {
    "pull_load1": (), "pull_load2": (), "pull_load4": (),
    "pull_async2": ("LDGSTS",), "pull_async3": ("LDGSTS",), "pull_async4": ("LDGSTS",),
    "pull_bulk": ("UBLKCP",), "push_store": (), "push_bulk": ("UBLKCP",),
    "packets_once": (), "control_twice": (),
}  # fmt: skip
TWO_STAGES = {
    "pull2_load1": (), "pull2_load2": (), "pull2_load4": (),
    "pull2_async2": ("LDGSTS",), "pull2_async3": ("LDGSTS",), "pull2_async4": ("LDGSTS",),
    "pull2_bulk": ("UBLKCP",), "push2_store": (), "push2_bulk": ("UBLKCP",),
    "packets_twice": (),
}  # fmt: skip


def received(name, size):
    """Bytes that come to a rank by one operation of arm ``name`` on ``size`` bytes."""
    others = RANKS - 1
    data = size * others if name in ONE_STAGE else 2 * size * others / RANKS
    return data * (2 if name.startswith("packets") or name == "control_twice" else 1)


@functools.cache
def program():
    try:
        return str(programs.find_program("allreduce_arms"))
    except LabError as error:
        raise ab.ExperimentError(f"{error}; it is built with CUDA alone") from error


def options():
    return ["--devices", ",".join(map(str, DEVICES))]


@functools.cache
def limit():
    """Bytes a second of a large copy from GPU to GPU, once per process."""
    done = subprocess.run(
        [program(), "--limit", *options()], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        raise ab.ExperimentError(done.stderr.strip())
    return float(json.loads(done.stdout)["limit"])


@functools.cache
def counter():
    """What counts the bytes that GPU DEVICES[0] gets by NVLink; None if nothing does."""
    gpu = Nvml.open(DEVICES[0]) if len(set(DEVICES)) == RANKS else None
    return None if gpu is None or gpu.nvlink_received() is None else gpu.nvlink_received


def cell(params):
    size = params["bytes"]
    served = ab.Program([program(), *options()], params)
    names = {**ONE_STAGE, **TWO_STAGES}
    arms = []
    for name, instructions in names.items():
        if name.startswith("packets") and size > MOST_BY_PACKETS:
            continue
        arm = served.arm(
            name,
            bytes=received(name, size),
            kernel=ab.Kernel(program(), name, instructions),
        )
        arms.append(replace(arm, moved=counter()))
    sums = np.arange(size // 4) % 1000 * float(sum(range(1, RANKS + 1)))
    apart = len(set(DEVICES)) == RANKS
    return ab.Cell(arms, np.tile(sums, RANKS), limit() if apart and size >= LARGE else None)


SIZES = [KIB, 8 * KIB, 64 * KIB, 256 * KIB, LARGE, 4 * LARGE, 16 * LARGE]

allreduce = ab.Experiment(
    name="all-reduce, ways to copy",
    cell=cell,
    base="pull_load4",
    control="control_twice",
    sweep=[
        *({"mode": "resident", "blocks": blocks, "bytes": size}
          for blocks in (8, 16, 32, 132) for size in SIZES),
        {"mode": "resident", "blocks": 132, "bytes": 64 * LARGE},  # checked longer than measured
        *({"mode": mode, "blocks": blocks, "bytes": size}
          for mode in ("alone", "graph") for blocks in (16, 132)
          for size in (64 * KIB, 16 * LARGE)),
    ],
    blocks=10,
    processes=2,
    margin=0.05,
)  # fmt: skip
