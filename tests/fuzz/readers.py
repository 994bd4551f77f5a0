# SPDX-License-Identifier: Apache-2.0
"""Files that others wrote, changed at random, against the readers in Python.

What they cannot read they refuse by a named error, in bounded time.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import numpy as np
from rich.console import Console

from denizen import iq, procmine, serving
from denizen.apps.transactions import load as transactions
from denizen.apps.transactions.records import Rules
from denizen.cluster.snapshots import Saved
from denizen.errors import DataError, DenizenError
from denizen.infer.from_onnx import from_onnx
from denizen.lab import record
from denizen.lens import log as lens_log
from denizen.lens import perfetto, summary
from denizen.procmine import read as read_log
from denizen.telemetry import ActorType, Durations, SlowHandler, Telemetry, Worker
from denizen.top import command, screen
from denizen.trace import TRACE_RECORD, write_perfetto

CONSOLE = Console(file=open(os.devnull, "w"), width=120)  # noqa: SIM115
SLOW = 5.0  # seconds that none of these small files may take
CAPTURES = Path(__file__).resolve().parents[1] / "lens" / "captures"
XES = b"""<?xml version="1.0" encoding="UTF-8"?>
<log xes.version="1.0"><trace><string key="concept:name" value="case 1"/>
<event><string key="concept:name" value="a"/>
<date key="time:timestamp" value="2024-01-02T03:04:05.678+01:00"/>
<int key="cost" value="3"/></event><event><string key="concept:name" value="b &amp; c"/>
<date key="time:timestamp" value="2024-01-02T03:05:05Z"/></event></trace></log>
"""
CSV = b'''case,activity,timestamp,cost
1,a,2024-01-02T03:04:05,3
1,"b, ""c""",2024-01-02 03:05:05+02:00,
2,a,1704164705,4
'''


def samples(name: str, **options: object) -> bytes:
    """A file as the package itself writes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        sink = iq.create(str(path), **options)
        sink.write((np.arange(200) % 7 / 7 * (1 + 0.5j)).astype(np.complex64))
        sink.close()
        return path.read_bytes()


def read_samples(path: Path) -> None:
    source = iq.open(str(path))
    try:
        for _ in source.blocks():
            pass
    finally:
        source.close()


def read_described(path: Path) -> None:
    path.with_suffix(".sigmf-data").write_bytes(bytes(400))
    read_samples(path)


def read_capture(path: Path) -> None:
    capture = lens_log.read(path)
    for submission in capture.submissions:
        _ = submission.segments


def read_capture_as_trace(path: Path) -> None:
    """What ``denizen lens report --trace`` does."""
    capture = lens_log.read(path)
    perfetto.write("/dev/null", [(capture, summary.decoded(capture))])


def read_trace(path: Path) -> None:
    """Records as a program's workers leave them, of any content."""
    data = path.read_bytes()
    records = np.frombuffer(
        data[: len(data) // TRACE_RECORD.itemsize * TRACE_RECORD.itemsize], TRACE_RECORD
    )
    write_perfetto("/dev/null", records, actors=["A"], messages=["M", "N"], workers_per_node=2)


def trace() -> bytes:
    records = np.zeros(40, TRACE_RECORD)
    records["start_ns"] = np.arange(40) * 100
    records["duration_ns"] = 150
    records["stamp"] = np.arange(40) // 2
    records["worker"] = np.arange(40) % 4
    records["kind"] = 1 + np.arange(40) % 2
    return records.tobytes()


def read_telemetry(path: Path) -> None:
    """An answer of a server that need not be ours, as ``denizen top`` shows it."""
    body = path.read_bytes()
    serving.get = lambda *_, **__: (200, body)
    now = command.read("http://127.0.0.1:1/")
    for before in None, now:
        for size in ((80, 24), (200, 60)):
            CONSOLE.print(screen.render(now, before, *size))


def telemetry() -> bytes:
    few = Durations(3, 1.0, 1e-7, 9e-7, 1e-5, 1e-3, 2.0, (3,) + (0,) * 155)
    worker = Worker(
        node=0, number=1, mode="running", actors=10, handled=5, batches=100, idle_rounds=300,
        dead_letters=0, host_ring=0, inbox=0, near=0, outbox=0, sent=(1, 2, 3, 4, 5, 6), busy=0.5,
        busy_actor=7, busy_message="Hop",
    )  # fmt: skip
    whole = Telemetry(
        time=100.0, device_time=5.0, observed=True, mode="running", handled=12, dead_letters=2,
        errors=3, launches=1, sent=(1, 2, 3, 4, 5, 6), workers=(worker, worker),
        actor_types=(ActorType("A", 4, 12, few, few),), slowest=(SlowHandler(7, "A", "Hop", 2.0),),
    )  # fmt: skip
    return json.dumps(asdict(screen.Snapshot("a program", "a device", whole, {}))).encode()


def read_cluster(path: Path) -> None:
    """The index of a cluster's snapshot, in its folder."""
    (path.parent / "1-host-0.dzs").write_bytes(b"a host")
    saved = Saved.read(path.parent)
    for host in range(len(saved.devices)):
        saved.file(host)
    saved.number()


def cluster() -> bytes:
    file = {"name": "1-host-0.dzs", "sha256": sha256(b"a host").hexdigest()}
    return json.dumps({"format": 1, "number": 3, "devices": ["cpu:1"], "files": [file]}).encode()


RULES = json.dumps(asdict(Rules())).encode()
REFERENCE = b'{"edges": [["a", "b"], {"from": "b", "to": "c"}], "starts": ["a"], "ends": ["c"]}'
RECORDS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def graphs() -> list[bytes]:
    """Small models of ONNX."""
    import onnx  # noqa: PLC0415
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    random_ = np.random.default_rng(1)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random_.standard_normal(shape).astype(np.float32), name)

    made = []
    for nodes, weights in (
        (
            [
                helper.make_node("MatMul", ["x", "w"], ["a"]),
                helper.make_node("Add", ["a", "b"], ["c"]),
                helper.make_node("Relu", ["c"], ["y"]),
            ],
            [weight("w", 4, 3), weight("b", 3)],
        ),
        (
            [helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=2)],
            [weight("w", 1, 8, 4), weight("r", 1, 8, 2), weight("b", 1, 16)],
        ),
    ):
        graph = helper.make_graph(
            nodes,
            "graph",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, 1, 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        made.append(model.SerializeToString())
    return made


Reader = tuple[str, list[bytes], Callable[[Path], object]]


def readers() -> list[Reader]:
    described = (
        b'{"global": {"core:datatype": "ci16_le", "core:sample_rate": 2000000, '
        b'"core:version": "1.0.0", "core:num_channels": 1}, "captures": [{"core:sample_start": 0}],'
        b' "annotations": []}'
    )
    # The beginnings of real ones: what is cut off within a record is read as far as it goes.
    captures = [
        gzip.decompress(p.read_bytes())[:20_000] for p in sorted(CAPTURES.glob("*.lens.gz"))
    ]
    return [
        (
            "x.wav",
            [samples("x.wav", form=form, rate=48_000) for form in ("u8", "i16", "f32")],
            read_samples,
        ),
        ("x.sigmf-meta", [described], read_described),
        ("x.xes", [XES], read_log),
        ("x.csv", [CSV], read_log),
        ("x.lens", captures, read_capture),
        ("x.perfetto", captures, read_capture_as_trace),
        ("x.trace", [trace()], read_trace),
        ("x.telemetry", [telemetry()], read_telemetry),
        ("cluster.json", [cluster()], read_cluster),
        ("reference.json", [REFERENCE], procmine.Reference.read),
        ("rules.json", [RULES], transactions.rules),
        ("record.json", [p.read_bytes() for p in sorted(RECORDS.glob("wave/*.json"))], record.read),
        ("x.onnx", graphs(), from_onnx),
    ]


def change(data: bytes, other: bytes, random_: random.Random) -> bytes:
    """One to four changes: of bits, words, numbers in text, or whole pieces."""
    out = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 4))):
        if not out:
            break
        at = random_.randrange(len(out))
        length = min(len(out) - at, 1 << random_.randrange(8))
        match random_.randrange(9):
            case 0:
                out[at] ^= 1 << random_.randrange(8)
            case 1:
                out[at : at + 4] = struct.pack(
                    "<I", random_.choice((0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 1 << random_.randrange(32)))
                )
            case 2:
                out[at : at + 8] = struct.pack("<Q", random_.getrandbits(64))
            case 3:
                del out[at : at + length]
            case 4:
                out[at:at] = out[at : at + length] * random_.choice((1, 1, 50))
            case 5:
                begin = random_.randrange(len(other) or 1)
                out[at:at] = other[begin : begin + length]
            case 6:
                del out[at:]
            case 7:
                out[at : at + 1] = random_.choice(
                    (b"\0", b"\xff", b"\n", b'"', b"<", b"&", b"{", b"\xef\xbb\xbf")
                )
            case _:  # a number in text
                digits = [i for i, c in enumerate(out) if 48 <= c < 58]
                if digits:
                    i = random_.choice(digits)
                    out[i : i + 1] = random_.choice(
                        (b"-1", b"1e999", b"99999999999999999999", b"nan", b"0x1")
                    )
    return bytes(out)


def fuzz(reader: Reader, seconds: float, seed: int) -> bool:
    """Whether every file was read or refused by name."""
    name, corpus, read = reader
    random_ = random.Random(seed)
    count = refused = 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        while time.monotonic() - begin < seconds:
            data = change(random_.choice(corpus), random_.choice(corpus), random_)
            path.write_bytes(data)
            count += 1
            started = time.monotonic()
            try:
                read(path)
            except (DenizenError, DataError, record.LabError):
                refused += 1
            except BaseException:
                kept = Path.cwd() / f"crash-{name}"
                kept.write_bytes(data)
                traceback.print_exc()
                print(f"{name:14} FAILED at input {count}; it is kept in {kept}")
                return False
            if time.monotonic() - started > SLOW:
                Path(f"slow-{name}").write_bytes(data)
                print(
                    f"{name:14} FAILED: input {count} took over {SLOW} s; it is kept in slow-{name}"
                )
                return False
    print(f"{name:14} {count:9,} inputs, {refused:,} refused by name", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=60, help="for each reader")
    parser.add_argument("--list", action="store_true", help="the readers' names, and end")
    parser.add_argument("reader", nargs="*", help="such as x.wav; all if none")
    parser.add_argument("--seed", type=int, default=None, help="else another one each time")
    given = parser.parse_args()
    if given.list:
        print(*(name for name, _, _ in readers()), sep="\n")
        return 0
    seed = given.seed if given.seed is not None else time.time_ns() % (1 << 32)
    print(f"seed {seed}")
    chosen = [r for r in readers() if not given.reader or r[0] in given.reader]
    return 0 if all([fuzz(r, given.seconds, seed) for r in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main())
