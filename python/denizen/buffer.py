# SPDX-License-Identifier: Apache-2.0
"""Buffers: memory that messages refer to instead of carrying it."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from denizen import _core
from denizen.closing import Closing
from denizen.errors import ArgumentError

# DLPack's device types.
_CPU = 1
_CUDA = 2
_CUDA_HOST = 3
_CUDA_MANAGED = 13

# DLPack's type codes of NumPy's kinds.
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}


class Buffer(Closing):
    """Memory that messages refer to; Runtime.buffer() and Runtime.wrap() make it.

    A field of type denizen.BUFFER takes it: `rt.send(actor, "Scale", data=buffer, by=2.0)`.
    Handlers resolve it: `ctx.template data<float>(m.data)`. Nothing is copied.

    The memory stays until the buffer is closed (close(), the end of a `with`, or when nobody has
    the object any more), no message refers to it, and no array or tensor made from it is left.
    Messages sent before close() still find it; StaleBufferError comes from whatever is tried after.

    Attributes:
        shape: of the array that it is, in elements.
        dtype: its elements' type; for types that NumPy lacks (bfloat16), void of the same size.
        kind: "device", "pinned", "mapped" (as asked for, on a GPU), "host" (a program on CPU
            threads: every kind is ordinary memory there) or "external" (wrapped).

    Work that other CUDA streams do with a tensor made from it must be complete before that tensor
    is dropped.
    """

    def __init__(
        self,
        core: _core.Buffer,
        shape: tuple[int, ...],
        element: tuple[int, int],
        device: tuple[int, int],
    ) -> None:
        self._core = core
        self.shape = shape
        self._element = element
        self._device = device
        code, bits = element
        kind = _KINDS.get(code)
        self.dtype: np.dtype[Any] = np.dtype(f"{kind}{bits // 8}" if kind else f"V{bits // 8}")
        self.kind = core.kind

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<denizen.Buffer {self.shape} {self.dtype}, {self.kind}{state}>"

    @property
    def ref(self) -> int:
        """What a message's field holds. StaleBufferError if the buffer is closed."""
        return self._core.ref

    @property
    def pointer(self) -> int:
        """The address at which handlers find the memory."""
        return self._core.pointer

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self._core.bytes

    @property
    def closed(self) -> bool:
        """Whether close() has been called."""
        return self._core.closed

    def close(self) -> None:
        """Ends new sends. Harmless when called again."""
        self._core.close()

    def numpy(self) -> NDArray[Any]:
        """The memory as a NumPy array, where the CPU reaches it: not of kind "device".

        Of kind "mapped", write: reading crosses the bus word by word.
        """
        if not self._core.cpu and self._device[0] not in (_CPU, _CUDA_HOST, _CUDA_MANAGED):
            raise ArgumentError(
                f'the CPU does not reach a buffer of kind "{self.kind}" on a GPU; use kind '
                '"pinned" or "mapped", or copy it with torch or cupy.from_dlpack'
            )
        array = self._core.numpy(self.shape, *self._bytes_like())
        return array if self._element[0] in _KINDS else array.view(self.dtype)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **how: Any) -> Any:
        # The handlers' writes came before the reply that told of them: there is no stream to wait
        # for.
        how.pop("stream", None)
        return self._core.dlpack(self.shape, *self._element, *self._device).__dlpack__(**how)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._device[0] == _CPU:
            raise AttributeError("__cuda_array_interface__: this buffer is not on a GPU")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "version": 3,
        }

    def _bytes_like(self) -> tuple[int, int]:
        code, bits = self._element
        return (code if code in _KINDS else _CODES["u"]), bits


