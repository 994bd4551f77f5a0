# SPDX-License-Identifier: Apache-2.0
"""Proof by machine code, on what cuobjdump printed of fixtures/copy_kernels.cu."""

import stat
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
        ([arm("a", "copy_plain"), arm("b", "copy_same")], 'same code as that of arm "a"'),
    ],
)
def test_kernels_that_are_not(cuobjdump, arms, text):
    last = code.check(arms, cuobjdump)[-1]
    assert last.status == gates.FAILED
    assert text in last.detail


def test_without_the_tool_nothing_is_claimed():
    (gate,) = code.check([arm("a", "copy_plain")], None)
    assert gate.status == gates.NOT_CHECKED


def test_a_tool_that_fails():
    with pytest.raises(ab.ExperimentError, match="cuobjdump failed"):
        code.check([arm("a", "copy_plain")], "/bin/false")
