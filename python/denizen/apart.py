# SPDX-License-Identifier: Apache-2.0
"""NVRTC and nvJitLink in a process of their own, because neither can be interrupted: a program
takes them seconds, and Ctrl-C must end the wait.

The process ends with its work, when it is killed, or when its standard input is closed, which also
happens when the parent dies. It loads denizen's compiled module and nothing else of the package, so
it begins in a few hundredths of a second. Where there is no interpreter to start (Python inside
another program), the work is done here.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

# What can be asked for, by name: a function of _core, and how its result becomes bytes.
_CALLS = ("compile_cubin", "compile_ltoir", "link_cubin")


class Ending:
    """Ends, from any thread, the compilations that were given it, also those that begin later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: set[subprocess.Popen[bytes]] = set()
        self.ended = False

    def end(self) -> None:
        with self._lock:
            self.ended = True
            for child in self._children:
                child.kill()

    @contextmanager
    def of(self, child: subprocess.Popen[bytes]) -> Iterator[None]:
        with self._lock:
            self._children.add(child)
            if self.ended:
                child.kill()
        try:
            yield
        finally:
            with self._lock:  # from here on its number may be another process's
                self._children.remove(child)


def can_end() -> bool:
    """Whether compilations are done apart, so that they can be ended."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def compile_apart(
    call: str, *given: object, folders: Sequence[str], ending: Ending | None = None
) -> bytes:
    """What _core's function ``call`` makes of what is given.

    Args:
        call: one of compile_cubin, compile_ltoir, link_cubin.
        folders: where PyPI's wheels of NVRTC and nvJitLink lie.
        ending: by which another thread may end it.

    Raises CompileError as that function does, and if the process dies of it or is ended.
    """
    from denizen import _core  # noqa: PLC0415  (the process that works has no package)
    from denizen.errors import CompileError, from_code  # noqa: PLC0415

    if not can_end():
        return _made(_core, call, given, folders)
    work = memoryview(pickle.dumps((sys.path, _core.__file__, call, given, list(folders))))
    command = [sys.executable, "-I", "-S", __file__]
    with (
        subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child,
        (ending or Ending()).of(child),
    ):
        assert child.stdin is not None and child.stdout is not None
        try:
            with suppress(BrokenPipeError):  # it is dead already; then there is no answer either
                while work:
                    work = work[child.stdin.write(work) or 0 :]
            answer = b"".join(iter(lambda: child.stdout.read(1 << 20), b""))  # type: ignore[union-attr]
        finally:
            child.kill()  # it may have ended by itself
    if not answer:
        raise CompileError(
            f"the process that compiles for the GPU died ({_end_of(child.returncode)}); "
            "is there enough memory?"
        )
    code, what = pickle.loads(answer)
    if code is not None:
        raise from_code(code, what)
    assert isinstance(what, bytes)
    return what


def _end_of(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"


def _made(core: ModuleType, call: str, given: Sequence[object], folders: Sequence[str]) -> bytes:
    if call not in _CALLS:
        raise ValueError(call)
    core.set_cuda_folders(list(folders))
    made = getattr(core, call)(*given)
    code = made[0] if isinstance(made, tuple) else made
    assert isinstance(code, bytes)
    return code


class _FailedError(Exception):
    """An error of the core's: its code and its text, of which the parent makes its own."""


def _leave_with(pipe: BinaryIO) -> None:
    """Ends this process when the other side of the pipe is gone."""
    while pipe.read(1):
        pass
    os._exit(1)


def _work() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent has it too, and decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the libraries print is no answer
    path, module, call, given, folders = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_leave_with, args=(sys.stdin.buffer,), daemon=True).start()
    sys.path[:] = path
    spec = importlib.util.spec_from_file_location("denizen._core", module)
    assert spec is not None and spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    core._error = _FailedError  # type: ignore[attr-defined]
    try:
        answer = (None, _made(core, call, given, folders))
    except _FailedError as error:
        answer = error.args
    pickle.dump(answer, answers)
    answers.flush()
    os._exit(0)  # the thread above holds standard input


if __name__ == "__main__":
    _work()
