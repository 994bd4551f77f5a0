# SPDX-License-Identifier: Apache-2.0
"""A litmus test: a few threads of PTX, and an outcome that is allowed or forbidden. The form is
that which Dartagnan reads, too."""

from __future__ import annotations

import re
from dataclasses import dataclass

HOST = 9  # the "GPU" of its threads
KINDS = "ld, st, atom, red, fence, bar, beq, bne, goto"

_LABEL = re.compile(r"LC\d+$")
_WHO = re.compile(r"P(\d+)@cta (\d+), ?gpu (\d+)$")
_INSTRUCTION = re.compile(r"(?P<name>[\w.]+) (?P<operands>.+)$")


@dataclass(frozen=True)
class Instruction:
    """``atom.relaxed.gpu.cas r0, x, 0, 1`` is "atom", "relaxed", "gpu", "cas" and four operands."""

    kind: str  # ld, st, atom, red, fence, bar, beq, bne, goto, label
    order: str = "weak"
    scope: str = ""
    operation: str = ""
    operands: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        if self.kind in ("bar", "beq", "bne", "goto", "label"):
            return self.kind
        words = (self.kind, self.order, self.scope, self.operation)
        return ".".join(word for word in words if word)


@dataclass(frozen=True)
class Thread:
    cta: int
    gpu: int
    program: tuple[Instruction, ...]


@dataclass(frozen=True)
class Litmus:
    name: str
    about: tuple[str, ...]  # the quoted lines of the head
    initial: dict[str, int]
    threads: tuple[Thread, ...]
    allowed: bool  # whether the file says that the outcome may come about
    outcome: tuple[tuple[str, int], ...]  # "1:r0" or "x", and its value

    @property
    def machine(self) -> str:
        """What a machine keeps that forbids the outcome, though PTX allows it: memory_model.py."""
        line = next((one for one in self.about if one.startswith("Forbidden by ")), "")
        return line.removeprefix("Forbidden by ").rstrip(".")

    @property
    def may_be_seen(self) -> bool:
        """Whether the outcome may come about on a GPU. What rests on the host's threads may: they
        are a GPU's there."""
        return self.allowed and self.machine != "dependent stores"


class LitmusError(ValueError):
    """A litmus test that cannot be read."""


def instruction(text: str) -> Instruction | None:
    text = text.strip()
    if not text:
        return None
    if _LABEL.match(text.removesuffix(":")) and text.endswith(":"):
        return Instruction("label", operands=(text[:-1],))
    if text.startswith("fence."):
        _, order, scope = text.split(".")
        return Instruction("fence", order, scope)
    found = _INSTRUCTION.match(text)
    if not found:
        raise LitmusError(f"{text!r} is none of {KINDS}")
    kind, *words = found["name"].split(".")
    operands = tuple(one.strip() for one in found["operands"].split(","))
    if kind in ("beq", "bne", "goto"):
        return Instruction(kind, operands=operands)
    if kind == "bar":
        return Instruction("bar", operands=operands)
    if kind not in ("ld", "st", "atom", "red"):
        raise LitmusError(f"{text!r} is none of {KINDS}")
    order, scope, operation, *_ = [*words, "", "", ""]
    return Instruction(kind, order, scope, operation, operands)


def parse(text: str) -> Litmus:
    """Reads a test in the form that Dartagnan reads, too."""
    head, rest = text.split("{", 1)
    declared, rest = rest.split("}", 1)
    found = re.search(r"(~?)exists\s*\((.*)\)\s*$", rest, re.DOTALL)
    if not found:
        raise LitmusError("no final line `exists (...)` or `~exists (...)`")
    rows = [row.split("|") for row in rest[: found.start()].split(";") if row.strip()]
    threads = []
    for column, text_of_who in enumerate(rows[0]):
        who = _WHO.match(text_of_who.strip())
        if not who:
            raise LitmusError(f"{text_of_who.strip()!r} is not of the form P0@cta 0, gpu 0")
        program = tuple(one for row in rows[1:] if (one := instruction(row[column])) is not None)
        threads.append(Thread(int(who[2]), int(who[3]), program))
    outcome = []
    for term in found[2].split("/\\"):
        what, is_, value = re.split(r"(!=|==?)", term, maxsplit=1)
        if is_ == "!=":
            raise LitmusError(f"{term.strip()}: say what it is equal to")
        outcome.append((what.replace(" ", "").removeprefix("P"), int(value)))
    initial = {}
    for one in declared.split(";"):
        if one.strip() and ":" not in one:
            what, value = one.split("=")
            initial[what.strip()] = int(value)
    title = head.split("\n", 1)[0].removeprefix("PTX").strip()
    about = tuple(re.findall(r'"([^"]*)"', head))
    return Litmus(title, about, initial, tuple(threads), not found[1], tuple(outcome))
