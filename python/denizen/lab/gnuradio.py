# SPDX-License-Identifier: Apache-2.0
"""Chains of blocks in GNU Radio 3.10, by turns with the same of the program ``bench_flow``.

GNU Radio comes as a package of the system, for the system's Python: the chains run in a process of
that one, ``/usr/bin/python3`` unless the variable DENIZEN_GNURADIO_PYTHON names another.
"""

from __future__ import annotations

import json
import os
import subprocess

import numpy as np

from denizen import terminal
from denizen.lab import programs
from denizen.lab.record import Measured

_BLOCKS = (1, 4, 12)  # as in bench_flow
_TIMEOUT = 300.0
_CASE = "chain with data"

# A source that sends the same data again and again, the blocks, and a sink that sums them, 1,024 at
# a time: each on a thread of its own, GNU Radio's buffers as it chooses them. A block multiplies by
# a constant: the nearest that GNU Radio has to a x + b in one block, and less work. The clock runs
# while samples flow, from an eighth of them on: start and stop of the graph are not in it.
_PROGRAM = """
import json, sys, time
import numpy
from gnuradio import blocks, gr
kernels, samples = map(int, sys.argv[1:])
data = 0.5 + numpy.arange(1 << 16, dtype=numpy.float32) / (1 << 16)
together = 1024
top = gr.top_block()
chain = [blocks.vector_source_f(data.tolist(), True)]
chain += [blocks.multiply_const_ff(0.5) for _ in range(kernels)]
sink = blocks.vector_sink_f()
top.connect(*chain, blocks.integrate_ff(together), sink)
def after(least):
    while sink.nitems_read(0) * together < least:
        time.sleep(0.0005)
    return sink.nitems_read(0) * together, time.perf_counter()
top.start()
first, begin = after(samples // 8)
last, end = after(first + samples)
top.stop()
top.wait()
period = len(data) // together
sums = numpy.array(sink.data(), dtype=numpy.float64)
sums = sums[: len(sums) // period * period]
expected = 0.5**kernels * float(data.mean()) * together
right = len(sums) > 0 and abs(sums.mean() / expected - 1) < 1e-3
print(json.dumps({
    "rate": (last - first) / (end - begin) * 1e-6, "right": bool(right), "version": gr.version()
}))
"""


def _theirs(python: str, blocks: int, samples: int) -> dict[str, object]:
    done = subprocess.run(
        [python, "-c", _PROGRAM, str(blocks), str(samples)],
        capture_output=True,
        timeout=_TIMEOUT,
        check=True,
        text=True,
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def _ours(*, quick: bool) -> list[Measured]:
    """One turn of each chain."""
    more = ["--quick"] if quick else []
    command = [str(programs.find("flow")), "--device", "cpu", *more, "--chains-with-data"]
    return programs.run(command, _TIMEOUT)[1]


def chains(_device: str, *, quick: bool) -> list[Measured]:
    """Million samples per second through chains of blocks, ours twice (A/A) and GNU Radio's, by
    turns; nothing where GNU Radio is missing."""
    python = os.environ.get("DENIZEN_GNURADIO_PYTHON", "/usr/bin/python3")
    samples, rounds = (1 << 22, 3) if quick else (1 << 26, 11)
    rates: dict[tuple[str, int], list[float]] = {
        (arm, blocks): [] for arm in ("", "A/A", "GNU Radio") for blocks in _BLOCKS
    }
    right = dict.fromkeys(_BLOCKS, True)
    theirs_right = dict.fromkeys(_BLOCKS, True)
    version = ""
    try:
        version = str(_theirs(python, 1, 1 << 20)["version"])  # and its files are read
        for number in range(rounds):
            order = ("", "GNU Radio", "A/A")
            for arm in order if number % 2 == 0 else reversed(order):
                if arm == "GNU Radio":
                    for blocks in _BLOCKS:
                        found = _theirs(python, blocks, samples // blocks)
                        rates[arm, blocks].append(float(str(found["rate"])))
                        theirs_right[blocks] &= bool(found["right"])
                    continue
                for one in _ours(quick=quick):
                    blocks = int(one.params["blocks"])
                    rates[arm, blocks].extend(one.samples.tolist())
                    right[blocks] &= one.verified
    except FileNotFoundError:
        terminal.error(f"no arm of GNU Radio: there is no {python}")
        return []
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or ["it failed"])[-1]
        terminal.error(f"no arm of GNU Radio (Debian: gnuradio): {python}: {why}")
        return []
    measured = []
    for (arm, blocks), found_rates in rates.items():
        theirs = arm == "GNU Radio"
        measured.append(
            Measured(
                f"{_CASE}, GNU Radio" if theirs else _CASE,
                {"blocks": blocks, "version": version} if theirs else {"blocks": blocks},
                "Msps",
                np.array(found_rates),
                rounds,
                theirs_right[blocks] if theirs else right[blocks],
                (_CASE,) if theirs else (),
                "" if theirs else arm,
                rounds=rounds,
            )
        )
    return measured
