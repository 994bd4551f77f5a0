# SPDX-License-Identifier: Apache-2.0
"""A GPU's context, opened as any program of CUDA does first."""

from __future__ import annotations

import ctypes

from denizen.lab.record import LabError


def open_context(ordinal: int) -> None:
    """The GPU's primary context, which the runtime has before a program begins, and which takes
    as long to make as some of them run: so a program alone has it, too."""
    driver = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    error = driver.cuInit(0) or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal)
    if error:
        raise LabError(f"GPU {ordinal} has no context: the CUDA driver says {error}")
