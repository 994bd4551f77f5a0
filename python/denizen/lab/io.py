# SPDX-License-Identifier: Apache-2.0
"""The experiment ``io``: blocks that handlers write to a file.

An actor has 64 blocks under way and sends the next one when one is answered. By a service of the
host (both engines), and by the host itself: the same actor sends the same messages, and the
program's own thread receives them in batches, writes and answers. On a GPU once more by handlers of
a warp, whose lanes write a message together. Each by turns in one runtime, the service by io_uring
once more in each round, as A/A. What the file has is compared with what was to be written, outside
of the times.
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
_UNDER_WAY = 64


Begin = denizen.message("Begin", [("file", "u4"), ("count", "u4"), ("under_way", "u4")])
Finished = denizen.message("Finished", [("failed", "u4")])
_TEXT = """
struct Producer {
    uint32_t file = 0;
    uint32_t count = 0;
    uint32_t sent = 0;
    uint32_t done = 0;
    uint32_t failed = 0;
    void on(const Begin& m, auto& ctx)
    {
        const uint32_t first = m.under_way < m.count ? m.under_way : m.count;
        if (ctx.lane() == 0) {
            *this = {m.file, m.count, first, 0, 0};
        }
        ctx.sync();
        for (uint32_t i = 0; i < first; ++i) {
            write(i, ctx);
        }
    }
    void on(const IoDone& m, auto& ctx)
    {
        const uint32_t next = sent;
        ctx.sync();
        if (ctx.lane() == 0) {
            sent += next < count ? 1 : 0;
            ++done;
            failed += m.error != 0 ? 1 : 0;
        }
        ctx.sync();
        if (next < count) {
            write(next, ctx);
        } else if (done == count) {
            ctx.send(denizen::host, Finished{failed});
        }
    }
    void write(uint32_t number, auto& ctx)
    {
        Block block{};
        block.file = file;
        block.length = sizeof block.bytes;
        block.offset = ~uint64_t{0};
        for (uint32_t digit = 0; digit < 4; ++digit) {
            block.bytes[digit] = static_cast<uint8_t>(number >> (8 * digit));
        }
        ctx.send(denizen::host, block);
    }
};
struct Warp : Producer {
    static constexpr auto grain = denizen::Grain::warp;
};
"""
_Block = denizen.MessageType


def program(size: int) -> tuple[denizen.Program, _Block]:
    """Producers of blocks of so many bytes; their program, and the blocks' type."""
    block = io.write("Block", size)
    messages = [Begin, Finished, io.Done, block]
    name = f"producers of {size} bytes"
    return denizen.Program(_TEXT, actors=["Producer", "Warp"], messages=messages, name=name), block


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
        rt.send(producer, Begin(file, n, _UNDER_WAY))
        finished = rt.receive(timeout=_TIMEOUT)
        return time.perf_counter() - begin, not finished.message["failed"]


def _by_host(
    rt: denizen.Runtime, producer: int, block: _Block, path: Path, n: int
) -> tuple[float, bool]:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        begin = time.perf_counter()
        rt.send(producer, Begin(0, n, _UNDER_WAY))
        left = n
        while left:
            blocks, _ = rt.receive_many(block, min(left, _UNDER_WAY))
            if blocks.size:
                os.write(file, np.ascontiguousarray(blocks["bytes"]).data)
                rt.send_many(producer, io.Done.zeros(blocks.size))
                left -= blocks.size
            elif time.perf_counter() - begin > _TIMEOUT:
                return _TIMEOUT, False
        finished = rt.receive(timeout=_TIMEOUT)
        return time.perf_counter() - begin, not finished.message["failed"]
    finally:
        os.close(file)


_Way = tuple[str, Callable[..., tuple[float, bool]]]  # a type of actor, and who writes
_WAYS: dict[tuple[str, str], _Way] = {
    ("by handlers", ""): ("Producer", _by_service),
    ("by handlers", "A/A"): ("Producer", _by_service),
    ("by handlers, portable", ""): ("Producer", partial(_by_service, engine="portable")),
    ("received and written by the host", ""): ("Producer", _by_host),
}
_ON_GPU: dict[tuple[str, str], _Way] = {("by handlers of a warp", ""): ("Warp", _by_service)}


def measure(device: str, *, quick: bool) -> list[Measured]:
    """MiB/s from the order to begin until the last block is written (and answered)."""
    rounds = 2 if quick else 10
    ways = _WAYS if device.startswith("cpu") else _WAYS | _ON_GPU
    made = []
    for size in _SIZES:
        count = (2_000_000 if quick else 16_000_000) // max(size, 256)
        expected = _expected(size, count)
        rates: dict[tuple[str, str], list[float]] = {way: [] for way in ways}
        right = dict.fromkeys(ways, True)
        compiled, block = program(size)
        with tempfile.TemporaryDirectory() as folder, denizen.Runtime(compiled, device) as rt:
            producers = {name: int(rt.spawn(name)[0]) for name in ("Producer", "Warp")}
            path = Path(folder) / "blocks"
            for turn in range(-1, rounds):  # the first is a warm-up
                for way in list(ways) if turn % 2 else list(reversed(ways)):
                    actor, write = ways[way]
                    seconds, whole = write(rt, producers[actor], block, path, count)
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
