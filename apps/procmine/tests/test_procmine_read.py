# SPDX-License-Identifier: Apache-2.0
"""Logs out of files, and what is wrong with them, with its line."""

import builtins
import gzip
from datetime import UTC, datetime

import numpy as np
import pytest

import denizen
from denizen import procmine
from denizen.procmine import times

XES = """<?xml version="1.0" encoding="UTF-8" ?>
<log xes.version="1.0" xmlns="http://www.xes-standard.org/">
  <global scope="event"><string key="concept:name" value="UNKNOWN"/></global>
  <string key="concept:name" value="a log"/>
  <trace>
    <string key="concept:name" value="one &amp; all"/>
    <string key="channel" value="post"/>
    <event>
      <string key="concept:name" value="enter"><string key="concept:name" value="inner"/></string>
      <string key="lifecycle:transition" value="start"/>
      <date key="time:timestamp" value="2024-03-01T10:00:00.123+01:00"/>
      <list key="l"><values><string key="concept:name" value="listed"/></values></list>
    </event>
    <event>
      <string key="org:resource" value="Jo"/>
      <string key="lifecycle:transition" value="complete"/>
      <date key="time:timestamp" value="2024-03-01T09:00:01.123456Z"/>
      <string key="concept:name" value="leave"/>
    </event>
  </trace>
  <trace>
    <event>
      <date key="time:timestamp" value="2024-03-01T11:00:00"/>
      <string key="concept:name" value="enter"/>
    </event>
    <string key="concept:name" value="two"/>
  </trace>
</log>
"""
EVENT = (
    '<event><string key="concept:name" value="x"/><date key="time:timestamp" value="{}"/></event>'
)


def written(tmp_path, text, name="small.xes"):
    path = tmp_path / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def microseconds(*args):
    return int((datetime(*args, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC))
               .total_seconds()) * 1_000_000  # fmt: skip


@pytest.mark.parametrize("name", ["small.xes", "small.xes.gz"])
def test_xes(tmp_path, name):
    log = procmine.read(
        written(tmp_path, XES, name), on_error="stop", keep=["channel", "org:resource"]
    )
    assert log.cases == ["one & all", "two"]
    assert log.activities == ["enter", "leave"]
    np.testing.assert_array_equal(log.case, [0, 0, 1])
    np.testing.assert_array_equal(log.activity, [0, 1, 0])
    nine = microseconds(2024, 3, 1, 9)
    np.testing.assert_array_equal(
        log.time, [nine + 123_000, nine + 1_123_456, nine + 7_200_000_000]
    )
    np.testing.assert_array_equal(log.lifecycle, [1, 2, 0])
    assert log.problems == {} and log.start is None
    assert log.case_attributes["channel"].values == ["post"]
    assert log.attributes["org:resource"].values == ["Jo"]
    assert log.trace("one & all")[1] == ("leave", nine + 1_123_456)


def test_several_keys_make_an_activity_and_local_time_has_a_zone(tmp_path):
    path = written(tmp_path, XES)
    log = procmine.read(
        path, activity=["concept:name", "lifecycle:transition"], zone="Europe/Berlin"
    )
    assert log.activities == ["enter+start", "leave+complete"]
    assert log.problems == {"no activity": 1}
    assert "small.xes:22: " in log.first_problems["no activity"]
    log = procmine.read(path, zone="Europe/Berlin")
    assert log.time[2] == microseconds(2024, 3, 1, 10)
    with pytest.raises(denizen.ArgumentError, match="Middle/Earth"):
        procmine.read(path, zone="Middle/Earth")


T = '<log>\n<trace>\n<string key="concept:name" value="t"/>\n{}\n</trace>\n</log>\n'


