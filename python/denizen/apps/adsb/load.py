# SPDX-License-Identifier: Apache-2.0
"""Reads what ``denizen run adsb`` decodes, in pieces from a file or from stdin."""

from __future__ import annotations

from collections.abc import Iterator

from denizen.apps import iq
from denizen.apps.iq import DataError

__all__ = ["DataError", "pieces"]


def pieces(path: str) -> Iterator[bytes]:
    """The bytes of file ``path``, or of stdin for "-"; raises DataError (iq.pieces)."""
    return iq.pieces(path, iq.FORMATS["u8"], "raw unsigned 8-bit I/Q at 2 Msps")
