# SPDX-License-Identifier: Apache-2.0
"""What groups between hosts and `denizen bench group` prepare: NCCL of the wheel, multicast off."""

import os
import sys

import pytest

from denizen import ArgumentError
from denizen.group import nccl


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    library = tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    library.parent.mkdir(parents=True)
    library.touch()
    for name in [name for name in sys.modules if name.partition(".")[0] == "nvidia"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return library


def test_nccl_of_the_wheel_is_found(wheel, monkeypatch):
    monkeypatch.setenv("DENIZEN_NCCL", "")  # noted, to be restored
    monkeypatch.delenv("DENIZEN_NCCL")
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    assert nccl.find() == wheel
    nccl.prepare()
    assert os.environ["DENIZEN_NCCL"] == str(wheel)
    monkeypatch.setenv("DENIZEN_NCCL", "/mine.so")
    nccl.prepare()
    assert os.environ["DENIZEN_NCCL"] == "/mine.so"


def test_nothing_is_found_without_it(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "nvidia"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert nccl.find() is None


def test_multicast_must_be_off(monkeypatch):
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    with pytest.raises(ArgumentError, match="NCCL_NVLS_ENABLE is 1"):
        nccl.prepare()
