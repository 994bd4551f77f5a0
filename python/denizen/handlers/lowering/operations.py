# SPDX-License-Identifier: Apache-2.0
"""How an operation becomes known to Numba."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


def add(w: SimpleNamespace) -> None:
    nb, types, signature = w.nb, w.nb.types, w.signature
    stubs: dict[Callable[..., Any], Callable[..., Any]] = {}

    def operation(
        function: Callable[..., Any], typed: Callable[..., Any], emit: Callable[..., Any]
    ) -> None:
        """Makes one known to Numba.

        Args:
            typed: of the operands' types, (the result's, what they are made first).
            emit: of the builder, the operands' values and these types.
        """

        def generic(self: Any, args: Any, kws: Any) -> Any:
            result, given = typed(*args)
            return signature(result, *given)

        # A function of this world's own: numba.cuda looks at what numba.core knows, too.
        def stub(*args: Any) -> None: ...

        stubs[function] = stub
        name = f"Typed_{function.__name__}"
        template = (nb.templates.AbstractTemplate,)
        made = type(name, template, {"key": stub, "generic": generic})
        nb.infer_global(stub, types.Function(made))

        @nb.lower(stub, types.VarArg(types.Any))
        def lowered(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            out = emit(context, builder, args, sig)
            return context.get_dummy_value() if out is None else out

    vars(w).update(operation=operation, stubs=stubs)
