# SPDX-License-Identifier: Apache-2.0
"""Log files: every record is read, the layout is the C++ one, damage is named and never fatal."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest
import stream as s
from hypothesis import given, settings
from hypothesis import strategies as st

from denizen.lens import log

FORMAT = Path(__file__).resolve().parents[2] / "lens" / "format.hpp"
CODES = {
    "uint64_t": "Q", "uint32_t": "I", "int32_t": "i", "uint16_t": "H",
    "Mode": "I", "KernelCall": "I", "Aperture": "I",
}  # fmt: skip


def fields(name):
    """The struct format of a C++ struct in lens/format.hpp, without its RecordHeader."""
    body = re.search(rf"^struct {name} {{(.*?)^}};", FORMAT.read_text(), re.DOTALL | re.MULTILINE)[
        1
    ]
    code = "<"
    for kind, array in re.findall(r"^\s+(\w+) \w+(?:\[(\d+)\])?;", body, re.MULTILINE):
        if kind in {"char", "uint8_t"}:
            code += f"{array}s"
        elif kind != "RecordHeader":
            code += CODES[kind] * int(array or 1)
    return code


def test_the_layout_is_that_of_the_library():
    text = FORMAT.read_text()
    listed = re.search(r"^enum class Kind .*?^};", text, re.DOTALL | re.MULTILINE)[0]
    kinds = dict(re.findall(r"^    (\w+) =\s+(\d+),", listed, re.MULTILINE))
    assert len(kinds) == len(log.BODIES)
    for kind, number in kinds.items():
        name = "".join(part.capitalize() for part in kind.split("_")) + "Record"
        body = log.BODIES[int(number)]
        assert struct.Struct(fields(name)).size == body.size, name
        expanded = re.sub(r"(\d+)([QI])", lambda m: m[2] * int(m[1]), body.format)
        assert expanded == fields(name), name
    assert re.sub(r"136s$", "", fields("LogHeader")) == log._HEADER.format.replace("3I", "III")
    assert f"log_version = {log.VERSION};" in text


def test_what_was_asked_of_the_kernel_is_read():
    body = struct.pack("<Ii4QII", 4, -1, 0x2B, 0, 0, 0, 3, 5)
    data = s.record(17, body, b"abc\0\0\0\0\0" + b"second"[:5])
    ((found, after),) = log.records(data)
    assert found == log.KernelCall(4, -1, (0x2B, 0, 0, 0), b"abc", b"secon")
    assert after == len(data)


def example():
    made = (
        s.Log().thread(7).channel(0).name(0x2000001, "cudaMemcpyAsync").name(0x1000002, "cuMemcpy")
    )
    copy = s.engine_copy(1 << 33, 2 << 33, 4096)
    made.submit(0, copy, api=0x2000001, inner=0x1000002, call=1).call(1, 0x2000001, 2000, 5000)
    two = s.words(s.host_release(0x100, 1))
    made.doorbell(0, [s.entry(64, len(two)), s.entry(128, 3), 0], [two, None])
    return made.note("hello").count(0x2000001, 12).lost(1, 2, 3)


def test_everything_is_read(tmp_path):
    capture = log.read(example().end().write(tmp_path / "a.lens"))
    assert capture.header.mode == "full" and capture.header.driver == "580.159.04"
    assert capture.header.process == "prog" and capture.header.pid == 4711
    assert capture.arguments == ["prog", "--fast"]
    assert capture.threads == {7: "main"}
    assert capture.channels[0].class_id == 0xC86F and capture.channels[0].gpfifo == 0x200600000
    assert capture.engines == {0: [0xCBC0, 0xC8B5]}
    assert capture.api(0x2000001) == "cudaMemcpyAsync"
    assert capture.api(0) == "?" and capture.api(0x3000005) == "API 3:5"
    first, second = capture.submissions
    assert first.doorbell.bytes == 4 * len(first.segments[0]) and first.doorbell.call == 1
    assert [None if x is None else len(x) for x in second.segments] == [6, None, None]
    assert (second.doorbell.put_old, second.doorbell.put_new) == (1, 4)
    assert capture.calls[1].end_ns == 5000
    assert capture.counts == {0x2000001: 12}
    assert capture.notes[0].text == "hello"
    assert capture.lost[0].doorbells == 3
    assert capture.end.doorbells == 2 and capture.complete


def test_long_segments_come_in_pieces(tmp_path):
    data = np.arange(40_000, dtype=np.uint32)
    made = s.Log().doorbell(0, [s.entry(0, len(data))], [data]).end()
    (submission,) = log.read(made.write(tmp_path / "a.lens")).submissions
    assert np.array_equal(submission.segments[0], data)


def test_a_missing_piece_ends_the_segment_there(tmp_path):
    made = s.Log("count").doorbell(0, [s.entry(0, 30_000)])
    header = bytearray(made.bytes)
    header[16:20] = struct.pack("<I", 2)
    for offset in (0, 80_000):  # the piece between them was lost
        part = bytes(40_000)
        header += s.record(8, struct.pack("<QQ4I", 0, 0, 0, offset, len(part), 120_000), part)
    path = tmp_path / "a.lens"
    path.write_bytes(header)
    (submission,) = log.read(path).submissions
    assert len(submission.segments[0]) == 10_000


def test_a_count_log_has_no_contents(tmp_path):
    made = s.Log("count").submit(0, s.engine_copy(1, 2, 3)).end()
    (submission,) = log.read(made.write(tmp_path / "a.lens")).submissions
    assert submission.segments == [] and submission.doorbell.bytes == 32


def test_a_killed_program_leaves_a_good_beginning(tmp_path):
    whole = example().end().bytes
    path = tmp_path / "a.lens"
    seen = set()
    for size in range(256, len(whole), 8):
        path.write_bytes(whole[:size])
        capture = log.read(path)
        assert not capture.complete
        seen.add(len(capture.submissions))
    assert seen == {0, 1, 2}


HEAD = s.Log().bytes
WILD = struct.pack("<QQ8IQIIQQ", *[0] * 8, 99, *[0] * 6)  # a doorbell with 99 entries


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is no capture"),
        (b"\x7fELF" + bytes(400), "is no capture of the lens: it begins with b'"),
        (HEAD[:100], "ends within its header \\(100 of 256 bytes\\)"),
        (HEAD[:8] + b"\2" + HEAD[9:], "log version 2, this is a reader of version 1"),
        (HEAD[:16] + b"\7" + HEAD[17:], "header is damaged \\(mode 7"),
        (HEAD + bytes(8), "record at byte 288 is damaged \\(kind 0, 0 bytes\\)"),
        (HEAD + struct.pack("<IHH", 16, 7, 0) + bytes(8), "record at byte 288 is damaged"),
        (HEAD + s.record(7, WILD), "792 bytes do not fit"),
        (HEAD + s.record(8, struct.pack("<QQ4I", 0, 0, 0, 0, 3, 3), bytes(8)), "has 3 bytes"),
    ],
)
def test_wrong_files_are_refused_with_the_reason(tmp_path, content, problem):
    path = tmp_path / "bad.lens"
    path.write_bytes(content)
    with pytest.raises(log.LensError, match=f"bad.lens.*{problem}"):
        log.read(path)


def test_no_file(tmp_path):
    with pytest.raises(log.LensError, match=r"none.lens: No such file"):
        log.read(tmp_path / "none.lens")
    with pytest.raises(log.LensError, match="Is a directory"):
        log.read(tmp_path)


def test_unknown_kinds_are_skipped(tmp_path):
    made = s.Log()
    made.bytes += s.record(99, b"x" * 24)
    capture = log.read(made.note("after").end().write(tmp_path / "a.lens"))
    assert [note.text for note in capture.notes] == ["after"]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damage_is_an_error_or_a_shorter_capture(tmp_path_factory, data):
    content = bytearray(example().end().bytes)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("lens") / "a.lens"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        capture = log.read(path)
    except log.LensError as error:
        assert "a.lens" in str(error)
    else:
        assert len(capture.submissions) <= 2


@given(st.binary(max_size=400))
def test_bytes_are_records_or_refused(data):
    try:
        places = [at for _, at in log.records(data)]
    except log.LensError:
        return
    assert places == sorted(places) and (not places or places[-1] <= len(data))
