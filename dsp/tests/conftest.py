# SPDX-License-Identifier: Apache-2.0
"""Where the blocks of the library run in a test: one body for all places."""

import pytest

# The resident ones on one thread of the CPU; with a GPU, `auto` is that.
PLACES = {
    "cpu": {"executor": "cpu"},
    "resident": {"executor": "resident", "device": "cpu:1"},
    "auto": {"executor": "resident"},
}


@pytest.fixture(params=["cpu", "resident", pytest.param("auto", marks=pytest.mark.gpu)])
def place(request):
    return PLACES[request.param]
