# SPDX-License-Identifier: Apache-2.0
"""What moves, drops or cuts axes of a value and computes nothing: transpose, slice, reshape, pad.

One step holds one item of the batch and one of time, so most of these do nothing to it; what would
mix time or channels is refused with the layer's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from denizen.infer.steps import Size, Value, refuse


def _axis(x: Value, axis: int, name: str, kind: str, more: int = 0) -> int:
    rank = len(x.axes) + more
    if not -rank <= axis < rank:
        refuse(name, kind, f"axis {axis} of an input with {rank - more} axes")
    return axis % rank


def permute(x: Value, order: Sequence[int], name: str) -> Value:
    places = [_axis(x, axis, name, "Transpose") for axis in order]
    if sorted(places) != list(range(len(x.axes))):
        refuse(name, "Transpose", f"{list(order)} is not an order of {len(x.axes)} axes")
    return replace(x, axes="".join(x.axes[axis] for axis in places))


def transpose(x: Value, a: int, b: int, name: str) -> Value:
    order = list(range(len(x.axes)))
    a, b = _axis(x, a, name, "Transpose"), _axis(x, b, name, "Transpose")
    order[a], order[b] = b, a
    return permute(x, order, name)


def squeeze(x: Value, axes: Sequence[int] | None, name: str) -> Value:
    """Axes of one item go; that of the batch does, too: a step has one stream."""
    if axes is None:
        return replace(x, axes=x.axes.replace("1", "").replace("B", ""))
    drop = {_axis(x, axis, name, "Squeeze") for axis in axes}
    for axis in drop:
        if x.axes[axis] not in "1B":
            refuse(name, "Squeeze", f"axis {axis} is that of time or channels")
    return replace(x, axes="".join(c for i, c in enumerate(x.axes) if i not in drop))


def unsqueeze(x: Value, axes: Sequence[int], name: str) -> Value:
    kept = list(x.axes)
    for axis in sorted(_axis(x, axis, name, "Unsqueeze", len(axes)) for axis in axes):
        kept.insert(axis, "1")
    return replace(x, axes="".join(kept))


def select(x: Value, axis: int, index: Any, name: str) -> Value:
    """x[..., index, ...]: the last step, or the one item of another axis."""
    axis = _axis(x, axis, name, "Select")
    letter = x.axes[axis]
    if letter == "T" and (index != -1 or x.tail):
        refuse(name, "Select", f"item {index} of time; a step knows the last one, which is -1")
    if letter == "C":
        refuse(name, "Select", f"item {index} of the channels; use a Linear")
    if letter in "1B" and index not in (0, -1):
        refuse(name, "Select", f"item {index} of an axis that has one in a stream")
    left = x.axes[:axis] + x.axes[axis + 1 :]
    return replace(x, axes=left, start=0 if letter == "T" else x.start)


def cut(x: Value, axis: int, part: slice, name: str) -> Value:
    """x[..., part, ...]"""
    axis = _axis(x, axis, name, "Slice")
    letter = x.axes[axis]
    start, stop, step = part.start or 0, part.stop, part.step
    if letter == "T" and isinstance(stop, Size) and stop.axes == "T":
        stop = stop.extra + x.start - x.tail or None
    elif isinstance(stop, int) and stop >= (1 << 31) - 1:
        stop = None
    if (start, stop, step or 1) == (0, None, 1):
        return x
    if (
        step not in (None, 1)
        or letter in "CB1"
        or isinstance(start, Size)
        or isinstance(stop, Size)
    ):
        refuse(name, "Slice", f"{start}:{stop}:{step or 1} of an axis; whole steps of time alone")
    if (start, stop) == (-1, None) and not x.tail:
        return replace(x, axes=x.axes[:axis] + "1" + x.axes[axis + 1 :], start=0)
    if start < 0 or (stop is not None and not -x.tail <= stop < 0):
        refuse(
            name, "Slice",
            f"{start}:{'' if stop is None else stop} of time; a stream has no end: cut the first "
            f"steps, the last one (-1:), or the {x.tail} items beyond the last step",
        )  # fmt: skip
    return replace(x, start=x.start + start, tail=x.tail + (stop or 0))


def pad(x: Value, axis: int, sides: tuple[int, int], name: str) -> Value:
    """Zeros before the first and after the last item."""
    axis = _axis(x, axis, name, "Pad")
    left, right = sides
    if sides == (0, 0):
        return x
    if x.axes[axis] != "T" or left < 0 or right < 0 or (left and x.start):
        refuse(name, "Pad", "only zeros before and after the steps of the input")
    return replace(x, start=x.start - left, tail=x.tail + right)


def flatten(x: Value, first: int, last: int, name: str) -> Value:
    first, last = _axis(x, first, name, "Flatten"), _axis(x, last, name, "Flatten")
    return replace(
        x, axes=x.axes[:first] + _merged(x.axes[first : last + 1], name) + x.axes[last + 1 :]
    )


def _merged(axes: str, name: str) -> str:
    """One axis of several."""
    letters = axes.replace("1", "")
    if "C" in letters and "T" in letters:
        refuse(name, "Flatten", "time and channels would become one axis: steps would mix")
    return next((letter for letter in "CTB" if letter in letters), "1")


def reshape(x: Value, width: int | None, shape: Sequence[Any], name: str) -> Value:
    """``shape``: of ints, Size and -1. The channels, ``width`` of them, stay whole."""
    axes: list[str] = []
    for dim in shape:
        if isinstance(dim, Size):
            axes.append(_merged(dim.axes, name))
        elif dim == -1:
            axes.append("?")
        elif dim == width and "C" not in axes:
            axes.append("C")
        elif dim == 1:
            axes.append("1")
        else:
            refuse(name, "Reshape", f"{dim} items: the {width} channels of a step must stay whole")
    if "?" in axes:
        missing = [letter for letter in "CTB" if letter in x.axes and letter not in axes]
        axes[axes.index("?")] = _merged("".join(missing), name) if missing else "1"
    if axes.count("?") or axes.count("C") != x.axes.count("C"):
        refuse(name, "Reshape", f"to {list(shape)}: the channels of a step must stay whole")
    if "T" in x.axes and "T" not in axes:
        # (batch, 1, ...) of a model that was exported for one step.
        if "1" not in axes and "B" not in axes:
            refuse(name, "Reshape", f"to {list(shape)}: the axis of time is lost")
        place = axes.index("1") if "1" in axes else axes.index("B")
        axes[place] = "T"
    return replace(x, axes="".join(axes))
