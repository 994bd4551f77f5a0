# SPDX-License-Identifier: Apache-2.0
"""Ranks that do collectives together; the names are those of ``torch.distributed``."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, NamedTuple
from weakref import WeakSet

import numpy as np
from numpy.typing import DTypeLike

from denizen import _core, tasks
from denizen.buffer import Buffer
from denizen.closing import Closing
from denizen.compilers import by_all_cores, cubin_of
from denizen.device import Device, breath_of, capability, parse_device
from denizen.errors import ArgumentError
from denizen.group import known, nccl
from denizen.group import table as tables
from denizen.group.calls import DEFAULT, Calls, named, same, stream_of
from denizen.group.nccl import forbid_multicast
from denizen.group.tensor import View, view
from denizen.runtime import Runtime
from denizen.shown import Shown
from denizen.values import seconds as _seconds
from denizen.values import whole as _whole

_KERNELS = "{}#define DENIZEN_GROUP_RANKS {}\n#include <denizen/group/kernels.hpp>\n"
_COMMON_ONLY, _SERVE = "#define DENIZEN_GROUP_COMMON\n", "#define DENIZEN_GROUP_SERVE\n"
_PARTS = {
    "common": _COMMON_ONLY,
    "rare": "#define DENIZEN_GROUP_RARE\n",
    "resident": _COMMON_ONLY + _SERVE,
    "resident, all": _SERVE,
}
_NORM = "#define DENIZEN_GROUP_RANKS {}\n#include <denizen/group/norm.hpp>\n"
_COMMON = frozenset({"f32", "f16", "bf16", "i32"})


class Link(NamedTuple):
    """The way from a rank to a peer, as it was checked at the start."""

    peer: int
    #: The peer's device.
    device: str
    #: 10^9 bytes a second that the rank's processors read there; 0 on the CPU.
    gbs: float


class Group(Shown, Calls):
    """One rank of a group; made by `join` (a process for each rank) or `local`.

    On the CPU a call is done when it returns; the ranks of one process must call from threads of
    their own. On a GPU it is enqueued on a stream, keeps no reference to the tensors, may be
    captured in a CUDA graph, and errors come from wait().

    A rank that does not come in time, or calls something else, poisons the group: all ranks get
    the same DeadError or ArgumentError, then and ever after.
    """

    def __init__(self, core: _core.Group, ordinal: int) -> None:
        self._core = core
        self._ordinal = ordinal
        #: All ranks of this process: their kernels are loaded at one time.
        self._beside = WeakSet([self])
        self._on_default = False  # calls that wait() has not waited for
        self._loading = threading.Lock()
        self.rank = core.rank
        self.size = core.ranks

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("rank", f"{self.rank} of {self.size}"),
            ("on", self.device),
        ]

    @property
    def on_gpu(self) -> bool:
        """Whether its ranks are GPUs."""
        return self._core.on_gpu

    @property
    def device(self) -> str:
        """The name of this rank's."""
        return self._core.device

    @property
    def engine(self) -> str:
        """What carries the data: "memory" that all ranks reach, or "nccl" between hosts."""
        return self._core.engine

    @property
    def links(self) -> list[Link]:
        """To all peers."""
        return [Link(*link) for link in self._core.links]

    @property
    def table(self) -> list[tuple[int, str, int]]:
        """What "automatic" means for `all_reduce`: (up to so many bytes, algorithm, channels)."""
        return self.tables.get(tables.MAIN, [])  # NCCL has its own

    @property
    def tables(self) -> dict[str, list[tuple[int, str, int]]]:
        """The same of each collective by its name (see `tune`); others go by that of all_reduce."""
        return tables.by_collective(self._core.table)

    def empty(self, shape: int | Iterable[int], dtype: DTypeLike = np.float32) -> Any:
        """An array of zeros in symmetric memory: peers read it without a copy.

        All ranks call this with the same sizes in the same order. It lives as long as the group.
        NumPy on the CPU; on a GPU an object with ``__cuda_array_interface__``
        (``torch.as_tensor(a, device=...)``, ``cupy.asarray(a)``). ExhaustedError: see `heap_bytes`.
        """
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        nbytes = int(np.prod(sizes)) * kind.itemsize
        address = self._core.allocate(nbytes)
        about = {
            "shape": sizes,
            "typestr": kind.str,
            "data": (address, False),
            "strides": None,
            "version": 3,
        }
        memory = _Memory(self, about)
        return memory if self.on_gpu else np.asarray(memory)

    def buffer(self, runtime: Runtime) -> Buffer:
        """This rank, for handlers of ``runtime``: a field of type denizen.BUFFER takes it.

        Handlers of all ranks, or tasks that they spawn, then make the same calls
        (``ctx.all_reduce(m.rank, x, out, "sum")``, docs/group.md), each on a worker of its own, and
        the group is used in no other way meanwhile. In C++ text it is ``ctx.template
        data<denizen::GroupRef>(m.rank)[0]``. The buffer keeps the group.

        Raises ArgumentError if the program runs on CPU threads and the group on GPUs, or the other
        way round, for a GPU that is none of the program's, and for ranks on several hosts, which
        share no memory.
        """
        return known.buffer(self._core, self._ordinal, self, runtime)

    def address(self, runtime: tasks.Runtime) -> int:
        """This rank, for tasks of ``runtime``: a field of type np.uint64 takes it.

        Tasks of all ranks then make the same calls (``ctx.all_reduce(self.rank, x, out, "sum")``,
        docs/group.md), each on a worker of its own, one of a rank at a time, and the group is used
        in no other way meanwhile. In C++ text it is a ``const denizen::GroupRef*``. It is valid as
        long as the group.

        Raises ArgumentError as `buffer` does, for another GPU than the rank's, and for
        device="python".
        """
        return known.address(self._core, self._ordinal, runtime)

    def wait(self, stream: int | None = None) -> None:
        """Until what is on the stream is done; raises the group's error. By default the group's
        own, and CUDA's default one if calls went there, as those with PyTorch's tensors do where
        PyTorch was told of no other.
        """
        if stream is None and self._on_default:
            self._on_default = False
            self._core.wait(DEFAULT)
        self._core.wait(named(stream))

    def check(self) -> None:
        """Raise the group's error, if it has one."""
        self._core.check()

    def resident(
        self,
        channels: int = 0,
        lease: float = 0.5,
        breath_us: int | Literal["auto"] | None = "auto",
    ) -> Resident:
        """A resident group: calls are messages to kernels that stay, not launches.

        Args:
            channels: blocks of the GPU that stay; 0: 64. On the CPU one thread stays.
            lease: seconds after the last call until they leave; the next one brings them back.
            breath_us: GPU: no kernel of theirs lasts longer than that and a call; the next one is
                queued behind it, so that whoever waits for the whole device waits for two of them
                at most. "auto": 2000. None or 0: one kernel as long as they stay. See
                docs/gpu-sharing.md.

        All ranks have one at the same time and use the group in no other way meanwhile.
        """
        return Resident(self, channels, lease, breath_us)

    def all_reduce_rms_norm(
        self,
        tensor: Any,
        residual: Any,
        weight: Any,
        eps: float = 1e-6,
        *,
        out: Any = None,
        total: Any = None,
        stream: int | None = None,
    ) -> None:
        """In one kernel what stands between two layers whose matrices are shared out.

        ``total = residual + sum of all ranks' tensors``, and ``out = total / sqrt(mean(total**2) +
        eps) * weight`` for each row. Sums are taken in float32, in the order of the ranks, and
        rounded once: all ranks get the same bits. For the few rows of a decoding step: data go
        from each rank to each other one as packets of 12 bytes in 16.

        Args:
            tensor: (..., width), this rank's part; float32, float16 or bfloat16, as all others.
            residual: of the same shape, the same on all ranks.
            weight: (width,).
            eps: added to the mean of the squares.
            out, total: of the tensor's shape; by default the tensor and the residual themselves.
            stream: as for `all_reduce`.

        Raises ArgumentError for other types, shapes that do not fit, data that overlap, and over
        NCCL.
        """
        given = view(tensor, writable=out is None)
        before = view(residual, writable=total is None)
        scale = view(weight, writable=False)
        sums = before if total is None else view(total, writable=True)
        result = given if out is None else view(out, writable=True)
        width = scale.elements
        for one, what in ((before, "the residual"), (sums, "total"), (result, "out")):
            same(one.elements, given.elements, f"all_reduce_rms_norm: {what}")
            _check(self, "all_reduce_rms_norm", given, one, given.elements)
        _check(self, "all_reduce_rms_norm", given, scale, given.elements)
        last = tensor.shape[-1] if getattr(tensor, "shape", ()) else 0
        if not width or last != width:
            raise ArgumentError(
                f"all_reduce_rms_norm: a weight of {width} elements for rows of {last}; give one "
                "for each element of a row"
            )
        if self._core.lacks_norm():
            with self._loading:
                for rank in self._beside:
                    if rank._core.lacks_norm():
                        where = parse_device(f"gpu:{rank._ordinal}")
                        rank._core.add_norm(
                            cubin_of(_NORM.format(self.size), "the groups", capability(where))
                        )
        on = stream_of(tensor, stream)
        self._on_default |= on == DEFAULT
        self._core.all_reduce_norm(
            given.type,
            given.elements // width,
            width,
            eps,
            given.address,
            before.address,
            scale.address,
            sums.address,
            result.address,
            on,
        )

    def _have_kernels(self, kind: str, element: str, *, resident: bool) -> None:
        """Those of the types that few calls are of come with the first such call."""
        if element not in _COMMON:
            part = "resident, all" if resident else "rare"
            self._load_where_missing(kind, element, resident, part)

    def _have_resident(self) -> None:
        """Those that stay, for the common types."""
        self._load_where_missing("all_reduce", "f32", True, "resident")

    def _load_where_missing(self, kind: str, element: str, resident: bool, part: str) -> None:
        if not self._core.lacks(kind, element, resident):
            return
        with self._loading:
            for rank in self._beside:
                if rank._core.lacks(kind, element, resident):
                    where = parse_device(f"gpu:{rank._ordinal}")
                    rank._core.add_code(_kernels(self.size, capability(where), part), resident)

    def _run(self, kind: str, given: View, out: View, count: int, **how: Any) -> None:
        _check(self, kind, given, out, count)
        self._have_kernels(kind, given.type, resident=False)
        stream = how.get("stream", 0)
        self._on_default |= stream == DEFAULT
        self._core.run(
            kind,
            given.address,
            out.address,
            count,
            given.type,
            how.get("op", "sum"),
            how.get("algorithm", "automatic"),
            how.get("root", 0),
            stream,
        )


