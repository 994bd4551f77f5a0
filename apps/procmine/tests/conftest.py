# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest
from by_hand import TRACES, columns

from denizen import procmine


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENIZEN_CACHE", str(tmp_path_factory.mktemp("denizen")))
        yield


@pytest.fixture
def log():
    return procmine.from_columns(*columns(TRACES))


@pytest.fixture
def mined(log):
    return procmine.mine(log)


@pytest.fixture
def make():
    """A log out of traces in the short form of TRACES."""
    return lambda traces: procmine.from_columns(*columns(traces))


@pytest.fixture(params=["02_teleclaims", "07_bpic2013_incidents", "08_receipt"])
def real(request):
    """The path of a real log, in the folder that DENIZEN_DATA names."""
    folder = os.environ.get("DENIZEN_DATA")
    path = Path(folder or ".") / f"{request.param}.xes.gz"
    if not folder or not path.is_file():
        pytest.skip(f"no {path.name}: set DENIZEN_DATA to the folder of the logs")
    return path
