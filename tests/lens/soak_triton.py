# SPDX-License-Identifier: Apache-2.0
"""Triton's kernel of soak.py: Triton reads a kernel's source from a file."""

import triton
import triton.language as tl


@triton.jit
def add_one(x, n, block: tl.constexpr):
    at = tl.arange(0, block)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
