# SPDX-License-Identifier: Apache-2.0
"""The command's words for sources, places and sizes."""

from __future__ import annotations

from denizen import wave
from denizen.errors import ArgumentError, reading
from denizen.wave.simulation import Place
from denizen.wave.sources import Source

SOURCE = (
    "KIND@z,y,x with KIND impulse, ricker:HZ, sine:HZ or wav:FILE, and then *AMPLITUDE if not 1"
)


def size(text: str) -> tuple[int, int, int]:
    """``64``, or ``32x64x128``: cells along z, y and x. Raises ArgumentError."""
    parts = text.split("x")
    if len(parts) not in (1, 3) or not all(part.isdecimal() for part in parts):
        raise ArgumentError(f'size "{text}"; use N or NZxNYxNX')
    n = [int(part) for part in parts]
    return (n[0], n[0], n[0]) if len(n) == 1 else (n[0], n[1], n[2])


def place(text: str) -> Place:
    """``z,y,x``. Raises ArgumentError."""
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() for part in parts):
        raise ArgumentError(f'place "{text}"; use z,y,x, counted from 0')
    return int(parts[0]), int(parts[1]), int(parts[2])


def boundary(text: str) -> str | tuple[str, str, str]:
    """``absorbing``, or three for z, y and x between commas. Raises ArgumentError."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 1:
        return parts[0]
    if len(parts) != 3:
        raise ArgumentError(f'boundary "{text}"; use one, or three for z, y and x')
    return parts[0], parts[1], parts[2]


def source(text: str) -> tuple[Source, Place]:
    """See SOURCE. Raises ArgumentError, and DataError for a file that cannot be opened."""
    what, at, where = text.rpartition("@")
    kind, _, rest = what.partition(":")
    value, _, amplitude = rest.rpartition("*") if "*" in rest else (rest, "", "1")
    if "*" in kind:
        kind, _, amplitude = kind.partition("*")
    try:
        loud = float(amplitude)
        if not at or kind not in ("impulse", "ricker", "sine", "wav"):
            raise ValueError
        match kind:
            case "impulse":
                return wave.Impulse(loud), place(where)
            case "ricker":
                return wave.Ricker(float(value), loud), place(where)
            case "sine":
                return wave.Sine(float(value), loud), place(where)
            case _:
                with reading(value, "a recording: a WAV file of PCM samples"):
                    return wave.read_wav(value, loud), place(where)
    except ArgumentError:
        raise
    except ValueError as error:
        raise ArgumentError(f'source "{text}"; use {SOURCE}') from error
