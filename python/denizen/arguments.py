# SPDX-License-Identifier: Apache-2.0
"""What the commands' parsers share: one way to be wrong, and the types of arguments.

Each command has a module ``options`` with ``add(commands)``, which adds its parser and sets its
default ``run`` to a function of what was given. What a command needs is imported when it runs.
Built on argparse, so that ``denizen`` runs on a GPU machine that has NumPy and nothing else.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from denizen import machine, terminal


class Parser(argparse.ArgumentParser):
    """Wrong usage is one line, not a page of usage."""

    def error(self, message: str) -> NoReturn:
        terminal.error(f"{message} (see {self.prog} --help)")
        sys.exit(2)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help that cannot be written is an error, which argparse passes over."""
        if message:
            (file or sys.stderr).write(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """A word that this command does not know is refused by it, not by the one above it."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_device(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "--device",
        type=device,
        default="auto",
        help="auto (a GPU if there is one), cpu, cpu:THREADS, gpu:INDEX",
    )


def device(text: str) -> str:
    try:
        machine.gpu_index(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def to_write(text: str) -> Path:
    """A file that the command will write; refused before its work is done where it cannot be."""
    path = Path(text)
    if not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {path.parent}")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder")
    return path


def to_write_or_stdout(text: str) -> str:
    return text if text == "-" else str(to_write(text))


def port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f'"{text}" is no port; use 0 to 65535')
    return int(text)


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f'"{text}" is no positive number')
    return value
