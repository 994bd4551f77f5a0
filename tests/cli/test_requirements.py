# SPDX-License-Identifier: Apache-2.0
"""tools/requirements says what pip would bring for an extra."""

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "requirements"


def of(*extras):
    return subprocess.check_output([sys.executable, TOOL, *extras], text=True).splitlines()


def test_they_are_those_of_the_package():
    told = {r.replace(" ", "") for r in requires("denizen")}
    assert {r for r in told if ";" not in r} == set(of())
    handlers = {r.partition(";")[0] for r in told if r.endswith(('=="handlers"', "=='handlers'"))}
    assert handlers
    assert set(of("handlers")) == {*of(), *handlers}


def test_an_extra_of_extras_is_theirs():
    assert set(of("handlers-gpu")) > {*of("handlers"), *of("gpu")}
    assert not any(one.startswith("denizen") for one in of("all"))