class Resident(Shown, Calls, Closing):
    """The calls of a resident group, by messages. They return at once: see wait().

    Work that fills a tensor must be done before the call: no stream orders it.
    """

    def __init__(
        self, group: Group, channels: int, lease: float, breath_us: int | Literal["auto"] | None
    ) -> None:
        self.rank, self.size = group.rank, group.size
        self._group = group
        group._have_resident()
        self._core: _core.ResidentGroup | None = _core.ResidentGroup(
            group._core, channels, lease, breath_of(breath_us)
        )
        self._last = 0

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("rank", f"{self.rank} of {self.size}"),
            ("is", "closed" if self._core is None else "running"),
        ]

    def wait(self) -> None:
        """Until all that was called is done; raises the group's error."""
        if self._last:
            self._alive().wait(self._last)

    def close(self) -> None:
        """The kernels leave; the group is an ordinary one again."""
        self._core = None

    def _alive(self) -> _core.ResidentGroup:
        if self._core is None:
            raise ArgumentError("this resident group has been closed")
        return self._core

    def _run(self, kind: str, given: View, out: View, count: int, **how: Any) -> None:
        _check(self._group, kind, given, out, count)
        self._group._have_kernels(kind, given.type, resident=True)
        self._last = self._alive().post(
            kind,
            given.address,
            out.address,
            count,
            given.type,
            how.get("op", "sum"),
            how.get("algorithm", "automatic"),
            how.get("root", 0),
        )


