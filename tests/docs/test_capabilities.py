# SPDX-License-Identifier: Apache-2.0
"""The page of capabilities names nothing that is not there, and its checker finds what is not."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/docs"))
import capabilities

PACKET = "`include/denizen/base/packet.hpp: Packet`"
TORN = "`tests/base/packet_test.cpp: PacketAccess.IsNeverTorn`"


def page(*cells):
    return "\n".join(
        f"| {' | '.join(row)} |" for row in (capabilities.HEADER, ["---"] * 5, ["a packet", *cells])
    )


def test_every_name_of_the_page_is_there():
    text = capabilities.PAGE.read_text("utf-8")
    assert list(capabilities.problems(text)) == []
    assert len(list(capabilities.rows(text))) > 60


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ((PACKET, TORN, "no record", ""), ""),
        (("`denizen.Runtime.ask`", TORN, "`dispatch: ask`, `ring: host to device`", ""), ""),
        (("`denizen lens diff`", TORN, "no record", ""), ""),
        (("", "", "no record", "not there"), ""),
        (("`include/denizen/base/packet.hpp: Paket`", TORN, "no record", ""), "no Paket"),
        (("`include/denizen/base/paket.hpp: Packet`", TORN, "no record", ""), "paket.hpp has"),
        (("`denizen.Runtime.answer`", TORN, "no record", ""), "no denizen.Runtime.answer"),
        (("`denizen.nothing.ask`", TORN, "no record", ""), "no denizen.nothing.ask"),
        (("`denizen bench nothing`", TORN, "no record", ""), "no denizen bench nothing"),
        (
            (PACKET, TORN.replace("IsNever", "Is"), "no record", ""),
            "packet_test.cpp: PacketAccess.IsTorn",
        ),
        (
            (PACKET, "`tests/actor/test_ask.py: test_asks`", "no record", ""),
            "test_ask.py: test_asks",
        ),
        ((PACKET, TORN, "`dispatch: answer`", ""), "no record of dispatch has a case answer"),
        ((PACKET, TORN, "", ""), "no record is expected"),
        ((PACKET, "", "no record", ""), "say what"),
        ((PACKET, TORN, "no record"), "4 cells"),
    ],
)
def test_what_is_not_there_is_named(cells, problem):
    told = list(capabilities.problems(page(*cells)))
    assert bool(told) == bool(problem)
    assert not told or (problem in told[0] and told[0].startswith("a packet: "))
