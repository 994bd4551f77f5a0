# SPDX-License-Identifier: Apache-2.0
"""I/Q in files: what is written is read back, other programs read it too, and what is none, or is
cut short, is told in a sentence."""

import hashlib
import json
import struct
import wave

import numpy as np
import pytest

from denizen import ArgumentError, iq
from denizen.iq import wav

RATE = 240_000
STEP = {"u8": 1 / 127.5, "i16": 1 / 32768, "f32": 1e-9}


def noise(count, level=0.2, seed=0):
    random = np.random.default_rng(seed)
    parts = random.standard_normal((count, 2)) * level
    return parts.astype(np.float32).view(np.complex64)[:, 0]


def read(name, **given):
    with iq.open(str(name), **given) as source:
        return source.rate, np.concatenate(list(source.blocks()))


@pytest.mark.parametrize("form", iq.FORMATS)
@pytest.mark.parametrize("name", ["a.bin", "a.sigmf-meta", "a.sigmf-data", "a.wav"])
def test_what_is_written_is_read_back(tmp_path, form, name):
    x = noise(100_001)
    with iq.create(str(tmp_path / name), form=form, rate=RATE) as sink:
        for at in range(0, len(x), 30_000):
            sink.write(x[at : at + 30_000])
    given = {"form": form, "rate": RATE} if name == "a.bin" else {}
    rate, got = read(tmp_path / name, **given)
    assert rate == RATE
    assert got.dtype == np.complex64
    assert len(got) == len(x)
    inside = (np.abs(x.real) < 0.99) & (np.abs(x.imag) < 0.99)
    assert np.abs(got - x)[inside].max() <= STEP[form]


@pytest.mark.parametrize("form", ["u8", "i16"])
def test_what_is_beyond_full_scale_is_clipped(tmp_path, form):
    with iq.create(str(tmp_path / "a.wav"), form=form, rate=RATE) as sink:
        sink.write(np.array([2 - 3j, 0.5], np.complex64))
    _, got = read(tmp_path / "a.wav")
    np.testing.assert_allclose(got, [1 - 1j, 0.5], atol=1 / 127)


def test_the_standard_library_reads_our_wav(tmp_path):
    x = noise(1001)
    with iq.create(str(tmp_path / "a.wav"), form="i16", rate=RATE) as sink:
        sink.write(x)
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (2, 2, RATE)
        parts = np.frombuffer(file.readframes(2000), "<i2")
    np.testing.assert_array_equal(parts, np.clip(np.rint(x.view("f4") * 32768), -32768, 32767))


def test_scipy_reads_our_wav_and_we_its(tmp_path):
    wavfile = pytest.importorskip("scipy.io.wavfile")
    x = noise(1001)
    with iq.create(str(tmp_path / "a.wav"), form="f32", rate=RATE) as sink:
        sink.write(x)
    rate, parts = wavfile.read(tmp_path / "a.wav")
    assert rate == RATE
    np.testing.assert_array_equal(parts, x.view("f4").reshape(-1, 2))
    wavfile.write(tmp_path / "b.wav", RATE, parts)
    np.testing.assert_array_equal(read(tmp_path / "b.wav")[1], x)


def test_a_long_wav_is_read_by_its_long_lengths(tmp_path):
    x = noise(500)
    data = x.tobytes()
    path = tmp_path / "a.wav"
    long = struct.pack("<QQQI", 74 + len(data), len(data), 500, 0)
    path.write_bytes(
        b"RF64" + b"\xff" * 4 + b"WAVE" + struct.pack("<4sI", b"ds64", 28) + long
        + struct.pack("<4sIHHIIHH", b"fmt ", 40, 0xFFFE, 2, RATE, RATE * 8, 8, 32)
        + struct.pack("<HHIH14s", 22, 32, 3, 3, b"\0" * 14)
        + b"data" + b"\xff" * 4 + data + b"LIST\4\0\0\0abcd"
    )  # fmt: skip
    np.testing.assert_array_equal(read(path)[1], x)


