# SPDX-License-Identifier: Apache-2.0
"""Programs: actors' states and handlers, in Python or as CUDA C++ text, compiled for CPU or GPU."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from denizen import _core
from denizen.actor import ActorType
from denizen.apart import Ending, compile_apart
from denizen.cache import open_cache
from denizen.diagnosis import explain
from denizen.errors import ArgumentError, CompileError, OnlyTheCall
from denizen.headers import own_headers
from denizen.life import DOWN
from denizen.message import MessageType, check_name, fields_of, html_table

if TYPE_CHECKING:
    from denizen.handlers.plan import Plan

log = logging.getLogger(__name__)

_CPU_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
_GPU_FLAGS = (
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
    for path in sorted(p for p in get_include().rglob("*") if p.is_file()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _host_compiler() -> tuple[tuple[str, ...], str]:
    """The command of the host compiler, and its version."""
    return _find_compiler(os.environ.get("CXX", "").strip())


@cache
def _find_compiler(explicit: str) -> tuple[tuple[str, ...], str]:
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
def _find_nvrtc() -> Sequence[str]:
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


class Program:
    """Actors and messages, compiled when first needed and cached on disk by content.

    Args:
        source: C++20 text that defines a struct for each actor that is named by text: its state,
            and a handler `void on(const Message& m, auto& ctx)` for each message it takes. The
            messages are defined already. The same text runs on the GPU and on the CPU: besides
            denizen's own it may use the vocabulary that both compilers have (docs/vocabulary.md),
            which needs no `#include`. `denizen check` compiles for both.
        actors: classes that @denizen.actor has made actor types (docs/python-handlers.md), and
            names of structs in the text.
        messages: the message types, replies included. Those that handlers in Python take or make
            need not be named.
        tasks: names of structs in the text that handlers spawn as tasks. Those that handlers in
            Python spawn need not be named.
        name: stands for the text in compilers' messages.
        flags: further compiler options, for both compilers (`-D...`, `-I...`). Headers that the
            text includes from a folder named by `-I` count as content: change one, and the
            program is compiled anew.
    """

    def __init__(
        self,
        source: str = "",
        *,
        actors: Sequence[str | ActorType],
        messages: Sequence[MessageType] = (),
        tasks: Sequence[str] = (),
        name: str = "program",
        flags: Sequence[str] = (),
    ) -> None:
        lists = {"actors": actors, "messages": messages, "tasks": tasks, "flags": flags}
        for what, given in lists.items():
            if isinstance(given, str):
                raise ArgumentError(f'{what} = "{given}"; give a list')
        names = []
        for actor in actors:
            if isinstance(actor, type):
                raise ArgumentError(f"{actor.__name__} is a class; decorate it with @denizen.actor")
            names.append(actor.name if isinstance(actor, ActorType) else actor)
            check_name("actor", names[-1])
        for message in messages:
            if not isinstance(message, MessageType):
                raise ArgumentError(f"{message!r} is no message type; use denizen.message(...)")
        for task in tasks:
            if not isinstance(task, str):
                raise ArgumentError(
                    f"{task!r} among the tasks; name structs of the text, those in Python are found"
                )
            check_name("task", task)
        if not actors:
            raise ArgumentError(f"{name} has no actors")
        self.source = source
        self.name = name
        self.actors = tuple(names)
        self.in_python = [a for a in actors if isinstance(a, ActorType)]
        self.messages = {m.name: m for m in messages}
        self.tasks = tuple(tasks)
        self.flags = tuple(flags)
        if self.in_python:
            with OnlyTheCall():
                self._add_what_handlers_name()
        names = [*self.actors, *self.tasks, *(m.name for m in messages)]
        doubled = {n for n in names if names.count(n) > 1}
        if doubled:
            raise ArgumentError(f"{name} defines {', '.join(sorted(doubled))} twice")
        if not source and len(self.in_python) < len(self.actors):
            missing = ", ".join(a for a in actors if isinstance(a, str))
            raise ArgumentError(
                f"{name} has no text that defines {missing}; give its C++ text, or the class that "
                "@denizen.actor has made"
            )

    def _add_what_handlers_name(self) -> None:
        """The messages that handlers in Python take and make, and the actors that they spawn."""
        from denizen.handlers.plan import ordered, plan  # noqa: PLC0415  (import denizen is quicker)

        found = plan(self.in_python, interpreted=True)
        self.actors = (*self.actors, *(a.name for a in found.actors[len(self.in_python) :]))
        self.in_python = found.actors
        self.tasks = (*(t.name for t in found.tasks), *self.tasks)
        for message in found.messages.values():
            there = self.messages.setdefault(message.name, message)
            if there.dtype != message.dtype:
                raise ArgumentError(
                    f"{self.name} lists another message {message.name} than its handlers use: "
                    f"{there!r} and {message!r}"
                )
        self.messages = {m.name: m for m in ordered(self.messages)}

    def plan(self, *, interpreted: bool = False) -> Plan:
        """Its handlers in Python, rewritten. CompileError has the user's file and line."""
        from denizen.handlers.plan import plan  # noqa: PLC0415  (import denizen is quicker)

        found = plan(self.in_python, interpreted=interpreted)
        for actor, message, handler in found.each():
            if "watch" in handler.calls and DOWN.name not in self.messages:
                raise CompileError(
                    f"{handler.path}:{handler.line}: {actor.name} on {message} calls ctx.watch(): "
                    "list denizen.DOWN among the program's messages, or give an actor a handler "
                    "of it"
                )
        return found

    def __repr__(self) -> str:
        return (
            f"<denizen.Program {self.name}: actors {', '.join(self.actors)}; "
            f"messages {', '.join(self.messages) or 'none'}"
            f"{'; tasks ' * bool(self.tasks)}{', '.join(self.tasks)}>"
        )

    def _repr_html_(self) -> str:
        rows = [(m.name, fields_of(m.dtype)) for m in self.messages.values()]
        states = {a.name: f"actor: {fields_of(a.dtype)}" for a in self.in_python}
        actors = [(name, states.get(name, "actor")) for name in self.actors]
        return html_table(f"denizen.Program {self.name}", [*actors, *rows])

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        actors: Sequence[str],
        messages: Sequence[MessageType],
        flags: Sequence[str] = (),
    ) -> Program:
        """A program whose text lies in a file.

        Compilers' messages name that file, and it may include others that lie beside it.
        """
        text = Path(path).read_text(encoding="utf-8")
        flags = (*flags, f"-I{Path(path).resolve().parent}")
        return cls(text, actors=actors, messages=messages, name=str(path), flags=flags)

    def text(self) -> str:
        """The whole translation unit: messages, the user's text, and the program's definition."""
        structs = "".join(m.struct for m in self.messages.values())
        behind = ""
        if self.in_python:
            from denizen.handlers import text as handler_text  # noqa: PLC0415  (import denizen is quicker)

            handlers, messages = self.plan(), list(self.messages.values())
            structs += handler_text.structs(handlers, messages)
            behind = handler_text.ending(handlers, messages, "denizen_program")
        name = re.sub(r"\s", " ", self.name).replace("\\", "\\\\").replace('"', '\\"')
        return (
            "#include <denizen/base/vocabulary.hpp>\n"
            "#include <denizen/actor/kernel.hpp>\n"
            '#line 1 "messages"\n'
            f"{structs}"
            f'#line 1 "{name}"\n'
            f"{self.source}\n"
            f'#line 1 "end of {name}"\n'
            f"using denizen_program = denizen::Program<denizen::Actors<{', '.join(self.actors)}>, "
            f"denizen::Messages<{', '.join(self.messages)}>, "
            f"denizen::Tasks<{', '.join(self.tasks)}>>;\n"
            "DENIZEN_PROGRAM(denizen_program)\n"
            f"{behind}"
        )

    def compile_cpu(self) -> _core.Image:
        """Compiles for CPU threads: handlers in Python by Numba, text by the host compiler (CXX,
        g++, clang++), which a program without text does not need.

        Raises CompileError with the compiler's messages.
        """
        if self.in_python:
            with OnlyTheCall():
                return self.referring(self._with_handlers_cpu())
        library = library_of(self.text(), self.name, self.flags)
        return self.referring(_core.load_library(library, list(self.actors), list(self.messages)))

    def compile_gpu(self, architecture: int) -> _core.Image:
        """Compiles for a GPU with NVRTC; handlers in Python by numba-cuda, and nvJitLink links
        the two.

        Args:
            architecture: ten times the compute capability: 80, 90.

        Raises CompileError with NVRTC's messages, or if NVRTC is not to be found.
        """
        if self.in_python:
            with OnlyTheCall():
                cubin = self._with_handlers_gpu(architecture)
        else:
            cubin = cubin_of(self.text(), self.name, architecture, self.flags)
        return self.referring(_core.load_cubin(cubin, list(self.actors), list(self.messages)))

    def _with_handlers_cpu(self) -> _core.Image:
        from denizen.handlers import compiled  # noqa: PLC0415  (most programs need none)

        messages = list(self.messages.values())
        if not self.source:
            return compiled.cpu_image(self.plan(), messages)
        library = library_of(self.text(), self.name, self.flags)
        image = _core.load_library(library, list(self.actors), list(self.messages))
        compiled.link_library(self.plan(), messages, library)
        return image

    def _with_handlers_gpu(self, architecture: int) -> bytes:
        from denizen.handlers.compiled import gpu_parts  # noqa: PLC0415  (most programs need none)

        plan, messages = self.plan(), list(self.messages.values())
        parts = partial(gpu_parts, plan, messages, architecture)
        return link(self.text(), self.name, architecture, self.flags, plan.text, parts)

    def referring(self, image: _core.Image) -> _core.Image:
        """The image, which now says where its messages refer to buffers, and names its tasks."""
        image.buffers = [m.buffer_offsets() for m in self.messages.values()]
        image.tasks = list(self.tasks)
        return image


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
            folders = _find_nvrtc()
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
    return (*_GPU_FLAGS, f"--gpu-architecture=sm_{architecture}", *flags)


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
    _find_nvrtc()
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
            "compile_cubin", text, name, options, folders=_find_nvrtc(), ending=ending
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
    all_flags = (*_CPU_FLAGS, *flags)
    key = _key(text, flags, ".so", (*compiler, version, *all_flags))
    with open_cache() as kept:
        library = kept.code(key)
        if library is None:
            log.info("compiling %s for the CPU (%s)", name, compiler[0])
            began = time.perf_counter()
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
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, process_group=0
    ) as process:
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
    _find_nvrtc()
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
