# SPDX-License-Identifier: Apache-2.0
"""Handlers as machine code, by Numba: C functions for CPU threads, LTO-IR for a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import importlib.util
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from denizen import _core, extras
from denizen.actor import OVERFLOWS, RESTARTS, ActorType
from denizen.errors import CompileError, MissingPackageError
from denizen.handlers import kept, ops
from denizen.handlers.plan import Plan, build
from denizen.handlers.rewrite import Rewritten
from denizen.handlers.text import PREFIX, context_functions, symbol, task_symbol
from denizen.life import DOWN, TASK_FAILED
from denizen.message import PRIORITIES, MessageType
from denizen.task_type import TaskType
from denizen.threads import uninterrupted

_OF_CPU = ("Numba, which compiles handlers in Python,", "handlers")
_OF_GPU = ("numba-cuda, which compiles handlers in Python for a GPU,", "handlers-gpu")

# What has been compiled stays: a worker's thread may be in it until the process ends. Equal
# handlers are compiled once. The address of each, and what owns its code.
_done: dict[str, tuple[int, Any]] = {}
_declared: set[str] = set()
_lock = threading.Lock()
# The thread that compiles: what interrupts Numba leaves it half imported or half told of a type.
_THREAD = "denizen: Numba"


class Unit(Protocol):
    """What can be compiled: one function, of which equal ones have the same key."""

    @property
    def rewritten(self) -> Rewritten: ...
    def key(self, prefix: str) -> str: ...
    def signature(self, types: Any, prefix: str, typed: bool) -> Any: ...


@dataclass(frozen=True)
class _Unit:
    """What is compiled: a handler, an invariant if it takes no message, or a task if `label` says
    so, whose fields are the state."""

    rewritten: Rewritten
    state: np.dtype[Any]
    message: str
    messages: Sequence[MessageType]  # of the program
    actors: Sequence[ActorType]  # likewise
    tasks: Sequence[TaskType]  # likewise
    label: str = "state"

    def key(self, prefix: str) -> str:
        """Equal ones are the same code."""
        parts = [self.rewritten.text, repr(self.state.descr), str(self.state.itemsize)]
        parts += [self.message, prefix, self.label]
        parts += [f"{m.name} {m.dtype.descr} {m.dtype.itemsize}" for m in self.messages]
        made: list[ActorType | TaskType] = [*self.spawned(), *self.spawned_tasks()]
        parts += [f"{x.name} {x.initial.tobytes().hex()}" for x in made]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def spawned(self) -> Sequence[ActorType]:
        """The program's actors, if this may spawn some: their numbers and states matter then."""
        return self.actors if self.rewritten.spawns else ()

    def spawned_tasks(self) -> Sequence[TaskType]:
        """The same of tasks."""
        return self.tasks if self.rewritten.spawns else ()

    def signature(self, types: Any, prefix: str, typed: bool) -> Any:
        own = types.Ref(self.label, self.state)
        if not self.message and self.label == "state":
            return types.uint32(own)
        ctx = types.Ctx(
            prefix,
            [m.name for m in self.messages],
            [a.name for a in self.spawned()],
            typed,
            tasks=[t.name for t in self.spawned_tasks()],
        )
        if not self.message:
            return types.void(own, ctx)
        given = next(m for m in self.messages if m.name == self.message)
        return types.void(own, types.Ref(self.message, given.dtype, self.message), ctx)


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
        (
            actors.index(a.name),
            names.index(m),
            for_cpu(_Unit(r, a.dtype, m, messages, plan.actors, plan.tasks), prefix),
        )
        for a, m, r in plan.each()
    ]
    infos = []
    for a in plan.actors:
        own = plan.invariants.get(a.name)
        invariant = (
            0
            if own is None
            else for_cpu(_Unit(own, a.dtype, "", messages, plan.actors, plan.tasks), prefix)
        )
        infos.append(
            (
                a.initial.tobytes(),
                max(a.dtype.alignment, 1),
                OVERFLOWS.index(a.overflow),
                RESTARTS.index(a.restart_from),
                a.deadline_ns,
                invariant,
                plan.spawned(a),
            )
        )
    tasks = [
        (
            t.dtype.itemsize,
            max(t.dtype.alignment, 1),
            for_cpu(_task_unit(plan, t, messages), prefix),
        )
        for t in plan.tasks
    ]
    return _core.handlers_image(
        actors,
        infos,
        names,
        [
            (m.dtype.itemsize, m.dtype.alignment, PRIORITIES.index(m.priority), m.buffer_offsets())
            for m in messages
        ],
        handlers,
        tasks,
        names.index(TASK_FAILED.name) if TASK_FAILED in messages else None,
        full,
        DOWN in messages,
        any(plan.allocates(a) for a in plan.actors)
        or any(plan.task_allocates(t) for t in plan.tasks),
    )


