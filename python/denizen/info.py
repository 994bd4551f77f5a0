# SPDX-License-Identifier: Apache-2.0
"""``denizen info``: what a runtime uses on this machine, found out by starting one."""

from __future__ import annotations

import platform

import denizen
from denizen import machine, terminal
from denizen.lab import cases

_MEMORY = {
    "mapped": "device memory that the CPU writes",
    "pinned": "pinned host memory",
    "host": "ordinary memory, shared by the threads",
}


def rows(device: str) -> list[tuple[str, str]]:
    """What to show of a runtime on ``device``; raises DenizenError if none can be started there."""
    with (
        terminal.working("starting a program"),
        denizen.Runtime(cases.echo_program(), device=device) as rt,
    ):
        found = rt.description
    gpu = bool(found["on_gpu"])
    memory = str(found["host_ring_memory"])
    lines = [
        ("denizen", f"{denizen.__version__}, Python {platform.python_version()}"),
        ("device", str(found["device"])),
        ("backend", "GPU, resident kernel" if gpu else "CPU threads"),
        ("workers", f"{found['workers']:,}: {found['geometry']}"),
        ("host to worker", _MEMORY.get(memory, memory)),
    ]
    if gpu and memory != "mapped":
        lines.append(("why not mapped", str(found["why_not_mapped"])))
    if not gpu and (problem := denizen.gpu_problem()):
        lines.append(("why no GPU", problem))
    lines += [
        ("CPU", machine.cpu_name()),
        ("memory taken", f"{found['device_bytes'] / 1e6:.1f} MB near the workers, "
                         f"{found['host_bytes'] / 1e6:.1f} MB of the host"),
        ("start", f"{found['start_ms']:.1f} ms, compiled before"),
        ("headers", str(denizen.get_include())),
    ]  # fmt: skip
    return lines


def show(device: str) -> int:
    """Print it; the exit status."""
    terminal.table("denizen info", ("", ""), rows(device))
    return 0
