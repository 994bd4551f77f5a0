# SPDX-License-Identifier: Apache-2.0
"""Fields of states, messages and records, and elements of arrays and buffers."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from denizen.fields import seen
from denizen.handlers import ops
from denizen.handlers.lowering.llvm import I64


def add(w: SimpleNamespace) -> None:
    nb, types, errors = w.nb, w.nb.types, w.nb.errors
    int64, float64, boolean, as_number = w.int64, w.float64, w.boolean, w.as_number
    said, counted, value_type, load, store = w.said, w.counted, w.value_type, w.load, w.store
    operation = w.operation

    def element_type(dtype: np.dtype[Any], shape: tuple[int, ...] = ()) -> Any:
        if shape:
            return w.Cells(dtype, shape)
        parts = seen(dtype)
        return w.Ref("record", parts) if parts.names else value_type(dtype)

    def field_of(dtype: np.dtype[Any], name: str) -> tuple[Any, np.dtype[Any], int]:
        """Its type, the dtype of its elements, and where it lies."""
        fields: Any = dtype.fields
        field, offset = fields[name][:2]
        base, shape = field.subdtype or (field, ())
        return element_type(base, shape), base, offset

    def at(builder: Any, pointer: Any, offset: Any) -> Any:
        return builder.gep(pointer, [offset])

    @nb.infer_getattr
    class RefAttributes(nb.templates.AttributeTemplate):
        key = w.Ref

        def generic_resolve(self, ref: Any, attr: str) -> Any:
            name = attr.removeprefix(ops.PLACE)
            if name in (ref.dtype.names or ()):
                ty, base, _ = field_of(ref.dtype, name)
                return ty if name == attr else w.Place(base, ty)
            known = ", ".join(ref.dtype.names or ()) or "no fields"
            raise errors.TypingError(f"{said(ref)} has no field {name}; it has {known}")

    @nb.lower_getattr(w.Ref)
    def get_field(context: Any, builder: Any, typ: Any, value: Any, attr: str) -> Any:
        name = attr.removeprefix(ops.PLACE)
        ty, base, offset = field_of(typ.dtype, name)
        place = at(builder, value, I64(offset))
        if name != attr or isinstance(ty, w.Ref | w.Cells):
            return place
        return load(builder, place, base)

    def typed_store(place: Any, value: Any) -> Any:
        fits(place.element, value)
        return types.none, (place, value if isinstance(value, w.Ref) else as_number(value))

    def emit_store(context: Any, builder: Any, args: Any, sig: Any) -> None:
        place, given = sig.args
        assign(builder, (args[0], place.element), place.dtype, args[1], given)

    def fits(ty: Any, given: Any) -> None:
        if isinstance(ty, w.Cells):
            raise errors.TypingError("an array is assigned element by element")
        if isinstance(ty, w.Ref):
            if not isinstance(given, w.Ref) or given.dtype != ty.dtype:
                raise errors.TypingError(f"a record of this type is needed, not {said(given)}")
        elif as_number(given) is float64 and ty not in (float64, boolean):
            raise errors.TypingError(
                "a whole number is stored here, not a float: int(...) leaves out its fraction"
            )

    def assign(builder: Any, where: Any, base: Any, value: Any, given: Any) -> None:
        place, ty = where
        if isinstance(ty, w.Ref):
            nb.cgutils.raw_memcpy(builder, place, value, I64(ty.dtype.itemsize), 1)
        else:
            store(builder, place, base, value, given)

    def placed(
        context: Any, builder: Any, cells: Any, value: Any, place: Any
    ) -> tuple[Any, Any, Any]:
        """Where an element is, whether there is one, and what it is. Negative: from the end."""
        if isinstance(cells, w.Samples):
            inside = builder.icmp_unsigned("<=", builder.neg(place), I64(cells.before))
            offset = builder.mul(builder.select(inside, place, I64(0)), I64(cells.dtype.itemsize))
            return at(builder, value, offset), inside, element_type(cells.dtype)
        if isinstance(cells, w.Span):
            memory = nb.cgutils.create_struct_proxy(cells)(context, builder, value=value)
            data, count, rest = memory.data, memory.count, ()
        else:
            data, count, rest = value, I64(cells.shape[0]), cells.shape[1:]
        ty = element_type(cells.dtype, rest)
        negative = builder.icmp_signed("<", place, I64(0))
        place = builder.select(negative, builder.add(place, count), place)
        inside = builder.icmp_unsigned("<", place, count)
        stride = cells.dtype.itemsize * math.prod(rest)
        offset = builder.mul(builder.select(inside, place, I64(0)), I64(stride))
        return at(builder, data, offset), inside, ty

    def typed_get(cells: Any, place: Any) -> Any:
        if isinstance(cells, w.Samples):
            return element_type(cells.dtype), (cells, counted(place))
        array(cells)
        rest = cells.shape[1:] if cells.shape else ()
        return element_type(cells.dtype, rest), (cells, counted(place))

    def array(t: Any) -> None:
        if isinstance(t, w.Samples):
            raise errors.TypingError(
                "a stream has no length; x[0] is the sample, x[-1] the one before it, as many as "
                "`before` says"
            )
        if not isinstance(t, w.Cells | w.Span):
            raise errors.TypingError(f"{said(t)} has no elements")

    def emit_get(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        cells = sig.args[0]
        place, inside, ty = placed(context, builder, cells, *args)
        if isinstance(ty, w.Ref | w.Cells):
            return place
        # Of an empty span nothing may be read.
        out = nb.cgutils.alloca_once_value(builder, context.get_constant_null(ty))
        with builder.if_then(inside, likely=True):
            builder.store(load(builder, place, cells.dtype), out)
        return builder.load(out)

    def typed_put(cells: Any, place: Any, value: Any) -> Any:
        element = typed_get(cells, place)[0]
        fits(element, value)
        given = value if isinstance(value, w.Ref) else as_number(value)
        return types.none, (cells, counted(place), given)

    def emit_put(context: Any, builder: Any, args: Any, sig: Any) -> None:
        cells, _, given = sig.args
        place, inside, ty = placed(context, builder, cells, *args[:2])
        with builder.if_then(inside, likely=True):
            assign(builder, (place, ty), cells.dtype, args[2], given)

    def typed_length(cells: Any) -> Any:
        array(cells)
        return int64, (cells,)

    def emit_length(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        cells = sig.args[0]
        if isinstance(cells, w.Cells):
            return I64(cells.shape[0])
        return nb.cgutils.create_struct_proxy(cells)(context, builder, value=args[0]).count

    def typed_moved(cells: Any, count: Any) -> Any:
        return cells, (cells, counted(count))

    def emit_moved(context: Any, builder: Any, args: Any, sig: Any) -> Any:
        return at(builder, args[0], builder.mul(args[1], I64(sig.args[0].dtype.itemsize)))

    operation(ops.moved, typed_moved, emit_moved)
    operation(ops.get, typed_get, emit_get)
    operation(ops.put, typed_put, emit_put)
    operation(ops.store, typed_store, emit_store)
    operation(ops.length, typed_length, emit_length)

    vars(w).update(
        field_of=field_of,
        at=at,
    )
