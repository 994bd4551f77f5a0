# SPDX-License-Identifier: Apache-2.0
"""LLVM's types, and the numbers at the ends of 64 bits."""

from llvmlite import ir

I1, I8, I32, I64 = (ir.IntType(n) for n in (1, 8, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
POINTER = I8.as_pointer()
LEAST, MOST = -(1 << 63), (1 << 63) - 1
