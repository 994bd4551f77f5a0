# SPDX-License-Identifier: Apache-2.0
"""The compilers of program text: where they are, what they are told, and what they say.

What is compiled is kept in the cache, under a name that holds all it was made of: key().
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from denizen import _core
from denizen.diagnosis import explain
from denizen.errors import CompileError

CPU_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden")
GPU_FLAGS = (
    "--std=c++20",
    "--device-as-default-execution-space",
    "--device-int128",
    # Not --ptxas-options=--Ofast-compile=min, which would take a third of the time: what ptxas 13.0
    # made so of a program with failing actors died of a misaligned address on an H100.
)


def gpu_options(architecture: int, flags: Iterable[str] = ()) -> tuple[str, ...]:
    """What NVRTC is told for a GPU of that compute capability (90: 9.0)."""
    return (*GPU_FLAGS, f"--gpu-architecture=sm_{architecture}", *flags)


def get_include() -> Path:
    """The folder of denizen's C++ headers, for `-I`."""
    here = Path(__file__).resolve()
    installed = here.parent / "include"
    return installed if installed.is_dir() else here.parents[2] / "include"


@cache
def headers_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in get_include().rglob("*") if p.is_file()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def host_compiler() -> tuple[tuple[str, ...], str]:
    """The command of the host compiler, and its version."""
    return find_compiler(os.environ.get("CXX", "").strip())


@cache
def find_compiler(explicit: str) -> tuple[tuple[str, ...], str]:
    wanted = [explicit] if explicit else ["g++", "clang++", "c++"]
    for name in wanted:
        command = shlex.split(name)
        path = shutil.which(command[0])
        if path:
            command[0] = path
            answer = subprocess.run(
                [*command, "--version"], capture_output=True, text=True, check=False
            )
            if answer.returncode != 0 or not answer.stdout:
                raise CompileError(
                    f"{name} --version fails ({answer.stderr.strip() or answer.returncode}); "
                    "set CXX to a C++20 compiler"
                )
            return tuple(command), answer.stdout.splitlines()[0]
    raise CompileError(
        f"no C++ compiler found (looked for {', '.join(wanted)}); install g++ 11 or newer, "
        "set CXX, or use a GPU"
    )


@cache
def find_nvrtc() -> Sequence[str]:
    """Tells the core where PyPI's wheels of NVRTC and nvJitLink lie: in these folders."""
    roots = dict.fromkeys([*sys.path, *(sysconfig.get_path(k) for k in ("purelib", "platlib"))])
    folders = [
        str(folder)
        for root in roots
        for pattern in ("nvidia/cu1*/lib", "nvidia/cuda_nvrtc/lib", "nvidia/nvjitlink/lib")
        if root
        for folder in sorted(Path(root).glob(pattern))
    ]
    _core.set_cuda_folders(folders)
    return folders


class Running:
    """A compiler at work. It ends with the block, and what it has started; Ctrl-C ends it too."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, process_group=0
        )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    def end(self) -> tuple[int, str]:
        """Its exit status, and what it said."""
        assert self._process.stderr is not None
        said = self._process.stderr.read()  # ends: with the compiler
        return self._process.wait(), said.decode("utf-8", "replace").strip()


def refusal(said: str, text: str, name: str) -> CompileError:
    """With the user's lines first, where the compiler names any."""
    mistakes = explain(said, text, name)
    return CompileError(
        f"{name} does not compile:\n" + (f"{mistakes}\n\nIn full:\n" if mistakes else "") + said
    )


def include_paths() -> list[str]:
    """For NVRTC. The second has the standard headers that it lacks; behind the user's own."""
    return [f"--include-path={p}" for p in (get_include(), get_include() / "denizen" / "rtc")]


def key(text: str, flags: Sequence[str], suffix: str, key: Iterable[str]) -> str:
    """The name under which what is compiled from ``text`` is kept."""
    digest = hashlib.sha256()
    for part in (text, headers_digest(), str(_core.layout_abi), *key):
        digest.update(part.encode())
        digest.update(b"\0")
    for header in own_headers(text, flags):
        digest.update(header.read_bytes())
        digest.update(b"\0")
    return digest.hexdigest()[:32] + suffix


def own_headers(text: str, flags: Sequence[str]) -> list[Path]:
    """The files that `text` includes, and those they include, in the folders of `-I` flags."""
    folders = [
        Path(m[1]) for m in (re.fullmatch(r"(?:-I|--include-path=)(.+)", f) for f in flags) if m
    ]
    folders += [Path(f) for before, f in pairwise(flags) if before == "-I"]
    found: dict[Path, None] = {}
    texts = [(text, folders)]
    while texts and folders:  # ends: each file is read once
        here, where = texts.pop()
        for name in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', here, re.MULTILINE):
            path = next((f / name for f in where if (f / name).is_file()), None)
            if path is not None and path not in found:
                found[path] = None
                texts.append((path.read_text("utf-8", "replace"), [path.parent, *folders]))
    return list(found)
