# SPDX-License-Identifier: Apache-2.0
"""Devices that the wave is tested on."""

import pytest

from denizen import _core

TWO = pytest.mark.skipif(_core.gpu_count() < 2, reason="there are no two GPUs")


@pytest.fixture(
    params=[
        "cpu:2",
        "cpu:2x1",
        pytest.param("gpu", marks=pytest.mark.gpu),
        pytest.param("gpu:0-1", marks=[pytest.mark.gpu, TWO]),
    ]
)
def device(request):
    return request.param


@pytest.fixture
def methods(device):
    on_gpu = device.startswith("gpu")
    in_tiles = [] if device in ("cpu:2x1", "gpu:0-1") else ["tiles", "deep"]
    led = ["launches", "graph"] if on_gpu else ["threads"]
    return ["auto", *led, *in_tiles, "pass2", "pass4"]
