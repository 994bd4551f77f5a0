# SPDX-License-Identifier: Apache-2.0
"""ctx.all_reduce and the other collectives that handlers or tasks of all ranks call together.

They are denizen::group::Inside's (include/denizen/group/inside.hpp). On a device and in a library
there is a function for each type of elements that the program's arrays have; on CPU threads without
a compiler, for all. A rank is a buffer, or in a program of tasks alone an address.
"""

from __future__ import annotations

KINDS = ("barrier", "all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all")
REDUCTIONS = ("sum", "min", "max", "avg")
OPERATION = "collective"  # of ops.py: any of them but the barrier
BY_ADDRESS = 2**64 - 1  # the bytes of a rank that is given so: by_address of from_handler.hpp
TYPES = {"f4": "float", "f8": "double", "i4": "int32_t", "i8": "int64_t", "u1": "uint8_t"}

INCLUDE = "#include <denizen/group/detail/from_handler.hpp>\n"
_ARRAYS = "const void* in, uint64_t ins, void* out, uint64_t outs"


def functions(
    used: set[str], elements: set[str], grains: set[str], enumeration: str = "denizen::Grain"
) -> dict[str, tuple[str, str, str]]:
    """Name, then result, parameters and body, of a context's functions for these calls.

    Args:
        used: what handlers or tasks call of their context.
        elements: the types of the arrays that they have.
        grains: of those that make such calls.
        enumeration: what the grains are in C++.
    """
    names = [f"{enumeration}::{g}" for g in sorted(grains)]
    out = {}
    if used & {*KINDS} - {"barrier"}:
        for code in sorted(elements & TYPES.keys()):
            t = TYPES[code]
            call = (
                f"denizen::group::call_from_handler<GRAIN, {t}>(\n            "
                "buffer, bytes, denizen::group::Kind{kind}, denizen::group::Op{op}, root,\n"
                f"            {{static_cast<const {t}*>(in), ins}}, "
                f"{{static_cast<{t}*>(out), outs}})"
            )
            out[f"{OPERATION}_{code}"] = (
                "uint32_t",
                "const void* buffer, uint64_t bytes, uint32_t kind, uint32_t op, uint32_t root, "
                + _ARRAYS,
                _by_grain(call, names),
            )
    if "barrier" in used:
        call = "denizen::group::meet_from_handler<GRAIN>(buffer, bytes)"
        out["barrier"] = "uint32_t", "const void* buffer, uint64_t bytes", _by_grain(call, names)
    return out


def _by_grain(call: str, grains: list[str]) -> str:
    """The call by one of these grains, a thread or a warp, which has more than one lane on a
    device."""
    ways = [call.replace("GRAIN", g) for g in grains]
    if len(ways) == 1:
        return f"return {ways[0]} ? 1 : 0;"
    return f"return (c.lanes() == 1 ? {ways[0]}\n                           : {ways[1]}) ? 1 : 0;"
