# SPDX-License-Identifier: Apache-2.0
"""A new program starts on a GPU with code that is compiled in a fraction of the time. A process
beside compiles the optimised code, which takes over between two incarnations of the kernel.

Both are made of the same text, so they have the same memory: only speed differs, and the last bits
of sums of products in C++ text, which the optimised code rounds once where the quick code may round
twice.
"""

from __future__ import annotations

import logging
import os
import re
import struct
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal

from denizen import _core, compilers
from denizen.apart import Ending, can_end, compile_apart
from denizen.cache import open_cache
from denizen.errors import ArgumentError, OnlyTheCall
from denizen.program import Program

log = logging.getLogger(__name__)

Optimise = Literal["background", "wait"]

# The optimiser does next to nothing, and ptxas neither.
_FLAGS = ("--Ofast-compile=max",)
_OLDEST = 13000  # the first NVRTC that knows this option


def chosen(optimise: Optimise | None) -> bool:
    """Whether a start may be quick: as the option says, else $DENIZEN_OPTIMISE, else it may."""
    said = optimise if optimise is not None else os.environ.get("DENIZEN_OPTIMISE") or "background"
    if said not in ("background", "wait"):
        where = "optimise" if optimise is not None else "DENIZEN_OPTIMISE"
        raise ArgumentError(f'{where} = {said!r}; use "background" or "wait"')
    return said == "background"


@contextmanager
def optimised_only() -> Iterator[None]:
    """Within it every program starts with its optimised code, also in processes begun there."""
    before = os.environ.get("DENIZEN_OPTIMISE")
    os.environ["DENIZEN_OPTIMISE"] = "wait"
    try:
        yield
    finally:
        if before is None:
            del os.environ["DENIZEN_OPTIMISE"]
        else:
            os.environ["DENIZEN_OPTIMISE"] = before


class Background:
    """The optimised code of a program, which is being compiled for the runtimes of this process
    that run the program. The compilation ends when it is done or when none of them is left.
    """

    _lock = threading.Lock()
    _running: dict[str, Background] = {}  # noqa: RUF012  (one for all)

    def __init__(self, key: str, name: str, compile_it: Callable[[Ending], bytes]) -> None:
        self._key = key
        self._name = name
        self._compile = compile_it
        self._ending = Ending()
        self._users: dict[int, weakref.WeakMethod[Callable[[bytes, str], None]]] = {}
        self._thread: threading.Thread | None = None

    def begin(self, user: int, use: Callable[[bytes, str], None]) -> Callable[[], None]:
        """Has ``use``, a method, called with the cubin, or with none and why there is none, in
        another thread, if its object lives by then; returns what says that nobody waits for it any
        more."""
        with Background._lock:
            one = Background._running.setdefault(self._key, self)
            one._users[user] = weakref.WeakMethod(use)
            if one._thread is None:
                one._thread = threading.Thread(
                    target=one._work, name=f"denizen compiles {self._name}", daemon=True
                )
                one._thread.start()
        return partial(one._leave, user)

    def _leave(self, user: int) -> None:
        with Background._lock:
            self._users.pop(user, None)
            if self._users or Background._running.get(self._key) is not self:
                return
            del Background._running[self._key]
        self._ending.end()

    def _work(self) -> None:
        began = time.perf_counter()
        cubin, why = b"", ""
        try:
            cubin = self._compile(self._ending)
        except Exception as error:
            why = str(error).strip()
        with Background._lock:
            if Background._running.get(self._key) is self:
                del Background._running[self._key]
            users = list(self._users.values())
        if self._ending.ended:
            return
        if cubin:
            log.info("optimised %s in %.1f s", self._name, time.perf_counter() - began)
        else:
            log.warning("%s goes on without being optimised: %s", self._name, why)
        for one in users:
            try:
                if use := one():
                    use(cubin, why)
            except Exception as error:
                log.warning("%s goes on without being optimised: %s", self._name, error)


class Exchange:
    """Of one running program: gives it the optimised code when that is compiled."""

    def __init__(self, core: _core.Runtime, program: Program, background: Background) -> None:
        self.code = "quick"  # that runs
        self.why_quick = "the optimised code is being compiled"
        self._core = core
        self._program = program
        self._leave = background.begin(id(self), self._use)

    def _use(self, cubin: bytes, why: str) -> None:
        if not cubin:
            self.why_quick = why
            return
        program = self._program
        try:
            image = _core.load_cubin(cubin, list(program.actors), list(program.messages))
            self._core.exchange(image)
        except Exception as error:
            self.why_quick = str(error)
            raise
        self.code, self.why_quick = "optimised", ""

    def end(self) -> None:
        """Before the program is closed. Does not wait."""
        self._leave()


def _forget() -> None:
    """In a forked child: the threads are the parent's."""
    Background._lock = threading.Lock()
    Background._running = {}


os.register_at_fork(after_in_child=_forget)


def start_of(program: Program, architecture: int) -> tuple[_core.Image, Background | None]:
    """What can run soonest: the optimised code if it is kept, else quick code, and what will
    compile the optimised code. The optimised code, too, where no quick code can be had.

    Raises as Program.compile_gpu().
    """
    with OnlyTheCall():
        found = _start_of(program, architecture) if can_end() else None
    if found is None:
        return program.compile_gpu(architecture), None
    cubin, background = found
    image = _core.load_cubin(cubin, list(program.actors), list(program.messages))
    image.to_exchange = background is not None
    return program.referring(image), background


