# SPDX-License-Identifier: Apache-2.0
"""device="python": tasks that Python runs, one after the other, in the thread that calls.

It stands in for denizen._core.TaskRuntime. A call that waits runs tasks until it has what it waits
for: the newest first, those of a higher priority before others. An exception in a task reaches the
caller. Every task is in its group's count until it has run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from denizen.errors import ArgumentError, ClosedError, DeadlineError
from denizen.handlers import ops, views
from denizen.handlers.interpreter.blocks import Blocks, Calls
from denizen.handlers.interpreter.context import OneRank
from denizen.handlers.plan import build
from denizen.handlers.task_plan import TaskPlan
from denizen.handlers.teams import Alone
from denizen.task_type import PRIORITIES, TaskType

_SUM = (1 << 40) - 1  # what arrives is summed up modulo 2**40


@dataclass
class _Task:
    type: TaskType
    data: bytes
    group: int


@dataclass
class _Join:
    left: int
    sum: int
    task: _Task


@dataclass
class _Group:
    ends: float  # time.monotonic(); 0: never
    left: int = 0  # tasks that have not run
    cancelled: int = 0  # 1: asked, 2: late
    dropped: int = 0


class Context(Alone, Calls, OneRank):
    """What a task has while it runs."""

    worker, workers = 0, 1

    def __init__(self, runtime: Interpreter, group: int) -> None:
        self._runtime: Interpreter = runtime
        self._group = group

    def _made(self, task: views.State) -> _Task:
        assert isinstance(task.type, TaskType)
        return _Task(task.type, task._array.tobytes(), self._group)

    def spawn_task(self, task: views.State) -> bool:
        self._runtime.put(self._made(task))
        return True

    def spawn_on(self, worker: int, task: views.State) -> bool:
        return self.spawn_task(task)

    def when(self, arrivals: int, task: views.State) -> int:
        return self._runtime.join(ops.to_u4(arrivals), self._made(task))

    def arrive(self, counter: int, value: int) -> None:
        self._runtime.arrive(ops.to_u4(counter), int(ops.to_i8(value)))

    def set(self, promise: int, value: Any) -> None:
        plain = np.float64(value) if isinstance(value, float) else np.uint64(int(ops.to_u8(value)))
        self._runtime.answers[int(promise) & 0xFFFFFFFF] = plain.tobytes()

    def cancelled(self) -> bool:
        return self._runtime.groups[self._group].cancelled != 0

    def cancel_group(self) -> None:
        if self._group:
            self._runtime.cancel(self._group)


class Interpreter:
    """See the module. The methods are those of denizen._core.TaskRuntime."""

    workers = 1
    on_gpu = False
    device = "Python, one step at a time"

    def __init__(self, plan: TaskPlan, name: str) -> None:
        if not plan.tasks:
            raise ArgumentError(f'device="python" runs tasks in Python; those of {name} are in C++')
        self._types = plan.tasks
        self._functions = {n: build(r, ops.names(), views.new) for n, r in plan.functions.items()}
        self._queues: dict[str, list[_Task]] = {p: [] for p in PRIORITIES}
        self._joins: dict[int, _Join] = {}
        self.groups: dict[int, _Group] = {0: _Group(0.0)}
        self.answers: dict[int, bytes | None] = {}
        self.blocks = Blocks()
        self._counted = {"counters": 0, "groups": 0, "answers": 0}
        self._run = self._fired = 0
        self._closed = False

    def _number(self, kind: str) -> int:
        self._counted[kind] += 1
        return self._counted[kind]

    # ---- what tasks do

    def put(self, task: _Task) -> None:
        self.groups[task.group].left += 1
        self._queues[task.type.priority].append(task)

    def join(self, arrivals: int, task: _Task) -> int:
        number = self._number("counters")
        self._joins[number] = _Join(arrivals, 0, task)
        return number

    def arrive(self, counter: int, value: int) -> None:
        if counter == 0:
            return
        join = self._joins[counter]
        join.left -= 1
        join.sum += value
        if join.left > 0:
            return
        del self._joins[counter]
        self._fired += 1
        task = join.task
        if "sum" in (task.type.dtype.names or ()):
            record = np.frombuffer(task.data, task.type.dtype)[0].copy()
            record["sum"] = views.narrow(task.type.dtype["sum"], join.sum & _SUM)
            task.data = record.tobytes()
        self.put(task)

    # ---- the loop

    def _step(self) -> bool:
        """Runs one task; False if there is none."""
        queue = next((q for q in self._queues.values() if q), None)
        if queue is None:
            return False
        task = queue.pop()
        group = self.groups[task.group]
        if not group.cancelled and group.ends and time.monotonic() >= group.ends:
            group.cancelled = 2
        try:
            if group.cancelled:
                group.dropped += 1
            else:
                self._run += 1
                array = np.zeros((), task.type.dtype)
                if task.data:
                    array[()] = np.frombuffer(task.data, task.type.dtype)[0]
                state = views.Record(array, task.type.name)
                self._functions[task.type.name](state, Context(self, task.group))
        finally:
            group.left -= 1
        return True

    def _until(self, done: Callable[[], bool], timeout: float) -> bool:
        if self._closed:
            raise ClosedError("the runtime is closed")
        end = time.monotonic() + timeout
        while not done():  # ends: nothing is left, or the deadline
            if not self._step() or time.monotonic() >= end:
                break
        return done()

    # ---- calls of the host

    def spawn(self, type: int, group: int, tasks: bytes, count: int, timeout: float) -> None:
        own = self._types[type]
        size = own.dtype.itemsize
        for i in range(count):
            self.put(_Task(own, tasks[i * size : (i + 1) * size], group))

    def open_group(self, lifetime: float) -> int:
        number = self._number("groups")
        self.groups[number] = _Group(time.monotonic() + lifetime if lifetime else 0.0)
        return number

    def cancel(self, group: int) -> None:
        found = self.groups[group]
        found.cancelled = found.cancelled or 1

    def wait(self, group: int, timeout: float) -> tuple[int, int]:
        found = self.groups[group]
        if not self._until(lambda: found.left == 0, timeout):
            raise DeadlineError(f"{found.left} tasks are left after {timeout:g} s")
        return found.cancelled, found.dropped

    def close_group(self, group: int) -> None:
        del self.groups[group]

    def open_answer(self) -> tuple[int, int]:
        number = self._number("answers")
        self.answers[number] = None
        return number, 1

    def answered(self, answer: int, sequence: int, bytes: int) -> bool:
        return self._until(lambda: self.answers[answer] is not None, 0.01)

    def read_answer(self, answer: int, sequence: int, bytes: int, timeout: float) -> bytes:
        if not self._until(lambda: self.answers[answer] is not None, timeout):
            raise DeadlineError(f"no task has set the result within {timeout:g} s")
        found = self.answers[answer]
        assert found is not None
        return found[:bytes]

    def close_answer(self, answer: int, sequence: int) -> None:
        self.answers.pop(answer, None)

    def stats(self) -> dict[str, Any]:
        return {
            **dict.fromkeys(("steals", "stolen", "spilled", "refused", "incarnations"), 0),
            "run": self._run,
            "batches": self._run,
            "joins": self._fired,
            "launches": 1,
            "run_by_worker": [self._run],
        }

    def close(self, timeout: float) -> None:
        self._closed = True
