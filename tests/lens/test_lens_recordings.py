# SPDX-License-Identifier: Apache-2.0
"""Recordings of real processes, played again through the hooks of the library without a GPU.

A recording is ``captures/GPU-DRIVER-NAME.recording.gz``, the log of a run in mode ``count`` with
DENIZEN_LENS_RECORD=1. That what is played there is recorded and played again is tested by
capture_test.cpp, on the driver that it plays.
"""

import gzip
import os
import subprocess
from pathlib import Path

import pytest

from denizen.lens import launch, log, places

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "release"
REPLAY = BUILT / "tests" / "lens" / "lens_replay"
LIBRARY = BUILT / "lens" / launch.LIBRARY
RECORDINGS = sorted(Path(__file__).with_name("captures").glob("*.recording.gz"))


def same(capture):
    """What two captures of the same process share: all but times, threads and names."""
    bells = [submission.doorbell for submission in capture.submissions]
    bells.sort(key=lambda bell: bell.channel)  # those of a channel stay in order
    return {
        "channels": [channel._replace(userd=0, time_ns=0) for channel in capture.channels.values()],
        "engines": capture.engines,
        "doorbells": [
            (b.channel, b.token, b.put_old, b.put_new, b.bytes, b.entry.tolist()) for b in bells
        ],
    }


@pytest.mark.skipif(not (REPLAY.exists() and LIBRARY.exists()), reason="lens_replay is not built")
@pytest.mark.parametrize("packed", RECORDINGS, ids=lambda path: path.name)
def test_a_real_process_is_captured_again(packed, tmp_path):
    recording = tmp_path / "recording.lens"
    recording.write_bytes(gzip.decompress(packed.read_bytes()))
    first = log.read(recording)
    assert first.header.mode == "count" and first.complete and first.end.lost_records == 0
    device = tmp_path / "device"
    device.mkdir()
    for name in ("ctl", "-uvm", "-modeset", *map(str, range(16))):
        (device / f"nvidia{name}").touch()
    (device / "version").write_text(
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {first.header.driver}  Release\n"
    )
    logs = tmp_path / "logs"
    logs.mkdir()
    played = subprocess.run(
        [str(REPLAY), str(recording)],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "DENIZEN_LENS_FAKE": str(device), "DENIZEN_LENS_DIR": str(logs),
             "DENIZEN_LENS_MODE": "count", "LD_PRELOAD": str(LIBRARY)},
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    (path,) = launch.logs(logs)
    again = log.read(path)
    assert again.complete and not again.instructions
    assert same(again) == same(first)
    assert again.submissions
    # As the paper found on an A40: rings on the device, pushbuffers in the host's memory.
    told = places.summary(again)
    for where in "GPFIFO in device", "USERD in device", "pushbuffer in system":
        assert f"{where} memory (" in told
    assert "unknown" not in told
