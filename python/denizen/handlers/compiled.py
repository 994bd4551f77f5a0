# SPDX-License-Identifier: Apache-2.0
"""Handlers as machine code, by Numba: C functions for CPU threads, LTO-IR for a GPU."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from denizen import _core
from denizen.actor import OVERFLOWS, RESTARTS
from denizen.errors import CompileError, MissingPackageError
from denizen.handlers.plan import Plan, build
from denizen.handlers.rewrite import Rewritten
from denizen.handlers.text import symbol
from denizen.life import DOWN
from denizen.message import PRIORITIES, MessageType

_OF_CPU = ("Numba, which compiles handlers in Python,", "'denizen[handlers]'")
_OF_GPU = ("numba-cuda, which compiles handlers in Python for a GPU,", "'denizen[handlers-gpu]'")

# What has been compiled stays: a worker's thread may be in it until the process ends. Equal handlers
# are compiled once.
_kept: dict[str, Any] = {}
_declared: set[str] = set()
_lock = threading.Lock()


def cpu_image(plan: Plan, messages: Sequence[MessageType]) -> _core.Image:
    """A program for CPU threads, without a C++ compiler.

    Raises MissingPackageError without Numba, CompileError with the user's file and line.
    """
    full = plan.full(messages)
    prefix = "denizen_full" if full else "denizen_lean"
    declare(prefix, _core.handler_calls(full))
    names = [m.name for m in messages]
    actors = [a.name for a in plan.actors]
    handlers = [
        (actors.index(a.name), names.index(m), cpu_function(r, a.dtype, m, prefix, messages))
        for a, m, r in plan.each()
    ]
    infos = []
    for a in plan.actors:
        invariant = plan.invariants.get(a.name)
        infos.append(
            (
                a.initial.tobytes(),
                max(a.dtype.alignment, 1),
                OVERFLOWS.index(a.overflow),
                RESTARTS.index(a.restart_from),
                a.deadline_ns,
                0 if invariant is None else cpu_function(invariant, a.dtype, "", prefix, messages),
            )
        )
    return _core.handlers_image(
        actors,
        infos,
        names,
        [
            (m.dtype.itemsize, m.dtype.alignment, PRIORITIES.index(m.priority), m.buffer_offsets())
            for m in messages
        ],
        handlers,
        full,
        DOWN in messages,
    )


def declare(prefix: str, functions: dict[str, int]) -> None:
    """Tells LLVM where the functions of a context are."""
    if prefix not in _declared:
        with _numba(_OF_CPU):
            from llvmlite import binding  # noqa: PLC0415

        for name, address in functions.items():
            binding.add_symbol(f"{prefix}_{name}", address)
        _declared.add(prefix)


def cpu_function(
    rewritten: Rewritten, state: Any, message: str, prefix: str, messages: Sequence[MessageType]
) -> int:
    """The address of a handler, or of an invariant if there is no message."""
    with _numba(_OF_CPU):
        import numba  # noqa: PLC0415

        from denizen.handlers.numba_ops import world  # noqa: PLC0415
    key = _key(rewritten, state, message, prefix, messages)
    with _lock:
        if key not in _kept:
            own = world(False)
            wrap = numba.njit(error_model="numpy")
            function = build(rewritten, own.names, own.NewMessage, wrap)
            types = _signature(own, state, message, prefix, messages, False)
            compile_it = numba.cfunc(types, error_model="numpy")
            _kept[key] = translated(rewritten, lambda: compile_it(function))
        return int(_kept[key].address)


def gpu_parts(
    plan: Plan, messages: Sequence[MessageType], architecture: int
) -> list[tuple[str, bytes]]:
    """The handlers' names, and their LTO-IR, which defines the symbols of text.py."""
    names = [m.name for m in messages]
    parts = []
    for actor, message, rewritten in plan.each():
        name = symbol(plan.actors.index(actor), names.index(message))
        code = gpu_function(rewritten, actor.dtype, message, name, messages, architecture)
        parts.append((f"{actor.name} on {message}", code))
    for a, actor in enumerate(plan.actors):
        if actor.name in plan.invariants:
            own = plan.invariants[actor.name]
            name = symbol(a, None)
            code = gpu_function(own, actor.dtype, "", name, messages, architecture)
            parts.append((f"invariant of {actor.name}", code))
    return parts


