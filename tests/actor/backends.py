# SPDX-License-Identifier: Apache-2.0
"""For tests that hold of handlers in C++ text and in Python alike: `from backends import rt`."""

import pytest
import sample
import sample_handlers

import denizen

# C++ text, and the same program in Python, which the interpreter runs too.
BOTH = [
    "text on cpu:1",
    "text on cpu:2",
    pytest.param("text on gpu", marks=pytest.mark.gpu),
    "handlers on python",
    "handlers on cpu:2",
    pytest.param("handlers on gpu", marks=pytest.mark.gpu),
]


# Where handlers in Python run.
HANDLERS = ["python", "cpu:1", "cpu:2", pytest.param("gpu", marks=pytest.mark.gpu)]


def begin(program, where, **options):
    """A runtime; skips the test where Numba is not there and the program has not been compiled."""
    try:
        return denizen.Runtime(program, where, **options)
    except denizen.MissingPackageError as error:
        pytest.skip(str(error))


def choose(both, text, handlers):
    """What one of BOTH stands for: a program, and its device."""
    kind, _, where = both.partition(" on ")
    return {"text": text, "handlers": handlers}[kind], where


@pytest.fixture(params=BOTH)
def both(request):
    return request.param


@pytest.fixture
def rt(both):
    """The sample program, running."""
    program, where = choose(both, sample.program, sample_handlers.program)
    with begin(program(), where) as runtime:
        yield runtime
