# SPDX-License-Identifier: Apache-2.0
"""Devices that the wave is tested on."""

import pytest

import denizen
from denizen import _core

GPU = pytest.mark.skipif(_core.gpu_count() == 0, reason=denizen.gpu_problem() or "no GPU")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENIZEN_CACHE", str(tmp_path_factory.mktemp("denizen")))
        yield


@pytest.fixture(params=["cpu:2", pytest.param("gpu", marks=GPU)])
def device(request):
    return request.param


@pytest.fixture
def methods(device):
    on_gpu = device == "gpu"
    return ["auto", *(["launches", "graph"] if on_gpu else ["threads"]), "tiles", "deep"]
