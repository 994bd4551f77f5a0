# SPDX-License-Identifier: Apache-2.0
"""Resident blocks in Python: a class with parameters, and a method that makes one output.

    @flow.kind
    class Smooth:
        takes = np.float32        # what the samples are that come: float32 or complex64
        makes = np.float32        # what it makes of them; the same if not said
        before = 1                # so many of the samples before, too
        a: np.float32 = 0.5       # a parameter

        def make(self, x, y):
            y[0] = self.a * x[0] + (1 - self.a) * x[-1]

    resident = flow.Resident("gpu", kinds=[Smooth])
    smooth = graph.add(Smooth("smooth", executor=resident, a=0.25))

Such a block changes quanta in place. One whose ports have names reads one stream or two in step,
and fills a circuit at each output:

    @flow.kind
    class Butterfly:
        inputs = "a", "b"
        outputs = "sum", "difference"

        def make(self, a, b, sum, difference):
            sum[0] = a[0] + b[0]
            difference[0] = a[0] - b[0]

    butterfly = graph.add(Butterfly("butterfly", executor=resident))
    graph.connect(source.out, butterfly.inputs["a"])
    graph.circuit("sums", butterfly.outputs["sum"], quanta=4, samples=1024)

It keeps no state: the quanta of a stream are at several workers at once. Tags go with the samples
that are made of theirs, to every output.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen import _core, values
from denizen.errors import ArgumentError
from denizen.fields import caller_names, check_name, field_of, hints_of, seen
from denizen.fixed import Fixed
from denizen.flow.block import AnyBlock, InPlacePort, InputPort, SourcePort
from denizen.flow.resident import Resident
from denizen.handlers.kind_code import MOST_INPUTS, Kind
from denizen.message import checked, fields_of
from denizen.shown import html_table
from denizen.source import keep_text

_REAL, _COMPLEX = np.dtype(np.float32), np.dtype(np.complex64)
_MOST = 4096  # samples before, and inputs per output, as of a resident filter's taps
_MAKE: dict[tuple[Any, Any], tuple[Any, Any]] = {  # in place, between circuits
    (_REAL, _REAL): (_core.flow_given_real, _core.flow_given_between_real),
    (_COMPLEX, _COMPLEX): (_core.flow_given_complex, _core.flow_given_between_complex),
    (_COMPLEX, _REAL): (_core.flow_given_complex_real, _core.flow_given_between_complex_real),
}
_DECLARED = ("takes", "makes", "before", "down", "inputs", "outputs")


class KindType(Fixed):
    """A kind of resident blocks; a call makes one block."""

    def __init__(self, cls: type, names: Mapping[str, Any]) -> None:
        if not isinstance(cls, type):
            raise ArgumentError(f"{cls!r:.60} is no class; @flow.kind decorates one with make()")
        self.name = cls.__name__
        check_name("kind", self.name)
        hints = hints_of(cls, names)
        for name in (*_DECLARED, "make"):
            if name in hints:
                raise ArgumentError(
                    f"{self.name}.{name} is no parameter: {name} says what the kind is, without a "
                    "type; give the parameter another name"
                )
        fields = [(f, *field_of(f"{self.name}.{f}", hint)) for f, hint in hints.items()]
        plain = np.dtype(fields, align=True)
        if plain.alignment > 4:
            wide = next(n for n in plain.names or () if plain[n].alignment > 4)
            raise ArgumentError(
                f"{self.name}.{wide} is {plain[wide]}; a block's parameters have at most 32 bits: "
                f"{wide}: np.float32"
            )
        initial: Any = np.zeros((), plain)
        constants: dict[str, Any] = {}
        declared: dict[str, Any] = {}
        make: FunctionType | None = None
        for name, value in vars(cls).items():
            if name in hints:
                initial[name] = checked(f"{self.name}.{name}", plain[name], value)
            elif name == "make" and isinstance(value, FunctionType):
                make = value
            elif name in _DECLARED:
                declared[name] = value
            elif isinstance(value, bool | int | float | np.number):
                constants[name] = value
            elif not (name.startswith("__") and name.endswith("__")):
                raise ArgumentError(
                    f"{self.name}.{name} = {value!r} is neither a number, a declaration nor make()"
                )
        self.inputs = self._ports("inputs", declared, "x")
        self.outputs = self._ports("outputs", declared, "y")
        self.in_place = not {"inputs", "outputs"} & declared.keys()
        make = self._checked(make)
        self.takes = values.element(f"{self.name}.takes", declared.get("takes", _REAL))
        self.makes = values.element(f"{self.name}.makes", declared.get("makes", self.takes))
        self.before = values.whole(f"{self.name}.before", declared.get("before", 0), _MOST)
        self.down = values.whole(f"{self.name}.down", declared.get("down", 1), _MOST, least=1)
        if (self.takes, self.makes) not in _MAKE:
            raise ArgumentError(
                f"{self.name} makes {self.makes} of {self.takes}; a resident block makes float32 "
                "of float32, or complex64 or float32 of complex64"
            )
        keep_text(make)
        self.parameters, self.initial = plain, initial
        takes, makes = map(seen, (self.takes, self.makes))
        counts = len(self.inputs), len(self.outputs)
        self.code = Kind(self.name, make, constants, plain, takes, makes, self.before, *counts)
        self._made = True

    def _ports(self, which: str, declared: Mapping[str, Any], usual: str) -> tuple[str, ...]:
        given = declared.get(which, (usual,))
        if not isinstance(given, tuple | list) or not all(isinstance(n, str) for n in given):
            raise ArgumentError(
                f"{self.name}.{which} = {given!r:.60}; use a tuple of the ports' names, as in "
                f'{which} = ("{usual}",)'
            )
        if not given or (which == "inputs" and len(given) > MOST_INPUTS):
            raise ArgumentError(
                f"{self.name}.{which} names {len(given)} ports; a resident block has "
                + (f"1 to {MOST_INPUTS} inputs" if which == "inputs" else "one output at least")
            )
        return tuple(given)

    def _checked(self, make: FunctionType | None) -> FunctionType:
        """What make() is: its parameters are the ports."""
        expected = f"make(self, {', '.join((*self.inputs, *self.outputs))})"
        if make is None:
            raise ArgumentError(f"kind {self.name} has no method {expected}")
        found = make.__code__.co_varnames[1 : make.__code__.co_argcount]
        if len(found) == 2 if self.in_place else found == (*self.inputs, *self.outputs):
            return make
        raise ArgumentError(
            f"kind {self.name} has make(self{''.join(f', {n}' for n in found)}) and no method "
            f"{expected}, whose parameters are its ports; inputs = ... and outputs = ... name them"
        )

    def __call__(self, name: str, *, executor: Resident, **parameters: Any) -> KindBlock:
        """A block of this kind. `executor`: a Resident that was made with it."""
        return KindBlock(self, name, executor, parameters)

    def __repr__(self) -> str:
        return (
            f"<flow kind {self.name}: {self.takes} to {self.makes}, before {self.before}, "
            f"down {self.down}{self._named()}; {fields_of(self.parameters)}>"
        )

    def _repr_html_(self) -> str:
        rows = [("takes", str(self.takes)), ("makes", str(self.makes))]
        rows += [("before", str(self.before)), ("down", str(self.down))]
        if not self.in_place:
            rows += [("inputs", ", ".join(self.inputs)), ("outputs", ", ".join(self.outputs))]
        return html_table(f"kind {self.name}", [*rows, ("parameters", fields_of(self.parameters))])

    def _named(self) -> str:
        return "" if self.in_place else f", {', '.join(self.inputs)} to {', '.join(self.outputs)}"


class KindBlock(AnyBlock):
    """A block whose outputs a method in Python makes, on the resident runtime.

    Its port is ``samples``; of a kind that names its ports they are ``inputs["a"]`` and
    ``outputs["sum"]``, and each output begins a circuit. ``post(a=0.25)`` gives parameters new
    values.
    """

    samples: InPlacePort

    def __init__(
        self, kind: KindType, name: str, resident: Resident, parameters: Mapping[str, Any]
    ) -> None:
        values.text("a block's name", name)
        if not isinstance(resident, Resident):
            raise ArgumentError(
                f'block "{name}": executor {resident!r}; {kind.name} runs on a '
                f"flow.Resident(device, kinds=[{kind.name}])"
            )
        self.raised: BaseException | None = None  # by make(), on the interpreter
        self.kind = kind
        self._values: Any = kind.initial.copy()
        self._set(parameters)
        self._address, self._kept = resident.function_of(kind.code, self._failed)
        in_place, between = _MAKE[kind.takes, kind.makes]
        of = _core.flow_given if self._address else kind.name
        what = name, of, kind.before, kind.down, self._floats(), resident._core
        self.resident = resident
        self.inputs: dict[str, InputPort] = {}
        self.outputs: dict[str, SourcePort] = {}
        if kind.in_place:
            self._library = in_place(*what)
            self.samples = InPlacePort(self._library.port("samples"), kind.takes, kind.makes)
        else:
            self._library = between(*what, kind.inputs, kind.outputs)
            port = self._library.port
            self.inputs = {n: InputPort(port(n), kind.takes) for n in kind.inputs}
            self.outputs = {n: SourcePort(port(n), kind.makes) for n in kind.outputs}
        super().__init__(name, self._library)

    def __getattr__(self, name: str) -> Any:
        if name == "samples":
            ports = [f'inputs["{n}"]' for n in self.inputs]
            ports += [f'outputs["{n}"]' for n in self.outputs]
            raise AttributeError(
                f'block "{self.name}" is not in place: its ports are {", ".join(ports)}'
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def post(self, **parameters: Any) -> None:
        """From any thread; effective from some quantum's boundary on, the same for all workers.

        Of a kind that names its ports: from some sample on. RingFullError when 64 wait, ClosedError
        when the block has finished.
        """
        self._set(parameters)
        self._library.post("values", self._floats())

    def _set(self, parameters: Mapping[str, Any]) -> None:
        for name, value in parameters.items():
            if name not in (self.kind.parameters.names or ()):
                known = fields_of(self.kind.parameters)
                raise ArgumentError(f"{self.kind.name} has no parameter {name}; it has {known}")
            field = self.kind.parameters[name]
            self._values[name] = checked(f"{self.kind.name}.{name}", field, value)

    def _floats(self) -> NDArray[np.float32]:
        """The function's address and the parameters, in words."""
        data = np.uint64(self._address).tobytes() + self._values.tobytes()
        return np.frombuffer(data.ljust(-(-len(data) // 4) * 4, b"\0"), np.float32)

    def _failed(self, error: BaseException) -> None:
        self.raised = self.raised or error


def kind(cls: type) -> KindType:
    """A decorator: makes a kind of resident blocks of a class with parameters and make().

    Raises ArgumentError.
    """
    return KindType(cls, caller_names(1))