class _Memory:
    """Symmetric memory for NumPy, CuPy and PyTorch; keeps the group."""

    def __init__(self, group: Group, about: dict[str, Any]) -> None:
        self._group = group
        if group.on_gpu:
            self.__cuda_array_interface__ = about
        else:
            self.__array_interface__ = about


def _check(group: Group, kind: str, given: View, out: View, count: int) -> None:
    for found in (given, out) if count else ():
        if found.on_gpu != group.on_gpu:
            where = "a GPU's memory" if found.on_gpu else "the CPU's memory"
            raise ArgumentError(f"a tensor in {where}, but the ranks are {group.device}s")
    if given.type != out.type:
        raise ArgumentError(f"{kind}: {given.type} in, {out.type} out; use one type")


def _kernels(ranks: int, architecture: int, part: str = "common") -> bytes:
    """The kernels for so many ranks: launches of "common" or "rare" types, or "resident" ones of
    the common types or "resident, all".

    The first time they take some 19, 20, 38 and 51 s on two cores to compile.
    """
    text = _KERNELS.format(_PARTS[part], ranks)
    return cubin_of(text, "the groups", architecture, by_all_cores())


def _prepare(where: Device, ranks: int) -> bytes:
    """The kernels for GPUs; nothing for the CPU."""
    if not where.on_gpu:
        return b""
    forbid_multicast()
    return _kernels(ranks, capability(where))


