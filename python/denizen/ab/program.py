# SPDX-License-Identifier: Apache-2.0
"""Arms that live in another program, in C++ or anything else: JSON lines by stdin and stdout.

One program holds all arms, so they share a process, its buffers and its warm caches. It is started
once and answers each line on stdin with one line on stdout:

    {"do": "sample", "arm": "bulk", "operations": 100}
        {"seconds": 1.2e-06, "ran": {"bulk": 100}, "moved": 6553600,
         "spans": [["copy", 0.0, 1e-06]]}         moved (bytes, counted) and spans if it has them
    {"do": "poison", "arm": "bulk"}
        {}
    {"do": "result", "arm": "bulk", "file": "/tmp/x/result"}
        {"dtype": "float32"}                       the output's bytes are in the file
    {"do": "params", "params": {"bytes": 65536}}   the first line, and again for another cell
        {}

The sample after a poison is a check and no measurement: a program whose spans cost time traces that
one alone. It ends when stdin does. A line that is late, wrong or {"error": "..."} ends the run.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.ab.experiment import Arm, ExperimentError, Kernel, Params, Sample, Span


class Program:
    """A program that serves arms; made in an experiment's ``cell``, killed when nobody holds it.

    Raises ExperimentError if it cannot be started, and from its arms whenever it does not answer
    within ``deadline`` seconds, ends, or answers something else.
    """

    def __init__(self, command: Sequence[str], params: Params, *, deadline: float = 60.0) -> None:
        self._name = Path(command[0]).name
        self._deadline = deadline
        self._rest = b""
        self._moved: dict[str, float] = {}
        # Its stderr is ours: what a program complains about should be seen at once. So is its
        # session: a run that overruns its deadline is killed with all that it started.
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise ExperimentError(f"{self._name} cannot be started: {error}") from error
        self.take(params)

    def take(self, params: Params) -> None:
        """Go on with other parameters: one program, and its start, for all cells of a process.

        Arms made before mean the new parameters too.
        """
        self._ask({"do": "params", "params": dict(params)})

    def arm(
        self,
        name: str,
        *,
        bytes: float | None = None,
        counts_bytes: bool = False,
        kernel: Kernel | None = None,
    ) -> Arm:
        """The arm that the program calls ``name``, which is its marker too."""
        return Arm(
            name=name,
            marker=name,
            sample=lambda operations: self._sample(name, operations),
            poison=lambda: self._poison(name),
            result=lambda: self._result(name),
            bytes=bytes,
            moved=(lambda: self._moved.get(name, 0.0)) if counts_bytes else None,
            kernel=kernel,
        )

    def close(self) -> None:
        """End the program, by force if closing its stdin is not enough."""
        process = self._process
        if process.returncode is not None:
            return
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.close()
            process.wait(2)
        except (OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        process.stdout.close()

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.close()

    def _poison(self, name: str) -> None:
        self._ask({"do": "poison", "arm": name})

    def _sample(self, name: str, operations: int) -> Sample:
        answer = self._ask({"do": "sample", "arm": name, "operations": operations})
        try:
            if "moved" in answer:
                self._moved[name] = self._moved.get(name, 0.0) + float(answer["moved"])
            return Sample(
                seconds=float(answer["seconds"]),
                ran={str(key): int(n) for key, n in answer["ran"].items()},
                spans=[
                    Span(str(track), float(a), float(b)) for track, a, b in answer.get("spans", ())
                ],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ExperimentError(f"{self._name}: no sample of {name}: {answer!r:.80}") from error

    def _result(self, name: str) -> NDArray[Any]:
        with tempfile.TemporaryDirectory(prefix="denizen-ab-") as folder:
            path = Path(folder) / "result"
            answer = self._ask({"do": "result", "arm": name, "file": str(path)})
            try:
                return np.fromfile(path, dtype=np.dtype(answer["dtype"]))
            except (KeyError, TypeError, OSError) as error:
                raise ExperimentError(f"{self._name}: no result of {name}: {error}") from error

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None
        what = f"{self._name}, asked for {question['do']} of {question.get('arm', 'all arms')},"
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            line = self._line(what)
            answer = json.loads(line)
        except BrokenPipeError as error:
            raise ExperimentError(f"{what} had ended with {process.wait()}") from error
        except ValueError as error:
            raise ExperimentError(f"{what} answered no JSON: {line!r:.80}") from error
        if not isinstance(answer, dict) or "error" in answer:
            raise ExperimentError(f"{what} answered {answer!r:.200}")
        return answer

    def _line(self, what: str) -> bytes:
        assert self._process.stdout is not None
        until = time.monotonic() + self._deadline
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            # Ends with a line, the program's end, or the deadline.
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, until - time.monotonic())):
                    self._process.kill()
                    self._process.wait()
                    raise ExperimentError(f"{what} was silent for {self._deadline:g} s: killed")
                read = os.read(self._process.stdout.fileno(), 1 << 16)
                if not read:
                    raise ExperimentError(f"{what} ended with {self._process.wait()}")
                self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line
