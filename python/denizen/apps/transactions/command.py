# SPDX-License-Identifier: Apache-2.0
"""What ``denizen run transactions`` does: a file or a made stream through a stage, and a table."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen import machine, terminal
from denizen.apps.traced import traced
from denizen.apps.transactions import alerts as output
from denizen.apps.transactions import load
from denizen.apps.transactions.detection import detection
from denizen.apps.transactions.fit import fit, suspicious
from denizen.apps.transactions.records import (
    ALERT,
    ALERT_NAMES,
    CASES,
    MODEL_RULE,
    PROFILE,
    RULE_NAMES,
    SEVERITIES,
    TRANSACTION,
    Records,
    Rules,
    generate,
)
from denizen.apps.transactions.scored import CUSTOMERS, ScoredStage
from denizen.apps.transactions.sharded import ShardedStage
from denizen.apps.transactions.stage import PASSES, Reference, Stage
from denizen.errors import ArgumentError, DataError

_PIECE = 1 << 16  # records fed at once


@dataclass(frozen=True)
class Options:
    """Of the command line."""

    file: str | None = None
    form: str | None = None
    count: int | None = None
    """Of records to make."""
    seed: int = 1
    write: str | None = None
    write_profiles: str | None = None
    profiles: str | None = None
    rules: Path | None = None
    changes: Sequence[tuple[int, Path]] = ()
    """(place of the stream, file): the rules from there on."""
    alerts: str | None = None
    device: str = "auto"
    workers: int | None = None
    shards: int | None = None
    batch: int = 0
    memory: int = 0
    """MiB."""
    check: bool = False
    drill: int | None = None
    """Seed of failures on purpose."""
    metrics: int | None = None
    save: str | None = None
    restore: str | None = None
    trace: Path | None = None
    score: str | None = None
    """A model's file."""
    threshold: float = 0.7
    customers: int = CUSTOMERS
    fit: Path | None = None
    """Where to write a model."""
    hosts: int | None = None
    transport: str = "rings"


def _streams(o: Options) -> tuple[Iterator[Records], Records]:
    """The stream, piece by piece, and the profiles."""
    size = o.batch or _PIECE
    known = load.profiles(o.profiles) if o.profiles is not None else np.zeros(0, PROFILE)
    if o.count is not None:
        records, made = generate(o.count, seed=o.seed)
        if o.write is not None:
            load.write(o.write, records)
            print(f"{o.write}: {len(records):,} made transactions", file=sys.stderr)
        if o.write_profiles is not None:
            load.write(o.write_profiles, made)
            print(f"{o.write_profiles}: {len(made):,} profiles", file=sys.stderr)
        whole = (records[at : at + size] for at in range(0, len(records), size))
        return whole, known if o.profiles is not None else made
    if o.file is None:
        raise ArgumentError("give a FILE, or --generate N")
    return load.pieces(o.file, o.form, size), known


def _cut(
    pieces: Iterator[Records], changes: Sequence[tuple[int, Rules]], begin: int
) -> Iterator[tuple[Rules | None, Records]]:
    """The pieces, cut where rules change; with each the rules that begin with it."""
    left = sorted(changes, key=lambda change: change[0])
    at = begin
    for piece in pieces:
        rest = piece
        while left and left[0][0] < at + len(rest):  # ends: each turn takes one change
            place, rules = left.pop(0)
            if place > at:
                yield None, rest[: place - at]
                rest = rest[place - at :]
                at = place
            yield rules, rest[:0]
        yield None, rest
        at += len(rest)


class _Reread:
    """A file of rules, read again when the process gets SIGHUP; what is wrong changes nothing."""

    def __init__(self, path: Path, rules: Rules) -> None:
        self._path = path
        self._version = rules.version
        self._new: Rules | None = None

    @contextmanager
    def on_signal(self) -> Iterator[None]:
        """A thread reads it. Python's own handler would run in this one, which may have begun to
        wait for its input just before the signal came."""
        told, tell = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(tell, False)
        reader = threading.Thread(target=self._wait, args=(told,), name="rules", daemon=True)
        reader.start()
        wakes = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        before = signal.signal(signal.SIGHUP, lambda *_: None)
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, before)
            signal.set_wakeup_fd(wakes)
            os.close(tell)
            reader.join()
            os.close(told)

    def _wait(self, told: int) -> None:
        while numbers := os.read(told, 64):  # ends with on_signal()
            if signal.SIGHUP in numbers:
                self._read()

    def take(self) -> Rules | None:
        """Rules that have come since the last call."""
        new, self._new = self._new, None
        return new

    def _read(self) -> None:
        try:
            new = load.rules(self._path, Rules(version=self._version + 1))
        except DataError as error:
            print(f"{error}; the rules stay as they are", file=sys.stderr, flush=True)
            return
        self._new, self._version = new, new.version
        print(
            f"{self._path}: version {new.version} from the next record on",
            file=sys.stderr,
            flush=True,
        )


