# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/procmine.md run."""

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).resolve().parents[3] / "docs" / "procmine.md"


def test_the_examples_run(capsys):
    first, stream = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(first, {})
    out = capsys.readouterr().out
    assert "variants; the first: step A" in out and "rework" in out
    arrays = {"case": np.uint32([3, 3]), "activity": np.uint32([0, 1]), "time": np.int64([5, 9])}
    exec(stream, arrays)
    assert "[] [] [] [0 0 0" in capsys.readouterr().out
    assert arrays["stream"] is not None
