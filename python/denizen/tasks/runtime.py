# SPDX-License-Identifier: Apache-2.0
"""The runtime of tasks: spawning from the host, futures, groups."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from denizen import _core
from denizen.closing import Closing
from denizen.device import breath_of, capability, opened_ahead, parse_device
from denizen.errors import ArgumentError, DenizenError, MessageError
from denizen.shown import Shown, html_table
from denizen.task_type import METADATA, TaskType
from denizen.tasks.interpreter import Interpreter
from denizen.tasks.program import Program
from denizen.values import seconds as _seconds

_SIZES = ("queue_slots", "arena_bytes", "counters", "futures", "port_slots")
_AnyRuntime = _core.TaskRuntime | Interpreter
_MAX_RESULT = 48  # bytes, as task::answer_payload


class Stats(NamedTuple):
    """What the workers have done; a worker tells when it has nothing to do."""

    #: Tasks.
    run: int
    #: What was run at a time: up to 32 thread tasks, or one of a warp or block.
    batches: int
    #: Batches taken from other workers, and tasks in them.
    steals: int
    stolen: int
    #: Tasks that found their worker's deque full.
    spilled: int
    #: Continuations that became runnable.
    joins: int
    #: Spawns that found the arena full, too.
    refused: int
    #: Of the kernel; 1 on the CPU.
    launches: int
    #: Kernels that have been queued, where none lasts (`breath_us`).
    incarnations: int
    run_by_worker: list[int]


class Ended(NamedTuple):
    """How a group has come to its end."""

    #: "" if it ran to the end, "asked" if it was cancelled, "late" if its lifetime had passed.
    cancelled: str
    #: Tasks of it that were not run.
    dropped: int


class Future(Shown):
    """A result that a task will set; made by Runtime.future()."""

    def __init__(self, core: _AnyRuntime, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype.hasobject or not 0 < self.dtype.itemsize <= _MAX_RESULT:
            raise ArgumentError(
                f"a result of {self.dtype} has {self.dtype.itemsize} bytes; use 1 to {_MAX_RESULT}"
            )
        self._core = core
        self._answer, self._sequence = core.open_answer()
        self._open = True

    def _facts(self) -> list[tuple[str, str]]:
        return [("of", str(self.dtype)), ("is", "open" if self._open else "taken")]

    @property
    def promise(self) -> tuple[int, int]:
        """What goes into a task's field of type PROMISE."""
        return self._answer, self._sequence

    def ready(self) -> bool:
        """Whether the result is there."""
        return self._core.answered(self._answer, self._sequence, self.dtype.itemsize)

    def get(self, timeout: float = 10.0) -> Any:
        """The result. Raises DeadlineError if no task has set it by then."""
        size = self.dtype.itemsize
        raw = self._core.read_answer(self._answer, self._sequence, size, _seconds(timeout))
        return np.frombuffer(raw, self.dtype)[0]

    def close(self) -> None:
        """Gives its place back; done when it is forgotten, too."""
        if self._open:
            self._open = False
            self._core.close_answer(self._answer, self._sequence)

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.close()


class _Spawner:
    """What Runtime and Group share."""

    _core: _AnyRuntime
    _program: Program
    _number: int

    def spawn(self, tasks: np.void | NDArray[np.void] | str, *, timeout: float = 60.0) -> None:
        """Hands tasks in, to be run once each, in no promised order.

        Args:
            tasks: one task (`Begin(n=3)`), an array of them (`Begin.zeros(1000)`), or the name of a
                type without arguments.
            timeout: seconds to wait for room.

        Raises RingFullError (the text says how many were taken), MessageError for what is no task
        type of this program, ClosedError, DeadError.
        """
        data, name, count = _bytes_of(tasks)
        known = self._program.types.get(name)
        if name not in self._program.names or (known is None and data):
            raise MessageError(
                f"{name or tasks!r} is no task type of {self._program.name} that the host spawns; "
                f"those are {', '.join(self._program.types) or 'none'}"
            )
        if isinstance(tasks, str):
            if known is None or known.dtype.itemsize != 0:
                raise MessageError(f"task {name} has arguments; make it by its type")
        elif known is not None and tasks.dtype != known.dtype:
            raise MessageError(f"task {name} has other fields in {self._program.name}")
        index = self._program.names.index(name)
        self._core.spawn(index, self._number, data, count, _seconds(timeout))


def _bytes_of(tasks: Any) -> tuple[bytes, str, int]:
    """Bytes of the tasks, the name of their type, their number."""
    if isinstance(tasks, str):
        return b"", tasks, 1
    dtype = getattr(tasks, "dtype", None)
    name = (dtype.metadata or {}).get(METADATA, "") if dtype is not None else ""
    if not name:
        return b"", "", 0
    array = np.ascontiguousarray(tasks)
    return array.tobytes(), name, array.size


class Group(Shown, _Spawner):
    """Tasks that are waited for, cancelled or late together, with all that they spawn.

    As a context manager it waits at the end, or cancels if the block has raised.
    """

    def __init__(self, core: _AnyRuntime, program: Program, lifetime: float) -> None:
        self._core = core
        self._program = program
        self._number = core.open_group(lifetime)
        self._open = True

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("number", str(self._number)),
            ("is", "open" if self._open else "closed"),
        ]

    def cancel(self) -> None:
        """Drops the group's tasks that have not begun; those that run can ask."""
        self._core.cancel(self._number)

    def wait(self, timeout: float = 60.0) -> Ended:
        """Waits until no task of the group runs or can run. Raises DeadlineError."""
        cancelled, dropped = self._core.wait(self._number, _seconds(timeout))
        return Ended(("", "asked", "late")[cancelled], dropped)

    def close(self) -> None:
        """Cancels what is left and gives the group's number back; at most 63 are open."""
        if self._open:
            self._open = False
            self.cancel()
            self.wait(10.0)
            self._core.close_group(self._number)

    def __enter__(self) -> Group:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.wait()
            self.close()
            return
        with suppress(DenizenError):  # the block's error is the one to see
            self.close()


