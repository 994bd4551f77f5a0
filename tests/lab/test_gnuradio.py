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


# GNU Radio's classes as far as a chain needs them. The clock goes on by half a millisecond with
# each look at the sink, and 4,096 samples with it from a tenth of a second on, as long as the graph
# takes to start. The broken one's blocks give something else.
FAKE = """
import sys, time, types
import numpy
class Clock:
    now = 0.0
time.perf_counter = lambda: Clock.now
def sleep(seconds):
    Clock.now += seconds
time.sleep = sleep
class Source:
    def __init__(self, data, repeat):
        assert repeat
        self.data = data
class Multiply:
    def __init__(self, by):
        assert by == 0.5
class Integrate:
    def __init__(self, count):
        self.count = count
class Sink:
    def nitems_read(self, port):
        assert port == 0
        return max(0, int(round((Clock.now - 0.1) / 0.0005))) * 4096 // 1024
    def data(self):
        period = numpy.array(self.source.data).reshape(-1, 1024).sum(axis=1)
        return numpy.tile(period * 0.5**self.kernels * WRONG, 3).tolist()
class top_block:
    def connect(self, source, *rest):
        sink = rest[-1]
        sink.source, sink.kernels = source, len(rest) - 2
        assert sink.kernels == int(sys.argv[1])
        assert rest[-2].count == 1024
    def start(self):
        assert Clock.now == 0.0
    def stop(self):
        Clock.now += 0.5
    def wait(self):
        Clock.now += 0.5
blocks = types.SimpleNamespace(
    vector_source_f=Source, multiply_const_ff=Multiply, integrate_ff=Integrate, vector_sink_f=Sink)
gr = types.SimpleNamespace(top_block=top_block, version=lambda: "3.10.5")
"""
RATE = 4096 / 0.0005 * 1e-6  # without the graph's start


@pytest.mark.parametrize("wrong", [1.0, 1.01])
def test_its_rates_are_compared_with_ours(wrong, tmp_path, monkeypatch):
    (tmp_path / "gnuradio.py").write_text(FAKE.replace("WRONG", str(wrong)))
    runs = f'PYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n'
    monkeypatch.setenv("DENIZEN_GNURADIO_PYTHON", interpreter(tmp_path, runs))
    turns = []

    def ours(*, quick):
        turns.append(quick)
        return [
            Measured("chain with data", {"blocks": n}, "Msps", np.array([4 * RATE]), 1, True)
            for n in (1, 4, 12)
        ]

    monkeypatch.setattr(gnuradio, "_ours", ours)
    found = cases.measure("flow", "cpu:1", quick=True)
    assert turns == [True] * 6  # three rounds, twice in each
    theirs = [item for item in found if item.case.endswith("GNU Radio")]
    assert [item.params for item in theirs] == [
        {"blocks": n, "version": "3.10.5"} for n in (1, 4, 12)
    ]
    for item in theirs:
        np.testing.assert_allclose(item.samples, [RATE] * 3)
        assert item.verified == (wrong == 1.0)
    rows = rows_of(found)
    assert [row.case for row in rows] == ["chain with data"] * 3 + [theirs[0].case] * 3
    assert [row.noise_floor for row in rows[:3]] == [0.0] * 3
    for row in rows[3:]:
        assert row.ratio_to == {"chain with data": pytest.approx(0.25)}


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
