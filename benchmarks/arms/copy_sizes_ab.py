# SPDX-License-Identifier: Apache-2.0
"""Asynchronous copies by size, and what launching early does: 256 KiB to 16 MiB by powers of two.

    denizen ab run benchmarks/arms/copy_sizes_ab.py --json sizes.json     # some 4 minutes

The arms are kernels of allreduce_ab.py's program with all multiprocessors, each size in a resident
kernel, launched alone, and in a graph. Launched alone, three of them run once more by programmatic
dependent launch (PDL): the next kernel may begin before the last has ended, and counts how often it
did. Expected: no copy is faster than the plain loads from 1 MiB on, and PDL takes off what a launch
costs, which a graph and a resident kernel do not have to pay.
"""

import runpy
from pathlib import Path

from denizen import ab

ARMS = runpy.run_path(str(Path(__file__).with_name("allreduce_ab.py")), run_name="arms")
KIB = 1024
ONLY = {
    "pull_load1", "pull_load4", "pull_async2", "pull_async4", "pull_bulk",
    "push_store", "push_bulk", "push2_store", "control_twice",
}  # fmt: skip
EARLY = {"pull_load4", "pull_bulk", "push_store"}
MODES = ("resident", "alone", "graph")


def cell(params):
    return ARMS["cell"](params, only=ONLY, early=EARLY if params["mode"] == "alone" else ())


sizes = ab.Experiment(
    name="all-reduce, copies by size",
    cell=cell,
    base="pull_load4",
    control="control_twice",
    sweep=[
        {"mode": mode, "blocks": 132, "bytes": 256 * KIB << power}
        for mode in MODES
        for power in range(7)
    ],
    blocks=5,
    processes=5,
    margin=0.05,
    deadline=240,
)