def test_a_header_over_4_gib_is_rf64():
    length = 5 << 30
    header = wav.header(iq.FORMATS["i16"], RATE, length)
    assert header[:16] == b"RF64" + b"\xff" * 4 + b"WAVE" + b"ds64"
    assert struct.unpack_from("<QQQ", header, 20) == (74 + length, length, length // 4)
    assert header[-8:] == b"data" + b"\xff" * 4
    assert len(header) == 82 == len(wav.header(iq.FORMATS["i16"], RATE, 100))


def test_pypis_sigmf_agrees(tmp_path):
    sigmf = pytest.importorskip("sigmf")
    x = noise(5000)
    for form in iq.FORMATS:
        meta = tmp_path / f"{form}.sigmf-meta"
        with iq.create(str(meta), form=form, rate=RATE) as sink:
            sink.write(x)
        theirs = sigmf.sigmffile.fromfile(str(meta))
        theirs.validate()
        assert theirs.get_global_field("core:sample_rate") == RATE
        assert theirs.sample_count == 5000
        assert theirs.get_global_field("core:sha512") == theirs.calculate_hash()
        if form == "f32":
            np.testing.assert_array_equal(theirs.read_samples(), x)
    data = tmp_path / "b.sigmf-data"
    x.tofile(data)
    theirs = sigmf.SigMFFile(
        data_file=str(data),
        global_info={"core:datatype": "cf32_le", "core:sample_rate": 2e6, "core:version": "1.0.0"},
    )
    theirs.add_capture(0)
    theirs.tofile(str(tmp_path / "b.sigmf-meta"))
    rate, got = read(tmp_path / "b.sigmf-meta")
    assert rate == 2_000_000
    np.testing.assert_array_equal(got, x)


def described(tmp_path, data=None, captures=(), **fields):
    data = noise(5000).tobytes() if data is None else data
    (tmp_path / "a.sigmf-data").write_bytes(data)
    said = {
        "core:datatype": "cf32_le",
        "core:sample_rate": RATE,
        "core:sha512": hashlib.sha512(data).hexdigest(),
        **fields,
    }
    meta = tmp_path / "a.sigmf-meta"
    said = {name: value for name, value in said.items() if value is not None}
    meta.write_text(json.dumps({"global": said, "captures": list(captures)}))
    return meta


def test_sigmf_with_data_of_another_name(tmp_path):
    meta = described(tmp_path, **{"core:dataset": "other.bin"})
    (tmp_path / "a.sigmf-data").rename(tmp_path / "other.bin")
    np.testing.assert_array_equal(read(meta)[1], noise(5000))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"core:sha512": "0" * 128}, r"a\.sigmf-data: its SHA-512 is not the one that a\.sigmf-me"),
        ({"core:datatype": "ci16_be"}, '"ci16_be", none of cu8, ci16_le, cf32_le; convert'),
        ({"core:datatype": None}, "SigMF's field 'core:datatype' is missing"),
        ({"core:num_channels": 2}, "2 channels; expected 1"),
        ({"core:sample_rate": 0.5}, "core:sample_rate is 0.5; expected a whole number"),
        ({"core:sample_rate": "fast"}, "this is no description by SigMF"),
        ({"core:trailing_bytes": 4}, "4 bytes of headers or trailers"),
        ({"captures": [{"core:header_bytes": 12}]}, "12 bytes of headers or trailers"),
        ({"core:dataset": "none.bin"}, r"none\.bin: No such file"),
        ({"data": b"\0" * 8004, "core:sha512": None}, "8,004 bytes are no whole number"),
    ],
)
def test_wrong_sigmf(tmp_path, fields, says):
    with pytest.raises(iq.DataError, match=says):
        iq.open(str(described(tmp_path, **fields)))


def test_sigmf_that_lacks_a_file(tmp_path):
    meta = described(tmp_path)
    (tmp_path / "a.sigmf-data").unlink()
    with pytest.raises(iq.DataError, match=r"a\.sigmf-data: No such file"):
        iq.open(str(meta))
    meta.unlink()
    with pytest.raises(iq.DataError, match=r"a\.sigmf-meta: No such file"):
        iq.open(str(tmp_path / "a.sigmf-data"))
    meta.write_text("[]")
    with pytest.raises(iq.DataError, match="no description by SigMF"):
        iq.open(str(meta))
    with pytest.raises(iq.DataError, match="unpack it with tar"):
        iq.open(str(tmp_path / "a.sigmf"))


