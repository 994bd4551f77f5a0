# SPDX-License-Identifier: Apache-2.0
"""A Model as a file: an .npz of its weights, and of a text that says which op has which.

``model``: JSON, ``{"widths": [...], "output": 1, "tokens": false, "ops": [{"kind": ..., "inputs":
[...], "settings": {...}, "name": ...}]}``. ``3.0``: the first weight of op 3, float32.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from typing import Any

import numpy as np

from denizen.errors import ArgumentError, parsing
from denizen.files import write_arrays
from denizen.infer.model import Model, Op

MOST_BYTES = 1 << 31  # of all arrays together, once unpacked
_MOST_OPS = 4096
_WANTED = "a model that denizen.infer.Model.save() wrote"
_OP: dict[str, type] = {"kind": str, "inputs": list, "settings": dict, "name": str}
_MODEL: dict[str, type] = {"widths": list, "output": int, "tokens": bool, "ops": list}


def write(path: str | os.PathLike[str], model: Model) -> None:
    """Whole or not at all; .npz is appended to a name without it."""
    told = {
        "widths": model.widths,
        "output": model.output,
        "tokens": model.tokens,
        "ops": [
            {"kind": o.kind, "inputs": o.inputs, "settings": dict(o.settings), "name": o.name}
            for o in model.ops
        ],
    }
    weights = {
        f"{index}.{k}": weight
        for index, op in enumerate(model.ops)
        for k, weight in enumerate(op.weights)
    }
    write_arrays(path, model=np.frombuffer(json.dumps(told).encode(), np.uint8), **weights)


def read(path: str | os.PathLike[str]) -> Model:
    """The model of a file; ArgumentError, with the file's name, for what is none."""
    name = f'"{os.fspath(path)}"'
    try:
        with parsing(name, ArgumentError), zipfile.ZipFile(path) as archive:
            size = sum(one.file_size for one in archive.infolist())
            if size > MOST_BYTES:
                raise ArgumentError(f"{name} holds {size} bytes; at most {MOST_BYTES}")
            return _model(archive)
    except OSError as error:
        raise ArgumentError(f"{name} cannot be read: {error.strerror or error}") from error
    except ArgumentError as error:
        raise error if name in str(error) else ArgumentError(f"{name}: {error}") from error
    except (
        zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, OverflowError,
        RuntimeError, TypeError, ValueError,
    ) as error:  # fmt: skip
        raise ArgumentError(f"{name} is not {_WANTED}: {error}") from error


def _model(archive: zipfile.ZipFile) -> Model:
    told = _fields(json.loads(_array(archive, "model").tobytes()), _MODEL, "the model")
    if len(told["ops"]) > _MOST_OPS:
        raise ArgumentError(f"{len(told['ops'])} ops; at most {_MOST_OPS}")
    names = set(archive.namelist())
    ops = []
    for index, one in enumerate(told["ops"]):
        op = _fields(one, _OP, f"op {index}")
        weights: list[Any] = []
        while f"{index}.{len(weights)}.npy" in names:  # ends: each turn takes one of the names
            weights.append(_array(archive, f"{index}.{len(weights)}"))
        if not all(isinstance(v, int | float) for v in op["settings"].values()):
            raise ArgumentError(f"op {index}: a setting is no number")
        ops.append(Op(op["kind"], _whole(op["inputs"]), tuple(weights), op["settings"], op["name"]))
    return Model(_whole(told["widths"]), tuple(ops), told["output"], told["tokens"])


def _array(archive: zipfile.ZipFile, name: str) -> Any:
    data = io.BytesIO(archive.read(f"{name}.npy"))
    return np.ascontiguousarray(np.lib.format.read_array(data, allow_pickle=False))


def _fields(given: Any, wanted: dict[str, type], what: str) -> dict[str, Any]:
    if not isinstance(given, dict) or any(type(given.get(k)) is not t for k, t in wanted.items()):
        raise ArgumentError(f"{what} is not {_WANTED}: it has {', '.join(wanted)}")
    return given


def _whole(numbers: list[Any]) -> tuple[int, ...]:
    if not all(type(n) is int for n in numbers):
        raise ArgumentError(f"{numbers} are not whole numbers")
    return tuple(numbers)
