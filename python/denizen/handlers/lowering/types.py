# SPDX-License-Identifier: Apache-2.0
"""The types that a handler's values have, and which of them are numbers."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import Any

import numpy as np

from denizen.actor import ActorType
from denizen.fields import is_scalar
from denizen.handlers.lowering.llvm import F64, I64, POINTER
from denizen.message import MessageType
from denizen.task_type import TaskType


def digest(dtype: np.dtype[Any]) -> str:
    """Equal ones have the same fields at the same places."""
    return hashlib.sha256(repr((dtype.descr, dtype.itemsize)).encode()).hexdigest()[:16]


def scalar_fields(dtype: np.dtype[Any]) -> list[str]:
    """The fields that are neither arrays nor records."""
    return [n for n in dtype.names or () if is_scalar(dtype[n])]


def add(w: SimpleNamespace) -> None:
    nb, types, errors = w.nb, w.nb.types, w.nb.errors

    int64, float64, boolean = types.int64, types.float64, types.boolean

    class NewMessage:
        """A type of messages, or of actors or tasks to spawn, as handlers call it; its arguments
        are its scalar fields."""

        def __init__(self, made: MessageType | ActorType | TaskType) -> None:
            self.made = made

    # A local that is an int64 on one way and a Word on another is refused: whether its arithmetic
    # is unsigned would depend on the way that was taken.
    class WordType(types.Type):
        def __init__(self) -> None:
            super().__init__(name="uint64 of a handler")

    class Ref(types.Type):
        """`message`, `spawned`: the type's name, if it is one that can be sent or spawned.
        `initial`: the bytes of a new one, if not all are zero."""

        def __init__(
            self,
            label: str,
            dtype: np.dtype[Any],
            message: str = "",
            spawned: str = "",
            initial: bytes = b"",
        ) -> None:
            self.dtype, self.message, self.spawned, self.initial = dtype, message, spawned, initial
            kind = message or (f"new {spawned} {initial.hex()}" if spawned else "no message")
            super().__init__(name=f"{label} ({kind}, {digest(dtype)})")

    class Cells(types.Type):
        def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
            self.dtype, self.shape = dtype, shape
            super().__init__(name=f"array {shape} of {dtype.str} {digest(dtype)}")

    class Place(types.Type):
        """Where a field lies: for store()."""

        def __init__(self, dtype: np.dtype[Any], element: Any) -> None:
            self.dtype, self.element = dtype, element
            super().__init__(name=f"place of {element} {digest(dtype)}")

    class Span(types.Type):
        def __init__(self, dtype: np.dtype[Any]) -> None:
            self.dtype, self.shape = dtype, None
            super().__init__(name=f"buffer of {dtype.str}")

    class Samples(types.Type):
        """A stream, seen from one of its samples, which is number 0; `before` of it are there."""

        def __init__(self, dtype: np.dtype[Any], before: int, changes: bool) -> None:
            self.dtype, self.before, self.changes = dtype, before, changes
            super().__init__(name=f"samples {before} {changes} of {dtype.str} {digest(dtype)}")

    class Ctx(types.Type):
        """`prefix`: of the functions it is made of. `typed`: there is one for each message type,
        and not one for all that takes the type's number."""

        def __init__(
            self,
            prefix: str,
            messages: list[str],
            spawned: list[str],
            typed: bool,
            task: bool = False,
            *,
            tasks: list[str] | None = None,
        ) -> None:
            self.prefix, self.messages, self.spawned = prefix, messages, spawned
            self.typed, self.task = typed, task
            self.tasks = tasks or []  # that handlers of actors spawn
            names = f"{' '.join(messages)}; {' '.join(spawned)}; {' '.join(self.tasks)}"
            super().__init__(name=f"ctx {prefix} {typed} {task} {names}")

    word = WordType()

    class New(types.Callable, types.Opaque):
        def __init__(self, made: MessageType | ActorType | TaskType) -> None:
            if isinstance(made, MessageType):
                self.ref = Ref(made.name, made.dtype, message=made.name)
            else:
                initial = made.initial.tobytes()
                self.ref = Ref(made.name, made.dtype, spawned=made.name, initial=initial)
            super().__init__(name=f"type of {self.ref.name}")

        def get_impl_key(self, sig: Any) -> Any:
            return NewMessage

        def get_call_signatures(self) -> Any:
            return (), True

        def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
            given = [as_number(a) for a in args]
            for name, number in zip(scalar_fields(self.ref.dtype), given, strict=False):
                if number is float64 and self.ref.dtype[name].kind in "iu":
                    raise errors.TypingError(
                        f"field {name} of {self.ref.message or self.ref.spawned} is a whole "
                        f"number: int(...) leaves out the fraction of a float"
                    )
            return signature(self.ref, *given)

    class Pointer(nb.models.PrimitiveModel):
        def __init__(self, dmm: Any, fe_type: Any) -> None:
            super().__init__(dmm, fe_type, POINTER)

    class Whole(nb.models.PrimitiveModel):
        def __init__(self, dmm: Any, fe_type: Any) -> None:
            super().__init__(dmm, fe_type, I64)

    class Memory(nb.models.StructModel):
        def __init__(self, dmm: Any, fe_type: Any) -> None:
            super().__init__(dmm, fe_type, [("data", types.voidptr), ("count", int64)])

    for kind, model in (
        (WordType, Whole),
        (Ref, Pointer),
        (Cells, Pointer),
        (Place, Pointer),
        (Samples, Pointer),
        (Ctx, Pointer),
        (Span, Memory),
        (New, nb.models.OpaqueModel),
    ):
        nb.register_model(kind)(model)
    nb.typeof.register(NewMessage)(lambda value, c: New(value.made))
    nb.lower_constant(New)(lambda context, builder, ty, value: context.get_dummy_value())

    def signature(result: Any, *arguments: Any) -> Any:
        return nb.templates.signature(result, *arguments)

    # ---- kinds of numbers: i, u, f, b

    def kind_of(t: Any) -> str | None:
        if t is word:
            return "u"
        if isinstance(t, types.Boolean):
            return "b"
        if isinstance(t, types.Integer):
            return "i" if t.signed or t.bitwidth < 64 else "u"
        return "f" if isinstance(t, types.Float) else None

    def as_number(t: Any) -> Any:
        kind = kind_of(t)
        if kind is None:
            raise errors.TypingError(f"a number is needed here, not {said(t)}")
        return {"i": int64, "u": word, "f": float64, "b": boolean}[kind]

    def said(t: Any) -> str:
        if isinstance(t, Ref):
            if t.spawned:
                return f"a new {t.spawned}"
            if t.dtype.names == ("real", "imag"):
                return "a complex one: use its parts, x.real and x.imag"
            return f"the {'message ' + t.message if t.message else 'record or state'}"
        if isinstance(t, Cells | Samples):
            return "an array"
        if isinstance(t, Span):
            return f"an array of {t.dtype}"
        return {"none": "None"}.get(str(t), str(t))

    def common(*given: Any) -> Any:
        """What arithmetic of these is made in."""
        kinds = [kind_of(as_number(t)) for t in given]
        return float64 if "f" in kinds else word if "u" in kinds else int64

    def counted(t: Any) -> Any:
        """A whole number as it is, a bool as one."""
        found = as_number(t)
        if found is float64:
            raise errors.TypingError("a whole number is needed here, not a float: int(...)")
        return int64 if found is boolean else found

    @nb.lower_cast(types.Integer, WordType)
    def whole_to_word(context: Any, builder: Any, given: Any, to: Any, value: Any) -> Any:
        return context.cast(builder, value, given, int64 if given.signed else types.uint64)

    @nb.lower_cast(types.Boolean, WordType)
    def bool_to_word(context: Any, builder: Any, given: Any, to: Any, value: Any) -> Any:
        return builder.zext(context.cast(builder, value, given, boolean), I64)

    @nb.lower_cast(WordType, types.Float)
    def word_to_float(context: Any, builder: Any, given: Any, to: Any, value: Any) -> Any:
        return builder.uitofp(value, F64)

    vars(w).update(
        int64=int64,
        float64=float64,
        boolean=boolean,
        NewMessage=NewMessage,
        Ref=Ref,
        Cells=Cells,
        Place=Place,
        Span=Span,
        Samples=Samples,
        Ctx=Ctx,
        word=word,
        signature=signature,
        void=types.void,
        uint32=types.uint32,
        as_number=as_number,
        said=said,
        common=common,
        counted=counted,
    )
