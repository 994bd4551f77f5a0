# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/radio.md run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "radio.md"
PRINTED = [
    r"4840D6 17 KLM1023 None\n4840D6 17 None None\n4840D6 17 None 52\.257\d+\n",
    r"\(48000, 2\) True 0\.1\n",
]


@pytest.mark.parametrize("number", range(len(PRINTED)))
def test_the_example_runs(number):
    codes = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(codes) == len(PRINTED)
    done = subprocess.run(
        [sys.executable, "-c", codes[number]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(PRINTED[number], done.stdout)
