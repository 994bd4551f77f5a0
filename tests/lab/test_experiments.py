# SPDX-License-Identifier: Apache-2.0
"""Every experiment has its program, and the programs do the work that they report."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from denizen import _core, procmine
from denizen.cli import main
from denizen.lab import adsb, bench, goals, logs, programs, record
from denizen.lab import cases as of_python
from denizen.lab.record import EXPERIMENTS, IN_PYTHON, LabError, Measured

ROOT = Path(__file__).resolve().parents[2]


def test_experiments_and_programs_are_the_same():
    built = re.findall(
        r"^denizen_program\(bench_(\w+) ",
        (ROOT / "benchmarks" / "CMakeLists.txt").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    sources = [path.stem.removeprefix("bench_") for path in (ROOT / "benchmarks").glob("bench_*")]
    assert sorted(built) == sorted(sources) == sorted(set(EXPERIMENTS) - IN_PYTHON)


def built(experiment):
    """Skips where `make bench` has not been asked for; `make test-deep` asks for it."""
    try:
        programs.find(experiment)
    except LabError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("experiment", "cases"),
    [
        (
            "routes",
            {
                "one way",
                "raw words",
                "message to itself",
                "to and fro",
                "random targets",
                "random targets, seen by the host",
            },
        ),
        ("sync", {"std::barrier", "counting barrier"}),
        (
            "throughput",
            {
                "pair, one at a time",
                "pair, one at a time, host's processor time",
                "pair, pipelined",
                "pair, pipelined, host's processor time",
                "tasks, resident",
            },
        ),
        ("tasks", {"thread tasks", "warp tasks", "fork-join tree", "chain, one hop"}),
        ("driver", {"store", "trapped store", "decode"}),
        ("adsb", {"receive", "resident receiver", "detection"}),
        (
            "group",
            {
                "automatic",
                "one_shot",
                "two_shot",
                "pull",
                "pull_twice",
                "push",
                "push_twice",
                "message to a resident group",
                "barrier, sum, barrier",
            },
        ),
        (
            "procmine",
            {
                "graph, threads",
                "graph, one thread",
                "graph and variants, threads",
                "streamed",
                "patterns",
                "partial orders, cases",
            },
        ),
        (
            "transactions",
            {
                "streamed",
                "threads with barriers",
                "reference, one thread",
                "alert latency",
                "rules, from Python",
                "rules and a model's scores, from Python",
            },
        ),
        (
            "dsp",
            {
                "saxpy",
                "complex multiply",
                "complex multiply, from Python",
                "complex multiply, NumPy",
                "magnitude squared",
                "magnitude squared, from Python",
                "magnitude squared, NumPy",
                "FM demodulation",
                "FM demodulation, from Python",
                "FM demodulation, NumPy",
                "AGC",
                "FIR of 64 taps",
                "FIR of 64 taps, from Python",
                "FIR of 64 taps, SciPy",
                "FIR of 64 taps by 10",
                "FIR of 161 taps by 10, from Python",
                "FIR of 161 taps by 10, SciPy",
                "resampler 24/125, from Python",
                "resampler 24/125, SciPy",
                "channelizer of 64",
                "channelizer of 64, from Python",
                "channelizer of 64, SciPy",
                "FFT of 1024",
                "FFT of 1024, from Python",
                "FFT of 1024, SciPy",
            },
        ),
        (
            "wave",
            {
                "CPU threads",
                "CPU tiles",
                "update of two arrays",
                "steering",
                "two steps and 5 us",
            },
        ),
        (
            "arena",
            {"churn", "churn, malloc", "churn, std::pmr::synchronized_pool_resource"},
        ),
        ("pools", {"buffer", "aligned_alloc"}),
        (
            "beside",
            {
                "ask",
                "ask, one kernel for ever",
                "hand-over",
                "killed under load: the GPU is free",
                "killed under load: the last turn is over",
                "killed under load: the process is gone",
                "killed under load: the next program, start to end",
            },
        ),
        (
            "bfs",
            {
                "auto",
                "narrow",
                "wide",
                "tasks",
                "plain queue",
                "shortest paths",
                "shortest paths, narrow",
                "shortest paths, wide",
                "SciPy",
                "NetworkX",
                "shortest paths, SciPy",
                "shortest paths, NetworkX",
            },
        ),
        (
            "actors",
            {
                "spawn",
                "spawn at once",
                "ask",
                "HLC tick",
                "HLC update",
                "HLC comparison",
                "slot, written and read",
                "clock read",
                "two words and a mutex",
                "two words and a mutex, update",
                "restart",
                "supervised, none failing",
                "supervised, 1 % failing",
                "snapshot",
                "restore",
                "write + fsync",
                "read",
                "start and spawn",
                "snapshot size",
            },
        ),
    ],
)
def test_programs_verify_their_work_on_the_cpu(experiment, cases, monkeypatch, capsys):
    # They add cases to adsb, and large graphs to bfs.
    for variable in (
        "DENIZEN_DATA", "DENIZEN_DUMP1090", "DENIZEN_DUMP1090_MEMORY", "DENIZEN_GRAPHS",
    ):  # fmt: skip
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(logs, "RIVALS", {})
    built(experiment)
    made = bench.run(experiment, "cpu:2", quick=True)
    assert made.verified
    assert any(row.noise_floor is not None for row in made.rows)  # one arm twice, in each
    assert any(row.rounds is not None for row in made.rows)
    assert {row.case for row in made.rows} == cases
    assert made.goals == []  # they are an H100's
    complaints = capsys.readouterr().err
    assert "is to be compared with" not in complaints
    assert record.from_json(record.to_json(made)).rows[0].case == made.rows[0].case


@pytest.mark.parametrize(
    ("experiment", "cases"),
    [
        ("saxpy", {"saxpy, one core", "saxpy, one core, many buffers"}),
        (
            "flow",
            {
                "latency of a quantum",
                "idle graph",
                "chain of saxpy",
                "filter and demodulate, one quantum",
                "filter and demodulate, stream",
            },
        ),
    ],
)
def test_programs_about_flow_verify_their_work(experiment, cases, monkeypatch):
    monkeypatch.setenv("DENIZEN_GNURADIO_PYTHON", "/nowhere/python3")  # its arm takes long
    built(experiment)
    made = bench.run(experiment, "cpu:2", quick=True)
    assert made.verified
    assert any(row.noise_floor is not None for row in made.rows)
    assert cases <= {row.case for row in made.rows}  # and rings, where there are cores for them


def test_saxpy_has_what_is_asked_of_each_kind_of_executor():
    built("saxpy")
    made = bench.run("saxpy", "cpu:2", quick=True)
    asked = [goal.what for goal in made.goals if goal.what.endswith(", vectors")]
    rings = any(row.case == "ring" for row in made.rows)  # where there are cores for them
    assert len(asked) == (9 if rings else 3)
    for kind in ("futex", "coroutine", "stealing"):
        assert sum(f", {kind}, " in what for what in asked) == len(asked) / 3


def test_echoes_are_told_by_thirds_with_the_memory():
    built("sustained")
    made = bench.run("sustained", "cpu:2", quick=True)
    assert made.verified
    (echoes,) = (row for row in made.rows if row.case == "echoes")
    assert echoes.rounds == len(echoes.samples) == len(echoes.again) == 3
    (last,) = (row for row in made.rows if row.case == "echoes, last third")
    assert last.rounds is None  # the first third had no turns with it
    assert "echoes, first third" in last.ratio_to
    memory = [row for row in made.rows if row.case == "memory of the process"]
    assert [row.params["at"] for row in memory] == ["the begin", "the end"]
    assert all(row.unit == "MB" and row.median > 1 for row in memory)


def test_the_channels_verify_their_work():
    built("channels")
    made = bench.run("channels", "cpu:2", quick=True)
    assert made.verified
    ours = {
        "denizen channel",
        "denizen channel of two senders",
        "denizen channel, coroutines",
    }
    assert {*ours, "mutex and condition"} <= {row.case for row in made.rows}
    assert all("mutex and condition" in row.ratio_to for row in made.rows if row.case in ours)
    assert any(row.noise_floor is not None and row.rounds == 5 for row in made.rows)


CHANNELS = [
    "mutex and condition",
    "boost spsc_queue",
    "moodycamel readerwriter",
    "moodycamel concurrent",
]


@pytest.mark.parametrize(
    ("rivals", "reached"),
    [
        (CHANNELS, [1.5]),
        (CHANNELS[:3], []),
        # The fairer one counts where it ran.
        ([*CHANNELS, "moodycamel concurrent with tokens"], [150 / 120]),
    ],
)
def test_the_channels_goal_asks_for_every_rival(rivals, reached):
    cases = [
        one(name, 120.0 if "tokens" in name else 100.0 - k, "M/s") for k, name in enumerate(rivals)
    ]
    cases.append(one("denizen channel", 150.0, "M/s", tuple(rivals)))
    found = goals.reached("channels", record.rows_of(cases), gpu=False)
    assert [goal.reached for goal in found] == reached


def one(case, value, unit="us", base=(), **params):
    return Measured(case, params, unit, np.full(9, value), 9, True, base)


@pytest.mark.parametrize(
    ("experiment", "cases", "reached"),
    [
        (
            "routes",
            [
                one("one way", 0.2, route="worker", bytes=64),
                one("one way", 0.01, route="worker", bytes=256),
                one("one way", 0.01, route="sm", bytes=64),
                one("one way", 0.2, route="cluster", bytes=64),
                one("one way", 1.0, route="peer", bytes=64),
                one("random targets", 900.0, "M/s", workers=132),
                one("random targets", 1100.0, "M/s", workers=1056),
                one("random targets, seen by the host", 2000.0, "M/s", workers=132),
            ],
            [(0.2, False), (0.01, True), (0.2, True), (1.0, True), (1100.0, True)],
        ),
        (
            "actors",
            [
                one("spawn", 2.4),
                one("restart", 2.6),
                one("spawn at once", 19.0, "ms", actors=100_000),
                one("spawn at once", 1.0, "ms", actors=10_000),
                one("supervised, 1 % failing", 79.0, "M/s", ("supervised, none failing",)),
                one("supervised, none failing", 100.0, "M/s"),
            ],
            [(2.4, True), (2.6, False), (19.0, True), (0.79, False)],
        ),
        (
            "start",
            [one("device memory", 29.6, "MB"), one("host memory", 64.1, "MB")],
            [(29.6, True), (64.1, False)],
        ),
        (
            "adsb",
            [
                one("detection", 74.0, "%", ("detection, dump1090",), db="12 to 15"),
                one("detection, dump1090", 37.0, "%", db="12 to 15"),
                one("detection", 99.0, "%", ("detection, dump1090",), db="18 to 21"),
                one("detection, dump1090", 100.0, "%", db="18 to 21"),
                one("detection", 100.0, "%", ("detection, dump1090",), db="27 to 30"),
                one("detection, dump1090", 100.0, "%", db="27 to 30"),
                one("detection", 3.0, "%", db="6 to 9"),
            ],
            [(2.0, True), (0.99, False), (1.0, True)],
        ),
        (
            "tasks",
            [
                one("thread tasks", 20_001.0, "M/s", n=1 << 26),
                one("thread tasks", 19_999.0, "M/s", n=1 << 20),
                one("warp tasks", 499.0, "M/s", n=1 << 23),
                one("fork-join tree", 501.0, "M/s", tasks=(1 << 24) - 1),
                one("chain, one hop", 0.8, hops=100_000),
                one("tasks, bulk", 1e6, "M/s", n=1 << 26),
            ],
            [(19_999.0, False), (20_001.0, True), (501.0, False), (499.0, False), (0.8, False)],
        ),
        (
            "arena",
            [
                *(
                    one("malloc", rate, "M/s", bytes=size, threads=1 << 20)
                    for size, rate in ((16, 12_001.0), (4096, 999.0))
                ),
                one("malloc", 1e6, "M/s", bytes=16, threads=1 << 10),
                one("churn", 9_999.0, "M/s", bytes=16, touch=0, threads=65_536),
                one("churn", 1.0, "M/s", bytes=256, touch=64, threads=65_536),
                one("requests met until 95 % are live", 100.0, "%", sizes="16 B to 8 KB"),
                one("requests met until 95 % are live", 99.9, "%", sizes="nine of ten 64 B"),
            ],
            [(12_001.0, True), (999.0, False), (9_999.0, False), (100.0, True), (99.9, False)],
        ),
        (
            "saxpy",
            [
                one("saxpy, one core", 90.5, "%", bytes=16_384, kind="stealing"),
                one("saxpy, one core", 95.0, "%", bytes=65_536, kind="stealing"),
                one("saxpy, one core", 89.5, "%", bytes=16_384, kind="coroutine"),
                one("ring", 80.5, "%", bytes=16_384, kind="stealing", **{"all cores": True}),
                one("ring", 95.0, "%", bytes=16_384, kind="coroutine", cores=2),
                one(
                    "ring, movement removed",
                    79.5,
                    "%",
                    bytes=16_384,
                    kind="stealing",
                    **{"all cores": True},
                ),
            ],
            [(89.5, False), (90.5, True), (80.5, True), (79.5, False)],
        ),
        (
            "group",
            [
                *(
                    one(f"{case}, {arm}", value, "us", base, bytes=64 << 20, ranks=2)
                    for case, ours, windows in (
                        ("all_gather", 100.0, 150.0),
                        ("all_to_all", 110.0, 100.0),
                    )
                    for arm, value, base in (
                        (
                            "kernel in a graph",
                            ours,
                            (f"{case}, NCCL in a graph", f"{case}, NCCL in a graph, windows"),
                        ),
                        ("NCCL in a graph", 120.0, ()),
                        ("NCCL in a graph, windows", windows, ()),
                    )
                ),
                one("all_gather, kernel in a graph", 1.0, bytes=1 << 20, ranks=2),
            ],
            [(1.2, True), (100 / 110, False)],
        ),
        (
            "bfs",
            [
                one("auto", 1.0, "ms", ("launch per level", "while graph"), graph="NY"),
                one("launch per level", 11.0, "ms", graph="NY"),
                one("while graph", 2.0, "ms", graph="NY"),
                one("auto", 2.0, "ms", ("launch per level",), graph="chain 20,000"),
                one("launch per level", 10.0, "ms", graph="chain 20,000"),
                one("auto", 1.0, "ms", ("wide", "tasks"), graph="Kronecker 20"),
                one("wide", 0.5, "ms", graph="Kronecker 20"),
                one("tasks", 4.0, "ms", graph="Kronecker 20"),
            ],
            [(11.0, True), (2.0, False), (5.0, False), (0.5, False)],
        ),
    ],
)
def test_goals(experiment, cases, reached):
    found = goals.reached(experiment, record.rows_of(cases), gpu=True)
    told = {"met": True, "missed": False}
    assert [(goal.reached, told.get(goal.verdict)) for goal in found] == reached


def test_searches_in_python_are_rivals_of_the_programs(monkeypatch):
    def scipy(_device, *, quick):
        assert quick
        return [
            one("SciPy", 8.0, "ms", graph="NY"),
            one("shortest paths, SciPy", 20.0, "ms", graph="NY"),
        ]

    monkeypatch.setitem(of_python._CASES, "bfs", (scipy,))
    program = [
        one("auto", 2.0, "ms", ("wide",), graph="NY"),
        one("wide", 4.0, "ms", graph="NY"),
        one("shortest paths", 5.0, "ms", graph="NY"),
        one("auto", 1.0, "ms", graph="a chain"),
    ]
    measured = of_python.measure("bfs", "cpu", quick=True, beside=program)
    rows = record.rows_of(program + measured)
    assert [row.ratio_to for row in rows if row.case in ("auto", "shortest paths")] == [
        {"wide": 0.5, "SciPy": 0.25},
        {"shortest paths, SciPy": 0.25},
        {},
    ]


def test_frames_found_are_compared_signal_by_signal(monkeypatch):
    """One batch is one signal for both; that some are harder than others is in no ratio."""
    monkeypatch.setattr(adsb, "_LEVELS", range(15, 18, 3))
    monkeypatch.setattr(adsb, "_rival", lambda: "dump1090")
    monkeypatch.setattr(adsb, "_dumped", lambda _program, signal, _path: adsb._received(signal))
    measured = adsb.detection("cpu", quick=True)
    assert [(one.case, one.rounds) for one in measured] == [
        ("detection", 3),
        ("detection, dump1090", 3),
    ]
    assert all(one.verified for one in measured)
    (row, _) = record.rows_of(measured)
    assert row.ratio_to == {"detection, dump1090": 1.0}
    assert row.params == {"db": "15 to 18"}
    (goal,) = goals.reached("adsb", [row], gpu=False)
    assert (goal.what, goal.reached) == (
        "frames found of those 15 to 18 dB over the noise / dump1090",
        1.0,
    )


PM4PY = """
import os
open(os.environ["SEEN"], "w").write(str(os.getpid()))
def edges(table):
    found = {}
    table = table.sort_values(["case:concept:name", "time:timestamp"], kind="stable")
    last = None
    for row in table.itertuples(index=False):
        if last is not None and last[0] == row[0]:
            spent = (row[2] - last[2]).total_seconds()
            found.setdefault((last[1], row[1]), []).append(spent)
        last = row
    return found
