# SPDX-License-Identifier: Apache-2.0
"""Four ranks add up what each has."""

from __future__ import annotations

import importlib.util
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from denizen.tour import draw
from denizen.tour.step import Found, Picture, Place

if TYPE_CHECKING:
    from denizen.group import Group

_RANKS = 4
_SIZES = tuple(1 << k for k in range(8, 21, 2))  # of elements
_TIMES = 5


def _gpus(device: str) -> int:
    """How many ranks can be GPUs; their tensors are PyTorch's."""
    from denizen import _core  # noqa: PLC0415

    if not device.startswith("gpu") or importlib.util.find_spec("torch") is None:
        return 0
    return min(int(_core.gpu_count()), _RANKS)


def run(place: Place) -> Found:
    from denizen import group, machine  # noqa: PLC0415

    gpus = _gpus(place.device)
    ranks = gpus if gpus > 1 else _RANKS
    place.tell("compiling the collectives" if gpus > 1 else "adding up")
    members = group.local(ranks, "gpu" if gpus > 1 else "cpu", heap_bytes=2 * 4 * max(_SIZES))
    random = np.random.default_rng(4)
    wrong = None
    rows = []
    bars = []
    with ThreadPoolExecutor(ranks) as threads:
        for size in _SIZES:
            place.tell(f"all-reduce of {4 * size:,} bytes")
            given = random.standard_normal((ranks, size)).astype(np.float32)
            expected = given[0].copy()
            for row in given[1:]:  # in the order of the ranks, as the group promises
                expected += row
            took, found = _reduced(members, threads, given, gpus > 1)
            for rank, result in enumerate(found):
                if wrong is None and result.tobytes() != expected.tobytes():
                    at = int(np.flatnonzero(result != expected)[0])
                    wrong = (
                        f"rank {rank} has {result[at]!r} at {at} of {size:,}; "
                        f"the sum is {expected[at]!r}"
                    )
            name = f"{4 * size // 1024:,} KiB"
            rows.append((name, f"{1e6 * took:,.0f} µs", f"{4 * size / took * 1e-9:.2f} GB/s"))
            bars.append((name, 4 * size / took * 1e-9, f"{4 * size / took * 1e-9:.2f} GB/s"))
    return Found(
        did=f"{ranks} {'GPUs' if gpus > 1 else 'threads of the CPU'} added up random tensors of "
        f"{len(_SIZES)} sizes, each rank what it had.",
        checked="Every rank has, bit for bit, the sum in the order of the ranks.",
        wrong=wrong,
        device=members[0].device if gpus > 1 else machine.cpu_name(),
        pictures=[
            Picture(
                draw.bars(bars, "rate of an all-reduce"),
                "Rate of an all-reduce, the best of five calls.",
            )
        ],
        table=("all-reduce", ("bytes", "time", "rate"), rows),
    )


def _reduced(
    members: list[Group], threads: ThreadPoolExecutor, given: NDArray[np.float32], on_gpu: bool
) -> tuple[float, list[NDArray[np.float32]]]:
    """The best time of some calls, and each rank's result of the last."""
    best = float("inf")
    tensors: list[Any] = []

    def reduce(rank: int) -> None:
        members[rank].all_reduce(tensors[rank])
        if on_gpu:
            import torch  # noqa: PLC0415

            torch.cuda.synchronize(rank)

    for _ in range(_TIMES):
        tensors = [row.copy() for row in given]
        if on_gpu:
            import torch  # noqa: PLC0415

            tensors = [torch.from_numpy(row).to(f"cuda:{i}") for i, row in enumerate(tensors)]
        begin = time.perf_counter()
        list(threads.map(reduce, range(len(members))))
        best = min(best, time.perf_counter() - begin)
    return best, [tensor.cpu().numpy() if on_gpu else tensor for tensor in tensors]
