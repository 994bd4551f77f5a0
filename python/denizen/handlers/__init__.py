# SPDX-License-Identifier: Apache-2.0
"""Handlers in Python: how a method of an @denizen.actor becomes code for every device.

rewrite.py   checks a handler against what is allowed and spells its operations out as calls
calls.py     what ctx has, and what it is refused for
ops.py       these operations, as Python runs them: the meaning of a handler
lowering/    the same operations as Numba compiles them, for the CPU and for the GPU
compiled.py  handlers as C functions for CPU threads, and as LTO-IR for a GPU
kept.py      the C functions, kept from one process to the next
text.py      the C++ text around handlers that are linked with it
task_plan.py, task_text.py, task_image.py  the same of tasks; kind_code.py of flow blocks
interpreter/, views.py  device="python": the runtime itself in Python, one step at a time

Numba is an optional package; only lowering and compiled.py import it (kept.py: LLVM alone), and
denizen imports these when a program with Python handlers is compiled.
"""