def _task_unit(plan: Plan, task: TaskType, messages: Sequence[MessageType]) -> _Unit:
    new = plan.functions[task.name]
    return _Unit(new, task.dtype, "", messages, plan.actors, plan.tasks, "task")


def link_library(plan: Plan, messages: Sequence[MessageType], library: bytes) -> None:
    """Sets the pointers of a compiled program's library to its handlers in Python (text.py)."""
    prefix = f"{PREFIX}_{plan.digest}"
    calls = {name: f"{PREFIX}_{name}" for name in context_functions(plan, messages)}
    there = _core.library_symbols(library, list(calls.values()))
    declare(prefix, {name: there[symbol] for name, symbol in calls.items()})
    units = dict(_units(plan, messages))
    pointers = _core.library_symbols(library, list(units))
    for name, unit in units.items():
        address = for_cpu(unit, prefix, typed=True)
        ctypes.c_void_p.from_address(pointers[name]).value = address


def _units(plan: Plan, messages: Sequence[MessageType]) -> Iterator[tuple[str, _Unit]]:
    """All there is to compile for the text of text.py, by its symbols."""
    names = [m.name for m in messages]
    for actor, message, rewritten in plan.each():
        name = symbol(plan.actors.index(actor), names.index(message))
        yield name, _Unit(rewritten, actor.dtype, message, messages, plan.actors, plan.tasks)
    for task in plan.tasks:
        yield task_symbol(task), _task_unit(plan, task, messages)
    for a, actor in enumerate(plan.actors):
        if actor.name in plan.invariants:
            yield (
                symbol(a, None),
                _Unit(
                    plan.invariants[actor.name], actor.dtype, "", messages, plan.actors, plan.tasks
                ),
            )


def declare(prefix: str, functions: dict[str, int]) -> None:
    """Tells LLVM where the functions of a context are."""

    def declared() -> None:
        with _numba(_OF_CPU):
            from llvmlite import binding  # noqa: PLC0415

        for name, address in functions.items():
            binding.add_symbol(f"{prefix}_{name}", address)
        _declared.add(prefix)

    if prefix not in _declared:
        uninterrupted(declared, _THREAD)


def for_cpu(unit: Unit, prefix: str, *, typed: bool = False) -> int:
    """The address of a C function."""
    key = unit.key(prefix)

    def found_or_made() -> tuple[int, Any]:
        with _lock:
            if key not in _done:
                with _numba(_OF_CPU):
                    found = kept.find(key)
                _done[key] = found if found is not None else _compile(unit, key, prefix, typed)
            return _done[key]

    done = _done.get(key)
    return (done if done is not None else uninterrupted(found_or_made, _THREAD))[0]


def _compile(unit: Unit, key: str, prefix: str, typed: bool) -> tuple[int, Any]:
    with _numba(_OF_CPU):
        import numba  # noqa: PLC0415

        from denizen.handlers.lowering import world  # noqa: PLC0415
    _without_scipy("numba.np")
    own = world(False)
    wrap = numba.njit(error_model="numpy")
    function = build(unit.rewritten, own.names, own.NewMessage, wrap)
    signature = unit.signature(own, prefix, typed)
    compile_it = numba.cfunc(signature, error_model="numpy", forceinline=True)
    made = translated(unit.rewritten, lambda: compile_it(function))
    code = _in_one(made)
    kept.keep(key, made._wrapper_name, code)
    return kept.load(made._wrapper_name, code)


def _in_one(made: Any) -> bytes:
    """An object file in which the handler is one function. Numba's C function calls another, by a
    call that says it shall not be expanded."""
    from llvmlite import binding  # noqa: PLC0415

    library = made._library
    machine = library.codegen._tm
    module = binding.parse_assembly(re.sub(r"\bnoinline\b", "nounwind", library.get_llvm_str()))
    for function in module.functions:
        if not function.is_declaration and function.name != made._wrapper_name:
            function.linkage = "internal"
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(3))
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def _without_scipy(package: str) -> None:
    """Numba imports all of SciPy's linear algebra to see whether it is there, which takes longer
    than to compile a program: here it is told."""
    name = f"{package}.arraymath"
    if name in sys.modules:
        return

    def there() -> None:
        if importlib.util.find_spec("scipy") is None:
            raise ImportError("SciPy is needed for linear algebra")

    with row_stack():
        linear = importlib.import_module(f"{package}.linalg")
        own = linear.ensure_blas
        linear.ensure_blas = there  # type: ignore[attr-defined]
        try:
            importlib.import_module(name).ensure_blas = own  # type: ignore[attr-defined]
        finally:
            linear.ensure_blas = own  # type: ignore[attr-defined]


@contextlib.contextmanager
def row_stack() -> Iterator[None]:
    """numba-cuda 0.30.4 names ``numpy.row_stack`` as it is imported; NumPy 2.5 has no such name."""
    if hasattr(np, "row_stack"):
        yield
        return
    np.row_stack = np.vstack
    try:
        yield
    finally:
        del np.row_stack


