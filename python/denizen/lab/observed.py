# SPDX-License-Identifier: Apache-2.0
"""The program that is watched in the experiment ``driver``, from outside: it launches when it is
told to, and says what it did (benchmarks/observed.hpp)."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from denizen.lab.record import LabError

_DEADLINE = 120.0  # seconds of a process
_END = 30.0  # seconds that it may take to end


@dataclass(frozen=True, slots=True)
class Run:
    """One answer of the program: ``made`` launches of ``kernels`` kernels each between two moments.

    The device ``counted`` so many kernels; ``seen`` has those of CUPTI's records, None if they are
    off.
    """

    made: int
    kernels: int
    counted: int
    begin: int
    end: int
    seen: int | None = None

    @property
    def right(self) -> bool:
        """Whether every launch that was made was made once, and was seen once by CUPTI."""
        return self.counted == self.made * self.kernels and self.seen in (None, self.counted)

    @property
    def k_per_s(self) -> float:
        """Thousands of launches a second."""
        return self.made / (self.end - self.begin) * 1e6


class Program:
    """A process of the program. LabError, with what it said last, where it does not answer."""

    def __init__(self, command: Sequence[str], more: Mapping[str, str] | None = None) -> None:
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115  (until close)
        self._process = self._start(command, {**os.environ, **(more or {})})
        self._watchdog = threading.Timer(_DEADLINE, self._kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    def _start(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        made = self._popen(command, environment, subprocess.PIPE)
        assert made.stdin is not None and made.stdout is not None
        self._asked: IO[str] = made.stdin
        self._answers: IO[str] = made.stdout
        return made

    def _popen(
        self, command: Sequence[str], environment: Mapping[str, str], pipe: int
    ) -> subprocess.Popen[str]:
        try:
            return subprocess.Popen(
                command, env=environment, text=True, stdin=pipe, stdout=pipe, stderr=self._words,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise LabError(f"{command[0]} cannot be started: {error.strerror}") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, line: str) -> None:
        """Without waiting for the answer."""
        with contextlib.suppress(BrokenPipeError):  # its answer is missing then
            self._asked.write(f"{line}\n")
            self._asked.flush()

    def answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        try:
            return dict(json.loads(line))
        except ValueError as error:
            raise LabError(f"the observed program {self._last_words(line)}") from error

    def _last_words(self, line: str = "") -> str:
        self._words.seek(0)
        last = f"{line}\n{self._words.read()}".strip().splitlines()[-1:]
        return f"does not answer: {last[0]}" if last else "has ended without a word"

    def finish(self) -> Run:
        """What it says of the launches that it was told of."""
        said = self.answer()
        made, kernels, counted, begin, end = (
            int(said[word]) for word in ("made", "kernels", "counted", "begin", "end")
        )
        return Run(made, kernels, counted, begin, end, said.get("records"))

    def run(self, loop: str, launches: int) -> Run:
        self.tell(f"run {loop} {launches}")
        return self.finish()

    def cupti(self, word: str) -> None:
        """CUPTI ``on`` or ``off`` in its process."""
        self.tell(f"cupti {word}")
        self.answer()

    def close(self) -> None:
        """Its end, which comes with that of its input."""
        with contextlib.suppress(BrokenPipeError):
            self._asked.close()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        self._watchdog.cancel()
        self._answers.close()
        self._words.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.killpg(self._process.pid, signal.SIGKILL)


class Wrapped(Program):
    """One that another program starts, which may keep stdin and stdout for itself: it speaks by two
    FIFOs of ``folder``. One launch is made at once, and its answer is the first to be taken."""

    def __init__(self, before: Sequence[str], command: Sequence[str], folder: Path) -> None:
        self._asking, self._answering = folder / "asked", folder / "answers"
        for path in (self._asking, self._answering):
            os.mkfifo(path)
        by_fifos = f"exec {shlex.join(command)} <{self._asking} >{self._answering}"
        super().__init__([*before, "sh", "-c", by_fifos])

    def _start(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        # For reading and writing: that waits for nobody, and the end still comes when it is closed.
        self._asked = os.fdopen(os.open(self._asking, os.O_RDWR | os.O_CLOEXEC), "w")
        reading = os.open(self._answering, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._answers = os.fdopen(reading)
        made = self._popen(command, environment, subprocess.DEVNULL)
        # Where nobody has the other end yet, there is nothing to wait for: a read is at its end.
        self.tell("run kernels 1")
        waiting = select.poll()
        waiting.register(reading, select.POLLIN)
        for _ in range(int(_DEADLINE)):
            if waiting.poll(1000) or made.poll() is not None:  # it answers, or has ended
                break
        os.set_blocking(reading, True)
        return made