def _start_of(program: Program, architecture: int) -> tuple[bytes, Background | None] | None:
    """None if there is no quick code, or if no other code could take over from it."""
    text, name, flags = program.text(), program.name, program.flags
    make: Callable[[Ending], bytes]
    written: set[str] = set()
    if program.in_python:
        from denizen.handlers.compiled import gpu_parts  # noqa: PLC0415

        plan, messages = program.plan(), list(program.messages.values())
        written = {a.name for a in plan.actors} | {t.name for t in plan.tasks}
        key = compilers.link_key(text, architecture, flags, plan.text)
        made: list[tuple[str, bytes]] = []

        def parts() -> list[tuple[str, bytes]]:
            if not made:
                made.extend(gpu_parts(plan, messages, architecture))
            return made

        def make(ending: Ending) -> bytes:
            return compilers.link(text, name, architecture, flags, plan.text, parts, ending)

        quick = partial(_linked, text, name, architecture, flags, parts)
    else:
        key = compilers.cubin_key(text, architecture, flags)
        make = partial(compilers.cubin_of, text, name, architecture, flags)
        quick = partial(compilers.compile_text, text, name, architecture, flags, _FLAGS)
    kept_as = key.removesuffix(".cubin") + ".quick"
    with open_cache() as kept:
        if (optimised := kept.code(key)) is not None:
            kept.remove(kept_as)
            return optimised, None
        cubin = kept.code(kept_as)
        if cubin is None:
            compilers.find_nvrtc()
            if _core.nvrtc_version() < _OLDEST:
                return None
            began = time.perf_counter()
            cubin = quick()
            log.info("compiled %s in %.1f s, not optimised", name, time.perf_counter() - began)
            kept.keep_code(kept_as, cubin)
    if own := variables(cubin, program.source, written):
        log.info("%s waits for its optimised code: it has variables (%s)", name, ", ".join(own))
        return None
    return cubin, Background(key, name, make)


def _linked(
    text: str,
    name: str,
    architecture: int,
    flags: tuple[str, ...],
    parts: Callable[[], list[tuple[str, bytes]]],
) -> bytes:
    """The quick code of a program with handlers in Python: Numba works beside NVRTC."""
    # As link_flags() says it of the whole program.
    further = [*_FLAGS, "--relocatable-device-code=true", "--fmad=false"]
    ending = Ending()
    whole: list[bytes | BaseException] = []

    def compile_whole() -> None:
        try:
            whole.append(compilers.compile_text(text, name, architecture, flags, further, ending))
        except BaseException as error:
            whole.append(error)

    thread = threading.Thread(target=compile_whole, name="denizen compiles", daemon=True)
    thread.start()
    try:
        made = parts()
        while thread.is_alive():  # ends: with the compiler. In steps, so that Ctrl-C is heard
            thread.join(0.05)
    except BaseException:
        ending.end()
        thread.join()
        raise
    if isinstance(whole[0], BaseException):
        raise whole[0]
    how = compilers.link_flags(architecture)
    folders = compilers.find_nvrtc()
    return compile_apart("link_cubin", [(name, whole[0]), *made], how, folders=folders)


# ---- variables


def variables(cubin: bytes, source: str, written: Collection[str] = ()) -> list[str]:
    """The variables in the GPU's memory that C++ text has of its own. Other code has others.

    Constants, as far as the text says so, are none, nor what denizen's and the standard headers
    define, nor members of the structs that denizen has ``written`` for actors and tasks in Python.
    """
    if not source:
        return []
    names = []
    for mangled in _globals(cubin):
        # With a dollar: the value that a local variable begins with.
        if "$" in mangled or re.match(r"denizen_|_ZN?K?(?:St|08NumbaEnv)", mangled):
            continue
        parts = [p for p in _identifiers(mangled) if not p.startswith("_INTERNAL_")]
        if parts[0] in {"denizen", "cuda", *written}:
            continue
        name = re.escape(parts[-1])
        if not re.search(rf"\b(?:const|constexpr)\b[^;{{}}()*=]*\b{name}\b", source):
            names.append("::".join(parts))
    return sorted(names)


def _identifiers(mangled: str) -> list[str]:
    """Of a mangled name: of "_ZN1a2bcE" a and bc."""
    found = []
    at = 2 if mangled.startswith("_Z") else len(mangled)
    while at < len(mangled):  # ends: at grows
        digits = re.match(r"\d+", mangled[at:])
        if digits is None:
            at += 1
            continue
        at += digits.end()
        found.append(mangled[at : at + int(digits[0])])
        at += int(digits[0])
    return found or [mangled]


def _globals(cubin: bytes) -> Iterator[str]:
    """The symbols of a cubin (64-bit ELF) that are in the GPU's global memory."""
    (sections,) = struct.unpack_from("<Q", cubin, 0x28)
    count, names_at = struct.unpack_from("<HH", cubin, 0x3C)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, sections + 64 * i) for i in range(count)]

    def text(at: int) -> str:
        return cubin[at : cubin.index(b"\0", at)].decode()

    titles = [text(headers[names_at][4] + header[0]) for header in headers]
    for _, kind, _, _, offset, size, link, *_ in headers:
        if kind != 2:  # a table of symbols
            continue
        for at in range(offset, offset + size, 24):
            name, info, _, section, _, _ = struct.unpack_from("<IBBHQQ", cubin, at)
            inside = 0 < section < count and titles[section].startswith(".nv.global")
            if inside and info & 15 == 1:  # an object
                yield text(headers[link][4] + name)
