# SPDX-License-Identifier: Apache-2.0
"""``denizen run adsb`` and ``fm`` from every kind of source: the same messages, the same audio."""

import contextlib
import itertools
import json
import select
import signal as signal_numbers
import socket
import struct
import subprocess
import sys

import numpy as np
import pytest

from denizen import ArgumentError, dsp, iq
from denizen.apps.adsb import load
from denizen.radio import Receiver, broadcast, modulate

SAMPLES = 1_000_000


@pytest.fixture(scope="module")
def bursts():
    return modulate.traffic(0.5, 20, (12, 30), seed=3)


@pytest.fixture(scope="module")
def signal(bursts):
    return modulate.modulate(bursts, SAMPLES, seed=3)


@pytest.fixture(scope="module")
def expected(signal):
    receiver = Receiver()
    messages = receiver.feed(signal) + receiver.finish()
    assert len(messages) > 60
    return messages


def received(source):
    receiver = Receiver()
    found = [receiver.feed(piece) for piece in load.signal(source)]
    return [*itertools.chain(*found), *receiver.finish()]


@pytest.mark.parametrize("form", iq.FORMATS)
@pytest.mark.parametrize("name", ["a.bin", "a.sigmf-meta", "a.wav"])
def test_every_file_gives_the_same_messages(tmp_path, signal, expected, name, form):
    with iq.create(str(tmp_path / name), form=form, rate=2_000_000) as sink:
        sink.write(iq.FORMATS["u8"].samples(signal.tobytes()))
    given = {"form": form} if name == "a.bin" else {"form": None}
    with load.opened(str(tmp_path / name), given["form"], None) as source:
        assert received(source) == expected


def test_complex_samples_do_not_depend_on_how_they_are_cut(signal, expected):
    x = iq.FORMATS["u8"].samples(signal.tobytes())
    receiver = Receiver()
    cuts = [0, 1, 7, 65_000, 65_537, 400_000, len(x)]
    found = [receiver.feed(x[a:b]) for a, b in itertools.pairwise(cuts)]
    assert [*itertools.chain(*found), *receiver.finish()] == expected


@pytest.mark.parametrize("level", [1e-3, 50.0])
def test_quiet_and_loud_signals_are_brought_to_level(tmp_path, signal, expected, level):
    x = iq.FORMATS["u8"].samples(signal.tobytes()) * np.float32(level)
    x.tofile(tmp_path / "a.bin")
    with load.opened(str(tmp_path / "a.bin"), "f32", None) as source:
        frames = {m["frame"] for m in received(source)}
    want = {m["frame"] for m in expected}
    assert len(frames & want) > 0.97 * len(want)
    assert len(frames - want) < 0.03 * len(want)


def test_a_short_signal_is_brought_to_level_too(signal):
    class Short(iq.Source):
        def pieces(self):
            yield (iq.FORMATS["u8"].samples(signal.tobytes())[:1000] * np.float32(1e-3)).tobytes()
            raise iq.DataError("cut")

    got = []
    with pytest.raises(iq.DataError, match="cut"):
        for piece in load.signal(Short("x", iq.FORMATS["f32"], None, "I/Q")):
            got.append(piece)
    assert sum(map(len, got)) == 1000
    assert np.median(np.abs(np.concatenate(got))) == pytest.approx(2 / 127.5, rel=1e-3)


def test_a_faster_signal_is_brought_to_2_msps(tmp_path, signal, expected):
    x = dsp.resampler(2_000_000, 2_400_000)(iq.FORMATS["u8"].samples(signal.tobytes()))
    with iq.create(str(tmp_path / "a.wav"), form="f32", rate=2_400_000) as sink:
        sink.write(x)
    with load.opened(str(tmp_path / "a.wav"), None, None) as source:
        frames = {m["frame"] for m in received(source)}
    want = {m["frame"] for m in expected}
    assert len(frames & want) > 0.85 * len(want)
    with iq.create(str(tmp_path / "b.wav"), form="f32", rate=1_000_000) as sink:
        sink.write(x)
    with pytest.raises(ArgumentError, match="1,000,000 samples a second; Mode S needs at least 2,"):
        load.opened(str(tmp_path / "b.wav"), None, None)


