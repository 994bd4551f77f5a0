# SPDX-License-Identifier: Apache-2.0
"""The experiment ``layer``: blocks of a transformer whose matrices are shared out between two GPUs.

RMSNorm, two matrices, an all-reduce of their result, and the sum with the input; in bfloat16, with
the widths of Llama 3 of 8 B. Eight blocks in a row are captured in a CUDA graph for each way to
all-reduce, and the graphs replayed by turns; "denizen, fused" has the all-reduce, the sum and the
next block's RMSNorm in one kernel. vLLM's all-reduce takes part where it has been built
(``layer_vllm``). A rank is a process; this module is also its program.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from denizen import _core, machine
from denizen.group import forbid_multicast
from denizen.lab import layer_vllm, programs
from denizen.lab.record import LabError, Measured

if TYPE_CHECKING:
    import torch

RANKS = 2
WIDTH, INNER = 4096, 14336
TOKENS = (1, 8, 64)
BLOCKS = 8
EPS = 1e-5
_DEADLINE = 240.0
_OURS = "denizen"
_FUSED = "denizen, fused"


def measure(device: str, *, quick: bool) -> list[Measured]:
    """Microseconds of a block, on the host's clock over a replay of eight, for each way and number
    of tokens.

    Verified: all ranks' results are those of one process that has the whole matrices, in float32,
    within 3 % of their largest. Raises LabError without two GPUs or PyTorch.
    """
    if machine.gpu_index(device) is None or _core.gpu_count() < RANKS:
        raise LabError(f"the experiment layer needs {RANKS} GPUs; here are {_core.gpu_count()}")
    if importlib.util.find_spec("torch") is None:
        raise LabError("the experiment layer needs PyTorch: pip install torch")
    forbid_multicast()
    try:
        layer_vllm.find()
    except LabError as missing:
        print(f"layer: {missing}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="denizen-layer-") as folder:
        more = ["--quick"] if quick else []
        commands = [
            [sys.executable, "-m", "denizen.lab.layer", str(rank), folder, *more]
            for rank in range(RANKS)
        ]
        others = [
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            for command in commands[1:]
        ]
        try:
            _, measured = programs.run(commands[0], _DEADLINE)
            for other in others:
                if other.wait(10) != 0:
                    raise LabError(f"another rank ended with exit code {other.returncode}")
        except subprocess.TimeoutExpired as error:
            raise LabError("a rank did not end in 10 s after rank 0") from error
        finally:
            for other in others:
                other.kill()
                other.wait()
    return measured


# --- a rank ---
def _ways(
    rank: int, tokens: int, group: Any, vllm: layer_vllm.AllReduce | None
) -> dict[str, Callable[..., Any]]:
    """All blocks, of ``x`` and this rank's parts of the matrices, as each way would have them
    written."""
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415
    from torch.nn.functional import rms_norm, silu  # noqa: PLC0415

    from denizen.group.torch_ops import TorchOps  # noqa: PLC0415

    ops = TorchOps(group)
    ones = torch.ones(WIDTH, dtype=torch.bfloat16, device=f"cuda:{rank}")

    def block_by_block(combine: Callable[..., Any]) -> Callable[..., Any]:
        """With ``x + all_reduce(h @ w2)`` by a function of the three."""

        def run(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
            for a, b in zip(w1, w2, strict=True):
                x = combine(x, silu(rms_norm(x, (WIDTH,), eps=EPS) @ a), b)
            return x

        return run

    def fused(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
        normed = rms_norm(x, (WIDTH,), eps=EPS)
        for a, b in zip(w1, w2, strict=True):
            normed, x = ops.all_reduce_rms_norm(silu(normed @ a) @ b, x, ones, EPS)
        return x

    def denizen(x: torch.Tensor, h: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
        return x + ops.all_reduce(h @ w2)

    def nccl(x: torch.Tensor, h: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
        part = h @ w2
        dist.all_reduce(part)
        return x + part

    ours = block_by_block(denizen)
    ways: dict[str, Callable[..., Any]] = {
        _OURS: ours,
        f"{_OURS} A/A": ours,
        _FUSED: fused,
        "NCCL": block_by_block(nccl),
    }
    try:
        import torch.distributed._symmetric_memory as symmetric  # noqa: PLC0415

        shared = symmetric.empty(tokens, WIDTH, dtype=torch.bfloat16, device=f"cuda:{rank}")
        symmetric.rendezvous(shared, dist.group.WORLD.group_name)
        one_shot = torch.ops.symm_mem.one_shot_all_reduce
    except (ImportError, AttributeError, RuntimeError) as error:
        print(f"no symmetric memory of PyTorch: {error}", file=sys.stderr)
    else:

        def symm(x: torch.Tensor, h: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
            torch.mm(h, w2, out=shared)
            return x + one_shot(shared, "sum", dist.group.WORLD.group_name)

        ways["PyTorch symmetric memory"] = block_by_block(symm)
    if vllm is not None:

        def theirs(x: torch.Tensor, h: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
            part = h @ w2
            out = torch.empty_like(part)
            stream = torch.cuda.current_stream().cuda_stream
            vllm(part.data_ptr(), out.data_ptr(), part.numel(), stream)
            return x + out

        ways[layer_vllm.NAME] = block_by_block(theirs)
    return ways


def _vllm(rank: int) -> layer_vllm.AllReduce | None:
    """Where it has been built."""
    import torch.distributed as dist  # noqa: PLC0415

    try:
        library = layer_vllm.find()
    except LabError:
        return None

    def exchange(own: bytes) -> list[bytes]:
        of_all = [b""] * RANKS
        dist.all_gather_object(of_all, own)
        return of_all

    return layer_vllm.AllReduce(library, rank, RANKS, exchange)


def _weights(rank: int) -> tuple[Any, Any]:
    """All blocks' matrices, whole, in bfloat16: the same on all ranks."""
    import torch  # noqa: PLC0415

    where = torch.device("cuda", rank)
    generator = torch.Generator(where).manual_seed(0)
    how: dict[str, Any] = {"generator": generator, "device": where, "dtype": torch.bfloat16}
    w1 = torch.randn(BLOCKS, WIDTH, INNER, **how) * WIDTH**-0.5
    w2 = torch.randn(BLOCKS, INNER, WIDTH, **how) * INNER**-0.5
    return w1, w2


