# SPDX-License-Identifier: Apache-2.0
"""Whatever a user calls a model, as a Model: a Model, modules of PyTorch, a file of ONNX."""

from __future__ import annotations

import os
import sys
from typing import Any

from denizen.errors import ArgumentError
from denizen.infer.model import Model


def model_of(*sources: Any, width: int | None = None) -> Model:
    """The model of ``sources``: one Model, one of ONNX (a path, bytes, a ModelProto), the .npz that
    Model.save() wrote, or modules of PyTorch that are applied one after the other (see
    ``from_torch`` and ``from_onnx``).

    ``width``: of the input, where no layer says it. Raises ArgumentError with the layer's name and
    type for what cannot be resident, and for anything else than a model.
    """
    if len(sources) == 1:
        (source,) = sources
        if isinstance(source, Model):
            return source
        if isinstance(source, str | os.PathLike) and os.fspath(source).endswith(".npz"):
            from denizen.infer import model_file  # noqa: PLC0415 - for those who have one

            return model_file.read(source)
        if isinstance(source, (str, bytes, os.PathLike)) or _is_proto(source):
            from denizen.infer.from_onnx import from_onnx  # noqa: PLC0415 - imports onnx

            return from_onnx(source, width=width)
    # Who has a module has imported PyTorch.
    torch = sys.modules.get("torch")
    if torch is None or not sources or not all(isinstance(s, torch.nn.Module) for s in sources):
        got = ", ".join(type(source).__name__ for source in sources) or "nothing"
        raise ArgumentError(
            f"a model is wanted, and {got} was given; give modules of PyTorch (torch.nn.Module), a "
            "path or the bytes of an ONNX file, or a denizen.infer.Model"
        )
    from denizen.infer.from_torch import from_torch  # noqa: PLC0415 - imports PyTorch

    return from_torch(*sources, width=width)


def _is_proto(source: Any) -> bool:
    onnx = sys.modules.get("onnx")
    return onnx is not None and isinstance(source, onnx.ModelProto)
