# SPDX-License-Identifier: Apache-2.0
"""Proof by machine code: what cuobjdump says a kernel consists of."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from denizen.ab.experiment import Arm, ExperimentError
from denizen.ab.gates import FAILED, PASSED, Gate

_FUNCTION = re.compile(r"\s*Function : (\S+)")
_INSTRUCTION_BYTES = 16  # since Volta
_GET_IT = "pip install nvidia-cuda-cuobjdump, or name a CUDA toolkit in CUDA_HOME"
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
    """The functions of ``binary``, none of what has no device code; ExperimentError if cuobjdump
    cannot read it.

    Once per process: the cells of a sweep have the same binary, which does not change meanwhile.
    """
    try:
        done = subprocess.run(
            [cuobjdump, "-sass", str(binary)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            # It calls nvdisasm, which lies beside it.
            env=os.environ | {"PATH": f"{Path(cuobjdump).parent}{os.pathsep}{os.environ['PATH']}"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ExperimentError(f"{binary}: cuobjdump failed: {error}") from error
    if done.returncode != 0 and "does not contain device code" not in done.stderr:
        said = (done.stderr.strip() or f"it ended with {done.returncode}").splitlines()[-1]
        raise ExperimentError(f"{binary}: cuobjdump failed: {said}")
    return parse(done.stdout)


def opcode(instruction: str) -> str:
    """The operation of an instruction without its predicate: ``@!P0 LDGSTS.E.128 ...`` is
    ``LDGSTS.E.128``."""
    return re.sub(r"^@!?U?P\w+\s+", "", instruction).split(maxsplit=1)[0]


_REGISTER = re.compile(r"\b(UR|UP|SB|R|P|B)(\d+)\b")
_ADDRESS = re.compile(r"\[([^\]]*)\]")
_OFFSET = re.compile(r"\s*\+?\s*-?0x[0-9a-f]+")
_TARGET = re.compile(
    r"^(?:@!?U?P\w+\s+)?(?:BRA|BSSY|CALL|RET|JMP|BREAK|WARPSYNC|BRX)\b.*?(0x[0-9a-f]+)"
)


def normalised(body: Sequence[str]) -> list[str]:
    """What the instructions do, without what says only where things lie.

    Registers are numbered in the order of their use, offsets within addresses and in constant
    memory are left out, a branch says how many instructions it goes on or back, and nothing follows
    the end. So kernels that differ by the counter they add to, or by the order of their parameters,
    are the same; other operations, modifiers, operands and numbers are not.
    """
    lines = list(body)
    while lines and (opcode(lines[-1]) == "NOP" or re.fullmatch(r"BRA 0x[0-9a-f]+", lines[-1])):
        lines.pop()
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()

    def register(found: re.Match[str]) -> str:
        name, kind = found[0], found[1]
        if name not in names:
            names[name] = f"{kind}{counts[kind]}"
            counts[kind] += 1
        return names[name]

    made = []
    for place, line in enumerate(lines):
        if target := _TARGET.match(line):
            to = int(target[1], 16) // _INSTRUCTION_BYTES - place
            line = line[: target.start(1)] + f"{to:+d}" + line[target.end(1) :]  # noqa: PLW2901
        line = _ADDRESS.sub(lambda m: f"[{_OFFSET.sub('', m[1])}]", line)  # noqa: PLW2901
        made.append(_REGISTER.sub(register, line))
    return made


@cache
def _digest(binary: Path, cuobjdump: str, name: str) -> str:
    """Of what function ``name`` does; once per process, as its disassembly."""
    body = disassemble(binary, cuobjdump)[name]
    return hashlib.sha256("\n".join(normalised(body)).encode()).hexdigest()


def check(arms: Sequence[Arm], cuobjdump: str | None) -> list[Gate]:
    """Gates of all arms with a kernel: it exists, has its instructions, and is nobody else's."""
    gates: list[Gate] = []
    seen: dict[str, str] = {}
    for arm in arms:
        kernel = arm.kernel
        if kernel is None:
            continue
        if cuobjdump is None:
            gates.append(Gate("code", arm.name, FAILED, f"there is no cuobjdump here: {_GET_IT}"))
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
        digest = _digest(kernel.binary, cuobjdump, names[0])
        twin = seen.setdefault(digest, arm.name)
        if lacking:
            text = f"{names[0]} has no {lacking[0]} in its {len(body)} instructions"
        elif twin != arm.name:
            text = f'{names[0]} does the same as the code of arm "{twin}"'
        else:
            text = f"{names[0]}, {len(body)} instructions, SHA-256 {digest[:16]}"
        bad = bool(lacking) or twin != arm.name
        gates.append(Gate("code", arm.name, FAILED if bad else PASSED, text))
    return gates
