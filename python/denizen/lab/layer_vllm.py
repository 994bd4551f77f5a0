# SPDX-License-Identifier: Apache-2.0
"""vLLM's custom all-reduce for a rank of ``layer``: what ``benchmarks/rivals/vllm.cu`` makes of
vLLM's sources, loaded where it was built.

It does what vLLM's own Python does: buffers of all ranks are opened by CUDA's IPC handles at the
start, and the inputs that a CUDA graph has captured after its capture.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

from denizen.lab import programs
from denizen.lab.record import LabError

NAME = "vLLM's custom all-reduce"
LIBRARY = "vllm_all_reduce.so"
_PLACE = 72  # bytes of a DenizenVllmPlace: an IPC handle and an offset
_BF16 = 1
_POINTER, _INT = ctypes.c_void_p, ctypes.c_int
_CALLS: dict[str, tuple[object, tuple[object, ...]]] = {
    "error": (ctypes.c_char_p, ()),
    "open": (_POINTER, (_INT, _INT, _INT)),
    "close": (None, (_POINTER,)),
    "places": (_INT, (_POINTER, ctypes.c_char_p)),
    "connect": (_INT, (_POINTER, ctypes.c_char_p)),
    "all_reduce": (_INT, (_POINTER, _INT, _POINTER, _POINTER, ctypes.c_uint64, _POINTER)),
    "captured": (_INT, (_POINTER, ctypes.c_char_p)),
    "register": (_INT, (_POINTER, ctypes.c_char_p)),
}

# What each rank gives, to all of them by rank.
Exchange = Callable[[bytes], list[bytes]]


def find() -> Path:
    """The library in DENIZEN_BENCH_DIR or in the build tree; LabError that says how to get it."""
    try:
        return programs.find_program(LIBRARY)
    except LabError as error:
        raise LabError(
            f"{NAME} does not run: there is no {LIBRARY}; `tools/rivals vllm` fetches its sources "
            "and says with which option cmake builds it"
        ) from error


class AllReduce:
    """A rank of ``ranks``, on the device of its number. Calls that fail raise LabError.

    Its kernels wait for those of the other ranks, without a deadline.
    """

    def __init__(self, library: Path, rank: int, ranks: int, exchange: Exchange) -> None:
        self._calls = {}
        try:
            loaded = ctypes.CDLL(str(library))
            for name, (result, arguments) in _CALLS.items():
                call = getattr(loaded, f"denizen_vllm_{name}")
                call.restype, call.argtypes = result, arguments
                self._calls[name] = call
        except (OSError, AttributeError) as error:
            raise LabError(f"{library}: {error}") from error
        self._exchange = exchange
        self._of = self._calls["open"](rank, rank, ranks)
        if not self._of:
            self._fail()
        own = ctypes.create_string_buffer(2 * _PLACE)
        self._call("places", own)
        self._call("connect", b"".join(exchange(own.raw)))

    def __call__(self, source: int, result: int, count: int, stream: int) -> None:
        """Sum ``count`` bfloat16 at the address ``source`` into those at ``result``."""
        self._call("all_reduce", _BF16, source, result, count, stream)

    def register(self) -> None:
        """Tell the other ranks of what has been captured; before the graph is launched, by all."""
        places = ctypes.create_string_buffer(self._call("captured", None) * _PLACE)
        self._call("captured", places)
        self._call("register", b"".join(self._exchange(places.raw)))

    def close(self) -> None:
        """After the last graph, before any rank frees what it has captured."""
        if self._of:
            self._calls["close"](self._of)
        self._of = None

    def _call(self, name: str, *arguments: object) -> int:
        done: int = self._calls[name](self._of, *arguments)
        if done < 0:
            self._fail()
        return done

    def _fail(self) -> None:
        raise LabError(f"{NAME}: {self._calls['error']().decode(errors='replace')}")
