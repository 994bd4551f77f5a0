# SPDX-License-Identifier: Apache-2.0
"""A benchmark record: what was measured, on what, when, and whether the work was checked.

``record.schema.json`` beside this file is the format. One file holds one experiment on one device:
``benchmarks/results/<experiment>/<device>.json``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen import machine
from denizen.files import write_text
from denizen.lab import schema, stats

Scalar = str | int | float | bool

# Every experiment and the heading of its tables, in their order. The program of each but those of
# IN_PYTHON is benchmarks/bench_<experiment>, a .cu or .cpp file.
EXPERIMENTS = {
    "dispatch": "Dispatch: one acknowledged round trip",
    "ring": "Rings: messages that were received and summed",
    "channels": "Channels: receive and send between two pinned threads, 32 bytes, 64 deep",
    "saxpy": "Saxpy: one kernel in graphs, percent of the kernel alone",
    "flow": "Flow: latency of a quantum, idle graphs, chains, resident filter and demodulator",
    "throughput": "Throughput: dependent pairs and independent tasks",
    "sustained": "Sustained: echoes through resident actors",
    "start": "Start, park and wake; memory; power",
    "beside": "Beside: calls that wait for the whole device, and what a breath costs",
    "frameworks": "Frameworks: unmodified programs beside millions of messages a second, and alone",
    "routes": "Routes: messages from actor to actor, by the device's clock",
    "geometry": "Geometry: what the runtime chooses, against other workers and rings",
    "sync": "Sync: one barrier among blocks, by the device's clock",
    "actors": "Actors: spawn, restart, clocks, snapshots, supervision",
    "adsb": "ADS-B: a recorded signal on one core, and frames found by level",
    "dsp": "DSP: kernels on streams, one core and one stream for each SM",
    "bfs": "BFS: searches of graphs from one vertex",
    "group": "Groups: all-reduce of float32, by the slowest rank",
    "layer": "Layer: a block of a transformer on two GPUs, its all-reduce by several ways",
    "procmine": "Process mining: the graph of a log, with frequencies and durations",
    "arena": "Arena: blocks allocated and freed on the device",
    "pools": "Pools: a buffer taken and given back",
    "tasks": "Tasks: independent, fork-join and chained, seen by the host",
    "transactions": "Transactions: all rules over a stream of payments, and the time to an alert",
    "wave": "Wave: steps of a room of cells",
    "driver": "Driver: what calls of the CUDA API cost and submit",
    "handlers": "Handlers: the same program in Python and as C++ text",
    "io": "I/O: blocks of handlers written to a file, by a service and by the host itself",
    "audit": "Audit: minutes of messages between random actors, each accounted for",
    "cluster": "Cluster: messages between hosts on one machine, and the end of one",
    "scale": "Scale: what a message costs between hosts, and 2 to 1,000 hosts simulated by that",
    "infer": "Infer: one time step of a model, from the host's call to its answer",
}
GPUS = {"frameworks": 1, "layer": 2}  # what needs so many
IN_PYTHON = frozenset({
    "audit", "cluster", "frameworks", "handlers", "infer", "io", "layer", "scale",
})  # fmt: skip
SAMPLES_KEPT = 400
# Parameters that say how a case was measured, not what: its base may have others.
_HOW = frozenset({"timed", "process"})
# And how much was asked of it: a rival that would take minutes is given less.
_HOW_MUCH = frozenset({"threads", "rounds", "steps", "MiB"})
# What a base with one row alone may have otherwise: what the comparison is about, and how much a
# rival that has no such sizes takes at a time.
_ONE_ALONE = frozenset({"breath_us", "handlers", "n", "hops", "warps"})
_LOWER_IS_BETTER = frozenset({"ns", "us", "ms", "s", "B", "MB", "W"})


class LabError(Exception):
    """A benchmark could not be run, or what it said makes no sense."""


def _key(case: str, params: dict[str, Scalar]) -> tuple[str, str]:
    return case, json.dumps(params, sort_keys=True)


@dataclass(slots=True)
class Measured:
    """One case as it was measured, before statistics.

    ``samples`` are in ``unit`` and in the order of measurement; ``n`` events lie behind them.
    ``ratio_base`` names cases of the same experiment. ``arm`` is "A/A" for the second measurement
    of a case, taken in the same interleaving, which shows what difference means nothing. ``ci95``
    is the interval of a figure that is no median of its samples (a slope, a correlation).
    ``rounds``: the samples are so many equal groups in a row, each one pass over all cases.
    """

    case: str
    params: dict[str, Scalar]
    unit: str
    samples: NDArray[np.float64]
    n: int
    verified: bool
    ratio_base: tuple[str, ...] = ()
    arm: str = ""
    ci95: stats.Interval | None = None
    rounds: int | None = None

    @property
    def key(self) -> tuple[str, str]:
        return _key(self.case, self.params)


@dataclass(slots=True)
class Row:
    """One case of a record. Values in ``unit``; see the schema for the fields.

    ``again`` are samples of its A/A arm. Its median differed by ``noise_floor``; the medians of two
    equal arms differ by less than ``apart`` in 95 % (:func:`denizen.lab.stats.apart`). A ratio
    closer to 1 than ``floor`` tells nothing: the larger of both, or for a case that was not
    measured twice the largest of the record's others, of those in its unit if there are any.
    """

    case: str
    params: dict[str, Scalar]
    unit: str
    median: float
    ci95: stats.Interval | None
    p50: float
    p99: float | None
    p99_ci95: stats.Interval | None
    p999: float | None
    n: int
    ratio_to: dict[str, float]
    ratio_ci95: dict[str, stats.Interval | None]
    min: float
    max: float
    cv: float | None
    verified: bool
    noise_floor: float | None
    apart: float | None
    floor: float | None
    samples: list[float]
    stride: int
    rounds: int | None
    again: list[float]

    @property
    def key(self) -> tuple[str, str]:
        return _key(self.case, self.params)


@dataclass(slots=True)
class Goal:
    """A figure the project set itself, and what this record reached.

    ``verdict`` is "met" or "missed" where the whole of ``ci95`` lies on that side of the bound,
    else "undecided". ``best_of``: so many rows fitted, and the best one counted: ``row``, by the
    parameters in which they differ (empty where one fitted).
    """

    what: str
    bound: str
    reached: float
    ci95: stats.Interval | None
    verdict: str
    best_of: int
    row: str = ""


@dataclass(slots=True)
class Record:
    """One experiment on one device."""

    experiment: str
    device: str
    driver: str | None
    cuda: str | None
    cpu: str
    commit: str
    utc: str
    quick: bool
    verified: bool
    environment: dict[str, str | int | float | bool | None]
    nvml: dict[str, float | int | None] | None
    rows: list[Row]
    goals: list[Goal] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    schema: int = 2


def lower_is_better(unit: str) -> bool:
    """Whether less is better in ``unit`` (times, memory, power), as against rates."""
    return unit.split("/", maxsplit=1)[0] in _LOWER_IS_BETTER and not unit.endswith("/s")


def _base(row: Row, name: str, rows: Sequence[Row]) -> Row:
    """The row that ``row`` is compared with under the name of a case.

    Where several rows have that name, it is the one whose parameters agree with ``row``'s wherever
    both have them; if there is none, the one that differs only in how much was asked of it. So it
    is with a row alone, which may also differ in what :data:`_ONE_ALONE` lists.
    """
    named = [other for other in rows if other.case == name and other is not row]

    def agreeing(unless: frozenset[str]) -> list[Row]:
        return [
            other
            for other in named
            if all(
                row.params[key] == other.params[key]
                for key in row.params.keys() & other.params.keys() - unless
            )
        ]

    found = agreeing(_HOW) or agreeing(_HOW | _HOW_MUCH)
    if len(named) == 1:
        found = agreeing(_HOW | _HOW_MUCH | _ONE_ALONE)
    if len(found) != 1:
        raise LabError(
            f'case "{row.case}" {row.params} is to be compared with "{name}", '
            f"of which {len(found)} rows fit"
        )
    if found[0].unit != row.unit:
        raise LabError(f'case "{row.case}" is in {row.unit}, its base "{name}" in {found[0].unit}')
    if found[0].median == 0:
        raise LabError(f'the median of base "{name}" is 0 {row.unit}: no ratio to it')
    return found[0]


def _ratio_ci(row: Row, base: Row) -> stats.Interval | None:
    return stats.ratio_ci(row.median, row.ci95, base.median, base.ci95)


def _by_turns(over: Measured, under: Measured, ratio: float) -> stats.Interval | None:
    """Interval of the ratio of two that came in the same rounds; None if they did not."""
    if over.rounds is None or over.rounds != under.rounds or over.ci95 or under.ci95:
        return None
    found = stats.ratio_of_rounds_ci(over.samples, under.samples, over.rounds)
    return stats.around(found, ratio)


def rows_of(measured: Sequence[Measured], complaints: list[str] | None = None) -> list[Row]:
    """Statistics and ratios of the cases, A/A arms folded into the noise floor of their case.

    Raises LabError for a case that appears twice, an A/A arm without its case, or a base that is
    missing, ambiguous or in another unit; with ``complaints`` a base that is, is left out and told
    there instead, since a long measurement must not be lost for want of a ratio.
    """
    rows: dict[tuple[str, str], Row] = {}
    bases: dict[tuple[str, str], tuple[str, ...]] = {}
    first: dict[tuple[str, str], Measured] = {}
    for item in measured:
        if item.arm:
            continue
        if item.key in rows:
            raise LabError(f'case "{item.case}" {item.params} appears twice')
        try:
            summary = stats.summarize(item.samples, rounds=item.rounds)
        except ValueError as error:
            raise LabError(f'case "{item.case}" {item.params}: {error}') from error
        kept, stride = stats.thin(item.samples, SAMPLES_KEPT)
        rows[item.key] = Row(
            case=item.case,
            params=item.params,
            unit=item.unit,
            median=summary.median,
            ci95=item.ci95 or summary.ci95,
            p50=summary.p50,
            p99=summary.p99,
            p99_ci95=summary.p99_ci95,
            p999=summary.p999,
            n=item.n,
            ratio_to={},
            ratio_ci95={},
            min=summary.min,
            max=summary.max,
            cv=summary.cv,
            verified=item.verified,
            noise_floor=None,
            apart=None,
            floor=None,
            samples=[float(value) for value in kept],
            stride=stride,
            rounds=item.rounds,
            again=[],
        )
        first[item.key] = item
        bases[item.key] = item.ratio_base
    for item in measured:
        if not item.arm:
            continue
        if item.key not in rows:
            raise LabError(f'the A/A arm of case "{item.case}" {item.params} has no first arm')
        row = rows[item.key]
        if row.median != 0:
            again = float(np.median(stats.samples_array(item.samples)))
            row.noise_floor = abs(again / row.median - 1)
            one = first[item.key]
            rounds = one.rounds if one.rounds == item.rounds else None
            row.apart = stats.apart(one.samples, item.samples, rounds=rounds)
        row.again = [float(value) for value in stats.thin(item.samples, SAMPLES_KEPT)[0]]
        row.verified = row.verified and item.verified
    _set_floors(list(rows.values()))
    for key, row in rows.items():
        for name in bases[key]:
            try:
                base = _base(row, name, list(rows.values()))
            except LabError as error:
                if complaints is None:
                    raise
                complaints.append(str(error))
            else:
                row.ratio_to[name] = row.median / base.median
                other = first[_key(base.case, base.params)]
                row.ratio_ci95[name] = _by_turns(first[key], other, row.ratio_to[name])
                if row.ratio_ci95[name] is None:
                    row.ratio_ci95[name] = _ratio_ci(row, base)
    return list(rows.values())


def _set_floors(rows: Sequence[Row]) -> None:
    twice = [row for row in rows if row.noise_floor is not None]
    for row in twice:
        row.floor = max(row.noise_floor or 0.0, row.apart or 0.0)
    for row in rows:
        if row.noise_floor is None:
            alike = [other for other in twice if other.unit == row.unit] or twice
            row.floor = max((other.floor or 0.0 for other in alike), default=None)


def rounded(value: Any) -> Any:
    """Floats to 6 significant digits: a clock gives no more, and the files stay readable."""
    if isinstance(value, bool) or not isinstance(value, (float, dict, list, tuple)):
        return value
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    if not math.isfinite(value):
        raise LabError(f"{value} cannot be put in a record")
    return float(f"{value:.6g}")


def to_json(record: Record) -> dict[str, Any]:
    """The record as JSON values, checked against the schema (SchemaError if it does not fit)."""
    value: dict[str, Any] = rounded(asdict(record))
    for goal in value["goals"]:
        if goal["row"] == "":
            del goal["row"]
    value = {"schema": value.pop("schema"), **value}
    schema.check_record(value)
    return value


def from_json(value: Any) -> Record:
    """The record in ``value``; SchemaError if it is none."""
    schema.check_record(value)
    rows = [_row(row) for row in value["rows"]]
    goals = [Goal(**{**goal, "ci95": _pair(goal["ci95"])}) for goal in value["goals"]]
    return Record(**{**value, "rows": rows, "goals": goals})


def _pair(value: list[float] | None) -> stats.Interval | None:
    return None if value is None else (value[0], value[1])


def _row(value: dict[str, Any]) -> Row:
    ratios = {name: _pair(item) for name, item in value["ratio_ci95"].items()}
    pairs = {name: _pair(value[name]) for name in ("ci95", "p99_ci95")}
    return Row(**{**value, **pairs, "ratio_ci95": ratios})


def _text(value: dict[str, Any]) -> str:
    """Indented JSON with each innermost list (samples, intervals) on one line."""
    lists: list[str] = []

    def fold(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: fold(item) for key, item in part.items()}
        if isinstance(part, list):
            if all(not isinstance(item, (dict, list)) for item in part):
                lists.append(json.dumps(part, allow_nan=False))
                return f"@@{len(lists) - 1}@@"
            return [fold(item) for item in part]
        return part

    text = json.dumps(fold(value), indent=1, ensure_ascii=False, allow_nan=False)
    for i, line in enumerate(lists):
        text = text.replace(f'"@@{i}@@"', line)
    return text + "\n"


def write(record: Record, path: Path) -> None:
    """Write the record to ``path``, whole or not at all; parent folders are made."""
    write_json(to_json(record), path)


def write_json(value: dict[str, Any], path: Path) -> None:
    """Write JSON to ``path`` in the layout of records, whole or not at all; makes folders."""
    text = _text(value)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def read(path: Path) -> Record:
    """The record in file ``path``; LabError naming the file if there is none in it."""
    try:
        record = from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise LabError(f"{path}: {error}") from error
    if record.experiment not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise LabError(f'{path}: experiment "{record.experiment}" is none of {known}')
    return record


def path_in(folder: Path, record: Record) -> Path:
    """Where the record belongs under ``folder``: ``<experiment>/<device>.json``."""
    return folder / record.experiment / f"{machine.slug(record.device)}.json"


def read_all(folder: Path) -> list[Record]:
    """Every record under ``folder``, in the order of EXPERIMENTS, GPUs before CPUs."""
    records = [read(path) for path in sorted(folder.glob("*/*.json"))]
    order = list(EXPERIMENTS)
    return sorted(records, key=lambda r: (order.index(r.experiment), r.driver is None, r.device))
