# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen run transactions``."""

from __future__ import annotations

import argparse
from pathlib import Path

from denizen.apps.hosts import add_hosts
from denizen.arguments import Commands, add_device, port, to_write, to_write_or_stdout


def _change(text: str) -> tuple[int, Path]:
    place, _, file = text.partition("=")
    if not place.isdecimal() or not file:
        raise argparse.ArgumentTypeError(f'"{text}" is no PLACE=FILE.json')
    return int(place), Path(file)


def _npz(text: str) -> Path:
    if not text.endswith(".npz"):
        raise argparse.ArgumentTypeError(f"{text}: a model's file ends in .npz")
    return to_write(text)


def add(commands: Commands) -> None:
    tx = commands.add_parser("transactions", help="rules over a stream of payments")
    tx.add_argument("file", nargs="?", metavar="FILE", help="transactions; -: stdin")
    tx.add_argument(
        "--format",
        dest="form",
        choices=("csv", "parquet", "arrow", "raw"),
        help="of FILE, if its name does not tell",
    )
    tx.add_argument("--profiles", metavar="FILE", help="what is known of customers")
    tx.add_argument(
        "--rules",
        type=Path,
        metavar="JSON",
        help="instead of the default rules; read again on SIGHUP",
    )
    tx.add_argument(
        "--change",
        dest="changes",
        type=_change,
        action="append",
        default=[],
        metavar="PLACE=JSON",
        help="other rules from that record of the stream on; may be given again",
    )
    tx.add_argument(
        "--alerts",
        type=to_write_or_stdout,
        metavar="OUT",
        help="lines of JSON, or .arrow; -: stdout, the table to stderr",
    )
    tx.add_argument("--workers", type=int, metavar="N", help="GPU: warps, seven fill an SM")
    tx.add_argument("--shards", type=int, help="actors; one for each worker if not given")
    tx.add_argument("--batch", type=int, default=0, help="records looked at together")
    tx.add_argument(
        "--memory", type=int, default=0, metavar="MIB", help="most for customers; 0: what there is"
    )
    tx.add_argument("--check", action="store_true", help="compare with the sequential reference")
    tx.add_argument("--drill", type=int, metavar="SEED", help="have shards fail at random places")
    tx.add_argument("--metrics", type=port, metavar="PORT", help="serve Prometheus metrics")
    tx.add_argument(
        "--save", type=to_write_or_stdout, metavar="FILE", help="write a snapshot at the end"
    )
    tx.add_argument("--restore", metavar="FILE", help="go on from a snapshot, its rules too")
    model = tx.add_argument_group("a model that scores each payment: rule 8")
    model.add_argument("--score", metavar="MODEL", help=".npz of --fit, or .onnx")
    model.add_argument(
        "--threshold", type=float, default=0.7, metavar="P", help="least score of an alert; 0.7"
    )
    model.add_argument(
        "--customers", type=int, default=1 << 18, metavar="N", help="most that it knows; 262,144"
    )
    model.add_argument(
        "--fit",
        type=_npz,
        metavar="OUT.npz",
        help="make one of the labelled stream, by NumPy, and end",
    )
    made = tx.add_argument_group("a made stream, with every case in it")
    made.add_argument("--generate", dest="count", type=int, metavar="N", help="instead of FILE")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--write", type=to_write_or_stdout, metavar="FILE", help="keep it")
    made.add_argument(
        "--write-profiles", type=to_write_or_stdout, metavar="FILE", help="and its profiles"
    )
    add_hosts(tx, "customers spread over them")
    add_device(tx)
    tx.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    from denizen.apps.transactions import command as tx  # noqa: PLC0415

    options = {k: v for k, v in vars(given).items() if k not in ("command", "app", "run")}
    return tx.run(tx.Options(**options))
