# SPDX-License-Identifier: Apache-2.0
"""The code that all programs of actors have in common: four fifths of each.

It is compiled once for each compiler and its options, kept in the cache, and programs are linked
with it (include/denizen/actor/detail/common.hpp). The first program's is compiled while that
program is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from denizen import _core
from denizen.apart import Work
from denizen.cache import open_cache
from denizen.compilers import (
    CPU_FLAGS,
    Running,
    find_nvrtc,
    get_include,
    gpu_options,
    host_compiler,
    include_paths,
    key,
    refusal,
)
from denizen.errors import CompileError

# How the text of a program begins; all of the common code's.
START = "#include <denizen/base/vocabulary.hpp>\n#include <denizen/actor/kernel.hpp>\n"

# What compiles a program without it.
LINKED = "-DDENIZEN_COMMON=1"
RELOCATABLE = "--relocatable-device-code=true"

_COMMON = "-DDENIZEN_COMMON=2"
_NAME = "the common code"
_FOLDER = ("-I", "--include-path=")  # how the options begin that name folders of headers


def can_link() -> bool:
    """Whether there is an nvJitLink as new as NVRTC."""
    find_nvrtc()
    try:
        return _core.nvjitlink_version() >= _core.nvrtc_version()
    except CompileError:
        return False


@contextmanager
def common_object(flags: Sequence[str], folder: Path) -> Iterator[Callable[[], Path]]:
    """For the host compiler's linker: what is yielded waits for it, and gives its file in
    `folder`."""
    compiler, version = host_compiler()
    options = (*CPU_FLAGS, *_without_folders(flags), _COMMON)
    name = key(START, (), ".common", (*compiler, version, *options))
    source, built = folder / "common.cpp", folder / "common.o"
    with open_cache() as kept:
        code = kept.code(name)
    if code is not None:
        built.write_bytes(code)
        yield lambda: built
        return
    source.write_text(START, encoding="utf-8")
    where = [f"-I{get_include()}", "-c", str(source), "-o", str(built)]
    with Running([*compiler, *options, *where]) as at_work:

        def end() -> Path:
            status, said = at_work.end()
            if status != 0:
                raise refusal(said, START, _NAME)
            with open_cache() as kept:
                kept.keep_code(name, built.read_bytes())
            return built

        yield end


@contextmanager
def common_cubin(
    architecture: int, flags: Sequence[str]
) -> Iterator[Callable[[], tuple[str, bytes]]]:
    """For nvJitLink: what is yielded waits for it, and gives it with its name in messages."""
    folders = find_nvrtc()
    options = (*gpu_options(architecture, _without_folders(flags)), _COMMON, RELOCATABLE)
    name = key(START, (), ".common", (str(_core.nvrtc_version()), *options))
    with open_cache() as kept:
        code = kept.code(name)
    if code is not None:
        cubin = code
        yield lambda: (_NAME, cubin)
        return
    given = (START, _NAME, [*options, *include_paths()])
    with Work("compile_cubin", *given, folders=folders) as at_work:

        def end() -> tuple[str, bytes]:
            cubin = at_work.result()
            with open_cache() as kept:
                kept.keep_code(name, cubin)
            return _NAME, cubin

        yield end


def _without_folders(flags: Sequence[str]) -> list[str]:
    """Those that matter to the common code, which includes no headers of the user's."""
    pairs = zip(("", *flags), flags, strict=False)
    return [f for before, f in pairs if before != "-I" and not f.startswith(_FOLDER)]
