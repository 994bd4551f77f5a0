# SPDX-License-Identifier: Apache-2.0
"""``denizen run fm`` as a user meets it: its own process, the WAV file, its exit status."""

import hashlib
import json
import subprocess
import sys
import wave

import numpy as np
import pytest

from denizen import cli

RATE = 240_000


def run_fm(*words, data=None):
    return subprocess.run(
        [sys.executable, "-m", "denizen", "run", "fm", *map(str, words)],
        capture_output=True,
        input=data,
        timeout=120,
        check=False,
    )


@pytest.fixture
def refused(capsys):
    """What the command says on stderr when it refuses its words, in one line."""

    def call(*words):
        try:
            status = cli.main(["run", "fm", *map(str, words)])
        except SystemExit as left:
            status = left.code
        said = capsys.readouterr().err
        assert (status, said.count("\n")) == (2, 1), said
        return said

    return call


def frames(path):
    with wave.open(str(path), "rb") as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (2, 2, 48_000)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 2)


def peak(side):
    """The frequency and the level of the strongest tone."""
    part = side[12_000:36_000] / 32767 * np.hanning(24_000)
    spectrum = np.abs(np.fft.rfft(part))
    return spectrum.argmax() * 2, spectrum.max() * 4 / 24_000


@pytest.fixture(scope="module", params=["u8", "i16", "f32"])
def made(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("fm") / f"made.{request.param}"
    done = run_fm(path, "--generate", "--seconds", 1, "--rate", "240e3", "--format", request.param)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_size == RATE * {"u8": 2, "i16": 4, "f32": 8}[request.param]
    return path


def test_file_and_pipe(made, tmp_path):
    out = tmp_path / "out.wav"
    words = ("--rate", RATE, "--format", made.suffix[1:])
    done = run_fm(made, "-o", out, *words)
    assert done.returncode == 0, done.stderr
    assert b"1.00 s of audio at 48,000 Hz, stereo for 9" in done.stdout
    audio = frames(out)
    assert abs(len(audio) - 48_000) <= 1
    for side, frequency in ((0, 1000), (1, 3000)):
        at, level = peak(audio[:, side])
        assert at == frequency
        assert level == pytest.approx(0.9 / 3, rel=0.02)
    piped = tmp_path / "piped.wav"
    done = run_fm("-", "-o", piped, *words, data=made.read_bytes())
    assert done.returncode == 0, done.stderr
    assert piped.read_bytes() == out.read_bytes()


def test_the_de_emphasis_of_the_americas(made, tmp_path):
    """On a station of Europe's 50 us treble is too low, by the ratio of the two filters."""
    out = tmp_path / "out.wav"
    words = ("--rate", RATE, "--format", made.suffix[1:], "--de-emphasis", 75)
    done = run_fm(made, "-o", out, *words)
    assert done.returncode == 0, done.stderr
    audio = frames(out)
    for side, frequency in ((0, 1000), (1, 3000)):
        at, level = peak(audio[:, side])
        passed = [abs(1 + 2j * np.pi * frequency * tau) for tau in (50e-6, 75e-6)]
        assert at == frequency
        assert level == pytest.approx(0.9 / 3 * passed[0] / passed[1], rel=0.02)


@pytest.fixture(scope="module")
def signal(tmp_path_factory):
    path = tmp_path_factory.mktemp("sigmf") / "made.sigmf-data"
    done = run_fm(path, "--generate", "--seconds", 0.3)
    assert done.returncode == 0, done.stderr
    return path


def describe(signal, **fields):
    said = {
        "core:datatype": "cu8",
        "core:sample_rate": RATE,
        "core:version": "1.2.0",
        "core:sha512": hashlib.sha512(signal.read_bytes()).hexdigest(),
    }
    said.update(fields)
    meta = signal.with_suffix(".sigmf-meta")
    said = {key: value for key, value in said.items() if value is not None}
    meta.write_text(json.dumps({"global": said, "captures": [], "annotations": []}))
    return meta


def test_sigmf(signal, tmp_path):
    meta = describe(signal)
    outs = [tmp_path / "a.wav", tmp_path / "b.wav"]
    for source, out in zip((meta, signal), outs, strict=True):
        done = run_fm(source, "-o", out)
        assert done.returncode == 0, done.stderr
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert abs(len(frames(outs[0])) - 0.3 * 48_000) <= 1


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"core:sha512": "0" * 128}, "its SHA-512 is not the one that made.sigmf-meta says"),
        ({"core:datatype": "cf64_le"}, 'core:datatype is "cf64_le", none of cu8, ci16_le'),
        ({"core:sample_rate": None}, "SigMF's field 'core:sample_rate' is missing"),
        ({"core:num_channels": 2}, "2 channels; expected 1"),
        ({"core:sample_rate": "fast"}, "this is no description by SigMF"),
        ({"core:sample_rate": 48_000}, "broadcast FM needs 200,000"),
    ],
)
def test_wrong_sigmf(signal, tmp_path, refused, fields, says):
    assert says in refused(describe(signal, **fields), "-o", tmp_path / "out.wav")
    assert not (tmp_path / "out.wav").exists()


@pytest.mark.parametrize(
    ("data", "words", "says"),
    [
        (b"", ("--rate", RATE), "there is no data"),
        (b"RIFF" + bytes(8188), ("--rate", RATE), "this is a WAV file; expected raw unsigned"),
        (bytes(8192), ("--rate", RATE), "the mean of its bytes is 0.0"),
        (b"1.5, 2.5\n" * 1000, ("--rate", RATE), "this is text"),
        (b"\x80" * 8191, ("--rate", RATE), "8,191 bytes are no whole number of I/Q pairs"),
        (b"\x80" * 8190, ("--rate", RATE, "--format", "f32"), "no whole number of I/Q pairs"),
        (b"\xff" * 8192, ("--rate", RATE, "--format", "f32"), "sample 0 is nan; expected raw 32"),
        (b"\x80" * 8192, (), "raw I/Q does not say its rate: give --rate HZ"),
        (b"\x80" * 8192, ("--rate", 44_100), "rate is 44100 Hz; broadcast FM needs"),
        (b"\x80" * 8192, ("--rate", "0.5"), "is no whole number of samples a second"),
        (b"\x80" * 8192, ("--rate", RATE, "--de-emphasis", 60), "invalid choice: 60"),
    ],
)
def test_wrong_input_is_one_line_and_no_file(tmp_path, refused, data, words, says):
    path = tmp_path / "in.bin"
    path.write_bytes(data)
    assert says in refused(path, "-o", tmp_path / "out.wav", *words)
    assert not (tmp_path / "out.wav").exists()


def test_a_stream_cut_within_a_sample_keeps_what_came(tmp_path):
    out = tmp_path / "out.wav"
    done = run_fm("-", "-o", out, "--rate", RATE, data=b"\x80\x7f" * 100_000 + b"\x80")
    assert done.returncode == 2
    assert done.stderr == b"denizen: stdin: the stream ended after an I without its Q\n"
    assert abs(len(frames(out)) - 20_000) <= 1


def test_missing_files(tmp_path, refused):
    assert "No such file" in refused(tmp_path / "no", "-o", tmp_path / "x", "--rate", RATE)
    path = tmp_path / "in.bin"
    path.write_bytes(b"\x80\x7f" * 5000)
    out = tmp_path / "no" / "x.wav"
    assert f"x.wav: there is no folder {out.parent}" in refused(path, "-o", out, "--rate", RATE)
    assert "give the file for the audio: -o WAV" in refused(path, "--rate", RATE)
