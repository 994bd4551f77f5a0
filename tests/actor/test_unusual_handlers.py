# SPDX-License-Identifier: Apache-2.0
"""What a user of NumPy writes first means in a handler what it means there, on every backend."""

import numpy as np
import pytest
from backends import HANDLERS, begin
from random_handlers import load
from unusual_handlers import CASES, ROUNDED, text

import denizen

INPUTS = [
    {"n": -7, "k": 3, "x": 2.5, "g": 0.1, "b": True},
    {"n": 2**31 - 1, "k": 2**32 - 1, "x": -1e18, "g": 3e38, "b": False},
    {"n": 0, "k": 0, "x": 0.0, "g": 0.0, "b": False},
]


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    return load(text(), tmp_path_factory.mktemp("unusual") / "unusual.py")


def answers(module, where):
    actors = [getattr(module, f"Case{i}") for i in range(len(CASES))]
    with begin(denizen.Program(actors=actors, name="unusual"), where) as rt:
        out = []
        for actor in actors:
            (one,) = rt.spawn(actor)
            inputs = [module.Go(**given) for given in INPUTS]
            for m in inputs:
                m["words"] = [1, -2, 3, -4]
            out.append([rt.ask(one, m, timeout=20).tolist() for m in inputs])
        return out


@pytest.fixture(scope="module")
def interpreted(module):
    return answers(module, "python")


@pytest.mark.parametrize("where", HANDLERS)
def test_each_means_what_python_means(module, interpreted, where):
    found = answers(module, where)
    for (name, body, first), here, there in zip(CASES, found, interpreted, strict=True):
        what = f"{name} on {where}:\n{body}"
        if name in ROUNDED and where == "gpu":
            for one, other in zip(here, there, strict=True):
                np.testing.assert_allclose(one, other, rtol=2**-51, err_msg=what)
            continue
        np.testing.assert_equal(here, there, what)
        if first is not None:
            np.testing.assert_equal(tuple(here[0][: len(first)]), first, what)
