# SPDX-License-Identifier: Apache-2.0
"""What every source and every sink of I/Q can do, wherever its bytes come from or go to."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.closing import Closing
from denizen.iq.format import DataError, Format
from denizen.shown import Shown


class Source(Shown, Closing):
    """A stream of samples that can be read once, by :meth:`pieces` or by :meth:`blocks`.

    ``name`` stands in front of errors; ``form`` is how its bytes are meant; ``rate`` its samples a
    second, None where nothing says so. ``live``: it has no end of its own.
    """

    live = False

    def __init__(self, name: str, form: Format, rate: int | None, expected: str) -> None:
        self.name = name
        self.form = form
        self.rate = rate
        self._expected = expected

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("of", self.name),
            ("as", self.form.name),
            ("at", "a rate that it does not say" if self.rate is None else f"{self.rate:,} Hz"),
        ]

    @property
    def expected(self) -> str:
        """What should have been given, for the end of an error."""
        return f"raw {self.form.name} {self._expected}"

    @property
    def losses(self) -> str:
        """What was lost on the way, as words; empty if nothing was."""
        return ""

    def pieces(self) -> Iterator[bytes]:
        """The bytes as they come; a piece may end within a sample. Raises DataError."""
        raise NotImplementedError

    def blocks(self) -> Iterator[NDArray[np.complex64]]:
        """The samples as they come, full scale being 1, in blocks of any length.

        Raises DataError for what is no such I/Q, also for a floating-point value that is none; what
        came before it has been given.
        """
        rest = b""
        total = 0
        for piece in self.pieces():
            data = rest + piece if rest else piece
            whole = len(data) // self.form.size * self.form.size
            rest = data[whole:]
            block = self.form.samples(data[:whole])
            if np.dtype(self.form.dtype).kind == "f":
                self._check_floats(block, total)
            total += len(block)
            if len(block):
                yield block

    def _check_floats(self, block: NDArray[Any], begin: int) -> None:
        parts = block.view(np.float32)
        sane = np.abs(parts) < 1e6  # also false for what is not a number
        if not sane.all():
            first = int(np.argmin(sane))
            raise DataError(
                f"{self.name}: sample {begin + first // 2:,} is {parts[first]:g}; "
                f"expected {self.expected}"
            )

    def close(self) -> None:
        """Give back what is open; reading ends."""


class Sink(Shown):
    """Where samples go. ``form``: how they are kept; closing it finishes what was written."""

    def __init__(
        self,
        name: str,
        form: Format,
        put: Callable[[bytes], object],
        close: Callable[[], object],
        discard: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        self.form = form
        self._put = put
        self._close = close
        self._discard = discard  # takes away what could not be written whole
        self._failed = False

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("to", self.name),
            ("as", self.form.name),
        ]

    def write(self, samples: NDArray[np.complex64]) -> None:
        """Samples of full scale 1; what is beyond is clipped, but not of floats."""
        self.write_bytes(self.form.bytes(samples))

    def write_bytes(self, data: bytes) -> None:
        """Whole samples as they are kept. Raises DataError if they cannot be taken."""
        try:
            self._put(data)
        except OSError as error:
            raise self._fail(error) from error

    def close(self) -> None:
        """Finish what was written; a file takes its place now. After an error nothing is left."""
        if self._failed:
            return
        try:
            self._close()
        except OSError as error:
            raise self._fail(error) from error

    def _fail(self, error: OSError) -> DataError:
        self._failed = True
        if self._discard is not None:
            with contextlib.suppress(OSError):
                self._discard()
        return DataError(f"{self.name}: {error.strerror or error}")

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
            return
        with contextlib.suppress(DataError):  # the first error is the one to tell
            self.close()
