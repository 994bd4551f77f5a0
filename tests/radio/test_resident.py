# SPDX-License-Identifier: Apache-2.0
"""Resident workers give the messages that the receiver's own loops give: on CPU threads always, on
a GPU where there is one; and their kernel compiles."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import denizen
from denizen import CompileError, _core, iq
from denizen.program import cubin_of
from denizen.radio import Receiver, mode_s, modulate

GPU = pytest.mark.skipif(_core.gpu_count() == 0, reason=denizen.gpu_problem() or "no GPU")
DEVICES = ["cpu:1", "cpu:3", pytest.param("gpu", marks=GPU)]
DATA = Path(os.environ.get("DENIZEN_DATA", "nowhere"))


@pytest.fixture(scope="module")
def made():
    bursts = modulate.traffic(1.2, 30, (8, 30), seed=8)
    return modulate.modulate(bursts, 2_400_000, seed=8).tobytes()


def all_of(receiver, signal, step=100_001):
    out = []
    for at in range(0, len(signal), step):
        out += receiver.feed(signal[at : at + step])
    return out + receiver.finish()


@pytest.mark.parametrize("device", DEVICES)
def test_messages_are_the_receivers(made, device):
    plain, resident = Receiver((50, 8)), Receiver((50, 8), device)
    expected = all_of(plain, made)
    assert len(expected) > 150
    assert all_of(resident, made) == expected
    assert resident.aircraft == plain.aircraft
    for name in ("samples", "messages", "repaired"):
        assert resident.counts[name] == plain.counts[name]


@pytest.mark.parametrize("device", DEVICES)
def test_the_recording(device):
    if not (DATA / "modes1.bin").exists():
        pytest.skip("set DENIZEN_DATA to the folder of modes1.bin")
    signal = (DATA / "modes1.bin").read_bytes()
    assert all_of(Receiver(device=device), signal) == all_of(Receiver(), signal)


def test_complex_samples_are_rounded_to_bytes(made):
    x = iq.FORMATS["u8"].samples(made[:1_000_000])
    resident = Receiver(device="cpu:2")
    assert resident.feed(x) + resident.finish() == all_of(Receiver(), made[:1_000_000])


@pytest.mark.parametrize("device", DEVICES)
def test_the_command(made, tmp_path, device):
    path = tmp_path / "made.bin"
    path.write_bytes(made)

    def lines(*words):
        done = subprocess.run(
            [sys.executable, "-m", "denizen", "run", "adsb", str(path), "--json", *words],
            capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert lines("--device", device) == lines()


@pytest.mark.parametrize(
    ("device", "says"),
    [("cpu:2x2", "uses one GPU or the CPU"), ("abacus", 'device "abacus"'), ("cpu:5000", "1024")],
)
def test_wrong_devices(device, says):
    with pytest.raises(denizen.ArgumentError, match=says):
        Receiver(device=device)


@pytest.mark.parametrize("architecture", [80, 90])
def test_the_kernel_compiles(architecture, tmp_path, monkeypatch):
    monkeypatch.setenv("DENIZEN_CACHE", str(tmp_path))
    try:
        cubin = cubin_of(mode_s._KERNEL, "the scan", architecture)
    except CompileError as error:
        if "NVRTC" in str(error) and "error:" not in str(error):
            pytest.skip("there is no NVRTC")
        raise
    assert b"denizen_radio_scan_ring" in cubin
