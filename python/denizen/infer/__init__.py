# SPDX-License-Identifier: Apache-2.0
"""Models of PyTorch and ONNX that stay resident and answer one time step of a stream per request.

It is imported when it is used, and imports PyTorch and onnx only for a model that came from them.
"""

from __future__ import annotations

from denizen.infer.importing import model_of
from denizen.infer.model import Model, Op
from denizen.infer.resident import Answer, Answers, Resident, Stats

__all__ = ["Answer", "Answers", "Model", "Op", "Resident", "Stats", "model_of"]
