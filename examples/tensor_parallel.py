# SPDX-License-Identifier: Apache-2.0
"""Tensor parallel: a block of a transformer whose matrices are shared out among ranks, in PyTorch.

    python tensor_parallel.py [cpu|gpu]

Each rank has some columns of the first matrix and the same rows of the second, so one all-reduce
puts the block together. On GPUs the block is captured in a CUDA graph, the all-reduce with it.
"""

import sys
import tempfile

import torch
import torch.multiprocessing as mp

from denizen import group
from denizen.group.torch_ops import TorchOps

RANKS, WIDTH, INNER, TOKENS = 2, 256, 1024, 4


class Block(torch.nn.Module):
    """``x + all_reduce(silu(norm(x) W1) W2)``, with a rank's part of W1 and W2."""

    def __init__(self, ops: TorchOps, w1: torch.Tensor, w2: torch.Tensor) -> None:
        super().__init__()
        self.ops = ops
        self.norm = torch.nn.RMSNorm(WIDTH)
        self.w1, self.w2 = torch.nn.Parameter(w1), torch.nn.Parameter(w2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mine = torch.nn.functional.silu(self.norm(x) @ self.w1) @ self.w2
        return x + self.ops.all_reduce(mine)


def rank_main(rank: int, folder: str, device: str) -> None:
    torch.set_num_threads(1)
    where = torch.device("cpu" if device == "cpu" else f"cuda:{rank}")
    if where.type == "cuda":
        torch.cuda.set_device(where)
    g = group.join(f"{folder}/ranks", rank, RANKS, device if device == "cpu" else f"gpu:{rank}")

    generator = torch.Generator().manual_seed(0)  # the same on all ranks
    w1 = torch.randn(WIDTH, INNER, generator=generator) / WIDTH**0.5
    w2 = torch.randn(INNER, WIDTH, generator=generator) / INNER**0.5
    x = torch.randn(TOKENS, WIDTH, generator=generator)
    wanted = x + torch.nn.functional.silu(torch.nn.functional.rms_norm(x, (WIDTH,)) @ w1) @ w2

    part = slice(rank * INNER // RANKS, (rank + 1) * INNER // RANKS)
    block = Block(TorchOps(g), w1[:, part], w2[part]).to(where)
    given = x.to(where)
    with torch.no_grad():
        y = block(given)
        if where.type == "cuda":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = block(given)
            graph.replay()
            torch.cuda.synchronize()
    g.check()
    error = float((y.cpu() - wanted).abs().max())
    if error > 1e-2:  # TF32 on GPUs
        sys.exit(f"rank {rank}: the block is off by {error:g}")
    if rank == 0:
        print(f"{RANKS} ranks, {TOKENS} tokens: the block of one process, off by {error:.1e}")


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    if device not in ("cpu", "gpu"):
        sys.exit(f"{device}: give cpu or gpu")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, (folder, device), nprocs=RANKS)


if __name__ == "__main__":
    main()
