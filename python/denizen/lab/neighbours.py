# SPDX-License-Identifier: Apache-2.0
"""Programs of other frameworks, which know nothing of a resident program beside them.

Each is a function that needs no argument, uses the first GPU from its first call of CUDA on, and
returns numbers that are the same in every run, up to the order of floating-point sums.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def _torch() -> Any:
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    return torch


def training() -> list[float]:
    """PyTorch, eager training with an optimizer: the loss of every twentieth step."""
    torch = _torch()
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 10)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(256, 512, device="cuda")
    labels = torch.randint(0, 10, (256,), device="cuda")
    losses = []
    for step in range(500):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            losses.append(loss.item())
    torch.cuda.synchronize()
    return losses


def graph() -> list[float]:
    """PyTorch, a CUDA graph: captured, and replayed 200 times."""
    torch = _torch()
    x = torch.linspace(0, 1, 1 << 20, device="cuda")
    y = torch.empty_like(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.mul(x, 2, out=y)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(20):
            torch.mul(x, 1.01, out=y)
            torch.add(y, 0.5, out=y)
    sums = []
    for i in range(200):
        x.add_(1e-3)
        captured.replay()
        if i % 20 == 0:
            sums.append(y.double().sum().item())
    torch.cuda.synchronize()
    return sums


def memory() -> list[float]:
    """PyTorch, 20 times: a pinned copy, then memory is given back and the device waited for."""
    torch = _torch()
    sums = []
    for i in range(20):
        host = torch.full((1 << 20,), float(i + 1)).pin_memory()
        there = host.to("cuda", non_blocking=True)
        sums.append((there * 2).sum().item())
        del there
        torch.cuda.empty_cache()
        torch.cuda.synchronize()
    return sums


def compiled() -> list[float]:
    """PyTorch, ``torch.compile``: a function of element-wise work and a sum."""
    torch = _torch()

    def work(x: Any) -> Any:
        return (torch.sin(x) * x + torch.exp(-x * x)).sum(dim=1)

    fast = torch.compile(work)
    x = torch.linspace(0, 4, 1 << 20, device="cuda").reshape(1024, 1024)
    sums = [fast(x + i).double().sum().item() for i in range(20)]
    torch.cuda.synchronize()
    return sums


def cupy() -> list[float]:
    """CuPy: a raw kernel, compiled at its first use, and a pool that is emptied."""
    cupy = importlib.import_module("cupy")
    kernel = cupy.RawKernel(
        """extern "C" __global__ void scale(const float* x, float* y, int n)
        {
            const int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = 3 * x[i] + 1;
        }""",
        "scale",
    )
    n = 1 << 20
    sums = []
    for i in range(20):
        x = cupy.arange(n, dtype=cupy.float32) * (i + 1)
        y = cupy.empty_like(x)
        kernel((n // 256,), (256,), (x, y, n))
        sums.append(float(y.sum(dtype=cupy.float64)))
        del x, y
        cupy.get_default_memory_pool().free_all_blocks()
    cupy.cuda.Device().synchronize()
    return sums


def jax() -> list[float]:
    """JAX: a jitted function and its gradient."""
    jax = importlib.import_module("jax")

    def loss(w: Any, x: Any) -> Any:
        return (jax.numpy.tanh(x @ w) ** 2).mean()

    step = jax.jit(jax.value_and_grad(loss))
    w = jax.random.normal(jax.random.key(0), (256, 256))
    x = jax.random.normal(jax.random.key(1), (1024, 256))
    losses = []
    for _ in range(50):
        value, slope = step(w, x)
        w = w - 10.0 * slope
        losses.append(float(value))
    return losses


def triton() -> list[float]:
    """Triton: a kernel of its own, launched from PyTorch tensors."""
    torch = _torch()
    add = importlib.import_module("denizen.lab.neighbours_triton").add
    x = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    y = torch.empty_like(x)
    sums = []
    for i in range(20):
        add[(x.numel() // 1024,)](x, y, float(i), BLOCK=1024)
        sums.append(y.double().sum().item())
    torch.cuda.synchronize()
    return sums


def numba() -> list[float]:
    """Numba: a kernel compiled at its first call, and arrays copied there and back."""
    cuda = importlib.import_module("numba.cuda")
    numpy = importlib.import_module("numpy")

    @cuda.jit  # type: ignore[untyped-decorator]
    def scale(x: Any, y: Any) -> None:
        i = cuda.grid(1)
        if i < x.size:
            y[i] = 2 * x[i] + 1

    sums = []
    for i in range(20):
        x = cuda.to_device(numpy.arange(1 << 18, dtype=numpy.float64) * (i + 1))
        y = cuda.device_array_like(x)
        scale[1024, 256](x, y)
        sums.append(float(y.copy_to_host().sum()))
    cuda.synchronize()
    return sums


# By the name of its rows: the function, and the modules without which there is nothing to run.
ALL: dict[str, tuple[Callable[[], list[float]], tuple[str, ...]]] = {
    "PyTorch CUDA graph": (graph, ("torch",)),
    "PyTorch training": (training, ("torch",)),
    "PyTorch memory": (memory, ("torch",)),
    "torch.compile": (compiled, ("torch",)),
    "CuPy": (cupy, ("cupy",)),
    "JAX": (jax, ("jax",)),
    "Triton": (triton, ("triton", "torch")),
    "Numba": (numba, ("numba_cuda", "numba.cuda", "numba.cuda.np.arrayobj")),
}
