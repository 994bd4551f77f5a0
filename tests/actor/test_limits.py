# SPDX-License-Identifier: Apache-2.0
"""Files that say or hold more than they are: readers end with one named error, and in time."""

import gzip
import io
import json
import lzma
import resource
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import denizen
from denizen import cli, graph, iq, limits, procmine, wave
from denizen.apps.flights import load as flights
from denizen.apps.transactions import load as transactions
from denizen.errors import DataError
from denizen.lab import record

MIB = 1 << 20


def str_or_none(value):
    """A file's name in a test's name, and not its bytes, in which a compressor puts the time."""
    return value if isinstance(value, str) else "content"


@pytest.fixture
def put(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


# ---- limits themselves


def test_a_limit_is_given_by_a_variable_or_for_a_while(monkeypatch):
    assert limits.most("depth") == 1000
    monkeypatch.setenv("DENIZEN_MAX_DEPTH", "5")
    assert limits.most("depth") == 5
    with limits.allowed(depth=7):
        assert limits.most("depth") == 7
        with limits.allowed(token=3):
            assert (limits.most("depth"), limits.most("token")) == (7, 3)
    assert limits.most("depth") == 5
    for wrong in ("", "-1", "many", "9" * 50):
        monkeypatch.setenv("DENIZEN_MAX_DEPTH", wrong)
        with pytest.raises(denizen.ArgumentError, match="DENIZEN_MAX_DEPTH is"):
            limits.most("depth")
    with (
        pytest.raises(denizen.ArgumentError, match='no limit is named "size"'),
        limits.allowed(size=1),
    ):
        pass


def test_defaults_are_generous():
    assert limits.most("decompressed") >= 256 * MIB
    assert limits.most("token") == 16 * MIB
    assert limits.most("vertices") >= 8 * MIB


# ---- decompressed


CSV = b"case_id,activity,timestamp\n" + b"1,a,2020-01-01\n" * 200_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.gr.gz", gzip.compress(b"c\n" * MIB)),
        ("a.gr.xz", lzma.compress(b"c\n" * MIB)),
        ("a.csv.gz", gzip.compress(CSV)),
        ("a.xes.gz", gzip.compress(b"<log>" + b"<trace></trace>" * 100_000 + b"</log>")),
    ],
    ids=str_or_none,
)
def test_decompressed(put, name, content):
    path = put(name, content)
    read = graph.read if ".gr" in name else procmine.read
    with (
        limits.allowed(decompressed=MIB),
        pytest.raises(denizen.TooLargeError, match=r"1,048,576.*DENIZEN_MAX_DECOMPRESSED") as error,
    ):
        read(path)
    assert str(error.value).startswith(str(path))


def test_what_is_within_the_limit_is_read(put):
    path = put("a.csv.gz", gzip.compress(CSV))
    with limits.allowed(decompressed=len(CSV)):
        assert len(procmine.read(path)) == 200_000


def test_a_zip(tmp_path):
    path = tmp_path / "flights.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("flights.csv", ",".join(flights.COLUMNS) + "\n" + "\n" * MIB)
    with (
        limits.allowed(decompressed=1000),
        pytest.raises(denizen.TooLargeError, match="DECOMPRESS"),
    ):
        flights.load(path)


# ---- tokens


def in_a_process(code, *words, memory=None):
    """What a Python of its own prints, in which the address space has a limit."""

    def narrow():
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True, text=True, timeout=300, check=False, preexec_fn=narrow,
    )  # fmt: skip


def test_one_attribute_of_an_xes_is_read_in_time_that_grows_as_it_does(put, monkeypatch):
    """Bytes that expat looks at: each piece once, and what is unfinished with it."""
    size = 12 * MIB
    path = put(
        "a.xes",
        b'<log><trace><string key="concept:name" value="' + b"x" * size + b'"/>'
        b'<event><string key="concept:name" value="a"/>'
        b'<date key="time:timestamp" value="2020-01-01"/></event></trace></log>',
    )
    reads = []
    opened = limits.opened

    def counted(where):
        file = opened(where)

        class File(io.BufferedIOBase):
            def read(self, count=-1):
                reads.append(count)
                return file.read(count)

            def close(self):
                file.close()

        return File()

    monkeypatch.setattr(limits, "opened", counted)
    log = procmine.read(path)
    assert len(log.cases[0]) == size
    # With every piece the unfinished attribute is scanned again.
    assert len(reads) < 20


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.xes", b'<log><trace><string key="concept:name" value="' + b"x" * (3 * MIB)),
        ("a.xes.gz", gzip.compress(b'<log a="' + b"x" * (3 * MIB) + b'"/>')),
        ("a.csv", b"case_id,activity,timestamp" + b"," * (3 * MIB)),
        ("b.csv", b"case_id,activity,timestamp\n" + b"," * (3 * MIB)),
        ("b.csv.gz", gzip.compress(b"case_id,activity,timestamp\n" + b'"' * (3 * MIB))),
    ],
    ids=str_or_none,
)
def test_tokens(put, name, content):
    path = put(name, content)
    with (
        limits.allowed(token=MIB),
        pytest.raises(denizen.TooLargeError, match=r"1,048,576.*DENIZEN_MAX_TOKEN"),
    ):
        procmine.read(path)


