# SPDX-License-Identifier: Apache-2.0
"""Collectives of a group as operators of PyTorch: autograd, ``torch.compile`` and CUDA graphs take
them like any other.

    ops = TorchOps(group.join(address, rank, 2, device=f"gpu:{rank}"))
    y = x + ops.all_reduce(partial)            # a new tensor, on PyTorch's current stream

They are ``torch.ops.denizen.all_reduce`` and so on, for ``torch.export`` and for exported models.
"""

from __future__ import annotations

import itertools
from typing import Any
from weakref import WeakValueDictionary

import torch

from denizen.errors import ArgumentError
from denizen.group.group import Group

_groups: WeakValueDictionary[str, Group] = WeakValueDictionary()
_numbers = itertools.count()


class TorchOps:
    """The collectives of one rank of ``group``, each of which gives a new tensor.

    Tensors are of the group's device and of a type that its `Group.all_reduce` takes; one with gaps
    is copied first. All ranks call the same in the same order, backward passes included. The
    gradient of a rank's tensor is that of the sum of all ranks' losses. Errors of a GPU's group
    come from `Group.wait`. Needs PyTorch 2.4 or later.
    """

    def __init__(self, group: Group) -> None:
        #: What the operators take as ``group``.
        self.name = f"group {next(_numbers)} rank {group.rank} of {group.size}"
        self._group = group
        _groups[self.name] = group

    def all_reduce(self, x: torch.Tensor, op: str = "sum") -> torch.Tensor:
        """The sum, avg, min or max of all ranks' ``x``; min and max have no gradient."""
        return torch.ops.denizen.all_reduce(x, op, self.name)

    def all_gather(self, x: torch.Tensor) -> torch.Tensor:
        """All ranks' ``x`` one after the other: (size * n, ...) of (n, ...)."""
        return torch.ops.denizen.all_gather(x, self.name)

    def reduce_scatter(self, x: torch.Tensor, op: str = "sum") -> torch.Tensor:
        """This rank's part of the sum or avg of all ranks' ``x``: (n, ...) of (size * n, ...)."""
        return torch.ops.denizen.reduce_scatter(x, op, self.name)

    def all_to_all(self, x: torch.Tensor) -> torch.Tensor:
        """Part r of ``x`` goes to rank r: (size * n, ...) of (size * n, ...)."""
        return torch.ops.denizen.all_to_all(x, self.name)

    def broadcast(self, x: torch.Tensor, src: int = 0) -> torch.Tensor:
        """Rank ``src``'s ``x``, of its shape."""
        return torch.ops.denizen.broadcast(x, src, self.name)

    def all_reduce_rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`Group.all_reduce_rms_norm`: the normalised rows, and ``residual`` with the sum of all
        ranks' ``x``. One kernel; it has no gradient."""
        run = torch.ops.denizen.all_reduce_rms_norm
        out, total = run(x, residual, weight, eps, self.name)
        return out, total


def _of(name: str) -> Group:
    found = _groups.get(name)
    if found is None:
        raise ArgumentError(f'there is no "{name}" in this process: keep its TorchOps alive')
    return found


def _part(x: torch.Tensor, name: str) -> int:
    """How many rows a rank's part of ``x`` has."""
    ranks = _of(name).size
    rows = x.shape[0] if x.ndim else 0
    if not x.ndim or rows % ranks:
        raise ArgumentError(
            f"a tensor of shape {tuple(x.shape)} cannot be shared among {ranks} ranks: its first "
            f"dimension must be a multiple of {ranks}"
        )
    return rows // ranks


def _all_reduce(x: torch.Tensor, op: str, group: str) -> torch.Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    _of(group).all_reduce(x, op, out=out)
    return out


def _all_gather(x: torch.Tensor, group: str) -> torch.Tensor:
    out = _gathered(x, group)
    _of(group).all_gather_into_tensor(out, x.contiguous())
    return out


def _gathered(x: torch.Tensor, group: str) -> torch.Tensor:
    if not x.ndim:
        raise ArgumentError("all_gather of a tensor without dimensions; use x.reshape(1)")
    return x.new_empty((x.shape[0] * _of(group).size, *x.shape[1:]))


def _reduce_scatter(x: torch.Tensor, op: str, group: str) -> torch.Tensor:
    out = _scattered(x, op, group)
    _of(group).reduce_scatter_tensor(out, x.contiguous(), op)
    return out


def _scattered(x: torch.Tensor, op: str, group: str) -> torch.Tensor:
    return x.new_empty((_part(x, group), *x.shape[1:]))


def _all_to_all(x: torch.Tensor, group: str) -> torch.Tensor:
    _part(x, group)
    x = x.contiguous()
    out = torch.empty_like(x)
    _of(group).all_to_all_single(out, x)
    return out


def _broadcast(x: torch.Tensor, src: int, group: str) -> torch.Tensor:
    out = x.clone(memory_format=torch.contiguous_format)
    _of(group).broadcast(out, src)
    return out


def _all_reduce_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, group: str
) -> tuple[torch.Tensor, torch.Tensor]:
    out, total = _two_alike(x)
    _of(group).all_reduce_rms_norm(
        x.contiguous(), residual.contiguous(), weight.contiguous(), eps, out=out, total=total
    )
    return out, total


def _two_alike(x: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _alike(x), _alike(x)


def _alike(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


# --- gradients ---
def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.given = inputs[1:]


def _linear(op: str, what: str) -> None:
    if op not in ("sum", "avg"):
        raise ArgumentError(f'{what} of "{op}" has no gradient; "sum" and "avg" have one')


def _all_reduce_back(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    op, group = ctx.given
    _linear(op, "all_reduce")
    return torch.ops.denizen.all_reduce(grad, op, group), None, None


def _all_gather_back(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    (group,) = ctx.given
    return torch.ops.denizen.reduce_scatter(grad, "sum", group), None


def _reduce_scatter_back(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    op, group = ctx.given
    _linear(op, "reduce_scatter")
    scale = _of(group).size if op == "avg" else 1
    return torch.ops.denizen.all_gather(grad / scale, group), None, None


def _all_to_all_back(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    (group,) = ctx.given
    return torch.ops.denizen.all_to_all(grad, group), None


def _broadcast_back(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    src, group = ctx.given
    total = torch.ops.denizen.all_reduce(grad, "sum", group)
    return (total if _of(group).rank == src else torch.zeros_like(total)), None, None


for _name, _arguments, _run, _shape, _back in (
    ("all_reduce", "Tensor x, str op, str group", _all_reduce, _alike, _all_reduce_back),
    ("all_gather", "Tensor x, str group", _all_gather, _gathered, _all_gather_back),
    (
        "reduce_scatter",
        "Tensor x, str op, str group",
        _reduce_scatter,
        _scattered,
        _reduce_scatter_back,
    ),
    ("all_to_all", "Tensor x, str group", _all_to_all, _alike, _all_to_all_back),
    ("broadcast", "Tensor x, int src, str group", _broadcast, _alike, _broadcast_back),
):
    _made = torch.library.custom_op(
        f"denizen::{_name}", _run, mutates_args=(), schema=f"({_arguments}) -> Tensor"
    )
    _made.register_fake(_shape)
    _made.register_autograd(_back, setup_context=_keep)

torch.library.custom_op(
    "denizen::all_reduce_rms_norm",
    _all_reduce_rms_norm,
    mutates_args=(),
    schema="(Tensor x, Tensor residual, Tensor weight, float eps, str group) -> (Tensor, Tensor)",
).register_fake(_two_alike)
