# SPDX-License-Identifier: Apache-2.0
"""Programs: CUDA C++ text with the actors' states and handlers, compiled for CPU or GPU."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from denizen import _core
from denizen.errors import ArgumentError, CompileError
from denizen.message import MessageType, check_name

_CPU_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
_GPU_FLAGS = (
    "--std=c++20",
    "--device-as-default-execution-space",
    "--device-int128",
    "-DNDEBUG",
)


def get_include() -> Path:
    """The folder of denizen's C++ headers, for `-I`."""
    here = Path(__file__).resolve()
    installed = here.parent / "include"
    return installed if installed.is_dir() else here.parents[2] / "include"


def cache_folder() -> Path:
    """Where compiled programs are kept: $DENIZEN_CACHE, else ~/.cache/denizen."""
    explicit = os.environ.get("DENIZEN_CACHE")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "denizen"


@cache
def _headers_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(get_include().rglob("*.hpp")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _host_compiler() -> tuple[str, str]:
    """The host compiler and its version line."""
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "c++"]
    for name in wanted:
        path = shutil.which(name)
        if path:
            version = subprocess.run(
                [path, "--version"], capture_output=True, text=True, check=True
            )
            return path, version.stdout.splitlines()[0]
    raise CompileError(
        f"no C++ compiler found (looked for {', '.join(wanted)}); install g++ 11 or newer, "
        "set CXX, or use a GPU"
    )


@cache
def _find_nvrtc() -> None:
    """Tells the core where PyPI's NVRTC wheels lie."""
    roots = dict.fromkeys([*sys.path, *(sysconfig.get_path(k) for k in ("purelib", "platlib"))])
    folders = [
        str(folder)
        for root in roots
        for pattern in ("nvidia/cu1*/lib", "nvidia/cuda_nvrtc/lib")
        if root
        for folder in sorted(Path(root).glob(pattern))
    ]
    _core.set_nvrtc_folders(folders)


class Program:
    """Actors and messages, compiled when first needed and cached on disk by content.

    Args:
        source: C++20 text that defines a struct for each actor: its state, and a handler
            `void on(const Message& m, auto& ctx)` for each message it takes. The messages are
            defined already. The same text runs on the GPU and on the CPU; handlers use no more of
            the standard library than NVRTC knows (none, unless the text includes it itself).
        actors: the names of the actor structs.
        messages: the message types, replies included.
        name: stands for the text in compilers' messages.
        flags: further compiler options, for both compilers (`-D...`, `-I...`).
    """

    def __init__(
        self,
        source: str,
        *,
        actors: Sequence[str],
        messages: Sequence[MessageType],
        name: str = "program",
        flags: Sequence[str] = (),
    ) -> None:
        for actor in actors:
            check_name("actor", actor)
        if not actors:
            raise ArgumentError(f"{name} has no actors")
        self.source = source
        self.name = name
        self.actors = tuple(actors)
        self.messages = {m.name: m for m in messages}
        self.flags = tuple(flags)
        names = [*self.actors, *(m.name for m in messages)]
        doubled = {n for n in names if names.count(n) > 1}
        if doubled:
            raise ArgumentError(f"{name} defines {', '.join(sorted(doubled))} twice")

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        actors: Sequence[str],
        messages: Sequence[MessageType],
        flags: Sequence[str] = (),
    ) -> Program:
        """A program whose text lies in a file; compilers' messages name that file."""
        text = Path(path).read_text(encoding="utf-8")
        return cls(text, actors=actors, messages=messages, name=str(path), flags=flags)

    def text(self) -> str:
        """The whole translation unit: messages, the user's text, and the program's definition."""
        structs = "".join(m.struct for m in self.messages.values())
        return (
            "#include <denizen/resident/kernel.hpp>\n"
            '#line 1 "messages"\n'
            f"{structs}"
            f'#line 1 "{self.name}"\n'
            f"{self.source}\n"
            f'#line 1 "end of {self.name}"\n'
            f"using denizen_program = denizen::Program<denizen::Actors<{', '.join(self.actors)}>, "
            f"denizen::Messages<{', '.join(self.messages)}>>;\n"
            "DENIZEN_PROGRAM(denizen_program)\n"
        )

    def compile_cpu(self) -> _core.Image:
        """Compiles for CPU threads with the host compiler (CXX, g++, clang++).

        Raises CompileError with the compiler's messages.
        """
        compiler, version = _host_compiler()
        flags = (*_CPU_FLAGS, *self.flags)
        path = self._cached(".so", (compiler, version, *flags))
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=_made(path.parent)) as folder:
                text = Path(folder) / "program.cpp"
                text.write_text(self.text(), encoding="utf-8")
                built = Path(folder) / "program.so"
                result = subprocess.run(
                    [compiler, *flags, f"-I{get_include()}", str(text), "-o", str(built)],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if result.returncode != 0:
                    raise CompileError(f"{self.name} does not compile:\n{result.stderr.strip()}")
                built.replace(path)
        return _core.load_library(str(path), list(self.actors), list(self.messages))

    def compile_gpu(self, architecture: int) -> _core.Image:
        """Compiles for a GPU with NVRTC.

        Args:
            architecture: ten times the compute capability: 80, 90.

        Raises CompileError with NVRTC's messages, or if NVRTC is not to be found.
        """
        _find_nvrtc()
        flags = (*_GPU_FLAGS, f"--gpu-architecture=sm_{architecture}", *self.flags)
        path = self._cached(".cubin", (str(_core.nvrtc_version()), *flags))
        if path.exists():
            cubin = path.read_bytes()
        else:
            cubin, _ = _core.compile_cubin(
                self.text(), self.name, [*flags, f"--include-path={get_include()}"]
            )
            with tempfile.NamedTemporaryFile(dir=_made(path.parent), delete=False) as file:
                file.write(cubin)
            Path(file.name).replace(path)
        return _core.load_cubin(cubin, list(self.actors), list(self.messages))

    def _cached(self, suffix: str, key: Iterable[str]) -> Path:
        digest = hashlib.sha256()
        for part in (self.text(), _headers_digest(), str(_core.layout_abi), *key):
            digest.update(part.encode())
            digest.update(b"\0")
        return cache_folder() / (digest.hexdigest()[:32] + suffix)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
