# SPDX-License-Identifier: Apache-2.0
"""The words of programs that run on several hosts: ``--hosts``, ``--transport``."""

from __future__ import annotations

import argparse

import denizen


def add_hosts(parser: argparse.ArgumentParser, what: str) -> None:
    """``what`` says what of it goes to which host."""
    parser.add_argument(
        "--hosts",
        type=int,
        metavar="N",
        help=f"as many processes of this machine, {what}; --device is each one's",
    )
    parser.add_argument(
        "--transport",
        choices=("rings", "tcp"),
        default="rings",
        help="between hosts: shared memory, or TCP on loopback",
    )


def device_of_host(device: str) -> str:
    """Each host's device: "auto" is one CPU thread where there is no GPU, as in Cluster."""
    on_cpu = device == "cpu" or (device == "auto" and denizen.gpu_problem() is not None)
    return "cpu:1" if on_cpu else device
