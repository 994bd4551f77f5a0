# SPDX-License-Identifier: Apache-2.0
"""The resident workers that blocks of graphs may run on."""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from denizen import _core
from denizen.device import capability, parse_device
from denizen.errors import ArgumentError
from denizen.program import cubin_of

_TEXT = """#include <denizen/dsp/resident/chain_worker.hpp>
using denizen_program = denizen::flow::resident::Program<>;
DENIZEN_PROGRAM(denizen_program)
"""


class Resident:
    """Workers that stay on a GPU, or on threads of the CPU, and run blocks there.

    Blocks take it as ``executor=``; those of several graphs may share one. It lasts as long as a
    block or its maker refers to it. Resident blocks that follow each other are one chain: a quantum
    goes through all of them at one worker, and crosses the bus once in each direction.

    ``device``: "auto" (the first GPU, else the CPU), "cpu", "cpu:THREADS", "gpu" or "gpu:N".
    ``chain_workers``: workers of each chain, which get its quanta by turns; 64 on a GPU and as many
    as threads on the CPU if not said. ``sms``: most SMs to use, 0: a quarter of them.
    Raises ArgumentError, DeviceError, CompileError.
    """

    def __init__(
        self, device: str = "auto", *, chain_workers: int | None = None, sms: int = 0
    ) -> None:
        where = parse_device(device)
        if where.nodes != 1:
            raise ArgumentError(f'device "{device}"; blocks of a graph use one GPU or the CPU')
        threads = where.threads or 0
        if chain_workers is None:
            chain_workers = 64 if where.on_gpu else threads or 2
        if chain_workers < 1:
            raise ArgumentError(
                f"{chain_workers} chain_workers; a chain of blocks needs one at least"
            )
        cubin = b""
        if where.on_gpu:
            cubin = cubin_of(_TEXT, "the blocks of flow graphs", capability(where))
        self._core = _core.FlowResident(
            where.on_gpu, where.first, cubin, threads, sms, chain_workers
        )

    @property
    def device(self) -> str:
        """What it runs on: "NVIDIA H100 80GB HBM3" or "CPU"."""
        return self._core.device

    @property
    def chain_workers(self) -> int:
        """Workers of each chain."""
        return self._core.chain_workers


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
