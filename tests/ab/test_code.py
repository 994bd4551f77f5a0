# SPDX-License-Identifier: Apache-2.0
"""Proof by machine code, on what cuobjdump printed of fixtures/copy_kernels.cu."""

import stat
import sys
from pathlib import Path

import pytest

from denizen import ab
from denizen.ab import code, gates

SASS = Path(__file__).parent / "fixtures" / "copy.sass"


@pytest.fixture
def cuobjdump(tmp_path):
    """A tool that prints the fixture, whatever it is asked."""
    path = tmp_path / "cuobjdump"
    path.write_text(f"#!/bin/sh\ncat '{SASS}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def arm(name, symbol, *instructions):
    kernel = ab.Kernel(Path("/somewhere/program"), symbol, instructions)
    return ab.Arm(name, name, lambda n: None, lambda: None, lambda: 0, kernel=kernel)


def test_functions_and_instructions_are_read():
    functions = code.parse(SASS.read_text())
    assert set(functions) == {"copy_plain", "copy_async", "copy_same"}
    assert functions["copy_plain"][:2] == ["LDC R1, c[0x0][0x28]", "S2R R9, SR_TID.X"]
    operations = [code.opcode(line) for line in functions["copy_async"]]
    assert any(op.startswith("LDGSTS.E") for op in operations)
    assert not any(line.startswith("LDGSTS") for line in functions["copy_plain"])


def test_opcode_without_predicate():
    assert code.opcode("@!P0 LDGSTS.E.128 [R7], desc[UR4][R2.64]") == "LDGSTS.E.128"
    assert code.opcode("@UP1 UBLKCP.S.G [UR8], [UR6], UR4") == "UBLKCP.S.G"
    assert code.opcode("EXIT") == "EXIT"


def test_kernels_that_are_what_they_should_be(cuobjdump):
    arms = [arm("plain", "copy_plain", "LDG"), arm("async", "copy_async", "LDGSTS", "DEPBAR")]
    found = code.check([*arms, ab.Arm("x", "x", None, None, None)], cuobjdump)
    assert [(gate.arm, gate.status) for gate in found] == [
        ("plain", gates.PASSED),
        ("async", gates.PASSED),
    ], found


@pytest.mark.parametrize(
    ("arms", "text"),
    [
        ([arm("a", "copy_plain", "LDGSTS")], "copy_plain has no LDGSTS in its"),
        ([arm("a", "copy_async", "LDG")], "copy_async has no LDG in its"),  # LDGSTS is not LDG
        ([arm("a", "copy_bulk")], '"copy_bulk" is in the names of 0 functions'),
        ([arm("a", "copy_")], '"copy_" is in the names of 3 functions'),
        ([arm("a", "copy_plain"), arm("b", "copy_same")], 'does the same as the code of arm "a"'),
    ],
)
def test_kernels_that_are_not(cuobjdump, arms, text):
    last = code.check(arms, cuobjdump)[-1]
    assert last.status == gates.FAILED
    assert text in last.detail


def test_without_the_tool_it_is_void():
    (gate,) = code.check([arm("a", "copy_plain")], None)
    assert gate.status == gates.FAILED
    assert "no cuobjdump here: pip install nvidia-cuda-cuobjdump" in gate.detail


ARM = """
S2R R9, SR_TID.X
ULDC.64 UR4, c[0x0][0x208]
LDC.64 R2, c[0x0][0x210]
ISETP.NE.AND P0, PT, R9, RZ, PT
@P0 BRA 0x70
IMAD.MOV.U32 R5, RZ, RZ, 0x1
RED.E.ADD.STRONG.GPU desc[UR4][R2.64+0x1b8], R5
LDG.E.128 R4, desc[UR4][R2.64]
@!P0 BRA 0x70
EXIT
BRA 0xa0
NOP
""".strip().splitlines()


def changed(*pairs):
    text = "\n".join(ARM)
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text.splitlines()


@pytest.mark.parametrize(
    "twin",
    [
        changed(("0x1b8", "0x1c0")),  # another counter
        changed(("[R2.64+0x1b8]", "[R2.64]")),
        changed(("R9", "R7"), ("R5", "R11"), ("UR4", "UR8"), ("P0", "P3")),
        changed(("c[0x0][0x210]", "c[0x0][0x218]")),  # another order of parameters
        [*ARM, "NOP", "NOP"],
    ],
)
def test_code_that_differs_by_where_things_lie_is_the_same(twin):
    assert code.normalised(twin) == code.normalised(ARM)


@pytest.mark.parametrize(
    "other",
    [
        changed(("LDG.E.128", "LDG.E.64")),
        changed(("LDG.E.128", "LDGSTS.E.128")),
        changed(("RZ, 0x1", "RZ, 0x2")),  # a number that is no place
        changed(("@!P0 BRA", "@P0 BRA")),
        changed(("@!P0 BRA 0x70", "@!P0 BRA 0x60")),
        changed(("desc[UR4][R2.64+0x1b8], R5", "desc[UR4][R2.64+0x1b8], R9")),
        changed(("RED.E.ADD", "ATOMG.E.ADD")),
        ARM[1:],
    ],
)
def test_code_that_does_something_else_is_not(other):
    assert code.normalised(other) != code.normalised(ARM)


def test_a_tool_that_fails():
    with pytest.raises(ab.ExperimentError, match="cuobjdump failed"):
        code.check([arm("a", "copy_plain")], "/bin/false")


def test_a_program_of_the_cpu_alone_has_no_functions(tmp_path):
    tool = code.tool()
    assert tool, "cuobjdump is in none of its places; `pip install --group dev` puts it there"
    assert code.disassemble(Path(sys.executable).resolve(), tool) == {}
    (tmp_path / "text").write_text("no program\n")
    with pytest.raises(ab.ExperimentError, match="text: cuobjdump failed: "):
        code.disassemble(tmp_path / "text", tool)


def test_a_branch_goes_as_far_wherever_it_stands():
    later = ["NOP", *changed(("0x70", "0x80"), ("0xa0", "0xb0"))]
    assert code.normalised(later)[1:] == code.normalised(ARM)