def discover_dfg(table):
    return {edge: len(spent) for edge, spent in edges(table).items()}, None, None
def discover_performance_dfg(table):
    import statistics
    spent = {edge: {"median": statistics.median(all)} for edge, all in edges(table).items()}
    return spent, None, None
"""


def test_pm4py_runs_in_a_process_of_its_own(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    (tmp_path / "pm4py.py").write_text(PM4PY)
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTHONPATH", path)
    log = procmine.generate(2000)
    seconds, (counts,) = logs._timed_pm4py(log, 2)
    mined = procmine.mine(log, variants=False)
    assert len(seconds) == 2 and min(seconds) > 0
    assert {edge: n for edge, (n, _) in counts.items()} == {
        (e.source, e.to): e.count for e in mined.edges
    }
    assert (tmp_path / "seen").read_text() != str(os.getpid())
    assert "pm4py" not in sys.modules


def test_pm4py_that_fails_is_named(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise ImportError('no numpy of this test')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(LabError, match="pm4py failed: ImportError: no numpy of this test"):
        logs._timed_pm4py(procmine.generate(2000), 1)


def test_all_leaves_out_what_needs_more_gpus(monkeypatch, tmp_path, capsys):
    begun = []

    def run(experiment, device, *, quick):
        begun.append(experiment)
        raise record.LabError("measured elsewhere")

    monkeypatch.setattr(bench, "run", run)
    for gpus in (1, 2):
        monkeypatch.setattr(_core, "gpu_count", lambda gpus=gpus: gpus)
        assert main(["bench", "all", "--out", str(tmp_path)]) == 1
    assert begun.count("dispatch") == 2
    assert begun.count("layer") == 1
    assert "layer: needs 2 GPUs; here are 1" in capsys.readouterr().out