def gpu_parts(
    plan: Plan, messages: Sequence[MessageType], architecture: int
) -> list[tuple[str, bytes]]:
    """The LTO-IR of all handlers, by the symbols of text.py that it defines."""
    return [(name, for_gpu(unit, name, architecture)) for name, unit in _units(plan, messages)]


def for_gpu(unit: Unit, name: str, architecture: int) -> bytes:
    """LTO-IR that defines a function of this name."""
    return uninterrupted(lambda: _compile_for_gpu(unit, name, architecture), _THREAD)


def _compile_for_gpu(unit: Unit, name: str, architecture: int) -> bytes:
    with _numba(_OF_GPU):
        from numba import cuda  # noqa: PLC0415

        from denizen.handlers.lowering import world  # noqa: PLC0415
    with _lock:
        _without_scipy("numba.cuda.np")
        own = world(True)
        function = build(unit.rewritten, own.names, own.NewMessage, _for_device(architecture))
        code, _ = translated(
            unit.rewritten,
            lambda: cuda.compile(  # type: ignore[attr-defined]
                function,
                unit.signature(own, PREFIX, True),
                device=True,
                abi="c",
                abi_info={"abi_name": name},
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

    class Function(CUDADispatcher):
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
        made: Any = cuda.jit(device=True)(function)  # type: ignore[no-untyped-call]
        made.__class__ = Function
        return made

    return wrap


class _numba:  # noqa: N801  (used as a statement)
    """Says what is missing, and what brings it, where an import fails."""

    def __init__(self, what: tuple[str, str]) -> None:
        self._what, self._extra = what

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ImportError):
            raise MissingPackageError(self._what, extras.of(self._extra)) from error


def translated(rewritten: Rewritten, compile_it: Callable[[], Any]) -> Any:
    """What Numba says about a handler, as a CompileError with the user's file and line."""
    try:
        return compile_it()
    except Exception as raised:
        error: BaseException | None = raised  # which may be another, of how Numba tells it
        while error is not None and not type(error).__module__.startswith("numba"):
            error = error.__context__
        if error is None:
            raise
        said = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
        path, line = _place(error, said) or (rewritten.path, rewritten.line)
        raise CompileError.at(path, line, explain(said)) from None


def _place(error: BaseException, said: str) -> tuple[str, int] | None:
    """Where it stands in the user's text."""
    named = re.findall(r" at (\S.*?) \((\d+)\)$", said, re.MULTILINE)
    if named:
        return named[0][0], int(named[0][1])
    place = getattr(error, "loc", None)
    trace = error.__traceback__
    while trace is not None:  # numba.cuda loses it where the error is one of numba.core's
        place = getattr(trace.tb_frame.f_locals.get("constraint"), "loc", place)
        trace = trace.tb_next
    return None if place is None else (place.filename, place.line)


def explain(said: str) -> str:
    """What is wrong, from Numba's text, in one line."""
    said = re.sub(r" \([^()]*, [0-9a-f]{16}\)", "", said)  # what tells two records apart
    said = re.sub(r" of [<>|=]?(\w\d+) [0-9a-f]{16}", r" of \1", said)  # likewise, two arrays
    said = said.replace("uint64 of a handler", "unsigned")
    said = re.sub(r"Literal\[int\]\(-?\d+\)", "int64", said)
    own = re.findall(r"TypingError: (.+)", said)
    if own:
        return str(own[-1]).strip()
    unknown = re.search(r"Unknown attribute '(\w+)' of type (\w+)", said)
    if unknown:
        attr, of = unknown.groups()
        attr = attr.removeprefix(ops.PLACE)
        if of in ("array", "buffer"):
            return f"an array has no {attr}; it has a[i], and len(a), for each dimension len(a[0])"
        return f"a number has no {attr}"
    returned = re.search(r"[Cc]an't unify return type from the following types: (.+)", said)
    if returned:
        return f"a function returns {returned[1]}, each on another way; return one type"
    unify = re.search(r"[Cc]annot unify (.+?) and (.+?) for '([^'.]+)", said)
    if unify:
        a, b, name = unify.groups()
        if {a, b} == {"int64", "unsigned"}:
            a, b = ("signed", "unsigned") if a == "int64" else ("unsigned", "signed")
            way = "write np.int64(...) or np.uint64(...) on one of them"
        else:
            way = "give it one type"
        name = "a value" if name.startswith("$") else name
        return f"{name} is {a} on one way and {b} on another; {way}"
    undefined = re.search(r"[Vv]ariable '?(\w+)[\w.]*'? (?:referenced|is not|is undefined)", said)
    if undefined:
        return f"{undefined[1]} may not have been assigned yet; assign it before"
    lines = [text.strip() for text in said.splitlines() if text.strip()]
    told = [text for text in lines if not text.startswith("Failed in ")]  # once for each caller
    return (told or lines or ["Numba cannot compile it"])[0]
