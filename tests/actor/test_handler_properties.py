# SPDX-License-Identifier: Apache-2.0
"""Random handlers answer the same on every backend, bit by bit."""

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
EDGES = [0, 1, -1, 7, -13, 2**31, -(2**63), 2**63 - 1]
FLOATS = [0.0, -0.5, 1e10, -1e19, 1e300, float("inf"), float("nan")]


def answers(module, where, inputs):
    """Of all actors, to all inputs."""
    program = denizen.Program(actors=actors_of(module))
    with begin(program, where) as rt:
        return {
            actor.name: [rt.ask(a, record, timeout=60) for record in inputs]
            for actor in actors_of(module)
            for a in rt.spawn(actor)
        }


def inputs_of(module, rng):
    out = module.Input.zeros(12)
    for i, record in enumerate(out):
        edge = i % 2 == 0
        record["n"] = rng.choice(EDGES) if edge else rng.getrandbits(63) >> rng.randrange(62)
        record["w"] = (rng.choice(EDGES) if edge else rng.getrandbits(64)) % 2**64
        record["x"] = rng.choice(FLOATS) if edge else rng.uniform(-100, 100)
        record["small"] = rng.randint(-128, 127)
    return out


def check(rng, actors, folder, backends):
    text = module_text(rng, actors)
    module = load(text, folder / f"random{next(numbers)}.py")
    inputs = inputs_of(module, rng)
    expected = answers(module, "python", inputs)
    for where in backends:
        found = answers(module, where, inputs)
        for name, records in expected.items():
            for i, (one, other) in enumerate(zip(found[name], records, strict=True)):
                for field in other.dtype.names:
                    what = f"{name}: {field} after input {i}, {inputs[i]}, on {where}\n{text}"
                    np.testing.assert_array_equal(one[field], other[field], what)
                    if one[field].dtype.kind == "f":
                        signs = [np.signbit(x[field]) & ~np.isnan(x[field]) for x in (one, other)]
                        np.testing.assert_array_equal(*signs, what)


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


@search(3)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_interpreter_and_the_cpu_agree(folder, seed):
    pytest.importorskip("numba")
    check(random.Random(seed), 3, folder, ["cpu:1"])


@pytest.mark.deep
@search(30)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_interpreter_and_the_cpu_agree_on_300(folder, seed):
    check(random.Random(seed), 10, folder, ["cpu:1"])


@pytest.mark.gpu
@pytest.mark.parametrize("seed", SEEDS)
def test_the_gpu_agrees(folder, seed):
    check(random.Random(seed), 10, folder, ["gpu"])


@pytest.mark.gpu
@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 110))
def test_the_gpu_agrees_on_300(folder, seed):
    """Programs of 30 actors and as many that answer them, of the 64 types that a program may have:
    to link one takes a GPU's compiler seconds, whatever is in it.
    """
    check(random.Random(seed), 30, folder, ["gpu"])