def run(o: Options) -> int:
    """The whole command; the exit status: 1 if --check found a difference, else 0.

    Raises DataError for input that cannot be used and DenizenError for what else goes wrong.
    """
    if o.fit is not None:
        return _fit(o, o.fit)
    rules = load.rules(o.rules) if o.rules is not None else Rules()
    changes: list[tuple[int, Rules]] = []
    for place, path in sorted(o.changes):
        before = changes[-1][1] if changes else rules
        following = Rules.from_dict({"version": before.version + 1}, before)
        changes.append((place, load.rules(path, following)))
    reread = None if o.rules is None else _Reread(o.rules, rules)
    with terminal.working("making payments" if o.count is not None else "opening the stream"):
        pieces, known = _streams(o)
    if o.check and o.restore is not None:
        raise ArgumentError("--check needs the stream from its beginning: leave out --restore")
    reference = Reference(rules) if o.check else None
    found: Counter[tuple[int, int]] = Counter()
    cases: Counter[int] = Counter()
    differs: int | None = None
    expected = np.zeros(0, ALERT)
    seen_of = _Labelled() if o.score is not None and o.count is not None else None
    choose = random.Random(o.drill)
    seconds = 0.0
    # Lines of alerts on a terminal say enough, and nothing may be printed beside the moving one.
    shown = o.alerts != "-" and o.metrics is None and o.rules is None
    with (
        terminal.working("payments") if shown else nullcontext(lambda _text: None) as now,
        output.sink(o.alerts) as tell,
        reread.on_signal() if reread is not None else nullcontext(),
        _stage(o, rules) as stage,
        traced(stage.runtime, o.trace) if isinstance(stage, Stage) else nullcontext(),
    ):
        seen = None
        if o.metrics is not None and isinstance(stage, Stage):
            from denizen.apps.transactions.metrics import Collector  # noqa: PLC0415  (optional)

            seen = Collector(stage)
            url = stage.runtime.serve_metrics(o.metrics, also=[seen])
            print(f"metrics at {url}", file=sys.stderr)
        stage.put(known)
        if o.restore is not None and o.rules is not None:
            stage.change(rules)
        if reference is not None:
            reference.put(known)

        def take(alerts: Records) -> None:
            nonlocal expected, differs
            tell(alerts)
            if seen is not None:
                seen.see(alerts)
            keys, numbers = np.unique(
                np.stack([alerts["rule"], alerts["severity"]]), axis=1, return_counts=True
            )
            for (rule, severity), number in zip(keys.T.tolist(), numbers.tolist(), strict=True):
                found[rule, severity] += number
            if seen_of is not None:
                seen_of.alerts.append(alerts)
            if reference is not None and differs is None:
                of_rules = alerts[alerts["rule"] != MODEL_RULE]
                if of_rules.tobytes() != expected[: len(of_rules)].tobytes():
                    differs = _first_difference(of_rules, expected)
                expected = expected[len(of_rules) :]

        first = stage.done
        for planned, piece in _cut(pieces, changes, first):
            change = planned
            if change is None and reread is not None:
                change = reread.take()
            if change is not None:
                stage.change(change)
                if reference is not None:
                    reference.change(change)
            if planned is not None:
                continue
            if o.drill is not None and len(piece) and isinstance(stage, Stage):
                stage.drill(
                    choose.randrange(stage.shards),
                    choose.choice(PASSES),
                    choose.randrange(1 + min(len(piece), 4096) // stage.shards),
                )
            if reference is not None:
                expected = np.concatenate([expected, reference.feed(piece)])
            now(f"{stage.done:,} payments")
            begin = time.perf_counter()
            stage.feed(piece)
            # A short piece is all that there is for now: its alerts are not for later.
            alerts = stage.drain() if len(piece) < (o.batch or _PIECE) else stage.take()
            seconds += time.perf_counter() - begin
            take(alerts)
            if o.count is not None:
                cases.update(piece["flags"].tolist())
            if seen_of is not None:
                seen_of.wanted.append(suspicious(piece))
        begin = time.perf_counter()
        alerts = stage.drain()
        seconds += time.perf_counter() - begin
        take(alerts)
        if reference is not None and len(expected) and differs is None:
            differs = int(expected["sequence"][0])
        if o.save is not None and isinstance(stage, Stage):
            stage.save(o.save)
            print(f"{o.save}: snapshot before record {stage.done:,}", file=sys.stderr)
        counts = stage.counts()
        customers = f"{stage.customers():,}, in {stage.memory >> 20:,} MiB"
        device = f"{_where(stage)}; {terminal.counted(stage.shards, 'shard')}"
        if seen_of is not None and isinstance(stage, ScoredStage):
            seen_of.accepted = ~np.isnan(stage.take_scores())
    table: list[tuple[str, str]] = [
        ("device", device),
        ("transactions", f"{counts.records:,}"),
        *((outcome, f"{n:,}") for outcome, n in counts.outcomes.items()),
        ("customers", customers),
        ("alerts", f"{counts.alerts:,}"),
    ]
    for rule, title in enumerate(RULE_NAMES if o.score is None else ALERT_NAMES, 1):
        parts = [
            f"{found[rule, s]:,} {SEVERITIES[s]}"
            for s in reversed(range(len(SEVERITIES)))
            if found[rule, s]
        ]
        table.append((f"  {title}", ", ".join(parts) or "0"))
    if cases:
        made = ", ".join(f"{cases[k]:,} {case}" for k, case in enumerate(CASES) if cases[k])
        table.append(("made of", made))
    if seen_of is not None:
        table += [(f"found by {name}", str(found)) for name, found in seen_of.detection()]
    if o.drill is not None:
        table.append(("shards restarted", f"{counts.restarts:,}"))
    table.append(("transactions per second", f"{counts.records / max(seconds, 1e-9):,.0f}"))
    if reference is not None:
        verdict = "the same" if differs is None else f"differ from record {differs:,} on"
        table.append(("reference's alerts", verdict))
    terminal.table(
        "denizen run transactions",
        ("figure", "value"),
        table,
        file=sys.stderr if o.alerts == "-" else None,
    )
    if differs is not None:
        terminal.error(f"alerts differ from the reference's, first at record {differs}")
        return 1
    return 0


@dataclass
class _Labelled:
    """A made stream, and the alerts of it."""

    alerts: list[Records] = field(default_factory=lambda: [np.zeros(0, ALERT)])
    wanted: list[NDArray[np.bool_]] = field(default_factory=lambda: [np.zeros(0, np.bool_)])
    accepted: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def detection(self) -> Iterable[tuple[str, object]]:
        every, wanted = np.concatenate(self.alerts), np.concatenate(self.wanted)
        return detection(every, wanted, self.accepted).items()


def _fit(o: Options, path: Path) -> int:
    """Makes a model of the whole stream, whose flags say what is to be found."""
    pieces, known = _streams(o)
    records = np.concatenate([np.zeros(0, TRANSACTION), *pieces])
    begin = time.perf_counter()
    with terminal.working("fitting") as now:
        model = fit(records, known, tell=now)
    model.save(path)
    table = [
        ("transactions", f"{len(records):,}"),
        ("to be found", f"{suspicious(records).sum():,}"),
        ("weights", f"{model.parameters:,}"),
        ("seconds", f"{time.perf_counter() - begin:.0f}"),
        ("model", str(path)),
    ]
    terminal.table("denizen run transactions --fit", ("figure", "value"), table)
    return 0


def _stage(o: Options, rules: Rules) -> Stage | ShardedStage:
    shared: dict[str, Any] = {
        "workers": o.workers,
        "shards": o.shards,
        "batch": o.batch,
        "memory": o.memory << 20,
        "rules": rules,
    }
    if o.score is not None and o.hosts is None:
        for name in ("save", "restore"):
            if getattr(o, name) is not None:
                raise ArgumentError(f"--{name} has no states of a model: leave it out, or --score")
        return ScoredStage(
            o.score,
            o.device,
            threshold=o.threshold,
            customers=o.customers,
            keep_scores=o.count is not None,
            **shared,
            trace=o.trace is not None,
        )
    if o.hosts is None:
        return Stage(
            o.device,
            **shared,
            restore=o.restore,
            trace=o.trace is not None,
        )
    for name in ("metrics", "save", "restore", "drill", "score"):
        if getattr(o, name) is not None:
            raise ArgumentError(f"--{name} is of one host: leave it out, or --hosts")
    return ShardedStage(
        o.hosts,
        o.device,
        transport=o.transport,
        **shared,
    )


def _where(stage: Stage | ShardedStage) -> str:
    if isinstance(stage, ShardedStage):
        return terminal.counted(stage.hosts, "host")
    there = stage.runtime.description
    return str(there["device"]) if there["on_gpu"] else machine.cpu_name()


def _first_difference(alerts: Records, expected: Records) -> int:
    for mine, other in zip(alerts, expected, strict=False):
        if mine.tobytes() != other.tobytes():
            return int(min(mine["sequence"], other["sequence"]))
    return int(alerts["sequence"][len(expected)])
