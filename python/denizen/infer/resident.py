# SPDX-License-Identifier: Apache-2.0
"""A model that stays resident: threads, or the SMs of a GPU, keep its weights and states."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from denizen import _core
from denizen.closing import Closing
from denizen.compilers import cubin_of
from denizen.device import breath_of, capability, parse_device
from denizen.errors import ArgumentError
from denizen.infer.importing import model_of
from denizen.infer.model import Model
from denizen.replies import AsyncReplies
from denizen.snapshot import file_name
from denizen.values import seconds as _seconds

Floats = NDArray[np.float32]

_KERNELS = "#define DENIZEN_INFER_FORMAT {}\n#include <denizen/infer/detail/kernels.hpp>\n"


class Answer(NamedTuple):
    """A step's output, (outputs,), and the version of the weights that made all of it."""

    output: Floats
    version: int


class Answers(NamedTuple):
    """Those of n steps: outputs (n, outputs), versions (n,)."""

    outputs: Floats
    versions: NDArray[np.uint64]


@dataclass(frozen=True)
class Stats:
    """What a Resident has done so far, and how large it is."""

    steps: int  # answered
    step_us: float  # mean time in the model, without the way there and back; GPU: of a round
    swaps: int
    version: int
    streams: int
    parts: int
    weight_bytes: int  # as they are kept
    state_bytes: int  # of all streams
    rounds: int  # GPU: in which the steps were, those of several streams together
    loading_us: float  # GPU: until the last incarnation had its weights


