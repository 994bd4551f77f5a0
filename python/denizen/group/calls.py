# SPDX-License-Identifier: Apache-2.0
"""The collectives by their names, which groups and resident groups share."""

from __future__ import annotations

import sys
from typing import Any

from denizen.errors import ArgumentError
from denizen.group.tensor import View, view

DEFAULT = 1  # CUDA's default stream by its other name, cudaStreamLegacy


class Calls:
    """Collectives by their names, over ``_run``."""

    rank: int
    size: int

    def _run(self, kind: str, given: View, out: View, count: int, **how: Any) -> None:
        raise NotImplementedError

    def all_reduce(
        self,
        tensor: Any,
        op: str = "sum",
        *,
        out: Any = None,
        algorithm: str = "automatic",
        stream: int | None = None,
    ) -> None:
        """``tensor`` (or ``out``) becomes the sum, min, max or avg of all ranks' tensors.

        Args:
            tensor: contiguous; float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2,
                int64, int32 or uint8. Sums of 16-bit and 8-bit floats are taken in float32, in the
                order of the ranks: all get the same bits. Whole numbers wrap around, and their avg
                is cut towards zero. What is too large for float8_e4m3fn becomes NaN, as in PyTorch.
            op: "sum", "min", "max" or "avg".
            out: of the same size; by default the tensor itself.
            algorithm: "automatic" (by the table), "one_shot", "two_shot", "pull", "pull_twice",
                "push", "push_twice"; over NCCL only "automatic".
            stream: on a GPU, a CUDA stream's handle, 0 for CUDA's default one; by default
                PyTorch's current one for a PyTorch tensor, else the group's own.
        """
        given = view(tensor, writable=out is None)
        result = given if out is None else view(out, writable=True)
        same(result.elements, given.elements, "all_reduce: out")
        self._run(
            "all_reduce",
            given,
            result,
            given.elements,
            op=op,
            algorithm=algorithm,
            stream=stream_of(tensor, stream),
        )

    def reduce_scatter_tensor(
        self,
        out: Any,
        tensor: Any,
        op: str = "sum",
        *,
        algorithm: str = "automatic",
        stream: int | None = None,
    ) -> None:
        """``out`` becomes part ``rank`` (of ``size`` equal ones) of the sum of all tensors."""
        given, result = view(tensor, writable=False), view(out, writable=True)
        same(given.elements, result.elements * self.size, "reduce_scatter_tensor: the tensor")
        self._run(
            "reduce_scatter",
            given,
            result,
            result.elements,
            op=op,
            algorithm=algorithm,
            stream=stream_of(tensor, stream),
        )

    def all_gather_into_tensor(
        self, out: Any, tensor: Any, *, algorithm: str = "automatic", stream: int | None = None
    ) -> None:
        """``out`` becomes all ranks' tensors, one after the other."""
        given, result = view(tensor, writable=False), view(out, writable=True)
        same(result.elements, given.elements * self.size, "all_gather_into_tensor: out")
        self._run(
            "all_gather",
            given,
            result,
            given.elements,
            algorithm=algorithm,
            stream=stream_of(tensor, stream),
        )

    def all_to_all_single(
        self, out: Any, tensor: Any, *, algorithm: str = "automatic", stream: int | None = None
    ) -> None:
        """Part r of ``tensor`` (of ``size`` equal ones) goes to rank r, as part ``rank`` there."""
        given, result = view(tensor, writable=False), view(out, writable=True)
        same(result.elements, given.elements, "all_to_all_single: out")
        if given.elements % self.size != 0:
            raise ArgumentError(
                f"{given.elements} elements cannot be shared among {self.size} ranks"
            )
        self._run(
            "all_to_all",
            given,
            result,
            given.elements // self.size,
            algorithm=algorithm,
            stream=stream_of(tensor, stream),
        )

    def broadcast(
        self, tensor: Any, src: int = 0, *, algorithm: str = "automatic", stream: int | None = None
    ) -> None:
        """``tensor`` becomes that of rank ``src``."""
        if not 0 <= src < self.size:
            raise ArgumentError(f"src = {src}; the group has ranks 0 to {self.size - 1}")
        both = view(tensor, writable=True)
        self._run(
            "broadcast",
            both,
            both,
            both.elements,
            root=src,
            algorithm=algorithm,
            stream=stream_of(tensor, stream),
        )

    def barrier(self, *, stream: int | None = None) -> None:
        """Wait (on a GPU: the stream does) until all ranks have come here."""
        none = View(0, 0, "f32", False, 0)
        self._run("barrier", none, none, 0, stream=named(stream))


def same(found: int, wanted: int, what: str) -> None:
    """ArgumentError unless ``what`` has as many elements as ``wanted``."""
    if found != wanted:
        raise ArgumentError(f"{what} has {found} elements; {wanted} are expected")


def named(stream: int | None) -> int:
    """As the core takes it, for whom 0 is the group's own stream and not CUDA's default one."""
    return 0 if stream is None else stream or DEFAULT


def stream_of(tensor: Any, stream: int | None) -> int:
    """The one that was given, else PyTorch's current one for its tensors, else the group's."""
    if stream is None and type(tensor).__module__.partition(".")[0] == "torch" and tensor.is_cuda:
        torch = sys.modules["torch"]
        stream = int(torch.cuda.current_stream(tensor.device).cuda_stream)
    return named(stream)
