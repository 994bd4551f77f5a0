# SPDX-License-Identifier: Apache-2.0
"""No operation of a whole warp right behind a call, in the machine code of the programs.

ptxas 13 takes it that a warp which is together when it calls a function comes back together, and
emits what follows without a look whether it is (``BRA.DIV``). Lanes that wait inside for one of
them may be let go early, and then half a warp shuffles or votes: programs hung of it. Behind such
a call stands lanes::rejoin() (base/lanes.hpp), which is a ``WARPSYNC``."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from denizen.ab import code
from denizen.lab import programs
from denizen.lab.record import LabError

SIZE = 16  # bytes of an instruction; a function's first one is at 0
ENDS = re.compile(r"BRA\.DIV|WARPSYNC|BSYNC|BSSY|RET|EXIT|CALL|BRX|JMP")  # of what is looked at
WHOLE_WARP = re.compile(r"VOTE\b|SHFL|MATCH|REDUX|MOVM")
BRANCH = re.compile(r"BRA(?:\.\w+)*\s+(!?U?P\w+,\s*)?.*?0x([0-9a-f]+)")


def unguarded(instructions: list[str]) -> Iterator[tuple[int, int]]:
    """Places of calls, each with that of an operation of a whole warp which is reached from there
    before anything that brings the lanes together or sees that they are apart."""
    for call, instruction in enumerate(instructions):
        if code.opcode(instruction).startswith("CALL"):
            yield from ((call, at) for at in behind(instructions, call))


def behind(instructions: list[str], call: int) -> Iterator[int]:
    seen: set[int] = set()
    begins = [call + 1]
    while begins:
        at = begins.pop()
        while at < len(instructions) and at not in seen:
            seen.add(at)
            operation = code.opcode(instructions[at])
            if WHOLE_WARP.match(operation):
                yield at
                break
            if ENDS.match(operation):
                break
            if operation.startswith("BRA"):
                branch = BRANCH.search(instructions[at])
                assert branch, instructions[at]
                begins.append(int(branch[2], 16) // SIZE)
                if not instructions[at].startswith("@") and not branch[1]:
                    break
            at += 1


def test_the_rule_finds_a_shuffle_behind_a_call_and_no_other() -> None:
    call = ["CALL.REL.NOINC 0x200", "IMAD.MOV.U32 R1, RZ, RZ, R2"]
    shuffle = "SHFL.IDX PT, R34, R30, RZ, 0x1f"
    assert list(unguarded([*call, shuffle, "EXIT"])) == [(0, 2)]
    assert list(unguarded([*call, "BRA.DIV UR4, 0x90", shuffle, "EXIT"])) == []
    assert list(unguarded([*call, "WARPSYNC.ALL", "MOVM.16.MT88 R0, RZ", shuffle, "EXIT"])) == []
    assert list(unguarded([*call, "@P0 BRA 0x50", "EXIT", "NOP", shuffle, "EXIT"])) == [(0, 5)]
    assert list(unguarded([*call, "BRA 0x50", shuffle, "NOP", "EXIT"])) == []
    assert list(unguarded([*call, "BRA P1, 0x50", "EXIT", "NOP", "VOTE.ANY R1, PT, P1"])) == [
        (0, 5)
    ]


PROGRAMS = [f"bench_{name}" for name in ("actors", "bfs", "flow", "tasks", "transactions", "wave")]
BLOCKS = "../tests/actor/test_actor_blocks"  # beside the benchmarks: handlers of whole blocks


@pytest.mark.parametrize("name", [*PROGRAMS, BLOCKS])
def test_programs_look_behind_every_call(name: str) -> None:
    try:
        program = programs.find_program(name)
    except LabError as error:
        pytest.skip(str(error))
    tool = code.tool()
    assert tool, "cuobjdump is in none of its places; `pip install --group dev` puts it there"
    functions = code.disassemble(Path(program), tool)
    if not functions:
        pytest.skip(f"{program} was built without CUDA")
    assert any(code.opcode(i).startswith("CALL") for f in functions.values() for i in f)
    found = {f: list(unguarded(instructions)) for f, instructions in functions.items()}
    assert {f: places for f, places in found.items() if places} == {}