def denizen(*words, **more):
    command = [sys.executable, "-m", "denizen", "run", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def free_port(kind):
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.mark.parametrize("scheme", ["udp", "zmq"])
def test_adsb_over_a_network(tmp_path, scheme):
    """One process makes a signal and sends it, another decodes it."""
    if scheme == "zmq":
        pytest.importorskip("zmq")
    kind = socket.SOCK_DGRAM if scheme == "udp" else socket.SOCK_STREAM
    name = f"{scheme}://127.0.0.1:{free_port(kind)}?timeout=20&"
    take = denizen("adsb", name + ("header=seq" if scheme == "udp" else "kind=pull"), "--json")
    made = ("--generate", "--seconds", 1, "--aircraft", 6, "--snr", "20:30")
    if scheme == "udp":  # until somebody listens, what is sent is lost
        first = b""
        for _ in range(20):
            send = denizen("adsb", name + "rate=2e6", *made)
            assert send.wait(60) == 0, send.stderr.read()
            send.communicate()
            if take.poll() is not None:
                break
    else:
        send = denizen("adsb", name + "kind=push", *made)
        assert send.wait(60) == 0, send.stderr.read()
        send.communicate()
    first, told = take.communicate(timeout=60)
    assert take.returncode == 0, told
    messages = [json.loads(line) for line in first.splitlines()]
    assert len({message["icao"] for message in messages}) == 6


def test_ctrl_c_ends_a_live_source_and_writes_the_map(tmp_path, signal):
    port = free_port(socket.SOCK_DGRAM)
    page = tmp_path / "map.html"
    name = f"udp://127.0.0.1:{port}"
    take = denizen("adsb", name, "--json", "--map", page)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", port))
            numbers = itertools.count()
            while not select.select([take.stdout], [], [], 0.02)[0]:
                assert take.poll() is None
                for at in range(0, 400_000, 40_000):  # enough for two blocks, again and again
                    part = signal[at : at + 40_000].tobytes()
                    with contextlib.suppress(ConnectionRefusedError):
                        sock.send(struct.pack("<Q", next(numbers)) + part)
        take.send_signal(signal_numbers.SIGINT)
        out, err = take.communicate(timeout=60)
    finally:
        take.kill()
    assert take.returncode == 0, err
    assert b"map.html: map of" in err
    assert b"icao" in out
    assert page.exists()


def test_fm_from_wav_and_sigmf_is_the_same(tmp_path):
    x = broadcast.modulate([broadcast.Tone(1000, 0.3)], [broadcast.Tone(3000, 0.3)], 240_000, 0.2)
    outs = []
    for name in ("a.wav", "a.sigmf-data", "a.bin"):
        with iq.create(str(tmp_path / name), form="i16", rate=240_000) as sink:
            sink.write(x)
        outs.append(tmp_path / f"{name}.out")
        said = () if name != "a.bin" else ("--format", "i16", "--rate", 240_000)
        done = denizen("fm", tmp_path / name, "-o", outs[-1], *said)
        told = done.communicate(timeout=60)
        assert done.returncode == 0, told
    assert outs[0].read_bytes() == outs[1].read_bytes() == outs[2].read_bytes()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("adsb", "soapy://driver=x"), "SoapySDR|say where to listen"),
        (("adsb", "ftp://x"), '"ftp" is no place for signals'),
        (("adsb", "udp://127.0.0.1:0?timeout=0.1"), "no datagram with samples came in 0.1 s; exp"),
        (("fm", "udp://127.0.0.1:0?timeout=0.1", "-o", "x.wav"), "does not say its rate: give --r"),
        (("adsb", "a.wav", "--rate", "2e6"), "WAV says rate and format"),
    ],
)
def test_wrong_sources_are_one_line(tmp_path, words, says):
    done = denizen(*words, cwd=tmp_path)
    out, err = done.communicate(timeout=60)
    assert out == b""
    assert done.returncode in (1, 2)
    assert err.count(b"\n") == 1, err
    assert any(part in err.decode() for part in says.split("|")), err
