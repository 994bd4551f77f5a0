# SPDX-License-Identifier: Apache-2.0
"""Proof by machine code: what cuobjdump says a kernel consists of."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from denizen.ab.experiment import Arm, ExperimentError
from denizen.ab.gates import FAILED, NOT_CHECKED, PASSED, Gate

_FUNCTION = re.compile(r"\s*Function : (\S+)")
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+([^;]+);")


def tool() -> str | None:
    """The path of cuobjdump: on the search path, else in the CUDA toolkit's usual places, else what
    the wheel nvidia-cuda-cuobjdump has put into this Python environment."""
    wheels = importlib.util.find_spec("nvidia")
    inside = wheels.submodule_search_locations if wheels else None
    places = [
        os.environ.get("CUDA_HOME", ""),
        "/usr/local/cuda",
        *(f"{p}/cu13" for p in inside or []),
    ]
    search = os.pathsep.join([os.environ.get("PATH", ""), *(f"{p}/bin" for p in places if p)])
    return shutil.which("cuobjdump", path=search)


def parse(text: str) -> dict[str, list[str]]:
    """The instructions of each function in the output of ``cuobjdump -sass``.

    Of a function compiled for several architectures those of the last one, which is the newest.
    """
    functions: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if found := _FUNCTION.match(line):
            current = functions[found[1]] = []
        elif found := _INSTRUCTION.match(line):
            current.append(found[1].strip())
    return functions


@cache
def disassemble(binary: Path, cuobjdump: str) -> dict[str, list[str]]:
    """The functions of ``binary``; ExperimentError if cuobjdump cannot read it.

    Once per process: the cells of a sweep have the same binary, which does not change meanwhile.
    """
    try:
        done = subprocess.run(
            [cuobjdump, "-sass", str(binary)],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
            # It calls nvdisasm, which lies beside it.
            env=os.environ | {"PATH": f"{Path(cuobjdump).parent}{os.pathsep}{os.environ['PATH']}"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ExperimentError(f"{binary}: cuobjdump failed: {error}") from error
    return parse(done.stdout)


def opcode(instruction: str) -> str:
    """The operation of an instruction without its predicate: ``@!P0 LDGSTS.E.128 ...`` is
    ``LDGSTS.E.128``."""
    return re.sub(r"^@!?U?P\w+\s+", "", instruction).split(maxsplit=1)[0]


def check(arms: Sequence[Arm], cuobjdump: str | None) -> list[Gate]:
    """Gates of all arms with a kernel: it exists, has its instructions, and is nobody else's."""
    gates: list[Gate] = []
    seen: dict[str, str] = {}
    for arm in arms:
        kernel = arm.kernel
        if kernel is None:
            continue
        if cuobjdump is None:
            gates.append(Gate("code", arm.name, NOT_CHECKED, "there is no cuobjdump here"))
            continue
        functions = disassemble(kernel.binary, cuobjdump)
        names = [name for name in functions if kernel.symbol in name]
        if len(names) != 1:
            text = f'"{kernel.symbol}" is in the names of {len(names)} functions, not of one'
            gates.append(Gate("code", arm.name, FAILED, text))
            continue
        body = functions[names[0]]
        operations = [opcode(line) for line in body]
        lacking = [
            wanted
            for wanted in kernel.instructions
            if not any(op == wanted or op.startswith(wanted + ".") for op in operations)
        ]
        digest = hashlib.sha256("\n".join(body).encode()).hexdigest()
        twin = seen.setdefault(digest, arm.name)
        if lacking:
            text = f"{names[0]} has no {lacking[0]} in its {len(body)} instructions"
        elif twin != arm.name:
            text = f'{names[0]} is the same code as that of arm "{twin}"'
        else:
            text = f"{names[0]}, {len(body)} instructions, SHA-256 {digest[:16]}"
        bad = bool(lacking) or twin != arm.name
        gates.append(Gate("code", arm.name, FAILED if bad else PASSED, text))
    return gates
