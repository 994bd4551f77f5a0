# SPDX-License-Identifier: Apache-2.0
"""What a record says of the machine: device, driver, CPU, commit, time of day."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from denizen.nvml import Nvml


@dataclass(frozen=True, slots=True)
class Machine:
    """Device, driver and CUDA version (None on the CPU backend), and the host's CPU."""

    device: str
    driver: str | None
    cuda: str | None
    cpu: str


def cpu_name() -> str:
    """Model and number of cores this process may use, as in ``AMD EPYC, 2 cores``."""
    model = platform.processor() or platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    if found := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
        model = found.group(1).strip()
    cores = len(os.sched_getaffinity(0))
    return f"{re.sub(r' +', ' ', model)}, {cores} core{'s' if cores != 1 else ''}"


def gpu_index(device: str) -> int | None:
    """The GPU that ``auto``, ``cpu``, ``cpu:4`` or ``gpu:1`` may name; None for the CPU.

    Raises ValueError for any other text.
    """
    if re.fullmatch(r"cpu(:[1-9][0-9]*)?", device):
        return None
    if found := re.fullmatch(r"auto|gpu(?::([0-9]+))?", device):
        return int(found.group(1) or 0)
    raise ValueError(f'device "{device}" is none of auto, cpu, cpu:THREADS, gpu, gpu:INDEX')


def describe(device: str) -> tuple[Machine, Nvml | None]:
    """The machine as ``device`` will use it, and the GPU's sensors if it is a GPU.

    ``auto`` is the CPU where there is no GPU.
    """
    index = gpu_index(device)
    gpu = None if index is None else Nvml.open(index)
    cpu = cpu_name()
    if gpu is None:
        return Machine(device=f"CPU: {cpu}", driver=None, cuda=None, cpu=cpu), None
    name = gpu.name() or f"NVIDIA GPU {index}"
    return Machine(device=name, driver=gpu.driver(), cuda=gpu.cuda(), cpu=cpu), gpu


def slug(device: str) -> str:
    """``device`` as a file name: ``NVIDIA H100 80GB HBM3`` is ``nvidia-h100-80gb-hbm3``."""
    name = re.sub(r"\((r|tm)\)", "", device.lower())
    name = re.sub(r"[^a-z0-9]+", "-", name).strip("-")
    if not name:
        raise ValueError(f"no file name can be made of device {device!r}")
    return name


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def checkout() -> Path | None:
    """The project's checkout: the one this file is tracked in, else the one we are run in.

    The installed package lies outside it, or in an ignored folder of it, or of somebody else's:
    only a repository that tracks this very file counts.
    """
    for folder in (Path(__file__).resolve().parent, Path.cwd()):
        top = _git(folder, "rev-parse", "--show-toplevel")
        tracked = "python/denizen/machine.py"
        if top and _git(Path(top), "ls-files", "--error-unmatch", tracked) is not None:
            return Path(top)
    return None


# What a benchmark writes itself does not make a tree dirty.
_OWN = ("benchmarks/results/", "docs/figures.md")


def commit() -> str:
    """The commit of the checkout, ``-dirty`` with uncommitted changes, ``unknown`` without one.

    For a copy of the tree without its history, DENIZEN_COMMIT names the commit, and the copy is
    dirty unless each file is the one that DENIZEN_COMMIT_FILES lists (``git ls-tree -r COMMIT``,
    written where the history is). In a checkout neither is read: git knows better.
    """
    return _commit()[0]


def why_dirty() -> str | None:
    """What makes the commit that commit() names a dirty one; None if nothing does."""
    return _commit()[1]


def _commit() -> tuple[str, str | None]:
    given = os.environ.get("DENIZEN_COMMIT") or "unknown"
    if not re.fullmatch(r"[0-9a-f]{40}|unknown", given):
        return given, None  # for who writes a record to refuse
    top = checkout()
    head = None if top is None else _git(top, "rev-parse", "HEAD")
    if top is None or head is None:
        listing = os.environ.get("DENIZEN_COMMIT_FILES")
        why = _changed(Path(listing)) if listing else "DENIZEN_COMMIT_FILES is not set"
        return (given, None) if why is None or given == "unknown" else (f"{given}-dirty", why)
    changed = _git(top, "status", "--porcelain", "--", ".", *(f":!{name}" for name in _OWN))
    if changed == "":
        return head, None
    return f"{head}-dirty", f"{top} has changes: git status" if changed else "git status failed"


def _changed(listing: Path) -> str | None:
    """The first file of ``listing`` that does not lie in the folder we are run in as git would
    store it; None if all do."""
    name = str(listing)
    try:
        lines = listing.read_text(encoding="utf-8").splitlines()
        for line in lines:
            what, _, name = line.partition("\t")
            mode, _, identity = what.split()
            path = Path(name)
            if name.startswith(_OWN):
                continue
            linked = mode == "120000"
            held = os.readlink(path).encode() if linked else path.read_bytes()
            found = hashlib.sha1(b"blob %d\0" % len(held) + held, usedforsecurity=False)
            if found.hexdigest() != identity:
                return f"{path.absolute()} is not the commit's"
    except OSError as error:
        return f"{Path(name).absolute()}: {error.strerror}; run it in the folder of the copy"
    except ValueError:
        return f"{listing} is not what git ls-tree -r writes"
    return None if lines else f"{listing} is empty"


def utc_now() -> str:
    """The time now as ``2026-11-21T20:04:29Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
