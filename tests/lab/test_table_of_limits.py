# SPDX-License-Identifier: Apache-2.0
"""The table of limits and the curves are made of the records' own rows."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from denizen import machine
from denizen.lab import bench, curves, limits
from denizen.lab.record import Measured

GPU = machine.Machine(device="NVIDIA H200", driver="1", cuda="13", cpu="CPU")
CPU = machine.Machine(device="CPU: Test, 2 cores", driver=None, cuda=None, cpu="CPU")
SVG = "{http://www.w3.org/2000/svg}"


def make(experiment, *cases, here=GPU):
    measured = [
        Measured(case, params, unit, np.asarray(values, dtype=float), 9, True)
        for case, params, unit, values in cases
    ]
    return bench.build_record(experiment, {}, measured, None, here, quick=False)


def test_a_share_is_of_the_row_that_goes_the_same_way():
    routes = make(
        "routes",
        ("one way", {"route": "gpu", "bytes": 64}, "us", [1.0] * 9),
        ("one way", {"route": "peer", "bytes": 64}, "us", [2.0] * 9),
        ("one way", {"route": "worker", "bytes": 64}, "us", [3.0] * 9),
        ("raw words", {"route": "gpu"}, "us", [0.25] * 9),
        ("raw words", {"route": "peer"}, "us", [1.5] * 9),
    )
    found = {one.row.params["route"]: one.share for one in limits.limits(routes)}
    assert found == {"gpu": (0.25, (0.25, 0.25)), "peer": (0.75, (0.75, 0.75)), "worker": None}
    text = limits.text([routes])
    line = (
        "| routes: one way (route gpu, bytes 64) | H200 | 1.00 us | raw words, one way | 0.250 us"
    )
    assert f"{line} | 25.0 % (25.0 to 25.0) |" in text
    assert (
        "| routes: one way | H200 | 3.00 us | raw words, one way | no such row | not known |"
        in text
    )
    assert "1 headlines, below, have no such row" in text


def test_a_rate_is_a_share_the_other_way_round_and_as_sure_as_both():
    wave = make(
        "wave",
        ("auto", {"cells": 512}, "Mcells/s", [80, 90, 100, 100, 100, 100, 100, 110, 125]),
        ("copy", {"cells": 512}, "Mcells/s", [200.0] * 9),
        ("copy", {"cells": 64}, "Mcells/s", [1.0] * 9),
    )
    (one,) = limits.limits(wave)
    assert one.share == (0.5, pytest.approx((0.4, 0.625)))


def test_an_all_reduce_is_held_against_a_copy_of_what_each_rank_sends():
    group = make(
        "group",
        ("inside a kernel", {"bytes": 1 << 30, "ranks": 4}, "us", [8000.0] * 9),
        ("peer copy", {"bytes": 1 << 26, "ranks": 4}, "GB/s", [400.0] * 9),
    )
    (one,) = limits.limits(group)
    expected = (1 << 30) * 1.5 / 400e9 * 1e6
    assert one.limit[0] == pytest.approx(expected)
    assert one.share[0] == pytest.approx(expected / 8000)


def test_messages_are_held_against_a_copy_the_same_way():
    ring = make(
        "ring",
        ("host to device", {"bytes": 64, "memory": "pinned"}, "M/s", [160.0] * 9),
        ("device to host", {"bytes": 64}, "M/s", [80.0] * 9),
        ("driver's copy", {"direction": "to device"}, "GB/s", [51.2] * 9),
        ("driver's copy", {"direction": "to host"}, "GB/s", [25.6] * 9),
    )
    assert [one.limit for one in limits.limits(ring)] == [(800.0, (800.0, 800.0)),
                                                          (400.0, (400.0, 400.0))]  # fmt: skip
    assert [one.share[0] for one in limits.limits(ring)] == pytest.approx([0.2, 0.2])


def test_a_limit_may_be_told_with_the_environment():
    case = Measured("resident in device memory", {}, "M/s", np.full(9, 1000.0), 9, True)
    made = bench.build_record("transactions", {"copy_gbs": 1280.0}, [case], None, GPU, quick=False)
    (one,) = limits.limits(made)
    assert one.limit == (10_000.0, None) and one.share == (0.1, None)


def test_an_answer_is_held_against_the_raw_way_and_its_own_time_on_the_device():
    of = {"model": "lstm_small, 3 x 256"}
    rows = (
        ("resident, bf16", of, "us", [8.0] * 9),
        ("resident, bf16", {"model": "MLP, 3 x 256"}, "us", [7.0] * 9),
        ("resident, bf16, on the device", of, "us", [3.0, 4, 4, 4, 4, 4, 4, 4, 5]),
        ("resident, bf16, on the device", {"model": "lstm_large, 3 x 960"}, "us", [9.0] * 9),
    )
    raw = [("raw mailbox", {"memory": m}, "us", [us] * 9)
           for m, us in (("mapped", 2.0), ("pinned", 3.0))]  # fmt: skip
    (one,) = limits.limits(make("infer", *rows, *raw))
    assert one.row.params == of
    assert one.limit == (6.0, (5.0, 7.0)) and one.share == (0.75, pytest.approx((0.625, 0.875)))
    (few,) = limits.limits(make("infer", *rows, ("raw mailbox", {"memory": "mapped"}, "us", [2.0])))
    assert few.limit == (6.0, None)
    for lacking in (rows, [*rows[:2], *raw]):
        (one,) = limits.limits(make("infer", *lacking))
        assert one.limit is None


def test_on_cpu_threads_nothing_goes_over_pcie():
    cases = [("sustained", ("echoes", {}, "M/s", [10.0] * 9))]
    (line,) = [limits.text([make(*cases[0], here=CPU)]).splitlines()[-1]]
    assert "PCIe" not in line and "memory" in line
    assert "PCIe" in limits.text([make(*cases[0])]).splitlines()[-1]


def test_a_curve_has_a_line_for_each_case_and_a_mark_for_each_value():
    made = make(
        "pools",
        *[
            (case, {"bytes": 4096 * 4**k, "resident": False}, "us", [value * (1 + k)] * 9)
            for case, value in (("buffer", 3.0), ("cudaMallocAsync", 1.0))
            for k in range(4)
        ],
        ("cudaMalloc", {"bytes": 4096, "resident": False}, "us", [9.0] * 9),
    )
    ((name, (words, svg)),) = curves.curves(made).items()
    assert name == "pools-bytes-buffer-nvidia-h200"
    assert words == "pools by bytes, H200"
    root = ET.fromstring(svg)
    assert len(root.findall(f"{SVG}polyline")) == 2  # of cudaMalloc there is one size
    assert len(root.findall(f"{SVG}circle")) == 8
    heights = [float(one.get("cy")) for one in root.findall(f"{SVG}circle")]
    assert heights[:4] == sorted(heights[:4], reverse=True)  # more is higher
    assert [one.text for one in root.findall(f"{SVG}text")][-2:] == ["buffer", "cudaMallocAsync"]


def test_two_values_are_no_curve():
    made = make("wave", *[("auto", {"cells": n}, "Mcells/s", [1.0] * 9) for n in (64, 128)])
    assert curves.curves(made) == {}


def test_a_curve_holds_fixed_what_it_says():
    def reached(size, n, cores, kind):  # what no picture shows is beyond its axes
        value = n if n == cores else 10.0 * n
        return value * (1e6 if kind == "coroutine" else 1e-3 if size == 4096 else 1.0)

    made = make(
        "saxpy",
        *[
            ("ring, movement removed", {"bytes": size, "buffers": n, "cores": cores, "kind": kind},
             "%", [reached(size, n, cores, kind)] * 9)
            for cores in (2, 3, 4)
            for n in (3 * cores, cores + 1, cores)
            for size in (4096, 16_384)
            for kind in ("coroutine", "futex")
        ],
        here=CPU,
    )  # fmt: skip
    drawn = curves.curves(made)
    assert sorted(name.partition("-ring")[0] for name in drawn) == ["saxpy-buffers", "saxpy-cores"]
    by_number, by_cores = (ET.fromstring(svg) for _, (_, svg) in sorted(drawn.items()))
    for root, about, lines, low, high in (
        (by_number, "buffers, bytes 16384, kind futex", ["cores 2", "cores 3", "cores 4"], 2, 120),
        (by_cores, "cores, buffers cores, kind futex", ["bytes 4096", "bytes 16384"], 0.002, 4),
    ):
        texts = [one.text for one in root.findall(f"{SVG}text")]
        assert texts[1].startswith(f"% over {about}: medians")
        assert texts[-len(lines) :] == [f"ring, movement removed, {line}" for line in lines]
        ticks = [float(one.text) for one in root.findall(f"{SVG}text[@text-anchor='end']")[:-1]]
        assert low / 1.3 <= min(ticks) <= max(ticks) <= high * 1.3
        assert len(root.findall(f"{SVG}circle")) == 3 * len(lines)