class Runtime(_Spawner, Closing):
    """A running program of tasks.

    Args:
        program: what to run, or a task in Python that makes all others; compiled now unless it is
            cached.
        device: "auto" (the first GPU, else the CPU), "cpu", "cpu:THREADS", "gpu" or "gpu:N"; or
            "python": tasks in Python are run by the interpreter, in the thread that calls.
        workers: CPU: threads, one per core by default. GPU: warps on each SM, 24 by default.
        sms: GPU: SMs to use, all by default.
        breath_us: GPU: no kernel of the program lasts longer than that and a task; the next one is
            queued behind it, so that whoever waits for the whole device waits for two of them at
            most. "auto": 2000, and up to 16,000 where tasks take hundreds of microseconds. None or
            0: one kernel for ever. See docs/gpu-sharing.md.
        sizes: queue_slots=512 (of each deque), arena_bytes=67108864 (for tasks that find no room
            there, and for what tasks allocate from `ctx.arena()`), counters=262144, futures=4096,
            port_slots=4096 (the host's tasks on their way).

    Raises ArgumentError, CompileError, DeviceError, ExhaustedError (memory).
    """

    _number = 0  # of the group of all that belong to none

    def __init__(
        self,
        program: Program | TaskType,
        device: str = "auto",
        *,
        workers: int | None = None,
        sms: int | None = None,
        breath_us: int | Literal["auto"] | None = "auto",
        **sizes: int,
    ) -> None:
        if isinstance(program, TaskType):
            program = Program(tasks=[program], name=program.name)
        if not isinstance(program, Program):
            raise ArgumentError(
                f"{program!r:.60} is no program of tasks; give a tasks.Program, or what "
                "@denizen.task has made"
            )
        self._program = program
        #: What the device's name stands for.
        self.where = where = parse_device(device)
        if where.interpreted:
            self._core = Interpreter(program.plan(interpreted=True), program.name)
            return
        if where.nodes != 1:
            raise ArgumentError(f'device "{device}"; tasks use one GPU or the CPU')
        if where.threads is not None and workers not in (None, where.threads):
            raise ArgumentError(f'device "{device}" and workers = {workers}; give one of the two')
        options = {"workers": workers or where.threads or 0, "sms": sms or 0, **sizes}
        for name, value in options.items():
            if name not in ("workers", "sms", *_SIZES):
                raise ArgumentError(f'no option is called "{name}"; sizes are {", ".join(_SIZES)}')
            bits = 36 if name == "arena_bytes" else 32
            if not isinstance(value, int | np.integer) or not 0 <= value < 2**bits:
                raise ArgumentError(
                    f"{name} = {value!r}; use a whole number from 1 to 2**{bits} - 1"
                )
        if (breath := breath_of(breath_us)) is not None:
            options["breath_us"] = breath
        gpu = where.on_gpu
        with opened_ahead(where, mapped=False):
            image = program.compile_gpu(capability(where)) if gpu else program.compile_cpu()
            self._core = _core.TaskRuntime(image, gpu, where.first, options)

    @property
    def device(self) -> str:
        """Its name."""
        return self._core.device

    @property
    def on_gpu(self) -> bool:
        """Whether it is a GPU."""
        return self._core.on_gpu

    @property
    def workers(self) -> int:
        """CPU threads, or warps of all SMs."""
        return self._core.workers

    def __repr__(self) -> str:
        names = ", ".join(self._program.names)
        return f"<denizen.tasks.Runtime of {names} on {self.device}, {self.workers} workers>"

    def _repr_html_(self) -> str:
        stats = self.stats()
        rows = [("device", self.device), ("workers", f"{self.workers:,}")]
        rows += [("tasks", ", ".join(self._program.names)), ("run", f"{stats.run:,}")]
        return html_table(f"denizen.tasks.Runtime {self._program.name}", rows)

    def future(self, dtype: DTypeLike) -> Future:
        """A place for a result of at most 48 bytes, for a task's field of type PROMISE.

        Raises ExhaustedError if all are in use.
        """
        return Future(self._core, dtype)

    def group(self, lifetime: float | None = None) -> Group:
        """A group; if its lifetime in seconds passes before it has ended, it is cancelled.

        Raises ExhaustedError if 63 are open.
        """
        if lifetime is not None and lifetime <= 0:
            raise ArgumentError(f"lifetime = {lifetime}; use seconds above 0, or None")
        return Group(self._core, self._program, lifetime or 0.0)

    def wait(self, timeout: float = 60.0) -> None:
        """Waits until no task outside groups runs or can run. Raises DeadlineError."""
        self._core.wait(0, _seconds(timeout))

    def stats(self) -> Stats:
        """What has been done so far."""
        return Stats(**self._core.stats())

    def close(self, timeout: float = 5.0) -> None:
        """Stops. Raises StuckError if a task does not return by then."""
        self._core.close(_seconds(timeout))
