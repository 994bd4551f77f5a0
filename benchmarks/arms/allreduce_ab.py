# SPDX-License-Identifier: Apache-2.0
"""Does asynchronous copy help an all-reduce, where, and why?

    denizen ab run benchmarks/arms/allreduce_ab.py --json allreduce.json     # some 4 minutes

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
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from denizen import ab
from denizen.ab.gates import BYTES_WITHIN
from denizen.lab import programs
from denizen.lab.record import LabError
from denizen.nvml import Nvml

DEVICES = [int(device) for device in os.environ.get("DENIZEN_DEVICES", "0,1").split(",")]
RANKS = len(DEVICES)
KIB = 1024
LARGE = 1024 * KIB  # from here on a copy is bound by bandwidth, not by latency
MOST_BY_PACKETS = 256 * KIB

# What the poorest arm keeps in flight: of each of a block's 512 threads one vector of 16 bytes. A
# load from a peer takes more than 1 us, so 8 blocks can reach no more than a sixth of the link, and
# a link that works is no broken transport for that.
IN_FLIGHT = 512 * 16
LOAD = 1e-6
# Flags of barriers, a granule of the link each, are in no arm's predicted bytes.
BARRIERS = 2
GRANULE = 32

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


STARTED: list[ab.Program] = []


def served(params):
    """The program with these parameters. It starts once per process: that takes a second or two."""
    if STARTED:
        STARTED[0].take(params)
    else:
        STARTED.append(ab.Program([program(), *options()], params))
    return STARTED[0]


@functools.cache
def link():
    """(bytes a second of large copies from GPU to GPU, counter of bytes), once per process.

    The counter is NVML's of what GPU DEVICES[0] gets by NVLink. None if it misses the copies: some
    virtual machines hide it. Cells whose bytes have to be counted are void then.
    """
    gpu = Nvml.open(DEVICES[0])
    before = None if gpu is None else gpu.nvlink_received()
    done = subprocess.run(
        [program(), "--limit", *options()], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        raise ab.ExperimentError(done.stderr.strip())
    found = json.loads(done.stdout)
    if gpu is None or before is None:
        return found["limit"], None
    counted = gpu.nvlink_received() - before
    if abs(counted - found["bytes"]) > BYTES_WITHIN * found["bytes"]:
        told = f"NVML counted {counted:.4g} of {found['bytes']:.4g} B copied: it is no counter"
        print(told, file=sys.stderr)
        return found["limit"], None
    return found["limit"], gpu.nvlink_received


def cell(params, only=None, early=()):
    """All arms, or ``only`` these; ``early`` ones once more, by programmatic dependent launch."""
    size, blocks = params["bytes"], params["blocks"]
    program_of_cell = served(params)
    limit, counter = link() if len(set(DEVICES)) == RANKS else (None, None)
    # In small ones flags would be half of what the gate allows, or more.
    counted = len(set(DEVICES)) == RANKS and size >= (
        2 * BARRIERS * blocks * GRANULE / BYTES_WITHIN
    )
    arms = []
    for name, instructions in {**ONE_STAGE, **TWO_STAGES}.items():
        if only is not None and name not in only:
            continue
        if name.startswith("packets") and size > MOST_BY_PACKETS:
            continue
        kernel = ab.Kernel(Path(program()), name, instructions)
        # The early one is the same kernel, which is why it has no proof by its code.
        for called, proof in ((name, kernel), (f"{name}+pdl", None))[: 1 + (name in early)]:
            arm = program_of_cell.arm(called, bytes=received(name, size), kernel=proof)
            arms.append(replace(arm, moved=counter if counted else None, counted=counted))
    sums = np.arange(size // 4) % 1000 * float(sum(range(1, RANKS + 1)))
    reachable = None if limit is None or size < LARGE else min(limit, blocks * IN_FLIGHT / LOAD)
    return ab.Cell(arms, np.tile(sums, RANKS), reachable)


allreduce = ab.Experiment(
    name="all-reduce, ways to copy",
    cell=cell,
    base="pull_load4",
    control="control_twice",
    # A claim must hold among all of the sweep's (Holm), which are 411: that
    # takes 20 blocks and more, and five processes, whose medians must agree (Student). What a cell
    # costs is the checks of its results as much as its slots, so few are large.
    sweep=[
        *({"mode": "resident", "blocks": blocks, "bytes": size}
          for blocks in (8, 16, 32, 132) for size in (256 * KIB, LARGE, 4 * LARGE)),
        *({"mode": "resident", "blocks": blocks, "bytes": size}
          for blocks in (8, 132) for size in (KIB, 64 * KIB)),
        {"mode": "resident", "blocks": 132, "bytes": 64 * LARGE},
        *({"mode": mode, "blocks": blocks, "bytes": size}
          for mode in ("alone", "graph")
          for blocks, size in ((132, 64 * KIB), (16, 4 * LARGE), (132, 4 * LARGE))),
    ],
    blocks=5,
    processes=5,
    margin=0.05,
    deadline=150,
)  # fmt: skip
