# SPDX-License-Identifier: Apache-2.0
"""The experiment ``io``: blocks that handlers write to a file.

By a service of the host (both engines), and by the host itself: the same handlers send the same
messages, and the program's own thread receives them in batches and writes. Each by turns in one
runtime, the service by io_uring once more in each round, as A/A. What the file has is compared with
what was to be written, outside of the times.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import denizen
from denizen import io
from denizen.lab.record import Measured, Scalar

_TIMEOUT = 120.0
_SIZES = (64, 1024, 8192)


Begin = denizen.message("Begin", [("file", "u4"), ("count", "u4")])
Finished = denizen.message("Finished", [("failed", "u4")])
_TEXT = """
struct Producer {
    uint32_t left = 0;
    uint32_t failed = 0;
    void on(const Begin& m, auto& ctx)
    {
        left = m.count;
        failed = 0;
        Block block{};
        block.file = m.file;
        block.length = sizeof block.bytes;
        block.offset = ~uint64_t{0};
        for (uint32_t i = 0; i < m.count; ++i) {
            for (uint32_t digit = 0; digit < 4; ++digit) {
                block.bytes[digit] = static_cast<uint8_t>(i >> (8 * digit));
            }
            ctx.send(denizen::host, block);
        }
    }
    void on(const IoDone& m, auto& ctx)
    {
        failed += m.error != 0 ? 1 : 0;
        if (--left == 0) {
            ctx.send(denizen::host, Finished{failed});
        }
    }
};
"""
_Block = denizen.MessageType


def program(size: int) -> tuple[denizen.Program, _Block]:
    """A producer of blocks of so many bytes; its program, and the blocks' type."""
    block = io.write("Block", size)
    messages = [Begin, Finished, io.Done, block]
    name = f"producer of {size} bytes"
    return denizen.Program(_TEXT, actors=["Producer"], messages=messages, name=name), block


def _expected(size: int, count: int) -> bytes:
    blocks = np.zeros((count, size), np.uint8)
    blocks[:, :4] = np.arange(count, dtype="<u4").view(np.uint8).reshape(count, 4)
    return blocks.tobytes()


def _by_service(
    rt: denizen.Runtime, producer: int, _: _Block, path: Path, n: int, *, engine: Any = "automatic"
) -> tuple[float, bool]:
    mode = io.WRITE | io.CREATE | io.TRUNCATE
    with io.Service(rt, path.parent, modes=mode, engine=engine) as service:
        file = service.open(path.name, mode)
        begin = time.perf_counter()
        rt.send(producer, Begin(file, n))
        finished = rt.receive(timeout=_TIMEOUT)
        return time.perf_counter() - begin, not finished.message["failed"]


def _by_host(
    rt: denizen.Runtime, producer: int, block: _Block, path: Path, n: int
) -> tuple[float, bool]:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        begin = time.perf_counter()
        rt.send(producer, Begin(0, n))
        left = n
        while left:
            blocks, _ = rt.receive_many(block, min(left, 1024))
            if blocks.size:
                os.write(file, np.ascontiguousarray(blocks["bytes"]).data)
                left -= blocks.size
            elif time.perf_counter() - begin > _TIMEOUT:
                return _TIMEOUT, False
        return time.perf_counter() - begin, True
    finally:
        os.close(file)


def measure(device: str, *, quick: bool) -> list[Measured]:
    """MiB/s from the order to begin until the last block is written (and answered)."""
    rounds = 2 if quick else 10
    ways: dict[tuple[str, str], Callable[..., tuple[float, bool]]] = {
        ("by handlers", ""): _by_service,
        ("by handlers", "A/A"): _by_service,
        ("by handlers, portable", ""): partial(_by_service, engine="portable"),
        ("received and written by the host", ""): _by_host,
    }
    made = []
    for size in _SIZES:
        count = (2_000_000 if quick else 16_000_000) // max(size, 256)
        expected = _expected(size, count)
        rates: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
        right = dict.fromkeys(ways, True)
        compiled, block = program(size)
        with (
            tempfile.TemporaryDirectory() as folder,
            denizen.Runtime(compiled, device, local_slots=4096, outbox_slots=65536) as rt,
        ):
            (producer,) = rt.spawn("Producer")
            path = Path(folder) / "blocks"
            for turn in range(-1, rounds):  # the first is a warm-up
                for way in list(ways) if turn % 2 else list(reversed(ways)):
                    seconds, whole = ways[way](rt, int(producer), block, path, count)
                    right[way] &= whole and path.read_bytes() == expected
                    if turn >= 0:
                        rates[way].append(len(expected) / seconds / 2**20)
        params: dict[str, Scalar] = {"bytes": size}
        for case, again in ways:
            samples = np.array(rates[case, again])
            rival = case != "by handlers"
            base = ("by handlers",) if rival else ()
            made.append(
                Measured(
                    case,
                    params,
                    "MiB/s",
                    samples,
                    samples.size * count,
                    right[case, again],
                    base,
                    again,
                    rounds=rounds,
                )
            )
    return made
