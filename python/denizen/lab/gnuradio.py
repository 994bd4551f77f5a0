# SPDX-License-Identifier: Apache-2.0
"""Chains of blocks in GNU Radio 3.10, beside those of the program ``bench_flow``.

GNU Radio comes as a package of the system, for the system's Python: the chains run in a process of
that one, ``/usr/bin/python3`` unless the variable DENIZEN_GNURADIO_PYTHON names another.
"""

from __future__ import annotations

import json
import os
import subprocess

import numpy as np

from denizen import terminal
from denizen.lab.record import Measured

_BLOCKS = (1, 4, 12)  # as in bench_flow
_TIMEOUT = 300.0

# A source, a head that counts, the blocks and a sink, each on a thread of its own, GNU Radio's
# buffers as it chooses them. A block multiplies by a constant: the nearest that GNU Radio has to
# a x + b in one block, and less work.
_PROGRAM = """
import json, sys, time
from gnuradio import blocks, gr
kernels, samples, rounds = map(int, sys.argv[1:])
rates, right = [], True
for turn in range(rounds + 1):
    top = gr.top_block()
    chain = [blocks.null_source(gr.sizeof_float), blocks.head(gr.sizeof_float, samples)]
    chain += [blocks.multiply_const_ff(0.5) for _ in range(kernels)]
    sink = blocks.null_sink(gr.sizeof_float)
    top.connect(*chain, sink)
    begin = time.perf_counter()
    top.run()
    seconds = time.perf_counter() - begin
    right = right and sink.nitems_read(0) == samples
    if turn > 0:
        rates.append(samples / seconds * 1e-6)
print(json.dumps({"rates": rates, "right": right, "version": gr.version()}))
"""


def _run(python: str, blocks: int, samples: int, rounds: int) -> dict[str, object]:
    done = subprocess.run(
        [python, "-c", _PROGRAM, str(blocks), str(samples), str(rounds)],
        capture_output=True,
        timeout=_TIMEOUT,
        check=True,
        text=True,
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def chains(_device: str, *, quick: bool) -> list[Measured]:
    """Million samples per second through chains of blocks; nothing where GNU Radio is missing."""
    python = os.environ.get("DENIZEN_GNURADIO_PYTHON", "/usr/bin/python3")
    samples, rounds = (1 << 22, 3) if quick else (1 << 26, 11)
    measured = []
    for blocks in _BLOCKS:
        try:
            found = _run(python, blocks, samples // blocks, rounds)
        except FileNotFoundError:
            terminal.error(f"no arm of GNU Radio: there is no {python}")
            return []
        except subprocess.CalledProcessError as error:
            why = (error.stderr.strip().splitlines() or ["it failed"])[-1]
            terminal.error(f"no arm of GNU Radio (Debian: gnuradio): {python}: {why}")
            return []
        measured.append(
            Measured(
                "chain of saxpy, GNU Radio",
                {"blocks": blocks, "version": str(found["version"])},
                "Msps",
                np.array(found["rates"]),
                rounds,
                bool(found["right"]),
            )
        )
    return measured
