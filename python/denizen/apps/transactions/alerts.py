# SPDX-License-Identifier: Apache-2.0
"""Where alerts go: lines of JSON, or an Arrow IPC stream."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from denizen.apps.transactions.load import DataError, _pyarrow
from denizen.apps.transactions.records import ALERT, ALERT_NAMES, SEVERITIES, Records

Sink = Callable[[Records], None]

_PLAIN = (
    "sequence", "id", "customer", "dest", "amount_cents", "ts_ms", "country", "score", "value",
    "limit", "rules_version",
)  # fmt: skip


def objects(alerts: Records) -> list[dict[str, Any]]:
    """Alerts as JSON has them: rule and severity by name, ``path`` of round trips only."""
    columns = {name: alerts[name].tolist() for name in _PLAIN}
    hops, paths = alerts["hops"].tolist(), alerts["path"].tolist()
    out = []
    for k, (rule, severity) in enumerate(
        zip(alerts["rule"].tolist(), alerts["severity"].tolist(), strict=True)
    ):
        one = {name: column[k] for name, column in columns.items()}
        one |= {"rule": ALERT_NAMES[rule - 1], "severity": SEVERITIES[severity]}
        if hops[k]:
            one |= {"path": paths[k][: hops[k] - 1]}
        out.append(one)
    return out


@contextmanager
def sink(path: str | None) -> Iterator[Sink]:
    """Takes alerts, and writes them: None: nowhere; "-": lines of JSON on stdout; a file whose name
    ends in .arrow or .arrows: an Arrow IPC stream (needs pyarrow); any other: lines of JSON.
    """
    if path is None:
        yield lambda _alerts: None
        return
    with ExitStack() as stack:
        try:
            if Path(path).suffix in (".arrow", ".arrows"):
                yield _telling(path, _arrow(path, stack))
                return
            file = (
                sys.stdout
                if path == "-"
                else stack.enter_context(Path(path).open("w", encoding="utf-8"))
            )
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}") from error

        def lines(alerts: Records) -> None:
            for one in objects(alerts):
                file.write(json.dumps(one) + "\n")
            if len(alerts):
                file.flush()

        yield lines if path == "-" else _telling(path, lines)


def _telling(path: str, put: Sink) -> Sink:
    """Errors name the file. It grows while it is read, so it is not kept back until it is whole."""

    def told(alerts: Records) -> None:
        try:
            put(alerts)
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}") from error

    return told


def _arrow(path: str, stack: ExitStack) -> Sink:
    pa = _pyarrow()
    names = pa.dictionary(pa.int8(), pa.string())
    kinds = {name: pa.from_numpy_dtype(ALERT[name]) for name in _PLAIN}
    schema = pa.schema(
        [*kinds.items(), ("rule", names), ("severity", names), ("path", pa.list_(pa.uint64()))]
    )
    file = stack.enter_context(pa.OSFile(path, "wb"))
    out = stack.enter_context(pa.ipc.new_stream(file, schema))

    def batch(alerts: Records) -> None:
        if not len(alerts):
            return
        columns = [pa.array(alerts[name]) for name in _PLAIN]
        for numbers, texts in ((alerts["rule"] - 1, ALERT_NAMES), (alerts["severity"], SEVERITIES)):
            columns.append(pa.DictionaryArray.from_arrays(numbers.astype(np.int8), list(texts)))
        paths = [
            path[: max(hops - 1, 0)]
            for path, hops in zip(alerts["path"].tolist(), alerts["hops"].tolist(), strict=True)
        ]
        columns.append(pa.array(paths, pa.list_(pa.uint64())))
        out.write_batch(pa.record_batch(columns, schema=schema))

    return batch