class Resident(Closing):
    """A model whose weights and whose streams' states stay with resident threads or a GPU.

        with denizen.infer.Resident(model, head, streams=32) as m:
            y = m(x, stream=7)             # one time step of stream 7
            y = await m.step(x, stream=7)
            Y = m.steps(X, streams=[7, 8, 9])

    Any number of threads and coroutines may ask; the requests of each stream are answered in their
    order. One time step: x is float32 of the input's width, or one whole number for a model that
    begins with an embedding.

    Args:
        model: modules of PyTorch that are applied one after the other, a file of ONNX, or a Model
            (see model_of()).
        device: "cpu", "cpu:PARTS", "gpu:N", or "auto": the first GPU, else the CPU.
        streams: each with a state of its own, which begins with zeros; at most 2**24.
        weights: how matrices are kept: "fp32", "bf16" or "fp16". Sums are in fp32 in any case.
        parts: threads that share each layer's rows. By default one for each 4 MiB of weights, at
            most one less than there are cores. On a GPU blocks, each on an SM of its own: by
            default 16 that share their memory if the model fits there, else all. The answers are
            the same bit by bit.
        copies: GPU: of the model, each on SMs of its own: stream s is one of copy s % copies. For
            more streams than one copy keeps up with; at most as many as there are streams.
        requests: that may be under way at once, 1 to 65536.
        spin_us: for so many microseconds a thread without work looks for a request before it
            sleeps, and who asks looks for the answer. A sleeper wakes up some microseconds later.
        width: of the input, where no layer says it.
        breath_us: GPU: no kernel of the model lasts longer than that; the next one is queued
            behind it and goes on. None: one kernel for as long as the model stays.

    Raises ArgumentError with the layer's name for what cannot be resident, and with the bytes that
    are missing for a model that does not fit; DeviceError without the GPU; ExhaustedError without
    memory or threads.
    """

    def __init__(
        self,
        *model: Any,
        device: str = "cpu",
        streams: int = 1,
        weights: str = "fp32",
        parts: int | None = None,
        copies: int = 1,
        requests: int = 256,
        spin_us: float = 50.0,
        width: int | None = None,
        breath_us: int | Literal["auto"] | None = "auto",
    ) -> None:
        where = parse_device(device)
        if where.interpreted or where.nodes != 1:
            raise ArgumentError(f'device "{device}"; use "cpu", "cpu:PARTS" or "gpu:N"')
        if where.threads is not None and parts not in (None, where.threads):
            raise ArgumentError(f'device "{device}" and parts = {parts}; give one of the two')
        if not isinstance(spin_us, int | float) or not 0 <= spin_us <= 1e6:
            raise ArgumentError(f"spin_us = {spin_us!r}; use microseconds from 0 to 1000000")
        breath = breath_of(breath_us)
        copies = _whole("copies", copies, 1)
        if copies > 1 and not where.on_gpu:
            raise ArgumentError(
                f'copies = {copies} and device "{device}": copies are of a model on a GPU; on CPU '
                "threads one model serves all streams, and parts= gives it more threads"
            )
        _known(weights)
        self._model = model_of(*model, width=width)
        self._weights = weights
        given = (
            _given(self._model),
            _whole("streams", streams, 1),
            weights,
            _whole("parts", parts, 1) if parts is not None else where.threads or 0,
            _whole("requests", requests, 1),
            spin_us * 1e-6,
        )
        if where.on_gpu:
            code = kernels(weights, capability(where))
            self._core = _core.InferEngine(*given, where.first, code, breath, copies)
        else:
            self._core = _core.InferEngine(*given)
        self._async = AsyncReplies(self._core, "the resident model")

    @property
    def inputs(self) -> int:
        """The input's width."""
        return self._model.widths[0]

    @property
    def outputs(self) -> int:
        """The answer's width."""
        return self._model.widths[self._model.output]

    @property
    def streams(self) -> int:
        """How many there are: 0 to streams - 1."""
        return self._core.streams

    @property
    def version(self) -> int:
        """Of the weights: 1, and one more with each swap()."""
        return self._core.version

    def __repr__(self) -> str:
        return (
            f"<denizen.infer.Resident of {len(self._model.ops)} layers, {self.inputs} -> "
            f"{self.outputs}, {self.streams} streams, {self._weights}, version {self.version}, on "
            f"{self._core.place}>"
        )

    def __call__(self, x: ArrayLike, stream: int = 0, *, timeout: float = 10.0) -> Floats:
        """One time step of a stream; the answer, (outputs,).

        Raises RingFullError without a place for the request until the deadline, DeadlineError
        without an answer (a step that has begun is still made), ArgumentError for another shape,
        dtype, token or stream, ClosedError.
        """
        return self.answer(x, stream, timeout=timeout).output

    def answer(self, x: ArrayLike, stream: int = 0, *, timeout: float = 10.0) -> Answer:
        """As a call, with the version of the weights that answered."""
        given = self._input(x, ())
        output = np.empty(self.outputs, np.float32)
        version = self._core.step(self._stream(stream), given, output, _seconds(timeout))
        return Answer(output, version)

    async def step(self, x: ArrayLike, stream: int = 0, *, timeout: float = 10.0) -> Floats:
        """As a call, for asyncio: other coroutines run until the answer is there."""
        given, number = self._input(x, ()), self._stream(stream)
        _, data = await self._async.ask(
            lambda: self._core.ask_begin(number, given, 0.0),
            _seconds(timeout),
            lambda: (
                f"the resident model has not answered stream {number} within {timeout} s; a step "
                "that has begun is still made"
            ),
        )
        return np.frombuffer(data, np.float32).copy()

    def steps(self, x: ArrayLike, streams: ArrayLike = 0, *, timeout: float = 60.0) -> Floats:
        """n time steps, of which as many as there is room for are under way at once.

        ``x``: (n, inputs), or (n,) tokens. ``streams``: (n,), or one for all; a stream that occurs
        several times makes as many steps, in order. The answers, (n, outputs). Errors as of a call;
        some of the steps have then been made.
        """
        return self.answers(x, streams, timeout=timeout).outputs

    def answers(self, x: ArrayLike, streams: ArrayLike = 0, *, timeout: float = 60.0) -> Answers:
        """As steps(), with the versions of the weights that answered."""
        given = np.asarray(x)
        n = len(given) if given.ndim else 0
        rows = self._input(given, (n,))
        numbers = np.asarray(streams)
        if numbers.dtype.kind not in "iu" or numbers.shape not in ((), (n,)):
            raise ArgumentError(
                f"streams are {numbers.dtype} of shape {numbers.shape}; give one whole number, or "
                f"one for each of the {n} steps"
            )
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.streams:
            raise ArgumentError(
                f"streams are {numbers.min()} to {numbers.max()}; the resident model has 0 to "
                f"{self.streams - 1}"
            )
        of = np.ascontiguousarray(np.broadcast_to(numbers, n), np.uint32)
        outputs = np.empty((n, self.outputs), np.float32)
        versions = np.empty(n, np.uint64)
        self._core.steps(of, rows, outputs, versions, _seconds(timeout))
        return Answers(outputs, versions)

    def swap(self, *model: Any, timeout: float = 10.0) -> int:
        """Other weights, for a model of the same layers, widths and settings, while it serves.

        Each request is answered by the weights of one version: those sent before by the old ones.
        The states of the streams stay. Returns the new version. Raises ArgumentError for another
        model.
        """
        new = model_of(*model, width=None if self._model.tokens else self.inputs)
        version = self._core.swap(_given(new), _seconds(timeout))
        self._model = new
        return version

    def reset(self, stream: int, *, timeout: float = 10.0) -> None:
        """Zeros are the stream's state again, behind what has been asked of it so far."""
        self._core.reset(self._stream(stream), _seconds(timeout))

    def state(self, stream: int, *, timeout: float = 10.0) -> dict[str, Floats]:
        """A stream's state, behind what has been asked of it so far.

        By the layer's name: ``name.h`` and ``name.c``, (width,), of recurrent layers, and
        ``name.inputs``, (steps, width), oldest first, of a convolution.
        """
        parts = self._core.state_parts
        flat = np.empty(sum(floats for _, floats, _ in parts), np.float32)
        self._core.state(self._stream(stream), flat, _seconds(timeout))
        found, at = {}, 0
        for name, floats, steps in parts:
            piece = flat[at : at + floats]
            found[name] = piece.reshape(steps, -1) if name.endswith(".inputs") else piece
            at += floats
        return found

    def set_state(
        self, stream: int, state: Mapping[str, ArrayLike], *, timeout: float = 10.0
    ) -> None:
        """Gives a stream what state() returned, of this model or one of the same layers.

        Raises ArgumentError for other names, dtypes or sizes.
        """
        parts = self._core.state_parts
        if set(state) != {name for name, _, _ in parts}:
            raise ArgumentError(
                f"the state has {sorted(state)}; this model's has {[name for name, _, _ in parts]}"
            )
        pieces = []
        for name, floats, _ in parts:
            piece = np.asarray(state[name])
            if piece.dtype != np.float32 or piece.size != floats:
                raise ArgumentError(
                    f"state {name!r} is {piece.dtype} of shape {piece.shape}; give float32, "
                    f"{floats} elements"
                )
            pieces.append(piece.ravel())
        flat = np.concatenate(pieces) if pieces else np.empty(0, np.float32)
        self._core.set_state(self._stream(stream), flat, _seconds(timeout))

    def save(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        """Writes the states of all streams to a file, whole or not at all.

        They are of one moment between two requests. The weights are not in it.
        """
        self._core.save(file_name("path", path), _seconds(timeout))

    def restore(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        """Gives all streams the states that save() wrote, of a model of the same layers and widths.

        Raises SnapshotError if the file is not whole, of another model or of as many streams.
        """
        self._core.restore(file_name("path", path), _seconds(timeout))

    def stats(self) -> Stats:
        """What has been done so far."""
        core = self._core
        steps, busy_ns, swaps, rounds, loading_ns = core.stats()
        mean = busy_ns * 1e-3 / (rounds or steps) if steps else 0.0
        return Stats(
            steps, mean, swaps, core.version, core.streams, core.parts, core.weight_bytes,
            core.state_bytes, rounds, loading_ns * 1e-3,
        )  # fmt: skip

    def close(self) -> None:
        """Answers what threads have asked, and ends; coroutines that wait get ClosedError.

        Harmless when called again. In a forked child, whose every request raises ClosedError, it
        does nothing.
        """
        self._async.close()
        self._core.close()

    def _stream(self, stream: int) -> int:
        try:
            number = operator.index(stream)
        except TypeError:
            number = -1
        if not 0 <= number < self.streams:
            raise ArgumentError(
                f"stream {stream!r}; the resident model has streams 0 to {self.streams - 1}"
            )
        return number

    def _input(self, x: ArrayLike, rows: tuple[int, ...]) -> NDArray[Any]:
        """``x`` as C++ takes it: rows + (width,) float32, or rows int32 tokens."""
        given = np.asarray(x)
        if self._model.tokens:
            if given.dtype.kind not in "iu" or given.shape not in (rows, (*rows, 1)):
                raise ArgumentError(
                    f"x is {given.dtype} of shape {given.shape}; give a whole number for each step"
                )
            if given.size and not -(2**31) <= given.min() <= given.max() < 2**31:
                raise ArgumentError(f"x has the token {given.max()}; tokens are below 2**31")
            return np.ascontiguousarray(given, np.int32)
        shape = (*rows, self.inputs)
        if given.dtype != np.float32 or given.shape != shape:
            way = ", such as x.astype(np.float32)" if given.dtype != np.float32 else ""
            raise ArgumentError(
                f"x is {given.dtype} of shape {given.shape}; give float32 of shape {shape}{way}"
            )
        return np.ascontiguousarray(given)


def kernels(weights: str, architecture: int) -> bytes:
    """The kernels for a format of weights. CompileError."""
    _known(weights)
    return cubin_of(_KERNELS.format(weights), "the resident models", architecture)


def _known(weights: str) -> None:
    """ArgumentError for what is no format of weights."""
    if weights == "tf32":
        raise ArgumentError(
            'weights = "tf32" would round as fp16 does and take the memory of fp32; use "fp16", or '
            '"bf16" for weights beyond 65504, or "fp32"'
        )
    if weights not in ("fp32", "bf16", "fp16"):
        raise ArgumentError(f'weights = {weights!r}; use "fp32", "bf16" or "fp16"')


def _whole(name: str, value: int, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not least <= number < 2**32:
        raise ArgumentError(f"{name} = {value!r}; use a whole number from {least}")
    return number


def _given(model: Model) -> Any:
    """The model as C++ takes it."""
    ops = [
        (
            op.kind,
            list(op.inputs),
            list(op.weights),
            (
                float(op.settings.get("eps", 1e-5)),
                bool(op.settings.get("relu", 0)),
                int(op.settings.get("dilation", 1)),
            ),
            op.name,
        )
        for op in model.ops
    ]
    return list(model.widths), ops, model.output, model.tokens
