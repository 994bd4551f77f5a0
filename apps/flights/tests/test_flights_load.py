# SPDX-License-Identifier: Apache-2.0
"""The flights reader: what it refuses, in which words, and what it makes of the real file."""

import csv
import io
import zipfile

import numpy as np
import pytest

from denizen.apps.flights import load
from denizen.apps.flights.load import MISSING, DataError

GOOD = {
    "year": "2013", "month": "1", "day": "2", "dep_time": "533", "sched_dep_time": "529",
    "dep_delay": "4", "arr_delay": "20.0", "carrier": "UA", "tailnum": "N24211", "origin": "LGA",
    "dest": "IAH", "air_time": "227", "distance": "1416",
}  # fmt: skip


def text_of(*changes, drop=()):
    """A CSV of one row per entry of ``changes``, each the good row with these fields changed."""
    file = io.StringIO()
    writer = csv.DictWriter(file, [name for name in GOOD if name not in drop], lineterminator="\n")
    writer.writeheader()
    for change in changes:
        writer.writerow({k: v for k, v in {**GOOD, **change}.items() if k not in drop})
    return file.getvalue()


@pytest.fixture
def write(tmp_path):
    def to_file(text, name="flights.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return to_file


def test_rows_come_in_time_order(write):
    path = write(
        text_of(
            {"sched_dep_time": "1200", "tailnum": "B"},
            {"sched_dep_time": "5", "tailnum": "A"},
            {"sched_dep_time": "1200", "tailnum": "C"},
            {"day": "1", "sched_dep_time": "2359", "tailnum": "D"},
        )
    )
    flights = load.load(path)
    assert [flights.tails[i] for i in flights.aircraft] == ["D", "A", "B", "C"]
    assert (np.diff(flights.minute) == [6, 715, 0]).all()
    assert flights.tails[-1] == ""


def test_gaps_are_kept_as_gaps(write):
    path = write(
        text_of(
            {},
            {"dep_delay": "", "arr_delay": "NA", "air_time": "", "tailnum": ""},
            {"tailnum": "NA", "dep_delay": "-3.0"},
        )
    )
    flights = load.load(path)
    assert flights.tails == ["N24211", ""]
    assert flights.aircraft.tolist() == [0, 1, 1]
    assert flights.dep_delay.tolist() == [4, MISSING, -3]
    assert flights.arr_delay.tolist() == [20, MISSING, 20]
    assert flights.air_time.tolist() == [227, MISSING, 227]
    assert flights.distance.tolist() == [1416] * 3
    assert [flights.airports[i] for i in (*flights.origin[:1], *flights.dest[:1])] == ["LGA", "IAH"]


@pytest.mark.parametrize("column", load.COLUMNS)
def test_missing_column(write, column):
    with pytest.raises(DataError) as error:
        load.load(write(text_of({}, drop=(column,))))
    assert str(error.value) == f'flights.csv, row 1: column "{column}" is missing'


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dep_delay": "late"}, 'dep_delay is "late", expected a whole number'),
        ({"arr_delay": "1.5"}, 'arr_delay is "1.5", expected a whole number'),
        ({"arr_delay": "1_0"}, 'arr_delay is "1_0", expected a whole number'),
        ({"air_time": "nan"}, 'air_time is "nan", expected a whole number'),
        ({"air_time": "-1"}, "air_time is -1, expected 0 to 100,000"),
        ({"distance": ""}, 'distance is "", expected a whole number'),
        ({"distance": "1e9"}, "distance is 1000000000, expected 0 to 100,000"),
        ({"year": "x"}, 'year is "x", expected a whole number'),
        ({"month": "13"}, "month is 13, expected 1 to 12"),
        ({"month": "2", "day": "30"}, "there is no day 2013-02-30"),
        ({"sched_dep_time": "1261"}, "sched_dep_time is 1261, expected a time as HHMM"),
        ({"origin": ""}, "origin is empty"),
        ({"dest": "NA"}, "dest is empty"),
    ],
)
def test_wrong_field_is_named_with_its_row(write, change, reason):
    with pytest.raises(DataError) as error:
        load.load(write(text_of({}, {"tailnum": "X"}, change, {})))
    assert str(error.value) == f"flights.csv, row 4: {reason}"


def test_rows_are_counted_as_an_editor_does(write):
    quoted = text_of({"carrier": 'two\nlines "here"'}, {}, {"distance": "x"})
    with pytest.raises(DataError, match=r"^flights\.csv, row 5: distance"):
        load.load(write(quoted))
    blank = text_of({}).replace("\n2013", "\n\n\n2013").replace("1416", "x")
    with pytest.raises(DataError, match=r"^flights\.csv, row 4: distance"):
        load.load(write(blank))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "flights.csv: the file is empty"),
        (text_of(), "flights.csv: there is a header and no flight"),
        (text_of({}) + "2013,1\n", "flights.csv, row 3: has 2 fields, the header has 13"),
        (
            text_of({}).replace("carrier", "day", 1),
            'flights.csv, row 1: column "day" appears twice',
        ),
        (b"\xff\xfe\x00", "flights.csv: not UTF-8 text: invalid start byte"),
        (text_of({}) + '"2013', "flights.csv, row 3: unexpected end of data"),
    ],
)
def test_file_that_is_none(write, text, message):
    with pytest.raises(DataError) as error:
        load.load(write(text))
    assert str(error.value) == message


def test_sums_that_would_overflow_the_actors_are_refused(write):
    rows = text_of(*[{"distance": "100000"}] * 21_475)
    with pytest.raises(DataError, match='the sum of column "distance" exceeds 32 bits'):
        load.load(write(rows))


def test_paths_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv: No such file or directory"):
        load.load(tmp_path / "none.csv")
    with pytest.raises(DataError, match="Is a directory"):
        load.load(tmp_path)


def test_zip_files(write, tmp_path):
    path = tmp_path / "flights.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", text_of({}, {}))
    assert len(load.load(path)) == 2
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.csv", "")
    with pytest.raises(DataError, match=r"flights\.zip: holds 2 CSV files"):
        load.load(path)
    with pytest.raises(DataError, match="not a readable zip file"):
        load.load(write("hello", "no.zip"))


def test_byte_order_mark_and_windows_line_ends_are_taken(write):
    text = b"\xef\xbb\xbf" + text_of({}, {}).replace("\n", "\r\n").encode()
    assert len(load.load(write(text))) == 2


def test_missing_package_says_what_to_do(monkeypatch):
    monkeypatch.setattr(load.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="pip install"):
        load.package_file()


def test_real_flights():
    try:
        path = load.package_file()
    except DataError as error:
        pytest.skip(str(error))
    flights = load.load(path)
    assert len(flights) == 336_776
    assert len(flights.tails) == 4_043 + 1
    assert (flights.aircraft == 4_043).sum() == 2_512
    assert (flights.dep_delay == MISSING).sum() == 8_255
    assert (np.diff(flights.minute) >= 0).all()
