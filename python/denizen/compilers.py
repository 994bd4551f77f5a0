# SPDX-License-Identifier: Apache-2.0
"""Program text compiled: by the host compiler for CPU threads, by NVRTC and nvJitLink for a GPU.

What has been compiled is kept by its content (cache.py).
"""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from denizen import _core
from denizen.apart import Ending, compile_apart
from denizen.cache import open_cache
from denizen.diagnosis import explain
from denizen.errors import CompileError, starting
from denizen.headers import own_headers

log = logging.getLogger(__name__)

CPU_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
GPU_FLAGS = (
    "--std=c++20",
    "--device-as-default-execution-space",
    "--device-int128",
    # Not --ptxas-options=--Ofast-compile=min, which would take a third of the time: what ptxas 13.0
    # made so of a program with failing actors died of a misaligned address on an H100.
)


def get_include() -> Path:
    """The folder of denizen's C++ headers, for `-I`."""
    here = Path(__file__).resolve()
    installed = here.parent / "include"
    return installed if installed.is_dir() else here.parents[2] / "include"


@cache
def _headers_digest() -> str:
    digest = hashlib.sha256()
    # Each start waits for this: Path.rglob() takes twice as long.
    paths = (os.path.join(at, name) for at, _, names in os.walk(get_include()) for name in names)
    for path in sorted(paths):
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()


def _host_compiler() -> tuple[tuple[str, ...], str]:
    """The command of the host compiler, and its version."""
    return _find_compiler(os.environ.get("CXX", "").strip())


@cache
def _find_compiler(explicit: str) -> tuple[tuple[str, ...], str]:
    wanted = [explicit] if explicit else ["g++", "clang++", "c++"]
    for name in wanted:
        command = shlex.split(name)
        import shutil  # noqa: PLC0415  (with tempfile a tenth of what the package takes to import)

        path = shutil.which(command[0])
        if path:
            command[0] = path
            with starting(name, CompileError):
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


def link(  # noqa: PLR0917
    text: str,
    name: str,
    architecture: int,
    flags: Sequence[str],
    code: str,
    parts: Callable[[], list[tuple[str, bytes]]],
    ending: Ending | None = None,
) -> bytes:
    """A cubin: the text by NVRTC, the handlers by Numba, linked as LTO-IR.

    Args:
        code: what the handlers do; equal ones are the same code.
        parts: makes their LTO-IR, by its symbols.
    """
    key = link_key(text, architecture, flags, code)
    with open_cache() as kept:
        cubin = kept.code(key)
        if cubin is None:
            folders = find_nvrtc()
            made = parts()
            options = [
                *_gpu_flags(architecture, flags),
                "-dlto",
                "--relocatable-device-code=true",
                *_include_paths(),
            ]
            try:
                whole = compile_apart(
                    "compile_ltoir", text, name, options, folders=folders, ending=ending
                )
            except CompileError as error:
                raise _refusal(str(error), text, name) from None
            how = link_flags(architecture)
            cubin = compile_apart(
                "link_cubin", [(name, whole), *made], how, folders=folders, ending=ending
            )
            kept.keep_code(key, cubin)
    return cubin


def _gpu_flags(architecture: int, flags: Sequence[str]) -> tuple[str, ...]:
    return (*GPU_FLAGS, f"--gpu-architecture=sm_{architecture}", *flags)


def link_flags(architecture: int) -> list[str]:
    """For nvJitLink."""
    # Without -fma=0 the sums of products would differ from the CPU's in their last bits.
    return [f"-arch=sm_{architecture}", "-lto", "-fma=0"]


def link_key(text: str, architecture: int, flags: Sequence[str], code: str) -> str:
    """The name under which link() keeps a cubin."""
    # Without the compilers' versions: what has been linked runs where none is installed.
    return _key(text, flags, ".cubin", ("-fma=0", code, *_gpu_flags(architecture, flags)))


def cubin_key(text: str, architecture: int, flags: Sequence[str]) -> str:
    """The name under which cubin_of() keeps a cubin."""
    find_nvrtc()
    version = str(_core.nvrtc_version())
    return _key(text, flags, ".cubin", (version, *_gpu_flags(architecture, flags)))


