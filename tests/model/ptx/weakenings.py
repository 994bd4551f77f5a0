# SPDX-License-Identifier: Apache-2.0
"""Litmus tests with one thing less: a fence or the block's barrier left out, the scope of an access
or a fence narrowed to its block, an acquire or release made relaxed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from litmus import Instruction, Litmus


def named(test: Litmus, line: str) -> set[str]:
    """What the line of the head that begins so lists."""
    text = next((one for one in test.about if one.startswith(line)), "")
    listed = text.removeprefix(line).split(". ")[0].rstrip(".")
    return {one.strip() for one in listed.split(",") if one.strip()}


def without(test: Litmus, drops: set[tuple[int, int]]) -> Litmus:
    threads = [
        replace(t, program=tuple(i for k, i in enumerate(t.program) if (n, k) not in drops))
        for n, t in enumerate(test.threads)
    ]
    return replace(test, threads=tuple(threads))


def changed(test: Litmus, thread: int, at: int, to: Instruction) -> Litmus:
    program = list(test.threads[thread].program)
    program[at] = to
    threads = list(test.threads)
    threads[thread] = replace(threads[thread], program=tuple(program))
    return replace(test, threads=tuple(threads))


def weaker(test: Litmus) -> Iterator[tuple[str, Litmus]]:
    """Each weakening, by its name."""
    blocks = {(t.gpu, t.cta) for t in test.threads}
    for n, thread in enumerate(test.threads):
        for k, one in enumerate(thread.program):
            where = f"P{n} {one.name} {', '.join(one.operands)}".strip()
            place = next((o for o in one.operands if o in test.initial), "")
            if one.kind == "fence":
                yield f"{where} left out", without(test, {(n, k)})
            if one.scope and one.scope != "cta" and len(blocks) > 1:
                scope = (f"P{n} scope of {place}: " if place else "") + f"{where} in its block"
                yield scope, changed(test, n, k, replace(one, scope="cta"))
            if one.kind != "fence" and one.order in ("acquire", "release"):
                yield f"{where} relaxed", changed(test, n, k, replace(one, order="relaxed"))
    for gpu, cta in sorted(blocks):
        bars = {
            (n, k)
            for n, t in enumerate(test.threads)
            if (t.gpu, t.cta) == (gpu, cta)
            for k, one in enumerate(t.program)
            if one.kind == "bar"
        }
        if bars:
            yield f"the barrier of block {cta} of GPU {gpu} left out", without(test, bars)
