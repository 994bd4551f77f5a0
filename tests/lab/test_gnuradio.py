# SPDX-License-Identifier: Apache-2.0
"""The arm of GNU Radio runs where that is, says why it does not elsewhere, and is compared."""

import sys

import numpy as np
import pytest

from denizen.lab import cases, gnuradio
from denizen.lab.record import Measured, rows_of


def interpreter(folder, text):
    path = folder / "python3"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


# GNU Radio's classes as far as a chain needs them. The clock stands still but for a run, of half a
# second; every block hands on what it gets, and the last of them, in the broken one, not all.
FAKE = """
import sys, time, types
class Clock:
    now = 0.0
time.perf_counter = lambda: Clock.now
class Block:
    def __init__(self, *arguments):
        self.arguments = arguments
    def through(self, samples):
        return samples
class Head(Block):
    def through(self, samples):
        return min(samples, self.arguments[1])
class Multiply(Block):
    def through(self, samples):
        assert self.arguments == (0.5,)
        return samples - LOST
class Sink(Block):
    def through(self, samples):
        self.items = samples
    def nitems_read(self, port):
        assert port == 0
        return self.items
class top_block:
    def connect(self, source, *rest):
        self.rest = rest
        assert isinstance(rest[-1], Sink)
        assert sum(isinstance(block, Multiply) for block in rest) == int(sys.argv[1])
    def run(self):
        samples = 1 << 40
        for block in self.rest:
            samples = block.through(samples)
        Clock.now += 0.5
    def __init__(self):
        pass
blocks = types.SimpleNamespace(
    null_source=Block, head=Head, multiply_const_ff=Multiply, null_sink=Sink)
gr = types.SimpleNamespace(sizeof_float=4, top_block=top_block, version=lambda: "3.10.5")
"""


@pytest.mark.parametrize("lost", [0, 1])
def test_its_rates_are_compared_with_ours(lost, tmp_path, monkeypatch):
    (tmp_path / "gnuradio.py").write_text(FAKE.replace("LOST", str(lost)))
    runs = f'PYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n'
    monkeypatch.setenv("DENIZEN_GNURADIO_PYTHON", interpreter(tmp_path, runs))
    # A quick run: 2^22 samples in all, the fewer for each the more blocks. Half a second each.
    rates = {n: (2**22 // n) / 0.5 * 1e-6 for n in (1, 4, 12)}
    ours = [
        Measured("chain of saxpy", {"blocks": n}, "Msps", np.full(3, 4 * rate), 3, True)
        for n, rate in rates.items()
    ]
    theirs = cases.measure("flow", "cpu:1", quick=True, beside=ours)
    assert [item.params for item in theirs] == [{"blocks": n, "version": "3.10.5"} for n in rates]
    for item in theirs:
        np.testing.assert_allclose(item.samples, [rates[item.params["blocks"]]] * 3)
        assert item.verified == (lost == 0)
    if not lost:
        rows = rows_of([*ours, *theirs])
        assert [row.ratio_to for row in rows[3:]] == [{"chain of saxpy": 0.25}] * 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "there is no"),
        ("echo \"ModuleNotFoundError: No module named 'gnuradio'\" >&2; exit 1", "No module named"),
    ],
)
def test_without_it_the_reason_is_told(text, why, tmp_path, monkeypatch, capsys):
    path = "/nowhere/python3" if text is None else interpreter(tmp_path, text)
    monkeypatch.setenv("DENIZEN_GNURADIO_PYTHON", path)
    assert gnuradio.chains("cpu:1", quick=True) == []
    assert why in capsys.readouterr().err