def test_lines_of_transactions_and_flights(put):
    path = put("a.csv", b"id,customer,dest,amount_cents,ts_ms\n" + b"1" * (40 * MIB))
    with (
        limits.allowed(token=MIB),
        pytest.raises(denizen.TooLargeError, match=r"line 2: has bytes over .*DENIZEN_MAX_TOKEN"),
    ):
        list(transactions.pieces(str(path)))
    path = put("b.csv", ",".join(flights.COLUMNS) + "\n" + "1" * (3 * MIB))
    with limits.allowed(token=MIB), pytest.raises(denizen.TooLargeError, match="MAX_TOKEN"):
        flights.load(path)


def test_depth(put):
    deep = b"<log>" + b"<list>" * 500_000
    for name, content in (("a.xes", deep), ("a.xes.gz", gzip.compress(deep))):
        with pytest.raises(denizen.TooLargeError, match=r"limit of 1,000.*DENIZEN_MAX_DEPTH"):
            procmine.read(put(name, content))


# ---- declared


def test_vertices(put):
    for name, content in (
        ("a.edges", b"0 2147483646"),
        ("a.gr", b"p sp 2147483646 1\na 1 2 1\n"),
        ("a.mtx", b"%%MatrixMarket matrix coordinate pattern general\n2000000000 2000000000 0\n"),
    ):
        with (
            limits.allowed(vertices=1000),
            pytest.raises(denizen.ArgumentError, match=r"over the limit of 1000.*MAX_VERT"),
        ):
            graph.read(put(name, content))
    with limits.allowed(vertices=1000):
        assert graph.read(put("b.edges", "0 999")).vertices == 1000


WAV = struct.pack("<4sI4s", b"RIFF", 108, b"WAVE")
FMT = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 2, 48_000, 192_000, 4, 16)


@pytest.mark.parametrize(
    "content",
    [
        WAV + struct.pack("<4sI", b"LIST", 0xFFFFFFF0) + bytes(96),
        WAV + struct.pack("<4sI", b"fmt ", 0xFFFFFFF0) + bytes(96),
        WAV + FMT + struct.pack("<4sI", b"data", 0xFFFFFFF0) + bytes(72),
    ],
    ids=["list", "format", "data"],
)
def test_wav_files_that_name_four_gigabytes(put, content):
    path = put("a.wav", content)
    code = """
import sys
from denizen import iq, wave
from denizen.errors import DenizenError, DataError
for read in (lambda p: list(iq.open(p).blocks()), wave.read_wav):
    try:
        read(sys.argv[1])
    except (DenizenError, DataError) as error:
        assert sys.argv[1] in str(error), error
    print("done")
"""
    done = in_a_process(code, path, memory=2 << 30)
    assert done.stdout == "done\n" * 2, done.stderr


