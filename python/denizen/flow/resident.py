# SPDX-License-Identifier: Apache-2.0
"""The resident workers that blocks of graphs may run on."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from denizen import _core
from denizen.compilers import cubin_of, link
from denizen.device import capability, opened_ahead, parse_device
from denizen.errors import ArgumentError
from denizen.handlers.kind_code import Kind, cpu_function, gpu_parts, python_function, structs
from denizen.shown import Shown
from denizen.values import text, whole

if TYPE_CHECKING:
    from denizen.flow.kind import KindType

_TEXT = """#include <denizen/dsp/resident/chain_worker.hpp>
{structs}using denizen_program = denizen::flow::resident::Program<{names}>;
DENIZEN_PROGRAM(denizen_program)
"""
_NAME = "the blocks of flow graphs"


class Resident(Shown):
    """Workers that stay on a GPU, or on threads of the CPU, and run blocks there.

    Blocks take it as ``executor=``; those of several graphs may share one. It lasts as long as a
    block or its maker refers to it. Resident blocks that follow each other are one chain: a quantum
    goes through all of them at one worker, and crosses the bus once in each direction.

    ``device``: "auto" (the first GPU, else the CPU), "cpu", "cpu:THREADS", "gpu" or "gpu:N"; or
    "python", where blocks in Python are run by the interpreter, on one thread.
    ``kinds``: the kinds of blocks in Python (flow.kind) that it can run.
    ``chain_workers``: workers of each chain, which get its quanta by turns; 64 on a GPU and as many
    as threads on the CPU if not said. ``sms``: most SMs to use, 0: a quarter of them.
    Raises ArgumentError, DeviceError, CompileError.
    """

    def __init__(
        self,
        device: str = "auto",
        *,
        chain_workers: int | None = None,
        sms: int = 0,
        kinds: Sequence[KindType] = (),
    ) -> None:
        self.kinds = [k.code for k in _kinds(kinds)]
        self.interpreted = device == "python"
        if self.interpreted:
            device, chain_workers = "cpu:1", 1
        where = parse_device(device)
        if where.nodes != 1:
            raise ArgumentError(f'device "{device}"; blocks of a graph use one GPU or the CPU')
        threads = where.threads or 0
        if chain_workers is None:
            chain_workers = 64 if where.on_gpu else threads or 2
        chain_workers, sms = whole("chain_workers", chain_workers), whole("sms", sms)
        if chain_workers < 1:
            raise ArgumentError(
                f"{chain_workers} chain_workers; a chain of blocks needs one at least"
            )
        names = [k.name for k in self.kinds]
        with opened_ahead(where, mapped=True):
            cubin = compile_gpu(self.kinds, capability(where)) if where.on_gpu else b""
            self._core = _core.FlowResident(
                where.on_gpu, where.first, cubin, threads, sms, chain_workers, names
            )
        self._on_gpu = where.on_gpu

    def _facts(self) -> list[tuple[str, str]]:
        return [("on", self.device), ("workers of each chain", str(self.chain_workers))]

    def function_of(
        self, kind: Kind, failed: Callable[[BaseException], None]
    ) -> tuple[int, object]:
        """Where a block's function is, 0 on a GPU, and what has to live as long as the block.

        `failed`: gets what it raises, on the interpreter.
        """
        if kind not in self.kinds:
            raise ArgumentError(
                f"this Resident has no kind {kind.name}: flow.Resident(device, kinds=[{kind.name}])"
            )
        if self._on_gpu:
            return 0, None
        if not self.interpreted:
            return cpu_function(kind), None
        function = python_function(kind, failed)
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address is not None
        return address, function

    @property
    def device(self) -> str:
        """What it runs on: "NVIDIA H100 80GB HBM3" or "CPU"."""
        return self._core.device

    @property
    def chain_workers(self) -> int:
        """Workers of each chain."""
        return self._core.chain_workers


def _kinds(given: Sequence[KindType]) -> Sequence[KindType]:
    if not isinstance(given, Iterable) or not all(hasattr(k, "code") for k in given):
        raise ArgumentError(
            f"kinds = {given!r:.60}; use a list of classes that @flow.kind has decorated"
        )
    names = [k.name for k in given]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ArgumentError(f"kinds: two are called {twice}; give each a name of its own")
    return given


def compile_gpu(kinds: Sequence[Kind], architecture: int) -> bytes:
    """The resident program with these kinds behind the library's. CompileError, as Program's."""
    if not kinds:
        return cubin_of(_TEXT.format(structs="", names=""), _NAME, architecture)
    text = _TEXT.format(
        structs=structs(kinds), names=", ".join(f"denizen_kinds::{k.name}" for k in kinds)
    )
    code = "\n".join(k.rewritten().text for k in kinds)
    return link(text, _NAME, architecture, (), code, partial(gpu_parts, kinds, architecture))


_lock = threading.Lock()
_shared: WeakValueDictionary[str, Resident] = WeakValueDictionary()


def find_executor(executor: str | Resident, device: str | None) -> Resident | None:
    """Whom a block's arguments name: None for the graph's own threads.

    "resident" is one runtime for all blocks of this process that name the same ``device``.
    """
    if executor == "resident":
        name = "auto" if device is None else device
        with _lock:
            found = _shared.get(name)
            if found is None:
                found = _shared[name] = Resident(name)
            return found
    if device is not None:
        raise ArgumentError(f'device "{device}" is for executor="resident"; a Resident has its own')
    if executor == "cpu":
        return None
    if not isinstance(executor, Resident):
        raise ArgumentError(f'executor {executor!r}; use "cpu", "resident" or a flow.Resident')
    return executor


def placed(
    name: str, executor: str | Resident, device: str | None
) -> tuple[Resident | None, _core.FlowResident | None]:
    """The same, and what the blocks of the library, called `name`, are made with."""
    text("a block's name", name)
    resident = find_executor(executor, device)
    return resident, None if resident is None else resident._core
