# SPDX-License-Identifier: Apache-2.0
"""``denizen run adsb`` as a user meets it: its own process, what it prints, its exit status."""

import contextlib
import itertools
import json
import os
import re
import subprocess
import sys

import pytest

from denizen import dsp, iq
from denizen.apps.adsb.map import Map


def run_adsb(*words, data=None, timeout=60):
    return subprocess.run(
        [sys.executable, "-m", "denizen", "run", "adsb", *map(str, words)],
        capture_output=True,
        input=data,
        timeout=timeout,
        check=False,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("signal") / "made.bin"
    done = run_adsb(path, "--generate", "--seconds", "1.5", "--aircraft", "5", "--snr", "20:30")
    assert done.returncode == 0, done.stderr
    assert re.search(rb"made\.bin: \d+ frames of 5 aircraft in 1\.5 s", done.stdout)
    assert path.stat().st_size == 2 * 3_000_000
    return path


def test_table(made):
    done = run_adsb(made)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert text.startswith("5 aircraft")
    assert re.search(r"\d+ messages \(\d+ repaired\) in 1\.50 s of signal, decoded at", text)


def test_lines_from_a_file_and_from_a_pipe(made):
    done = run_adsb(made, "--json")
    assert done.returncode == 0, done.stderr
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({message["icao"] for message in messages}) == 5
    assert all(a["time"] < b["time"] for a, b in itertools.pairwise(messages))
    assert any("latitude" in message for message in messages)
    piped = run_adsb("-", "--json", data=made.read_bytes())
    assert (piped.returncode, piped.stdout) == (0, done.stdout)


@pytest.mark.parametrize(("form", "rate"), [("f32", "2e6"), ("i16", "2e6"), ("f32", "2.4e6")])
@pytest.mark.parametrize("device", [(), ("--device", "cpu:2")])
def test_other_formats_and_rates(made, tmp_path, form, rate, device):
    path = tmp_path / f"made.{form}"
    x = iq.FORMATS["u8"].samples(made.read_bytes())
    if rate != "2e6":
        x = dsp.resampler(2_000_000, 2_400_000)(x)
    with iq.create(str(path), form=form, rate=round(float(rate))) as sink:
        sink.write(x)
    done = run_adsb(path, "--json", "--format", form, "--rate", rate, *device)
    assert done.returncode == 0, done.stderr
    frames = {json.loads(line)["frame"] for line in done.stdout.splitlines()}
    want = {json.loads(line)["frame"] for line in run_adsb(made, "--json").stdout.splitlines()}
    if rate == "2e6":
        assert frames == want
    else:
        assert len(frames & want) > 0.9 * len(want)


def test_who_reads_may_stop(made):
    """As `| head -1` does."""
    signal = made.read_bytes()
    process = subprocess.Popen(
        [sys.executable, "-m", "denizen", "run", "adsb", "-", "--json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdin.write(signal[: len(signal) // 2])
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["df"]
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(signal[len(signal) // 2 :])
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    assert (process.wait(60), process.stderr.read()) == (141, b"")
    process.stderr.close()


def test_map(made, tmp_path):
    page = tmp_path / "out.html"
    done = run_adsb(made, "--map", page, "--position", "50,8")
    assert done.returncode == 0, done.stderr
    assert b"out.html: map of 5 aircraft" in done.stderr
    text = page.read_text(encoding="utf-8")
    assert not re.search(r'(src|href|@import|url\()\s*=?\s*["\']?(https?:)?//', text)
    data = json.loads(re.search(r"^const data = (.*);$", text, re.MULTILINE)[1])
    assert data["receiver"] == [50, 8]
    assert len(data["aircraft"]) == 5
    assert all(len(one["trail"]) >= 1 for one in data["aircraft"])


def test_a_map_holds_text_off_the_air_as_data(tmp_path):
    drawn = Map()
    drawn.add({"icao": "ABCDEF", "time": 1.0, "latitude": 1.0, "longitude": 2.0})
    drawn.write(tmp_path / "x.html", [{"icao": "ABCDEF", "callsign": "</script><b>"}])
    assert "</script><b>" not in (tmp_path / "x.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"there is no data"),
        (b"\x80" * 10001, r"10,001 bytes are no whole number of I/Q pairs: the file is cut short"),
        (b"RIFF" + bytes(range(256)) * 40, r"this is a WAV file; expected raw unsigned 8-bit I/Q"),
        (b"time,lat,lon\n1,2,3\n" * 500, r"this is text; expected"),
        (b"\0" * 10000, r"the mean of its bytes is 0\.0, not about 127\.5; expected"),
    ],
)
def test_wrong_files_are_one_line(tmp_path, data, message):
    path = tmp_path / "bad.bin"
    path.write_bytes(data)
    done = run_adsb(path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert re.fullmatch(rf"denizen: .*bad\.bin: {message}.*\n", done.stderr.decode())


def test_missing_file_and_folder(tmp_path):
    for path, message in ((tmp_path / "none.bin", "No such file"), (tmp_path, "directory")):
        done = run_adsb(path)
        assert (done.returncode, done.stdout) == (2, b"")
        assert message in done.stderr.decode()
        assert done.stderr.count(b"\n") == 1


def test_a_stream_cut_within_a_sample_is_told_after_its_messages(made):
    done = run_adsb("-", "--json", data=made.read_bytes()[:-1])
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) > 10
    assert done.stderr == b"denizen: stdin: the stream ended after an I without its Q\n"


def test_messages_of_a_live_stream_come_while_it_runs(made):
    """A block of signal is enough: nothing waits for the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "denizen", "run", "adsb", "-", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        os.set_blocking(process.stdin.fileno(), True)
        process.stdin.write(made.read_bytes()[: 2 * 2_500_000])
        process.stdin.flush()
        assert "icao" in json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.stdout.read()
        assert process.wait(30) == 0


@pytest.mark.parametrize("words", [["--snr", "loud"], ["--position", "91,0"], ["--seconds", "-1"]])
def test_wrong_usage_is_one_line(tmp_path, words):
    done = run_adsb(tmp_path / "x.bin", "--generate", *words)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert not (tmp_path / "x.bin").exists()
