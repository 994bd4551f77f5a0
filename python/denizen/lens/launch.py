# SPDX-License-Identifier: Apache-2.0
"""Runs a program under the preload library, and watches the logs that it writes.

The library stays off in processes that open no NVIDIA device. The program always runs: what keeps
the lens from recording is told afterwards.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import denizen
from denizen import machine
from denizen.lens import log
from denizen.lens.log import LensError
from denizen.lens.record import Doorbell, Pushbuffer, Record

LIBRARY = "libdenizen_lens.so"
FOLDER = "DENIZEN_LENS_DIR"  # where the logs go
SOCKETS = "DENIZEN_LENS_SOCKETS"  # where a process that sleeps waits to be attached to
_PERIOD = 0.25  # seconds between two looks at the logs


def library() -> Path:
    """The preload library: of DENIZEN_LENS_LIBRARY, in the package, or in the build tree.

    Raises LensError that says where it was looked for.
    """
    if given := os.environ.get("DENIZEN_LENS_LIBRARY"):
        places = [Path(given)]
    else:
        places = [Path(folder) / "lib" / LIBRARY for folder in denizen.__path__]
        if top := machine.checkout():
            places.append(top / "build" / "release" / "lens" / LIBRARY)
    for place in places:
        if place.is_file():
            return place.resolve()
    raise LensError(
        f"{LIBRARY} is in none of: {', '.join(map(str, places))}; build it (make build) or name it "
        "in DENIZEN_LENS_LIBRARY"
    )


def preloaded() -> str:
    """LD_PRELOAD for a program under the lens: the library before what is there."""
    path = str(library())
    before = os.environ.get("LD_PRELOAD", "")
    return f"{path}:{before}" if before else path


def environment(
    folder: Path, mode: str, *, force: bool = False, cupti: bool = False
) -> dict[str, str]:
    """What the program's environment must have, beside this process's.

    ``cupti``: calls are named and counted by CUPTI, else by the driver's symbols on the stack. A
    driver that CUPTI listens to submits more: on an H100 it writes every kernel's address anew at
    each launch of a graph.
    """
    path = str(library())
    found = {
        "LD_PRELOAD": preloaded(),
        FOLDER: str(folder),
        SOCKETS: "",  # one that is inherited would put the lens to sleep
        "DENIZEN_LENS_MODE": mode,
    }
    if cupti:
        other = os.environ.get("CUDA_INJECTION64_PATH")
        if other and other != path:
            raise LensError(f"CUPTI is taken: CUDA_INJECTION64_PATH is {other}; unset it")
        found["CUDA_INJECTION64_PATH"] = path
    if force:
        found["DENIZEN_LENS_FORCE"] = "1"
    return found


def find_program(program: str) -> str:
    """Where the shell would find ``program``. LensError if it would not."""
    found = shutil.which(program)
    if found is None:
        raise LensError(f'program "{program}": no such command')
    return found


def run(
    program: Sequence[str],
    folder: Path,
    mode: str,
    *,
    force: bool = False,
    cupti: bool = False,
    watch: Callable[[], None] | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> int:
    """Run ``program`` with its logs in ``folder``; its exit status, as a shell gives it.

    ``watch`` is called a few times a second while it runs; ``stdout`` and ``stderr`` are
    descriptors for the program's, this process's if None. Ctrl-C goes to the program, which
    decides; the logs of one that is killed are good up to there.
    """
    find_program(program[0])
    with _interrupts_are_the_programs():
        try:
            process = subprocess.Popen(
                list(program),
                env={**os.environ, **environment(folder, mode, force=force, cupti=cupti)},
                stdout=stdout,
                stderr=stderr,
            )
        except OSError as error:
            raise LensError(
                f'program "{program[0]}" cannot be started: {error.strerror}'
            ) from error
        try:
            while True:  # ends with the program
                try:
                    code = process.wait(_PERIOD)
                    break
                except subprocess.TimeoutExpired:
                    if watch is not None:
                        watch()
        except BaseException:
            process.kill()
            process.wait()
            raise
    return code if code >= 0 else 128 - code


@contextmanager
def _interrupts_are_the_programs() -> Iterator[None]:
    """Ctrl-C reaches the program through the terminal; this process waits for it to end.

    A handler, since a program inherits an ignored signal but not a handler.
    """
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def why_nothing(program: str) -> str:
    """Why no log was written, as far as the program's file tells."""
    path = find_program(program)
    try:
        mode = os.stat(path).st_mode
        with open(path, "rb") as file:
            start = file.read(1 << 16)
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return f"{path} is setuid or setgid: the loader takes no preload library into it"
    if start[:4] == b"\x7fELF" and not _has_interpreter(start):
        return f"{path} is linked statically: there is no loader to take in the library"
    return f"{path} and what it started opened no NVIDIA device"


def _has_interpreter(elf: bytes) -> bool:
    """Whether a 64-bit ELF file's head names a dynamic loader (a program header PT_INTERP)."""
    offset = int.from_bytes(elf[32:40], "little")
    size = int.from_bytes(elf[54:56], "little")
    count = int.from_bytes(elf[56:58], "little")
    types = (
        int.from_bytes(elf[at : at + 4], "little")
        for at in range(offset, offset + size * count, max(size, 1))
    )
    return any(kind == 3 for kind in types)


class Tail:
    """Reads a log as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.capture: log.Capture | None = None
        self._at = 0

    def read(self) -> list[Record]:
        """The records that are whole by now and were not given before.

        LensError if the file is no log.
        """
        with open(self.path, "rb") as file:
            file.seek(self._at)
            data = file.read(64 << 20)
        if self.capture is None:
            if len(data) < log.HEADER_BYTES:
                return []
            header, first = log.header(data, str(self.path))
            self.capture = log.Capture(str(self.path), header)
        else:
            first = 0
        found, end = [], first
        for record, after in log.records(data, first):
            found.append(record)
            end = after
            if not isinstance(record, (Doorbell, Pushbuffer)):
                self.capture.add(record)
        self._at += end
        return found


def logs(folder: Path) -> list[Path]:
    """The logs in ``folder``, oldest first."""
    return sorted(folder.glob("*.lens"), key=lambda path: (path.stat().st_mtime_ns, path.name))
