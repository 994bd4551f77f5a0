# SPDX-License-Identifier: Apache-2.0
"""Programs: actors' states and handlers, in Python or as CUDA C++ text, compiled for CPU or GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from denizen import _core
from denizen.actor import ActorType
from denizen.compilers import cubin_of, library_of, link
from denizen.errors import ArgumentError, CompileError, OnlyTheCall
from denizen.fields import check_name
from denizen.life import DOWN
from denizen.message import MessageType, fields_of
from denizen.shown import html_table

if TYPE_CHECKING:
    from denizen.handlers.plan import Plan


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
            if not isinstance(given, Iterable):
                raise ArgumentError(f"{what} = {given!r:.60}; give a list")
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