def made_wav(*, tag=1, channels=2, bits=16, data=b"\1\0" * 400, said=None, fmt=True):
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, tag, channels, RATE, 0, 0, bits)
    length = len(data) if said is None else said
    body = b"WAVE" + (form if fmt else b"") + struct.pack("<4sI", b"data", length) + data
    return struct.pack("<4sI", b"RIFF", len(body)) + body


@pytest.mark.parametrize("said", [0, 0xFFFFFFFF])
def test_a_recorder_that_was_stopped(tmp_path, said):
    (tmp_path / "a.wav").write_bytes(made_wav(said=said))
    assert len(read(tmp_path / "a.wav")[1]) == 200


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "ends within its header: it is cut short"),
        (made_wav()[:30], "ends within its header"),
        (made_wav()[:-1], "says 800 bytes of data, but 799 are there: it is cut short"),
        (made_wav(data=b"\1\0" * 401), "802 bytes of data are no whole number of I/Q pairs"),
        (made_wav(channels=1), r"1 channel\(s\); expected two, I left and Q right"),
        (made_wav(bits=24), "24 bits of format 1; expected 8 or 16 bits of PCM"),
        (made_wav(tag=3, bits=64), "64 bits of format 3"),
        (made_wav(fmt=False), 'no chunk "fmt " before its data'),
        (b"\x80\x7f" * 500, "this is no WAV file"),
    ],
)
def test_wrong_wav(tmp_path, data, says):
    path = tmp_path / "a.wav"
    path.write_bytes(data)
    with pytest.raises(iq.DataError, match=says):
        iq.open(str(path))


def test_an_empty_wav_has_no_data(tmp_path):
    (tmp_path / "a.wav").write_bytes(made_wav(data=b""))
    with pytest.raises(iq.DataError, match=r"a\.wav: there is no data"):
        read(tmp_path / "a.wav")


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("a.wav", {"rate": 1}, "WAV says rate and format: leave out"),
        ("a.sigmf-meta", {"form": "u8"}, "SigMF says rate and format"),
        ("a.bin", {"form": "u4"}, 'format is "u4"; give one of u8, i16, f32'),
        ("http://a/b", {}, '"http" is no place for signals; give a file, or udp://, zmq://, soapy'),
        ("udp://nothing", {}, "expected HOST:PORT"),
        ("udp://127.0.0.1:9?speed=2", {}, 'no option "speed"; there are format, rate, header'),
        ("udp://127.0.0.1:9?rate=fast", {}, 'rate is "fast"'),
        ("udp://127.0.0.1:9?rate=0.5", {}, "rate is 0.5; give a whole number"),
        ("udp://127.0.0.1:9?format=u4", {}, 'format is "u4": expected one of u8, i16, f32'),
        ("udp://127.0.0.1:9?rate=2e6", {"rate": 1}, "rate is 2000000 there and 1 beside it"),
    ],
)
def test_wrong_names(tmp_path, name, given, says):
    path = name if "://" in name else str(tmp_path / name)
    with pytest.raises(ArgumentError, match=says):
        iq.open(path, **given)


def test_wrong_sinks(tmp_path):
    with pytest.raises(ArgumentError, match="such a file says its rate: give one"):
        iq.create(str(tmp_path / "a.wav"))
    with pytest.raises(iq.DataError, match="No such file"):
        iq.create(str(tmp_path / "no" / "a.bin"))
    with pytest.raises(ArgumentError, match="nothing is sent"):
        iq.create("soapy://driver=x")
    with pytest.raises(ArgumentError, match="say where to send"):
        iq.create("udp://:0")
    with pytest.raises(ArgumentError, match="size is 8"):
        iq.create("udp://127.0.0.1:9?size=8")
