# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/radio.md, iq.md, dsp.md and flow.md run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
PRINTED = {
    "radio.md": [
        r"4840D6 17 KLM1023 None\n4840D6 17 None None\n4840D6 17 None 52\.257\d+\n",
        r"\d+\n",
        r"\(48000, 2\) True 0\.1\n",
    ],
    "iq.md": [r"48000 signed 16-bit 5000\n"],
    "flow.md": [r"\[ ?0\. +2\. .* 18\.\]\n", r"1000 Hz\n"],
    "dsp.md": [r"\(16, 4000\) 1\n3203\.125\n"],
}


@pytest.mark.parametrize(
    ("page", "number"), [(page, k) for page in PRINTED for k in range(len(PRINTED[page]))]
)
def test_the_example_runs(page, number, tmp_path):
    text = (DOCS / page).read_text(encoding="utf-8")
    codes = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(codes) == len(PRINTED[page])
    done = subprocess.run(
        [sys.executable, "-c", codes[number]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(PRINTED[page][number], done.stdout)
