# SPDX-License-Identifier: Apache-2.0
"""Random handlers leave the same state on every backend, bit by bit."""

import itertools
import random

import numpy as np
import pytest
from backends import begin
from compile_handlers import SEEDS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_handlers import actors_of, load, module_text

import denizen

numbers = itertools.count()
EDGES = [0, 1, -1, 2, 7, -13, 2**31, -(2**31), 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.5, 1.5, 1e10, -1e19, 1e300, float("inf"), float("nan")]


def states(module, where, inputs):
    """Of all actors, after the inputs: the bytes of their replies, NaN as one value."""
    program = denizen.Program(actors=actors_of(module))
    with begin(program, where) as rt:
        out = {}
        for actor in actors_of(module):
            (a,) = rt.spawn(actor)
            rt.send_many(a, inputs.astype(module.Input.dtype))
            out[actor.name] = rt.ask(a, "Dump", timeout=60)
        return out


def inputs_of(module, rng):
    out = module.Input.zeros(8)
    for record in out:
        record["n"] = rng.choice(EDGES)
        record["w"] = rng.choice(EDGES) % 2**64
        record["x"] = rng.choice(FLOATS)
        record["small"] = rng.randint(-128, 127)
    return out


def check(rng, actors, folder, backends):
    text = module_text(rng, actors)
    module = load(text, folder / f"random{next(numbers)}.py")
    inputs = inputs_of(module, rng)
    expected = states(module, "python", inputs)
    for where in backends:
        found = states(module, where, inputs)
        for name, record in expected.items():
            for field in record.dtype.names:
                np.testing.assert_array_equal(
                    found[name][field], record[field], f"{name}.{field} on {where}\n{text}"
                )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


def search(examples):
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


@search(5)
@given(rng=st.randoms(use_true_random=False))
def test_the_interpreter_and_the_cpu_agree(folder, rng):
    pytest.importorskip("numba")
    check(rng, 3, folder, ["cpu:1"])


@pytest.mark.deep
@search(30)
@given(rng=st.randoms(use_true_random=False))
def test_the_interpreter_and_the_cpu_agree_on_300(folder, rng):
    check(rng, 10, folder, ["cpu:1"])


@pytest.mark.gpu
@pytest.mark.parametrize("seed", SEEDS)
def test_the_gpu_agrees(folder, seed):
    check(random.Random(seed), 10, folder, ["gpu"])
