# SPDX-License-Identifier: Apache-2.0
"""XES (IEEE 1849-2016), read as a stream by expat: nothing but the events' columns is held."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat

from denizen import limits
from denizen.errors import DenizenError
from denizen.procmine.log import Builder
from denizen.procmine.times import Parse

_PIECE = 1 << 20
_VALUES = frozenset({"string", "date", "int", "float", "boolean", "id"})

# An event as it was read: its line and its attributes.
_Event = tuple[int, dict[str, str]]


class _Reader:
    def __init__(
        self,
        builder: Builder,
        parse: Parse,
        *,
        activity: Sequence[str],
        case: str,
        time: str,
        start: str | None,
    ) -> None:
        self._builder, self._parse = builder, parse
        self._activity, self._case, self._time, self._start = activity, case, time, start
        self._lifecycle_key = "lifecycle:transition"
        self._trace: dict[str, str] | None = None
        self._event: dict[str, str] | None = None
        self._events: list[_Event] = []
        self._trace_line = self._event_line = 0
        self._depth = 0  # of attributes within attributes: only the outermost count
        self._open = 0  # elements
        self._deepest = limits.most("depth")
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end

    def _begin(self, tag: str, given: dict[str, str]) -> None:
        self._open += 1
        if self._open > self._deepest:
            where = f"{self._builder.source}:{self.parser.CurrentLineNumber}"
            raise limits.too_large("depth", self._deepest, f"{where}: XML elements are nested")
        if tag in _VALUES:
            self._depth += 1
            if self._depth == 1:
                to = self._event if self._event is not None else self._trace
                if to is not None and "key" in given and "value" in given:
                    to[given["key"]] = given["value"]
        elif tag == "event":
            self._event = {}
            self._event_line = self.parser.CurrentLineNumber
        elif tag == "trace":
            self._trace = {}
            self._events = []
            self._trace_line = self.parser.CurrentLineNumber
        elif tag in ("list", "container"):
            self._depth += 1

    def _end(self, tag: str) -> None:
        self._open -= 1
        if tag in _VALUES or tag in ("list", "container"):
            self._depth -= 1
        elif tag == "event" and self._event is not None:
            if self._trace is None:
                self._builder.problem(
                    "no case", self._event_line, "an event outside of a trace has no case"
                )
            else:
                self._events.append((self._event_line, self._event))
            self._event = None
        elif tag == "trace" and self._trace is not None:
            self._end_of_trace(self._trace)
            self._trace = None

    def _end_of_trace(self, trace: dict[str, str]) -> None:
        builder = self._builder
        case = trace.get(self._case)
        if case is None:
            builder.problem(
                "no case",
                self._trace_line,
                f"a trace without {self._case}: its {len(self._events)} events have no case",
                len(self._events),
            )
            return
        before: int | None = None
        for line, event in self._events:
            missing = [key for key in self._activity if key not in event]
            if missing:
                builder.problem(
                    "no activity", line, f'an event of case "{case}" has no {missing[0]}'
                )
                continue
            activity = "+".join([event[key] for key in self._activity])
            time = self._time_of(event, self._time, line, case)
            if time is None:
                continue
            start = None
            if self._start is not None and self._start in event:
                start = self._time_of(event, self._start, line, case)
                if start is not None and start > time:
                    builder.problem(
                        "negative duration",
                        line,
                        f'an event of case "{case}" ends before it starts',
                    )
                    start = time
            if before is not None and time < before:
                builder.problem(
                    "negative duration",
                    line,
                    f'an event of case "{case}" is {(before - time) / 1e6:g} s earlier than the '
                    "one before it",
                )
            before = time
            builder.add(
                case,
                activity,
                time,
                start=start,
                lifecycle=event.get(self._lifecycle_key),
                attributes=event,
            )
        builder.describe_case(case, trace)

    def _time_of(self, event: dict[str, str], key: str, line: int, case: str) -> int | None:
        text = event.get(key)
        if text is None:
            self._builder.problem("no time", line, f'an event of case "{case}" has no {key}')
            return None
        try:
            return self._parse(text)
        except ValueError as error:
            self._builder.problem("no time", line, f'an event of case "{case}": {key} {error}')
            return None


def read(
    path: Path,
    builder: Builder,
    parse: Parse,
    *,
    case: str = "concept:name",
    activity: Sequence[str] = ("concept:name",),
    time: str = "time:timestamp",
    start: str | None = None,
) -> None:
    """Feed the events of ``path`` (.xes, .xes.gz) to ``builder``.

    A case is a trace and is named by its attribute ``case``; ``activity``, ``time`` and ``start``
    are keys of events, several for an activity are joined by "+". XML that is not well-formed and
    an archive that ends too early are problems "malformed": what lies behind them is not read.
    """
    reader = _Reader(builder, parse, activity=activity, case=case, time=time, start=start)
    with limits.opened(path) as file:
        try:
            _feed(reader.parser, file, path)
        except expat.ExpatError as error:
            what = expat.errors.messages[error.code]
            builder.problem("malformed", error.lineno, f"not well-formed XML: {what}")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = "ends too early" if isinstance(error, EOFError) else f"is damaged ({error})"
            builder.problem(
                "malformed", reader.parser.CurrentLineNumber, f"the archive {what}; fetch it again"
            )
        except DenizenError:
            raise
        except (LookupError, ValueError) as error:  # of the encoding that its first line names
            builder.problem("malformed", 1, f"not readable as XML: {error}")


# Expat before 2.6 scans an unfinished tag from its beginning with every piece, and pyexpat hands it
# at most 1 MiB at a time. So the limit of a token is what keeps the work linear in the file: with
# 16 MiB each byte is seen at most sixteen times.
def _feed(parser: expat.XMLParserType, file: BinaryIO, path: Path) -> None:
    longest = limits.most("token")
    fed = 0
    while piece := file.read(_PIECE):  # ends with the file
        parser.Parse(piece, False)
        fed += len(piece)
        unfinished = fed - max(0, parser.CurrentByteIndex)
        if unfinished > longest:
            where = f"{path}:{parser.CurrentLineNumber}"
            raise limits.too_large("token", longest, f"{where}: one XML tag or text has bytes")
    parser.Parse(b"", True)