def _rank(rank: int, folder: str, *, quick: bool) -> None:
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415
    from torch.nn.functional import rms_norm, silu  # noqa: PLC0415

    from denizen import group  # noqa: PLC0415

    torch.cuda.set_device(rank)
    ours = group.join(f"{folder}/denizen", rank, RANKS, f"gpu:{rank}", timeout=60)
    dist.init_process_group(
        "nccl",
        init_method=f"file://{folder}/nccl",
        rank=rank,
        world_size=RANKS,
        device_id=torch.device("cuda", rank),
    )
    vllm = _vllm(rank)
    read = []  # graphs whose memory the other rank has opened
    w1, w2 = _weights(rank)
    part = slice(rank * INNER // RANKS, (rank + 1) * INNER // RANKS)
    mine1, mine2 = w1[:, :, part].contiguous(), w2[:, part].contiguous()
    rounds, warm = (40, 5) if quick else (400, 20)
    for tokens in TOKENS:
        x = torch.randn(
            tokens,
            WIDTH,
            generator=torch.Generator(w1.device).manual_seed(tokens),
            device=w1.device,
            dtype=torch.bfloat16,
        )
        wanted = x.float()
        for a, b in zip(w1, w2, strict=True):
            wanted = wanted + silu(rms_norm(wanted, (WIDTH,), eps=EPS) @ a.float()) @ b.float()

        graphs: dict[str, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
        ways = _ways(rank, tokens, ours, vllm)  # with the tensors that their graphs read
        for name, run in ways.items():
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                run(x, mine1, mine2)  # what is made at the first call
            side.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side):
                out = run(x, mine1, mine2)
            if vllm is not None and name == layer_vllm.NAME:
                vllm.register()
                read.append(graph)
            graphs[name] = graph, out
        took: dict[str, list[float]] = {name: [] for name in graphs}
        names = list(graphs)
        for turn in range(warm + rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                begin = time.perf_counter()
                graphs[name][0].replay()
                torch.cuda.synchronize()
                if turn >= warm:
                    took[name].append(1e6 * (time.perf_counter() - begin) / BLOCKS)
        ours.check()
        right = torch.tensor(
            [
                float((out.float() - wanted).abs().max() <= 0.03 * wanted.abs().max())
                for _, out in graphs.values()
            ],
            device=w1.device,
        )
        dist.all_reduce(right, dist.ReduceOp.MIN)
        if rank == 0:
            _print(tokens, took, dict(zip(graphs, right.tolist(), strict=True)))
        del graphs, ways
    if vllm is not None:
        vllm.close()
        dist.barrier()
    dist.destroy_process_group()


def _print(tokens: int, took: dict[str, list[float]], right: dict[str, float]) -> None:
    rivals = [name for name in took if not name.startswith(_OURS)]
    compared = {_OURS: rivals, _FUSED: [_OURS, *rivals]}
    for name, samples in took.items():
        line = {
            "case": name.removesuffix(" A/A"),
            "params": {"tokens": tokens, "width": WIDTH, "inner": INNER, "gpus": RANKS},
            "unit": "us",
            "samples": samples,
            "n": BLOCKS * len(samples),
            "verified": bool(right[name]),
            "rounds": len(samples),
        }
        if name in compared:
            line["ratio_base"] = compared[name]
        if name.endswith(" A/A"):
            line["arm"] = "A/A"
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    given = argparse.ArgumentParser()
    given.add_argument("rank", type=int)
    given.add_argument("folder")
    given.add_argument("--quick", action="store_true")
    told = given.parse_args()
    _rank(told.rank, told.folder, quick=told.quick)
