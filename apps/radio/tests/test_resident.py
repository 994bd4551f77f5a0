# SPDX-License-Identifier: Apache-2.0
"""Resident workers give the messages that the receiver's own loops give: on CPU threads always, on
a GPU where there is one; and their kernel compiles."""

import contextlib
import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import denizen
from denizen import CompileError, iq
from denizen.compilers import cubin_of
from denizen.radio import Receiver, mode_s, modulate

DEVICES = ["cpu:1", "cpu:3", pytest.param("gpu", marks=pytest.mark.gpu)]
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


SIGNALS = ["made", *(["modes1.bin"] if (DATA / "modes1.bin").is_file() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SIGNALS)
def test_messages_are_the_receivers(made, name, device):
    """Of a made signal, and of dump1090's recording in the folder that DENIZEN_DATA names."""
    signal = made if name == "made" else (DATA / name).read_bytes()
    plain, resident = Receiver((50, 8)), Receiver((50, 8), device)
    expected = all_of(plain, signal)
    assert len(expected) > 150
    assert all_of(resident, signal) == expected
    assert resident.aircraft == plain.aircraft
    for count in ("samples", "messages", "repaired"):
        assert resident.counts[count] == plain.counts[count]


@pytest.mark.parametrize("device", [None, *DEVICES])
def test_samples_are_read_in_place(made, device):
    with memory_for(device, len(made)) as memory:
        memory[:] = np.frombuffer(made, np.uint8)
        receiver = Receiver(device=device)
        messages = []
        for at in range(0, len(made), 1_000_000):
            messages += receiver.feed(memory[at : at + 1_000_000], in_place=True)
            assert receiver.released <= min(at + 1_000_000, len(made)) // 2
        messages += receiver.finish()
        assert receiver.released == len(made) // 2
        assert messages == all_of(Receiver(), made)


def memory_for(device, size):
    """An array of bytes that the workers of `device` reach."""
    if device != "gpu":
        return contextlib.nullcontext(np.empty(size, np.uint8))
    return _pinned(size)


@contextlib.contextmanager
def _pinned(size):
    nothing = denizen.message("Nothing")
    text = "struct Idle { void on(const Nothing&, auto&) {} };"
    program = denizen.Program(text, actors=["Idle"], messages=[nothing], name="idle")
    with denizen.Runtime(program, device="gpu") as rt, rt.buffer(size, "u1", "pinned") as buffer:
        yield buffer.numpy()


def test_samples_in_place_stay_while_workers_read_them(made):
    receiver = Receiver(device="cpu:1")
    samples = np.frombuffer(made, np.uint8).copy()
    there = weakref.ref(samples)
    messages = receiver.feed(samples, in_place=True)
    del samples
    gc.collect()
    while receiver.released < len(made) // 2:
        assert there() is not None
        messages += receiver.feed(b"")
    del messages
    receiver.feed(np.zeros(0, np.uint8), in_place=True)
    gc.collect()
    assert there() is None


def test_complex_samples_are_not_read_in_place():
    with pytest.raises(denizen.ArgumentError, match="rounded to bytes, which is a copy"):
        Receiver(device="cpu:1").feed(np.zeros(9, np.complex64), in_place=True)


def test_complex_samples_are_rounded_to_bytes(made):
    x = iq.FORMATS["u8"].samples(made[:1_000_000])
    resident = Receiver(device="cpu:2")
    assert resident.feed(x) + resident.finish() == all_of(Receiver(), made[:1_000_000])


@pytest.mark.parametrize("device", DEVICES)
def test_finer_samples_agree_within_the_rounding_to_bytes(made, device):
    """Workers take bytes, the receiver's loops 64ths of a byte's step: what differs are levels by
    the rounding, and a few frames at the limit."""
    x = iq.FORMATS["u8"].samples(made)
    rng = np.random.default_rng(3)
    x += (rng.uniform(-0.5, 0.5, (2, len(x))) / 127.5 * np.array([[1], [1j]])).sum(0).astype("c8")
    resident, plain = Receiver(device=device), Receiver()
    got = resident.feed(x) + resident.finish()
    assert got == all_of(Receiver(), iq.FORMATS["u8"].bytes(x))  # exactly those of the bytes
    expected = {(m["frame"], m["sample"]): m for m in plain.feed(x) + plain.finish()}
    assert len(expected) > 150
    both = [(m, expected[key]) for m in got if (key := (m["frame"], m["sample"])) in expected]
    assert len(both) > 0.97 * max(len(got), len(expected))
    assert max(abs(a["level"] - b["level"]) for a, b in both) < 0.5


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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("breath", ["auto", None, 0, 300])
def test_a_breath_changes_no_message(made, device, breath):
    signal = made[:1_000_000]
    expected = all_of(Receiver(), signal)
    assert all_of(Receiver(device=device, breath_us=breath), signal) == expected


@pytest.mark.parametrize("breath", [-1, 1_000_001, 2.5, "long"])
def test_wrong_breaths(breath):
    with pytest.raises(denizen.ArgumentError, match="one kernel for ever"):
        Receiver(device="cpu:1", breath_us=breath)


@pytest.mark.usefixtures("unoptimised")
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
