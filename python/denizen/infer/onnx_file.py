# SPDX-License-Identifier: Apache-2.0
"""An ONNX file, read with distrust: its sizes are bounded, its tensors are what they say, and
weights in other files are in its own folder.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.errors import ArgumentError, MissingPackageError

MOST_BYTES = (1 << 31) - 1  # of a file: what protobuf reads at most
MOST_NODES = 4096
MOST_ELEMENTS = 1 << 28  # of all tensors together


def read(source: Any) -> tuple[Any, Path | None]:
    """(ModelProto, the folder of its file). ``source``: a path, bytes or a ModelProto.

    Raises ArgumentError for what is no model, MissingPackageError without the package onnx.
    """
    try:
        import onnx  # noqa: PLC0415
    except ImportError as error:
        raise MissingPackageError("onnx") from error
    if isinstance(source, onnx.ModelProto):
        return _checked(source, "the model"), None
    if isinstance(source, bytes):
        data, what, folder = source, f"a model of {len(source)} bytes", None
    else:
        path = Path(os.fspath(source))
        what, folder = f'"{path}"', path.parent
        try:
            if path.stat().st_size > MOST_BYTES:
                raise ArgumentError(
                    f"{what} has {path.stat().st_size} bytes; at most {MOST_BYTES}; keep its "
                    "weights as external data"
                )
            data = path.read_bytes()
        except OSError as error:
            raise ArgumentError(f"{what} cannot be read: {error.strerror}") from error
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf's, whose class its versions move about
        raise ArgumentError(f"{what} is not an ONNX model: {error}") from error
    return _checked(proto, what), folder


def _checked(proto: Any, what: str) -> Any:
    if not proto.HasField("graph") or not proto.graph.output:
        raise ArgumentError(f"{what} is not an ONNX model: it has no graph with an output")
    if len(proto.graph.node) > MOST_NODES:
        raise ArgumentError(f"{what} has {len(proto.graph.node)} nodes; at most {MOST_NODES}")
    if proto.functions:
        name = proto.functions[0].name
        raise ArgumentError(f"{what} has functions of its own ({name!r}); export it without")
    if proto.graph.sparse_initializer:
        raise ArgumentError(f"{what} has sparse weights; give dense ones")
    return proto


class Tensors:
    """The arrays of one model. ``folder``: where those in other files must lie; None: nowhere."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.elements = 0

    def array(self, tensor: Any, name: str) -> NDArray[Any]:
        import onnx  # noqa: PLC0415

        shape = tuple(tensor.dims)
        size = math.prod(shape)
        if any(dim < 0 for dim in shape):
            raise ArgumentError(f"tensor {name!r} has shape {shape}")
        self.elements += size
        if self.elements > MOST_ELEMENTS:
            raise ArgumentError(
                f"tensor {name!r} has shape {shape}; all tensors together have at most "
                f"{MOST_ELEMENTS} elements"
            )
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        try:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        except (KeyError, TypeError, ValueError) as error:
            raise ArgumentError(f"tensor {name!r} has an unknown type of elements") from error
        if dtype.kind not in "fiub" and dtype.name != "bfloat16":
            raise ArgumentError(f"tensor {name!r} is of {dtype}; give numbers")
        if external:
            return np.frombuffer(self._bytes(tensor, name, size * dtype.itemsize), dtype).reshape(
                shape
            )
        if tensor.HasField("raw_data") and len(tensor.raw_data) != size * dtype.itemsize:
            raise ArgumentError(
                f"tensor {name!r} has shape {shape}, {size * dtype.itemsize} bytes of {dtype}, and "
                f"holds {len(tensor.raw_data)} bytes"
            )
        try:
            return np.asarray(onnx.numpy_helper.to_array(tensor))
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"tensor {name!r} is not what it says: {error}") from error

    def _bytes(self, tensor: Any, name: str, size: int) -> bytes:
        """``size`` bytes of a file in the model's folder."""
        if self.folder is None:
            raise ArgumentError(
                f"tensor {name!r} lies in another file, and the model came without a folder; give "
                "its path"
            )
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        folder = self.folder.resolve()
        # Resolved: neither "..", nor an absolute path, nor a link may lead out of the folder.
        path = (folder / location.replace("\0", "")).resolve()
        if folder not in path.parents or "\0" in location:
            raise ArgumentError(
                f"tensor {name!r} lies in {location!r}, which is not in the model's folder {folder}"
            )
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
        except ValueError as error:
            raise ArgumentError(f"tensor {name!r}: offset and length are not numbers") from error
        if offset < 0 or length != size:
            raise ArgumentError(
                f"tensor {name!r} has {size} bytes; its file gives it {length} at {offset}"
            )
        try:
            if not path.is_file():
                raise ArgumentError(f'tensor {name!r} lies in "{path}", which is no file')
            with path.open("rb") as file:
                file.seek(offset)
                data: bytes = file.read(size)
        except OSError as error:
            raise ArgumentError(f'tensor {name!r} lies in "{path}": {error.strerror}') from error
        if len(data) != size:
            raise ArgumentError(
                f'tensor {name!r} has {size} bytes; "{path}" holds {len(data)} at {offset}'
            )
        return data