NAMELESS = '<event><date key="time:timestamp" value="2024-01-01"/></event>'
TIMELESS = '<event><string key="concept:name" value="x"/></event>'
DAY = EVENT.format("2024-01-01")
BACK = EVENT.format("2024-01-02") + "\n" + DAY
WRONG = {  # text: kind, line, words, events that stay
    T.format("<event>\n</evnt>"): ("malformed", 5, "mismatched tag", 0),
    T.format("")[:-8]: ("malformed", 5, "no element found", 0),
    T.format(TIMELESS): ("no time", 4, "no time:timestamp", 0),
    T.format(EVENT.format("yesterday")): ("no time", 4, '"yesterday" is no ISO 8601', 0),
    T.format(EVENT.format("2024-02-30T00:00:00Z")): ("no time", 4, "day", 0),
    T.format(EVENT.format("2024-02-03T25:00:00Z")): ("no time", 4, "time of a day", 0),
    T.format(NAMELESS): ("no activity", 4, "no concept:name", 0),
    f"<log>\n<trace>\n{DAY}\n</trace></log>": ("no case", 2, "no case", 0),
    f"<log>\n\n{DAY}\n</log>": ("no case", 3, "outside of a trace", 0),
    T.format(BACK): ("negative duration", 5, "86400 s earlier", 2),
}


@pytest.mark.parametrize(("text", "told"), WRONG.items())
def test_what_is_wrong_with_xes(tmp_path, text, told):
    kind, line, what, left = told
    path = written(tmp_path, text)
    with pytest.raises(procmine.LogError, match=rf"small\.xes:{line}: .*({what})"):
        procmine.read(path, on_error="stop")
    log = procmine.read(path)
    assert log.problems == {kind: 1}
    assert f"small.xes:{line}: " in log.first_problems[kind]
    assert len(log) == left
    assert sum(procmine.mine(log).activity_counts) == left