def compile_text(  # noqa: PLR0917
    text: str,
    name: str,
    architecture: int,
    flags: Sequence[str],
    further: Sequence[str] = (),
    ending: Ending | None = None,
) -> bytes:
    """A cubin by NVRTC, which is not kept. Raises as cubin_of().

    Args:
        further: options that are not the user's.
    """
    options = [*_gpu_flags(architecture, flags), *further, *_include_paths()]
    try:
        return compile_apart(
            "compile_cubin", text, name, options, folders=find_nvrtc(), ending=ending
        )
    except CompileError as error:
        raise _refusal(str(error), text, name) from None


def library_of(text: str, name: str, flags: Sequence[str] = ()) -> bytes:
    """A translation unit compiled by the host compiler (CXX, g++, clang++) into a shared library.

    Args:
        text: C++20 that may include denizen's headers.
        name: stands for the text in messages.
        flags: further options.

    Returns the library, from the cache if it was compiled before. Raises CompileError with the
    compiler's messages.
    """
    compiler, version = _host_compiler()
    all_flags = (*CPU_FLAGS, *flags)
    key = _key(text, flags, ".so", (*compiler, version, *all_flags))
    with open_cache() as kept:
        library = kept.code(key)
        if library is None:
            log.info("compiling %s for the CPU (%s)", name, compiler[0])
            began = time.perf_counter()
            import tempfile  # noqa: PLC0415

            with tempfile.TemporaryDirectory() as folder:
                source = Path(folder) / "program.cpp"
                source.write_text(text, encoding="utf-8")
                built = Path(folder) / "program.so"
                status, said = _finished(
                    [*compiler, *all_flags, f"-I{get_include()}", str(source), "-o", str(built)]
                )
                if status != 0:
                    raise _refusal(said, text, name)
                library = built.read_bytes()
            log.info("compiled %s in %.1f s", name, time.perf_counter() - began)
            kept.keep_code(key, library)
    return library


def _finished(command: Sequence[str]) -> tuple[int, str]:
    """A compiler's exit status, and what it said. Ctrl-C ends it at once, and what it started."""
    with starting(command[0], CompileError):
        started = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, process_group=0
        )
    with started as process:
        assert process.stderr is not None
        try:
            said = process.stderr.read()  # ends: with the compiler
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, said.decode("utf-8", "replace").strip()


def _refusal(said: str, text: str, name: str) -> CompileError:
    """With the user's lines first, where the compiler names any."""
    mistakes = explain(said, text, name)
    return CompileError(
        f"{name} does not compile:\n" + (f"{mistakes}\n\nIn full:\n" if mistakes else "") + said
    )


def by_all_cores() -> tuple[str, ...]:
    """The option that has NVRTC compile with all cores, for text that takes long. None before
    version 13, which may not know it."""
    find_nvrtc()
    return ("--split-compile=0",) if _core.nvrtc_version() >= 13000 else ()


def _include_paths() -> list[str]:
    """For NVRTC. The second has the standard headers that it lacks; behind the user's own."""
    return [f"--include-path={p}" for p in (get_include(), get_include() / "denizen" / "rtc")]


def cubin_of(
    text: str,
    name: str,
    architecture: int,
    flags: Sequence[str] = (),
    ending: Ending | None = None,
) -> bytes:
    """A translation unit compiled by NVRTC, from the cache if it was before.

    Args:
        text: CUDA C++ that may include denizen's headers.
        name: stands for the text in messages.
        architecture: ten times the compute capability: 80, 90.
        flags: further options.

    Raises CompileError with NVRTC's messages, or if NVRTC is not to be found.
    """
    key = cubin_key(text, architecture, flags)
    with open_cache() as kept:
        cubin = kept.code(key)
        if cubin is None:
            log.info("compiling %s for sm_%d", name, architecture)
            began = time.perf_counter()
            cubin = compile_text(text, name, architecture, flags, ending=ending)
            log.info("compiled %s in %.1f s", name, time.perf_counter() - began)
            kept.keep_code(key, cubin)
    return cubin


def _key(text: str, flags: Sequence[str], suffix: str, key: Iterable[str]) -> str:
    """The name under which what is compiled from ``text`` is kept."""
    digest = hashlib.sha256()
    for part in (text, _headers_digest(), str(_core.layout_abi), *key):
        digest.update(part.encode())
        digest.update(b"\0")
    for header in own_headers(text, flags):
        digest.update(header.read_bytes())
        digest.update(b"\0")
    return digest.hexdigest()[:32] + suffix