def local(
    ranks: int,
    device: str = "auto",
    *,
    timeout: float = 10.0,
    heap_bytes: int = 0,
    least_gbs: float = 10.0,
    table: tables.Tables | None = None,
) -> list[Group]:
    """All ranks of a group in this process.

    Args:
        ranks: 1 to 8.
        device: "auto" (GPUs if there are as many, else the CPU), "cpu", "gpu" (the first ones) or
            "gpu:N" (from N on).
        timeout: seconds that a rank is waited for in any call.
        heap_bytes: of symmetric memory for `empty`, on each rank.
        least_gbs: GPUs: DenizenError if a peer's memory is read more slowly.
        table: see `Group.table`, or of several collectives `Group.tables`; by default what
            `denizen tune` has found, else a built-in one.
    """
    ranks, seconds = _whole("ranks", ranks), _seconds(timeout)
    heap_bytes = _whole("heap_bytes", heap_bytes, 2**63 - 1)
    if device == "auto":
        device = "gpu" if _core.gpu_count() >= ranks else "cpu"
    where = parse_device(device)
    if where.nodes != 1 or where.threads is not None:
        raise ArgumentError(
            f'device "{device}"; use "cpu", "gpu" or "gpu:N" and the ranks\' number'
        )
    if where.on_gpu:
        where = replace(where, nodes=ranks)
    cubin = _prepare(where, ranks)
    rows = tables.named(tables.load(ranks, where.on_gpu, where.first) if table is None else table)
    cores = _core.group_local(
        ranks, where.on_gpu, where.first, cubin, seconds, heap_bytes, least_gbs, rows
    )
    groups = [Group(core, where.first + core.rank) for core in cores]
    for one in groups:
        one._beside, one._loading = WeakSet(groups), groups[0]._loading
    return groups


def join(
    address: str | os.PathLike[str],
    rank: int,
    ranks: int,
    device: str = "cpu",
    *,
    timeout: float = 10.0,
    heap_bytes: int = 0,
    least_gbs: float = 10.0,
    table: tables.Tables | None = None,
    engine: str = "automatic",
    token: str = "",
) -> Group:
    """This process as one rank; all ranks call this with the same ``address`` and options.

    Args:
        address: on one host a path, where rank 0 makes a socket, which only this user can open and
            which is removed when all have come: in a folder of your own. For several hosts
            "tcp://HOST:PORT": rank 0's host, and a port there that is free until all have come.
        rank, ranks: this one, and how many: at most 8 that share memory.
        device: "cpu" or "gpu:N", another one for each rank.
        timeout: as for `local`; DeadlineError names who has not come here by then.
        heap_bytes, least_gbs: as for `local`.
        table: rank 0's is everyone's.
        engine: "automatic", "memory" (all ranks reach one another's) or "nccl". Automatic is memory
            for a path, and for ranks that came over TCP from one host; else NCCL, the library of
            the wheel that PyTorch uses, or the one that the variable DENIZEN_NCCL names.
        token: for tcp://, 8 to 127 bytes that all ranks know and nobody else. The line is not
            encrypted.
    """
    rank, ranks, seconds = _whole("rank", rank), _whole("ranks", ranks), _seconds(timeout)
    heap_bytes = _whole("heap_bytes", heap_bytes, 2**63 - 1)
    where = parse_device(device)
    if where.nodes != 1 or where.threads is not None:
        raise ArgumentError(f'device "{device}"; a rank is "cpu" or one GPU')
    if ranks < 1:
        raise ArgumentError(f"rank {rank} of {ranks}; ranks count from 0")
    place = os.fspath(address)
    if place.startswith("tcp://") and engine != "memory":
        nccl.prepare()
    cubin = b"" if engine == "nccl" else _prepare(where, ranks)
    rows: list[tables.Named] = []
    if engine != "nccl":
        rows = tables.named(
            tables.load(ranks, where.on_gpu, where.first) if table is None else table
        )
    core = _core.group_join(
        place,
        rank,
        ranks,
        where.on_gpu,
        where.first,
        cubin,
        seconds,
        heap_bytes,
        least_gbs,
        rows,
        engine,
        token,
    )
    return Group(core, where.first)
