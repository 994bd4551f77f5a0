# SPDX-License-Identifier: Apache-2.0
"""ctx.reduce and ctx.scan: the values of all threads that run a handler or a task, combined.

Each is an operation for each way to combine, and on a device a function for each type of number:
`reduce_add_u8` is denizen::Team's reduce() of uint64_t (include/denizen/base/team.hpp).
"""

from __future__ import annotations

from typing import Any

from denizen.handlers import ops

CALLS = ("reduce", "scan")
WAYS = {"add": "denizen::Add{}", "least": "denizen::Least{}", "greatest": "denizen::Greatest{}"}
OPERATIONS = [f"{call}_{way}" for call in CALLS for way in WAYS]
_TYPES = {"i8": "int64_t", "u8": "uint64_t", "f8": "double"}


def functions(used: set[str]) -> dict[str, tuple[str, str, str]]:
    """Name, then result, parameters and body, of a context's functions for these calls."""
    out = {}
    for call in CALLS:
        if call not in used:
            continue
        for way, combine in WAYS.items():
            for code, number in _TYPES.items():
                # Whole numbers wrap.
                within = "uint64_t" if (way, code) == ("add", "i8") else number
                value = f"static_cast<{within}>(value)"
                body = f"denizen::Team(c).{call}({value}, {combine})"
                out[f"{call}_{way}_{code}"] = (
                    number,
                    f"{number} value",
                    f"return static_cast<{number}>({body});",
                )
    return out


class Alone:
    """What a ctx of an interpreter has of its team, which is one thread."""

    lane, lanes = 0, 1

    def sync(self) -> None:
        pass

    def _own(self, value: Any) -> ops.Number:
        return ops.mul(value, 1)

    reduce_add = reduce_least = reduce_greatest = _own
    scan_add = scan_least = scan_greatest = _own