def make(
    runtime: _core.Runtime,
    device: tuple[int, int],
    shape: int | Iterable[int],
    dtype: DTypeLike,
    kind: str,
) -> Buffer:
    """A buffer of the runtime's own; see Runtime.buffer()."""
    dims: tuple[int, ...]
    try:
        dims = (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        try:
            dims = tuple(operator.index(n) for n in shape)  # type: ignore[union-attr]
        except TypeError:
            given = " ".join(f"{shape!r}".split())
            raise ArgumentError(f"shape = {given:.60}; use a whole number, or several") from None
    element = np.dtype(dtype)
    code = _CODES.get(element.kind)
    if code is None or not element.isnative:
        raise ArgumentError(
            f"dtype {element} has no place in a buffer; use integers, floats, complex numbers or "
            "bool in native byte order"
        )
    if any(n < 1 for n in dims):
        raise ArgumentError(f"shape {dims} has no elements; a buffer has at least 1 byte")
    if (size := math.prod(dims) * element.itemsize) >= 2**63:
        raise ArgumentError(f"shape {dims} has {size:,} bytes; no memory has as many")
    if not isinstance(kind, str):
        raise ArgumentError(f"kind = {kind!r}; use device, pinned or mapped")
    core = _core.make_buffer(runtime, size, kind)
    if core.kind == "pinned":
        device = (_CUDA_HOST, 0)
    return Buffer(core, dims, (code, element.itemsize * 8), device)


def wrap(runtime: _core.Runtime, device: tuple[int, int], tensor: Any) -> Buffer:
    """A buffer around somebody else's memory; see Runtime.wrap()."""
    if isinstance(tensor, Buffer):
        raise ArgumentError("this is a buffer already; its messages may refer to it as it is")
    if not hasattr(tensor, "__dlpack__") and hasattr(tensor, "__cuda_array_interface__"):
        return _wrap_cuda(runtime, device, tensor)
    try:
        with_device = tuple(tensor.__dlpack_device__())
    except AttributeError:
        with_device = (_CPU, 0)
    _check_device(tensor, (int(with_device[0]), int(with_device[1])), device)
    try:
        core, shape, element, kind, number = _core.wrap_tensor(runtime, tensor)
    except TypeError:
        raise ArgumentError(
            f"{_named(tensor)} cannot be wrapped: it needs __dlpack__, __cuda_array_interface__ or "
            "the buffer protocol, and memory that may be written"
        ) from None
    return Buffer(core, shape, element, (kind, number))


def _wrap_cuda(runtime: _core.Runtime, device: tuple[int, int], tensor: Any) -> Buffer:
    described = tensor.__cuda_array_interface__
    shape = tuple(described["shape"])
    dtype = np.dtype(described["typestr"])
    pointer, read_only = described["data"]
    strides = described.get("strides")
    packed = tuple(dtype.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))
    if read_only or (strides is not None and tuple(strides) != packed) or dtype.kind not in _CODES:
        raise ArgumentError(
            f"{_named(tensor)} cannot be wrapped: it is read-only, not contiguous in memory, or of "
            f"dtype {dtype}; wrap a contiguous copy of it"
        )
    _check_device(tensor, (_CUDA, device[1]), device)
    core = _core.wrap_pointer(runtime, pointer, math.prod(shape) * dtype.itemsize, tensor)
    return Buffer(core, shape, (_CODES[dtype.kind], dtype.itemsize * 8), device)


def around(core: _core.Runtime, address: int, size: int, gpu: int | None, owner: Any) -> Buffer:
    """Bytes of ``owner`` that workers reach, in memory of that GPU, or of the CPU."""
    made = _core.wrap_pointer(core, address, size, owner)
    return Buffer(made, (size,), (_CODES["u"], 8), (_CPU, 0) if gpu is None else (_CUDA, gpu))


def _check_device(tensor: Any, there: tuple[int, int], here: tuple[int, int]) -> None:
    """Whether the runtime's workers reach the memory."""
    kind, number = there
    on_gpu = here[0] == _CUDA
    if on_gpu and kind not in (_CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise ArgumentError(
            f"{_named(tensor)} lies in CPU memory that the GPU does not reach; copy it into "
            'rt.buffer(shape, dtype, "pinned").numpy(), or use a tensor on the GPU'
        )
    if on_gpu and kind == _CUDA and number != here[1]:
        raise ArgumentError(f"{_named(tensor)} lies on GPU {number}, the program on GPU {here[1]}")
    if not on_gpu and kind not in (_CPU, _CUDA_HOST, _CUDA_MANAGED):
        raise ArgumentError(
            f"{_named(tensor)} lies on a GPU, the program on CPU threads; move it to the CPU"
        )


def _named(tensor: object) -> str:
    return f"this {type(tensor).__module__}.{type(tensor).__qualname__}"