def test_an_archive_that_ends_too_early(tmp_path):
    whole = T.format("\n".join(EVENT.format("2024-01-01") for _ in range(20_000)))
    whole = whole.replace("</trace>", "</trace>\n" + whole[6:-7].replace('"t"', '"u"'), 1)
    path = tmp_path / "cut.xes.gz"
    packed = gzip.compress(whole.encode())
    path.write_bytes(packed[: len(packed) * 3 // 4])
    with pytest.raises(procmine.LogError, match=r"cut\.xes\.gz:\d+: the archive ends too early"):
        procmine.read(path, on_error="stop")
    log = procmine.read(path)
    assert log.cases == ["t"] and len(log) == 20_000 and log.problems == {"malformed": 1}
    path.write_bytes(b"no archive")
    assert procmine.read(path).problems == {"malformed": 1}


CSV = "Case ID;Activity;Timestamp;start\n1;a;2024-01-01 10:00:00+00:00;2024-01-01 09:59:00Z\n"


def test_csv(tmp_path):
    path = written(tmp_path, CSV + '2;"b;c";2024-01-01T10:00:00.5Z;\n', "log.csv.gz")
    log = procmine.read(path, on_error="stop")
    assert (log.cases, log.activities) == (["1", "2"], ["a", "b;c"])
    ten = microseconds(2024, 1, 1, 10)
    np.testing.assert_array_equal(log.time, [ten, ten + 500_000])
    np.testing.assert_array_equal(log.start, [ten - 60_000_000, ten + 500_000])
    other = written(tmp_path, "who,what,when\n7,x,2024-01-01\n", "other.csv")
    log = procmine.read(other, case="who", activity=["what"], time="when")
    assert (log.cases, log.activities) == (["7"], ["x"])
    with pytest.raises(procmine.LogError, match=r"other\.csv:1: a column for the case is missing"):
        procmine.read(other)
    with pytest.raises(procmine.LogError, match=r'column "whom" is missing'):
        procmine.read(other, case="whom")


@pytest.mark.parametrize(
    ("row", "kind", "left"),
    [
        (";a;2024-01-01;", "no case", 1),
        ("1;;2024-01-01;", "no activity", 1),
        ("1;a;;", "no time", 1),
        ("1;a;soon;", "no time", 1),
        ("1;a", "malformed", 1),
        ('1;"a;2024-01-01;', "malformed", 1),
        ("1;b;2024-01-01;2024-01-02", "negative duration", 2),
    ],
)
def test_what_is_wrong_with_csv(tmp_path, row, kind, left):
    path = written(tmp_path, CSV + row + "\n", "log.csv")
    with pytest.raises(procmine.LogError, match=r"log\.csv:[34]: "):
        procmine.read(path, on_error="stop")
    log = procmine.read(path)
    assert log.problems == {kind: 1}
    assert len(log) == left
    assert log.start is not None and (log.start <= log.time).all()


def test_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "log.parquet"
    when = [datetime(2024, 1, 1, 12), datetime(2024, 1, 1, 11), None]
    for unit, zone in (("ms", None), ("us", "Europe/Berlin"), ("ns", None)):
        table = arrow.table(
            {
                "case_id": arrow.array([7, 7, 8]),
                "activity": arrow.array(["a", "b", "c"]).dictionary_encode(),
                "timestamp": arrow.array(when, arrow.timestamp(unit, zone)),
            }
        )
        parquet.write_table(table, path)
        log = procmine.read(path)
        assert (log.cases, log.activities) == (["7"], ["a", "b"])
        assert log.problems == {"no time": 1}
        assert ":3: " in log.first_problems["no time"]
        np.testing.assert_array_equal(
            log.time, [microseconds(2024, 1, 1, 12), microseconds(2024, 1, 1, 11)]
        )
    assert procmine.read(path, zone="Europe/Berlin").time[0] == microseconds(2024, 1, 1, 11)
    path.write_bytes(b"no parquet")
    with pytest.raises(procmine.LogError, match="not readable as Parquet"):
        procmine.read(path)


ROWS = {  # name: value of each row
    "case_id": ["1", "1", "2", "", None, "2", "3", "3", "2", "1"],
    "activity": ["b", "a", "b", "a", "b", None, "c", "a", "a", "b"],
    "timestamp": [
        "2024-01-01", "2024-01-02", "2024-01-03", "2024-01-03", "2024-01-03", "2024-01-03", "soon",
        None, "2024-01-04T10:00:00+01:00", "2024-01-05",
    ],
    "start": [None, "2024-01-01", "", None, None, None, None, None, "2024-02-01", "now"],
    "lifecycle": ["start", "COMPLETE", None, None, None, None, None, None, "other", ""],
    "org": ["x", None, "y", "z", "z", "z", "z", "z", "x", ""],
    "count": [1, 2, None, 4, 5, 6, 7, 8, 9, 10],
}  # fmt: skip


def same_log(one, other):
    assert (one.cases, one.activities, one.problems) == (
        other.cases, other.activities, other.problems,
    )  # fmt: skip
    for name in ("case", "activity", "time", "start", "lifecycle"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.attributes.keys() == other.attributes.keys()
    for key, values in one.attributes.items():
        assert values.values == other.attributes[key].values
        np.testing.assert_array_equal(values.codes, other.attributes[key].codes)


@pytest.mark.parametrize("rows", [2, 100])
def test_parquet_reads_what_csv_reads(tmp_path, monkeypatch, rows):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    from denizen.procmine import parquet as reader  # noqa: PLC0415

    monkeypatch.setattr(reader, "_ROWS", rows)  # at a time
    path, text = tmp_path / "log.parquet", tmp_path / "log.csv"
    parquet.write_table(arrow.table(ROWS), path, row_group_size=3)
    lines = zip(*ROWS.values(), strict=True)
    cells = [",".join("" if cell is None else str(cell) for cell in line) for line in lines]
    text.write_text("\n".join([",".join(ROWS), *cells]) + "\n")
    for how in (
        {"keep": ["org", "count", "none"]},
        {"activity": ["activity", "org"]},
        {"case": "org", "time": "start"},
    ):
        log = procmine.read(path, **how)
        same_log(log, procmine.read(text, **how))
    log = procmine.read(path)
    assert log.problems == {"no case": 2, "no activity": 1, "no time": 3, "negative duration": 1}
    assert (log.cases, log.activities, len(log)) == (["1", "2"], ["b", "a"], 5)
    assert ":4: an event without a case" in log.first_problems["no case"]
    assert ':6: an event of case "2" has no act' in log.first_problems["no activity"]
    assert ':7: a time "soon" is no ISO' in log.first_problems["no time"]
    assert ':9: an event of case "2" ends' in log.first_problems["negative duration"]
    with pytest.raises(procmine.LogError, match=r"log\.parquet:4: an event without a case"):
        procmine.read(path, on_error="stop")


def test_a_parquet_file_that_is_damaged_inside(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "log.parquet"
    many = {"case_id": list(range(5000)), "activity": ["a"] * 5000, "timestamp": list(range(5000))}
    parquet.write_table(arrow.table(many), path)
    assert len(procmine.read(path)) == 5000
    data = bytearray(path.read_bytes())
    data[4:2000] = b"\xff" * 1996
    path.write_bytes(data)
    with pytest.raises(procmine.LogError, match=r"log\.parquet:1: not readable as Parquet"):
        procmine.read(path, on_error="stop")
    assert procmine.read(path).problems == {"malformed": 1}


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def none(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", none)
    with pytest.raises(denizen.MissingPackageError, match=r"pip install pyarrow"):
        procmine.read(tmp_path / "log.parquet")


@pytest.mark.parametrize(
    ("text", "microsecond"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01 00:00:00.1234567-00:00", 123_456),
        ("1969-12-31T23:59:59.999Z", -1_000),
        ("1970-01-01T01:00+01:00", 0),
        ("1970-01-01T00:00:00-0130", 5_400_000_000),
        (" 1970-01-01T05:30:00,5+05:30\n", 500_000),
        ("2024-02-29T00:00:00+00", 1_709_164_800_000_000),
    ],
)
def test_times(text, microsecond):
    assert times.parser()(text) == microsecond


def test_a_zone_changes_with_the_season_and_texts_go_back():
    parse = times.parser(times.zone_of("Europe/Berlin"))
    assert parse("2024-01-01T12:00") == microseconds(2024, 1, 1, 11)
    assert parse("2024-07-01T12:00") == microseconds(2024, 7, 1, 10)
    assert parse("2024-07-01T12:00Z") == microseconds(2024, 7, 1, 12)
    for value in (0, 1, 1_709_164_800_123_000, -1):
        assert times.parser()(times.text_of(value)) == value


def test_columns():
    with pytest.raises(denizen.ArgumentError, match="2 times for 1 cases"):
        procmine.from_columns(["a"], ["b"], [1, 2])
    with pytest.raises(denizen.ArgumentError, match="negative duration"):
        procmine.from_columns(["a"], ["b"], [1], start=[2])
    with pytest.raises(denizen.ArgumentError, match="float64"):
        procmine.from_columns(["a"], ["b"], [1.5])
    with pytest.raises(denizen.ArgumentError, match="has no time"):
        procmine.from_columns(["a"], ["b"], np.array(["nat"], "datetime64[s]"))
    log = procmine.from_columns([5, 5], ["x", "y"], np.array(["2024-01-01", "2024-01-02"], "M8[D]"))
    assert procmine.mine(log).edges[0].mean == 86_400_000_000
    with pytest.raises(procmine.LogError, match="neither"):
        procmine.read("log.txt.zip")
    with pytest.raises(FileNotFoundError):
        procmine.read("none.xes")
    with pytest.raises(denizen.ArgumentError, match="neither stop nor count"):
        procmine.read("none.xes", on_error="ignore")
