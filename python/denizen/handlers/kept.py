# SPDX-License-Identifier: Apache-2.0
"""Handlers as machine code for this processor, kept from one process to the next.

What Numba has made of a handler is an object file of a few KB, which LLVM loads by itself: a
program that was compiled before starts without Numba, whose import takes longer than all else.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from denizen.cache import open_cache

_ENTRY = "<IBBHQQ"  # of a symbol table: name, kind, other, section, value, size
_SYMBOLS = 2  # the type of a section that is one


@cache
def _compiler() -> str:
    """All that decides what becomes of a handler, besides the handler."""
    # Both only for programs with handlers in Python, and CPU threads.
    from importlib import metadata  # noqa: PLC0415

    from llvmlite import binding  # noqa: PLC0415

    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    parts = [metadata.version("numba"), metadata.version("llvmlite"), platform.python_version()]
    parts += [binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()]
    parts += [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("NUMBA_")]
    return "\0".join([digest.hexdigest(), *parts])


def _name(key: str) -> str:
    return hashlib.sha256(f"{key}\0{_compiler()}".encode()).hexdigest()[:32] + ".handler"


def keep(key: str, symbol: str, code: bytes) -> None:
    """Keeps the object file that defines a handler as ``symbol``."""
    head = json.dumps({"symbol": symbol, "needs": sorted(_missing(code))}).encode()
    with open_cache() as kept:
        kept.keep_code(_name(key), struct.pack("<I", len(head)) + head + code)


def find(key: str) -> tuple[int, Any] | None:
    """The address of a handler that was kept, and what must live as long as it is called; None if
    there is none, or if it calls what is not in this process."""
    with open_cache() as kept:
        data = kept.code(_name(key))
    if data is None:
        return None
    from llvmlite import binding  # noqa: PLC0415

    (size,) = struct.unpack_from("<I", data)
    head = json.loads(data[4 : 4 + size])
    # LLVM ends the process where a symbol is missing.
    if any(binding.address_of_symbol(name) is None for name in head["needs"]):
        return None
    return load(head["symbol"], data[4 + size :])


def load(symbol: str, code: bytes) -> tuple[int, Any]:
    """The address of what an object file defines as ``symbol``, and what must live as long."""
    from llvmlite import binding  # noqa: PLC0415

    # A handler has an engine to itself: another program's may have the same name.
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine.get_function_address(symbol), engine


def _missing(code: bytes) -> Iterator[str]:
    """The symbols that an object file (64-bit ELF) uses and does not define."""
    (sections,) = struct.unpack_from("<Q", code, 0x28)
    (count,) = struct.unpack_from("<H", code, 0x3C)
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, sections + 64 * i) for i in range(count)]
    for _, kind, _, _, offset, size, link, *_ in headers:
        if kind == _SYMBOLS:
            names = headers[link][4]
            for at in range(offset + struct.calcsize(_ENTRY), offset + size, 24):
                name, _, _, section, _, _ = struct.unpack_from(_ENTRY, code, at)
                if section == 0:  # undefined
                    start = names + name
                    yield code[start : code.index(b"\0", start)].decode()
