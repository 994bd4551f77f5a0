# SPDX-License-Identifier: Apache-2.0
"""``denizen run transactions`` as a user meets it, and the files it reads and writes."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import denizen
from denizen.apps import transactions as tx
from denizen.apps.transactions import alerts as output
from denizen.apps.transactions import load

COUNT = 3000


def run(*words, data=None):
    return subprocess.run(
        [sys.executable, "-m", "denizen", "run", "transactions", *map(str, words)],
        capture_output=True,
        input=data,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="session")
def made():
    return tx.generate(COUNT, seed=9)


@pytest.fixture(scope="session")
def expected(made):
    records, profiles = made
    reference = tx.Reference()
    reference.put(profiles)
    return reference.feed(records)


@pytest.mark.parametrize("name", ["t.csv", "t.raw", "t.parquet", "t.arrows"])
def test_every_format_comes_back(made, tmp_path, name):
    if name.endswith(("parquet", "arrows")):
        pytest.importorskip("pyarrow")
    for array, read in zip(
        made, (lambda p: np.concatenate([*load.pieces(p, size=700)]), load.profiles), strict=True
    ):
        path = str(tmp_path / name)
        load.write(path, array)
        assert read(path).tobytes() == array.tobytes()


def test_columns_as_others_write_them(tmp_path):
    pa = pytest.importorskip("pyarrow")
    columns = {
        "ts_ms": pa.array([1_700_000_000_000, 5], pa.timestamp("ms")),
        "dest": pa.array([3, 4], pa.int32()),
        "amount_cents": [100, 200],
        "customer": [1, 2],
        "id": [7, 8],
        "type": pa.array(["card", "wire"]).dictionary_encode(),
        "colour": ["red", "green"],
    }
    table = pa.table(columns)
    for kind in ("file", "stream"):
        path = tmp_path / f"{kind}.arrow"
        with getattr(pa.ipc, f"new_{kind}")(str(path), table.schema) as out:
            out.write_table(table)
        (records,) = load.pieces(str(path))
        assert records["ts_ms"].tolist() == [1_700_000_000_000, 5]
        assert records["type"].tolist() == [3, 0]
        assert records["dest"].tolist() == [3, 4]
    columns["dest"] = pa.array([3, None])
    table = pa.table(columns)
    with pa.ipc.new_stream(str(path), table.schema) as out:
        out.write_table(table)
    with pytest.raises(load.DataError, match="row 2: dest is null"):
        list(load.pieces(str(path)))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(load.DataError, match="not arrow that can be read"):
        list(load.pieces(str(path)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'column "id" is missing'),
        ("id,customer,dest,amount_cents\n", 'column "ts_ms" is missing'),
        ("id,id,customer,dest,amount_cents,ts_ms\n", 'column "id" appears twice'),
        ("id,customer,dest,amount_cents,ts_ms\n1,2,3,4,5\n1,2,3\n", "line 3: 3 fields"),
        ("id,customer,dest,amount_cents,ts_ms\n1,2,3,4.5,5\n", 'line 2: amount_cents is "4.5"'),
        ("id,customer,dest,amount_cents,ts_ms\n1,2,3,4,-5\n", 'line 2: ts_ms is "-5"'),
        ("id,customer,dest,amount_cents,ts_ms,country\n1,2,3,4,5,66000\n", "0 to 65535"),
        ("id,customer,dest,amount_cents,ts_ms,type\n1,2,3,4,5,cheque\n", 'type is "cheque"'),
        ("id,customer,dest,amount_cents,ts_ms\n1,2,3,1_000,5\n", 'line 2: amount_cents is "1_000"'),
        ('id,customer,dest,amount_cents,ts_ms,memo\n1,2,3,4,5,"a\nb"\n1,2,3,x,5,c\n', "line 4"),
        ('id,customer,dest,amount_cents,ts_ms\n1,2,3,4,"5\n', "line 2"),
        (
            "id,customer,dest,amount_cents,ts_ms\n1,2,3,4,\xff\n".encode("latin-1"),
            "line 2: not UTF-8",
        ),
    ],
)
def test_a_wrong_file_is_refused_by_row(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(load.DataError, match=message):
        list(load.pieces(str(path)))


def test_what_else_is_refused(tmp_path, monkeypatch):
    (tmp_path / "t.raw").write_bytes(bytes(300))
    with pytest.raises(load.DataError, match="ends with 44 bytes after record 2"):
        list(load.pieces(str(tmp_path / "t.raw")))
    with pytest.raises(load.DataError, match="no format is known"):
        list(load.pieces("t.xlsx"))
    with pytest.raises(load.DataError, match="No such file"):
        list(load.pieces(str(tmp_path / "none.csv")))
    with pytest.raises(load.DataError, match="read from its end"):
        list(load.pieces("-", "parquet"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(denizen.errors.MissingPackageError, match=r"pip install pyarrow"):
        list(load.pieces(str(tmp_path / "t.raw"), "arrow"))
    rules = tmp_path / "rules.json"
    rules.write_text('{"velocity": 3}')
    with pytest.raises(load.DataError, match='no "velocity"'):
        load.rules(rules)
    rules.write_text("[1]")
    with pytest.raises(load.DataError, match="not an object"):
        load.rules(rules)


def test_a_file_with_profiles_gives_the_references_alerts(made, expected, tmp_path):
    load.write(str(tmp_path / "t.csv"), made[0])
    load.write(str(tmp_path / "p.csv"), made[1])
    lines, state = tmp_path / "alerts.jsonl", tmp_path / "state.dzs"
    done = run(
        tmp_path / "t.csv", "--profiles", tmp_path / "p.csv", "--device", "cpu:2", "--check",
        "--alerts", lines, "--save", state, "--batch", "256", "--drill", "4",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert found == output.objects(expected)
    assert [f["sequence"] for f in found] == sorted(f["sequence"] for f in found)
    assert any("path" in f for f in found)
    text = done.stdout.decode()
    assert f"{len(expected):,}" in text
    assert "the same" in text and "shards restarted" in text
    assert state.is_file()


def test_a_second_process_goes_on_where_the_first_stopped(made, expected, tmp_path):
    first, rest, state = (tmp_path / name for name in ("a.raw", "b.raw", "state.dzs"))
    load.write(str(first), made[0][:1700])
    load.write(str(rest), made[0][1700:])
    load.write(str(tmp_path / "p.raw"), made[1])
    begun = run(first, "--profiles", tmp_path / "p.raw", "--device", "cpu:2", "--save", state)
    assert begun.returncode == 0, begun.stderr
    assert b"snapshot before record 1,700" in begun.stderr
    for rules, wanted in (
        (None, expected[expected["sequence"] >= 1700]),
        ({"enabled": []}, expected[:0]),  # instead of the snapshot's
    ):
        words = [rest, "--restore", state, "--device", "cpu:1", "--shards", 3, "--alerts", "-"]
        if rules is not None:
            (tmp_path / "none.json").write_text(json.dumps(rules))
            words += ["--rules", tmp_path / "none.json"]
        done = run(*words)
        assert done.returncode == 0, done.stderr
        assert [json.loads(line) for line in done.stdout.splitlines()] == output.objects(wanted)


def test_rules_change_at_a_place_of_the_stream(made, tmp_path):
    pa = pytest.importorskip("pyarrow")
    rules = tmp_path / "rules.json"
    rules.write_text('{"amount_limit": 50000}')
    strict = tmp_path / "strict.json"
    strict.write_text('{"enabled": ["amount"]}')
    out = tmp_path / "alerts.arrow"
    words = ("--generate", COUNT, "--seed", 9, "--device", "cpu:2", "--check", "--batch", "500")
    done = run(*words, "--change", f"1234={rules}", "--change", f"2500={strict}", "--alerts", out)
    assert done.returncode == 0, done.stderr
    reference = tx.Reference()
    reference.put(made[1])
    second = tx.Rules(amount_limit=50_000, version=2)
    third = tx.Rules(amount_limit=50_000, version=3, enabled=1 << 2)
    expected = [reference.feed(made[0][:1234])]
    for change, (begin, end) in zip(
        (second, third), itertools.pairwise((1234, 2500, COUNT)), strict=True
    ):
        reference.change(change)
        expected.append(reference.feed(made[0][begin:end]))
    with pa.ipc.open_stream(str(out)) as reader:
        rows = reader.read_all().to_pylist()
    wanted = output.objects(np.concatenate(expected))
    assert rows == [{**w, "path": w.get("path", [])} for w in wanted]
    assert {w["rules_version"] for w in wanted} == {1, 2, 3}


def test_alerts_on_stdout_and_records_from_stdin(made, expected, tmp_path):
    profiles = tmp_path / "p.raw"
    load.write(str(profiles), made[1])
    done = run(
        "-", "--format", "raw", "--alerts", "-", "--profiles", profiles, "--device", "cpu:1",
        data=made[0].tobytes(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(expected)
    assert b"transactions per second" in done.stderr


def header_and_lines(records):
    names = ("id", "customer", "dest", "amount_cents", "ts_ms", "country")
    lines = [",".join(names)]
    lines += [",".join(str(r[name]) for name in names) for r in records]
    return [line.encode() + b"\n" for line in lines]


def test_a_pipes_alerts_come_at_once_and_its_rules_change_on_a_signal(made, tmp_path):
    rules = tmp_path / "rules.json"
    rules.write_text('{"enabled": ["amount"], "amount_limit": 1}')
    head, *lines = header_and_lines(made[0][:4])
    words = ("-", "--format", "csv", "--rules", rules, "--alerts", "-", "--device", "cpu:1")
    with subprocess.Popen(
        [sys.executable, "-m", "denizen", "run", "transactions", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:

        def one(line):
            process.stdin.write(line)
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        def told(text):
            os.kill(process.pid, signal.SIGHUP)
            line = process.stderr.readline().decode()
            assert re.search(text, line), line

        assert one(head + lines[0])["rules_version"] == 1
        rules.write_text('{"enabled": ["amount"], "amount_limit": 2}')
        told("version 2 from the next record on")
        alert = one(lines[1])
        assert (alert["rules_version"], alert["limit"]) == (2, 2)
        rules.write_text('{"speed": 1}')
        told('no "speed".*; the rules stay as they are')
        assert one(lines[2])["rules_version"] == 2
        process.stdin.write(b"7,8,nine,1,1,0\n")
        process.stdin.close()
        assert "stdin, line 5: dest is" in process.stderr.read().decode()
        assert process.wait(60) != 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give a FILE, or --generate N"),
        (("--generate", "5"), "1000 to 2147483648"),
        (("t.txt",), "no format is known"),
        (("--generate", "1000", "--memory", "-1"), "is no size"),
        (("--generate", "1000", "--change", "x"), "no PLACE=FILE.json"),
    ],
)
def test_wrong_usage_is_one_line(words, message):
    done = run(*words)
    assert done.returncode != 0
    assert message in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1
