# SPDX-License-Identifier: Apache-2.0
"""A kernel of Triton, which reads its source from a module's file."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def add(x, y, value, BLOCK: tl.constexpr):  # noqa: N803 (a compile-time constant, as Triton writes it)
    """y = x + value, for arrays of a multiple of BLOCK elements."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) + value)