def gpu_function(
    rewritten: Rewritten,
    state: Any,
    message: str,
    symbol: str,
    messages: Sequence[MessageType],
    architecture: int,
) -> bytes:
    """A handler as LTO-IR that defines `symbol`."""
    with _numba(_OF_GPU):
        from numba import cuda  # noqa: PLC0415

        from denizen.handlers.numba_ops import world  # noqa: PLC0415
    with _lock:
        own = world(True)
        function = build(rewritten, own.names, own.NewMessage, _for_device(architecture))
        types = _signature(own, state, message, "denizen", messages, True)
        code, _ = translated(
            rewritten,
            lambda: cuda.compile(
                function,
                types,
                device=True,
                abi="c",
                abi_info={"abi_name": symbol},
                cc=divmod(architecture, 10),
                output="ltoir",
            ),
        )
        return bytes(code)


def _for_device(architecture: int) -> Callable[[Any], Any]:
    """What compiles the functions that a handler calls. Numba's own asks the driver for the GPU of
    this process, which there may not be."""
    from numba import cuda  # noqa: PLC0415
    from numba.cuda.compiler import compile_cuda  # noqa: PLC0415
    from numba.cuda.dispatcher import CUDADispatcher  # noqa: PLC0415

    class Function(CUDADispatcher):  # type: ignore[misc]
        def compile_device(self, args: Any, return_type: Any = None) -> Any:
            if args not in self.overloads:
                made = compile_cuda(
                    self.py_func,
                    return_type,
                    args,
                    nvvm_options={"opt": 3},
                    cc=divmod(architecture, 10),
                )
                self.overloads[args] = made
                made.target_context.insert_user_function(
                    made.entry_point, made.fndesc, [made.library]
                )
            return self.overloads[args]

    def wrap(function: Any) -> Any:
        made = cuda.jit(device=True)(function)
        made.__class__ = Function
        return made

    return wrap


def _signature(
    types: Any,
    state: Any,
    message: str,
    prefix: str,
    messages: Sequence[MessageType],
    typed: bool,
) -> Any:
    own = types.Ref("state", state)
    if not message:
        return types.uint32(own)
    given = next(m for m in messages if m.name == message)
    ctx = types.Ctx(prefix, [m.name for m in messages], typed)
    return types.void(own, types.Ref(message, given.dtype, message), ctx)


def _key(
    rewritten: Rewritten, state: Any, message: str, prefix: str, messages: Sequence[MessageType]
) -> str:
    parts = [rewritten.text, repr(state.descr), str(state.itemsize), message, prefix]
    parts += [f"{m.name} {m.dtype.descr} {m.dtype.itemsize}" for m in messages]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class _numba:  # noqa: N801  (used as a statement)
    """Says which extra is missing where an import fails."""

    def __init__(self, what: tuple[str, str]) -> None:
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ImportError):
            raise MissingPackageError(*self._what) from error


def translated(rewritten: Rewritten, compile_it: Callable[[], Any]) -> Any:
    """What Numba says about a handler, as a CompileError with the user's file and line."""
    try:
        return compile_it()
    except Exception as error:
        if not type(error).__module__.startswith("numba"):
            raise
        said = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
        raise CompileError(explain(said, rewritten.path, rewritten.line)) from None


def explain(said: str, path: str, line: int) -> str:
    """FILE:LINE: and what is wrong, from Numba's text."""
    here = re.escape(path)
    lines = [int(n) for n in re.findall(rf"{here} \((\d+)\)", said)]
    lines += [int(n) for n in re.findall(rf'File "[^"]*{re.escape(path.rsplit("/", 1)[-1])}", line (\d+)', said)]
    where = f"{path}:{lines[0] if lines else line}"
    own = re.findall(r"TypingError: (.+)", said)
    if own:
        return f"{where}: {own[-1].strip()}"
    unify = re.search(r"[Cc]annot unify (.+?) and (.+?) for '([^'.]+)", said)
    if unify:
        a, b, name = unify.groups()
        return f"{where}: {name} is {a} on one way and {b} on another; give it one type"
    undefined = re.search(r"[Vv]ariable '?([\w$.]+?)(?:\.\d+)?'? (?:referenced|is not defined|is undefined)", said)
    if undefined:
        return f"{where}: {undefined[1]} may not have been assigned yet; assign it before"
    first = [text.strip() for text in said.splitlines() if text.strip()]
    return f"{where}: {(first[1:] or first or ['Numba cannot compile it'])[0]}"
