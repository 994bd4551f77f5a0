# SPDX-License-Identifier: Apache-2.0
"""The operations of ops.py as Numba compiles them, for the CPU and for the GPU.

Numba infers the types; what each operation makes of its operands is said here, in LLVM's terms. The
values of a handler have these types:

    int64, Word     whole numbers, signed and unsigned. Word is not Numba's uint64, whose arithmetic
                    with an int64 is a float64.
    float64, bool
    Ref             a state, a message or a record: a pointer, and its dtype
    Cells           an array field: a pointer, and its dtype and shape
    Span            memory of a buffer or an arena: a pointer and a count
    Ctx             the context: a pointer that is handed to the functions it is made of

numba.core and numba.cuda are two packages with the same classes: world() makes all of this once for
each, from the files beside this one, where what one of them adds the next ones use. Where a Python
type is an operand, as in Total(...), it is a NewMessage.
"""

from __future__ import annotations

from types import SimpleNamespace

from denizen.handlers import ops
from denizen.handlers.lowering import (
    arithmetic,
    blocks,
    collectives,
    context,
    conversions,
    fields,
    mathematics,
    memory,
    operations,
    tasks,
    types,
)
from denizen.handlers.lowering.packages import package

_worlds: dict[bool, SimpleNamespace] = {}


def world(cuda: bool) -> SimpleNamespace:
    """The types Ref, Ctx, void and uint32; the operations by their names, and NewMessage: what
    stands for them in a function that Numba compiles."""
    if cuda not in _worlds:
        w = SimpleNamespace(nb=package(cuda))
        for part in (
            types,
            memory,
            operations,
            arithmetic,
            conversions,
            mathematics,
            fields,
            context,
            blocks,
            collectives,
            tasks,
        ):
            part.add(w)
        w.names = {name: w.stubs[function] for name, function in ops.names().items()}
        _worlds[cuda] = w
    return _worlds[cuda]
