# SPDX-License-Identifier: Apache-2.0
"""The command ``denizen``: run an application, run benchmarks, say what this machine has.

Exit status: 0 done, 1 it failed or a result was wrong, 2 wrong usage or unusable data, 130 Ctrl-C,
143 ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib import metadata

from denizen import ArgumentError, CompileError, DenizenError, check, info, terminal
from denizen.ab import options as ab
from denizen.apps import traced
from denizen.apps.adsb import options as adsb
from denizen.apps.flights import options as flights
from denizen.apps.fm import options as fm
from denizen.apps.procmine import options as procmine
from denizen.apps.transactions import options as transactions
from denizen.apps.wave import options as wave
from denizen.arguments import Parser, add_device
from denizen.cluster import options as cluster
from denizen.errors import DataError, parsing
from denizen.graph import options as graph
from denizen.group import options as group
from denizen.lab import options as lab
from denizen.lab.record import LabError
from denizen.lab.schema import SchemaError
from denizen.lens import options as lens
from denizen.top import options as top
from denizen.tour import options as tour


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="denizen", description="A resident GPU runtime.")
    parser.add_argument(
        "--version", action="version", version=f"denizen {metadata.version('denizen')}"
    )
    parser.add_argument(
        "-v", "--verbose", action="count", default=0, help="say on stderr what is done; -vv: more"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run an application")
    apps = run.add_subparsers(dest="app", required=True, metavar="APP")
    for app in (flights, adsb, fm, procmine, transactions, graph, wave):
        app.add(apps)
    traced.add(apps)
    for command in (tour, check, lab, top, group, cluster, ab):
        command.add(commands)
    # Its words are read by lens.run().
    commands.add_parser("lens", help="what a program makes the CUDA driver submit")
    about = commands.add_parser("info", help="say what a runtime would use on this machine")
    add_device(about)
    about.set_defaults(run=lambda given: info.show(given.device))
    return parser


_VERBOSE = {"-v": 1, "-vv": 2, "--verbose": 1}  # in front of lens, whose words are its own


def _dispatch(words: Sequence[str]) -> int:
    first = next((i for i, word in enumerate(words) if not word.startswith("-")), len(words))
    if words[first : first + 1] == ["lens"] and set(words[:first]) <= _VERBOSE.keys():
        _listen(sum(_VERBOSE[word] for word in words[:first]))
        return lens.run(words[first + 1 :])
    given = _parser().parse_args(words)
    _listen(given.verbose)
    del given.verbose  # a command has its own words alone
    traced.check(given)
    status: int = given.run(given)
    return status


def _listen(verbose: int) -> None:
    """The package logs under the name denizen; a command listens, and prints it if told to."""
    logger = logging.getLogger("denizen")
    logger.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    if verbose and not any(isinstance(h, logging.StreamHandler) for h in logger.handlers):
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(relativeCreated)8.0f ms  %(name)s: %(message)s"))
        logger.addHandler(handler)


def _written(words: Sequence[str]) -> int:
    """Its status, once what it has printed has arrived. OSError if it cannot."""
    try:
        status = _dispatch(words)
    except SystemExit as ended:
        if not ended.code:  # --help and --version end so
            _flush()
        raise
    _flush()
    return status


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence()
        raise OSError(error.errno, error.strerror, "standard output") from None


def _silence() -> None:
    """What is left to be printed goes nowhere, also when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reopen() -> None:
    """Streams that were closed when this process began; a file that is opened would be one.

    Nothing can be read from stdin, what is written to stderr goes nowhere, and what is written to
    stdout is an error.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
            if null != number:
                os.dup2(null, number)
            stream = open(number, "w" if number else "r", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _subject(words: Sequence[str]) -> str:
    """The files that a command was given, for errors of readers that name none."""
    return ", ".join(word for word in words if os.path.isfile(word)) or "this command"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with ``argv`` (default: the process's) and give its exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    if argv is None:  # what runs on the GPU, or in a process of its own, is ended with this one
        signal.signal(signal.SIGTERM, _leave)
        _reopen()
    try:
        with parsing(_subject(words)):
            return _written(words)
    except (ArgumentError, DataError) as error:
        terminal.error(str(error))
        return 2
    except CompileError as error:  # the compiler's own lines, as it set them
        print(f"denizen: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # who reads has seen enough: `| head`
        _silence()
        return 141  # as a process that SIGPIPE ended
    except OSError as error:
        told = error
        try:
            _flush()  # what it had printed before: by then it is known whose error it is
        except OSError as of_stdout:
            told = of_stdout
        named = told.filename is not None
        terminal.error(f"{told.filename}: {told.strerror}" if named else str(told))
        return 1
    except (LabError, SchemaError, DenizenError) as error:
        terminal.error(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