@pytest.mark.parametrize(
    "shape", ["(99999999, 99999999, 1)", "(1,", "(1, 2, 'x')", "(-1, 2, 2)", "(0, 1, 1)", "None"]
)
def test_arrays_that_are_none(put, shape):
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path = put("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
    with pytest.raises(denizen.ArgumentError, match=r"a\.npy"):
        wave.read_mask(path)


def test_masks_are_read_as_ever(tmp_path):
    given = np.arange(24, dtype=np.int64).reshape(2, 3, 4) % 4
    np.save(tmp_path / "m.npy", given)
    np.testing.assert_array_equal(wave.read_mask(tmp_path / "m.npy"), given)
    (tmp_path / "e.npy").write_bytes(b"")
    with pytest.raises(denizen.ArgumentError, match=r"e\.npy"):
        wave.read_mask(tmp_path / "e.npy")


# ---- what Python raises of its own

DEEP = b"[" * 200_000


def test_deep_json(put):
    path = put("deep.json", DEEP)
    for read, kind in (
        (procmine.Reference.read, denizen.ArgumentError),
        (transactions.rules, DataError),
        (record.read, record.LabError),
    ):
        with pytest.raises(kind, match=r"deep\.json"):
            read(path)
    put("a.sigmf-data", b"")
    with pytest.raises(iq.DataError, match=r"a\.sigmf-meta"):
        iq.open(str(put("a.sigmf-meta", DEEP)))


@pytest.mark.parametrize("encoding", ["nothing", "utf-7", "shift_jis", "rot13"])
def test_xml_encodings_that_are_not_known(put, encoding):
    path = put("a.xes", f'<?xml version="1.0" encoding="{encoding}"?><log>\u00e4</log>')
    assert procmine.read(path).problems == {"malformed": 1}
    with pytest.raises(procmine.LogError, match=r"a\.xes:1: "):
        procmine.read(path, on_error="stop")


@pytest.mark.parametrize(
    "given",
    [
        {"enabled": [[]]}, {"enabled": [1]}, {"enabled": {}}, {"high_risk": ["x"]},
        {"high_risk": [1.5]}, {"high_risk": [None]}, {"high_risk": [[]]}, {"amount_limit": 1e400},
        {"amount_limit": 10**30}, {"velocity_limit": None},
    ],
)  # fmt: skip
def test_rules_that_are_none(put, given):
    with pytest.raises(DataError, match=r"rules\.json"):
        transactions.rules(put("rules.json", json.dumps(given)))


def test_numbers_of_many_digits(put):
    path = put("a.csv", "id,customer,dest,amount_cents,ts_ms\n" + "9" * 5000 + ",1,1,1,1\n")
    with pytest.raises(DataError, match=r"a\.csv, line 2: id is"):
        list(transactions.pieces(str(path)))


@pytest.mark.parametrize(
    "table",
    [
        [[1e400, "one_shot", 1]], [[-1, "one_shot", 1]], [[2**64, "one_shot", 1]],
        [[0, "one_shot", 2**40]], [[0, 1, 1]], [[0, "one_shot", 1.5]], [[0]], 7, {"a": 1}, [7],
    ],
)  # fmt: skip
def test_tune_tables_that_are_none(tmp_path, monkeypatch, table):
    from denizen.group import table as tables  # noqa: PLC0415

    monkeypatch.setenv("DENIZEN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(0o700)
    path = tables.path_of(2, False, 0)
    for wrong in ({"tables": {"broadcast": table}}, {"tables": table}):
        path.write_text(json.dumps(wrong))
        assert tables.load(2, False, 0) == []
    path.write_bytes(DEEP)
    assert tables.load(2, False, 0) == []
    path.write_text(json.dumps({"tables": {"broadcast": [[0, "one_shot", 1]]}}))
    assert tables.load(2, False, 0) == {"broadcast": [(0, "one_shot", 1)]}


def test_arrow_names_that_are_no_text(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "a.arrow"
    names = ["id", "customer", "dest", "amount_cents", "ts_ms", "odd_name_"]
    with pa.ipc.new_stream(path, pa.schema([(name, pa.int64()) for name in names])):
        pass
    path.write_bytes(path.read_bytes().replace(b"odd_name_", b"odd_\xff\xfe\xff_x"))
    with pytest.raises(DataError, match=r"a\.arrow"):
        list(transactions.pieces(str(path)))


def test_bytes_that_are_no_text_in_an_error_of_the_core(put):
    with pytest.raises(denizen.ArgumentError, match=r"a\.edges:1: .*\\xff\\xfe"):
        graph.read(put("a.edges", b"1 \xff\xfe"))


# ---- the command's one place


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError(), "not enough memory"),
        (RecursionError("deep"), "nested too deep"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "not UTF-8 text"),
    ],
)
def test_the_command_says_it_in_one_line(put, monkeypatch, capsys, error, says):
    path = put("some.gr", "p sp 1 0\n")

    def fail(*_, **__):
        raise error

    monkeypatch.setattr("denizen.cli._dispatch", fail)
    assert cli.main(["run", "bfs", str(path)]) == 2
    text = capsys.readouterr().err
    assert text.startswith(f"denizen: {path}: ") and says in text and text.count("\n") == 1


def test_the_command_and_too_little_memory(put):
    path = put("a.edges", "0 2147483646")
    code = "import sys; from denizen import cli; sys.exit(cli.main(sys.argv[1:]))"
    done = in_a_process(code, "run", "bfs", path, "--source", 0, memory=4 << 30)
    assert done.returncode == 2, done.stderr
    assert str(path) in done.stderr and "Traceback" not in done.stderr
    assert "DENIZEN_MAX_VERTICES" in done.stderr


def test_what_a_terminal_obeys_is_not_printed(capsys):
    assert cli.main(["run", "bfs", "\x1b]0;owned\x07.gr", "--source", "0"]) != 0
    text = capsys.readouterr().err
    assert "\x1b" not in text and "\x07" not in text and r"\x1b]0;owned\x07" in text
