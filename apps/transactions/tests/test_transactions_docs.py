# SPDX-License-Identifier: Apache-2.0
"""The example of docs/transactions.md runs as it stands."""

import re
from pathlib import Path

DOC = Path(__file__).parents[3] / "docs" / "transactions.md"


def test_the_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(example, str(DOC), "exec"), {})
    assert "'accepted': " in capsys.readouterr().out
