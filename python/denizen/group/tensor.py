# SPDX-License-Identifier: Apache-2.0
"""What a collective needs to know of an array or a tensor, whoever made it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from denizen import _core
from denizen.errors import ArgumentError

_NUMPY = {  # with the names of ml_dtypes
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "int64": "i64",
    "int32": "i32",
    "uint8": "u8",
}
_CUDA = {"<f8": "f64", "<f4": "f32", "<f2": "f16", "<i8": "i64", "<i4": "i32", "|u1": "u8"}


class View(NamedTuple):
    """Where the elements are."""

    address: int
    elements: int
    #: One of _NUMPY's values.
    type: str
    on_gpu: bool
    #: The GPU's number; 0 on the CPU.
    device: int


def view(tensor: Any, *, writable: bool) -> View:
    """Of anything contiguous with DLPack, ``__cuda_array_interface__`` or the buffer protocol.

    Raises ArgumentError for elements of another type, gaps between them, or read-only memory that
    must be written.
    """
    if isinstance(tensor, np.ndarray):
        found = _numpy(tensor, writable)
    elif hasattr(tensor, "__cuda_array_interface__") and not hasattr(tensor, "__dlpack__"):
        found = _cuda(tensor, writable)
    else:
        try:
            take = _core.group_output if writable else _core.group_input
            found = View(*take(tensor))
        except (TypeError, BufferError) as error:
            raise ArgumentError(
                f"{type(tensor).__name__}: give a contiguous{' writable' * writable} array or "
                "tensor (NumPy, DLPack, __cuda_array_interface__)"
            ) from error
    if not found.type:
        kind = getattr(tensor, "dtype", type(tensor).__name__)
        raise ArgumentError(f"elements of type {kind}; use {', '.join(_NUMPY)}")
    return found


def _numpy(array: np.ndarray[Any, Any], writable: bool) -> View:
    if not array.flags.c_contiguous or not array.dtype.isnative:
        raise ArgumentError("the array has gaps or foreign byte order; use np.ascontiguousarray()")
    if writable and not array.flags.writeable:
        raise ArgumentError("the array is read-only, and the result would go there")
    return View(array.ctypes.data, array.size, _NUMPY.get(array.dtype.name, ""), False, 0)


def _cuda(tensor: Any, writable: bool) -> View:
    about = tensor.__cuda_array_interface__
    shape, strides = about["shape"], about.get("strides")
    kind = _CUDA.get(about["typestr"], "")
    address, read_only = about["data"]
    if strides is not None and 0 not in shape:
        size = int(about["typestr"][2:])
        for length, stride in zip(reversed(shape), reversed(strides), strict=True):
            if length > 1 and stride != size:
                raise ArgumentError("the tensor has gaps; copy it first")
            size *= length
    if writable and read_only:
        raise ArgumentError("the tensor is read-only, and the result would go there")
    device = getattr(getattr(tensor, "device", None), "id", 0)
    return View(address, math.prod(shape), kind, True, int(device))
