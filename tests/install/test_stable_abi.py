# SPDX-License-Identifier: Apache-2.0
"""What the extension module calls of Python is in the stable ABI that wheels are built for.

The tree's own build is for one Python and would not tell; a wheel takes minutes.
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _called() -> set[str]:
    """The functions and macros of Python that the module's sources call."""
    files = [p for p in (ROOT / "src").rglob("*") if p.suffix in {".cpp", ".hpp"}]
    return {
        name
        for path in files
        for name in re.findall(r"\b(_?Py[A-Za-z]*_\w+)\s*\(", path.read_text("utf-8"))
    }


def _check(names: set[str], tmp_path: Path) -> str:
    """What the compiler says of ``names`` where the stable ABI of Python 3.11 alone is known."""
    uses = "".join(f"#ifndef {n}\nvoid* of_{n} = (void*)&{n};\n#endif\n" for n in sorted(names))
    source = tmp_path / "names.c"
    source.write_text(f"#define Py_LIMITED_API 0x030b0000\n#include <Python.h>\n{uses}")
    include = sysconfig.get_paths()["include"]
    command = ["cc", "-fsyntax-only", "-I", include, str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.mark.skipif(
    not Path(sysconfig.get_paths()["include"], "Python.h").is_file(), reason="no Python.h"
)
def test_the_module_calls_the_stable_abi_alone(tmp_path: Path) -> None:
    names = _called()
    assert "PyGILState_Ensure" in names
    assert _check(names, tmp_path) == ""
    assert "PyInterpreterState_Main" in _check({"PyInterpreterState_Main"}, tmp_path)
