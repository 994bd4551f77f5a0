# SPDX-License-Identifier: Apache-2.0
"""Each measured number of the docs is quoted from a record and renewed with it."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/docs"))
import home  # noqa: E402

PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "figures.md"),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_looks_measured_is_a_records(page):
    text, name = page.read_text("utf-8"), page.relative_to(ROOT).as_posix()
    assert [*home.misquoted(text, name), *home.unsupported(text, name)] == []
    assert home.requoted(text) == text


def test_reasons_quote_what_the_records_have():
    text = (ROOT / home.REASONS).read_text("utf-8")
    assert home.QUOTED.search(text)
    assert [*home.misquoted(text, home.REASONS)] == [] and home.requoted(text) == text


@pytest.fixture
def records(tmp_path, monkeypatch):
    """A record of a made-up experiment: `put(ask=2.5)` writes its rows."""
    monkeypatch.setattr(home, "ROOT", tmp_path)
    folder = tmp_path / home.RESULTS / "made"
    folder.mkdir(parents=True)

    def put(**medians):
        rows = [
            {
                "case": case,
                "params": {"bytes": 4},
                "unit": "us",
                "median": value,
                "p99": 2 * value,
                "p999": None,
                "cv": 0.0423,
                "ratio_to": {"launch": value / 10},
            }
            for case, value in medians.items()
        ]
        record = {"verified": True, "device": "D", "commit": "0" * 40, "rows": rows}
        (folder / "up.json").write_text(json.dumps(record))

    return put


def quote(shown, title):
    return f'takes [{shown}](../benchmarks/results/made/up.json "{title}") µs'


def test_a_number_keeps_its_digits_until_the_record_changes(records):
    records(ask=2.5432)
    told = quote("2.5", "ask; bytes=4")
    assert home.requoted(told) == told and not list(home.misquoted(told, "page"))
    in_ns = quote("2,543", "ask; in=ns")
    assert home.requoted(in_ns) == in_ns and not list(home.misquoted(in_ns, "page"))
    records(ask=3.1415)
    assert home.requoted(told) == quote("3.14", "ask; bytes=4")
    assert home.requoted(in_ns) == quote("3,140", "ask; in=ns")
    assert list(home.misquoted(told, "page")) == [
        'page: 2.5 is quoted for "ask; bytes=4"; made/up has 3.1415'
    ]
    records(ask=76.0)
    assert home.requoted(told) == quote("76", "ask; bytes=4")


@pytest.mark.parametrize(
    ("shown", "title"),
    [
        ("5.0", "ask; is=p99"),
        ("5,000", "ask; bytes=4; is=p99; in=ns"),
        ("0.25", "ask; to=launch"),
        ("4.23", "ask; is=cv; in=%"),
    ],
)
def test_other_fields_and_ratios_are_quoted_too(records, shown, title):
    records(ask=2.5)
    told = quote(shown, title)
    assert home.requoted(told) == told and not list(home.misquoted(told, "page"))
    records(ask=3.0)
    assert (home.requoted(told) == told) == ("cv" in title)


@pytest.mark.parametrize("title", ["ask; is=p999", "ask; to=graph"])
def test_what_the_row_has_not_is_named(records, title):
    records(ask=2.5)
    with pytest.raises(ValueError, match=r'made/up: no (p999|graph) of "ask"'):
        list(home.misquoted(quote("5.0", title), "page"))


def test_a_record_is_named_by_its_commit(records):
    records(ask=2.5)
    told = '[`{}`](../benchmarks/results/made/up.json "commit")'
    assert list(home.misquoted(told.format("0" * 8), "page")) == []
    old = told.format("1234abcd")
    assert list(home.misquoted(old, "page")) == ["page: made/up is of 00000000, not of 1234abcd"]
    assert home.requoted(old) == told.format("0" * 8)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It makes 250 M/s.", ["250 M/s"]),
        ('It makes [250](../benchmarks/results/made/up.json "ask") M/s.', []),
        (
            "A block costs 20 ns, 5 times as fast.",
            ["20 ns", "5 times as fast"],
        ),
        ("It takes 17 to 30 % of a core.", ["30 % of a core"]),
        ("It takes 1.1 µs, 3 times as long as 5 us.", ["1.1 µs", "3 times as long", "5 us"]),
        ("It handles 403 M messages/s.", ["403 M messages"]),
        ("A breath lasts 2 ms, `send(250 M/s)`.", []),
        ("```text\n250 M/s\n```", []),
    ],
)
def test_what_looks_measured(text, found):
    told = [line.split('"')[1] for line in home.unsupported(text, "docs/page.md")]
    assert told == found


def test_each_number_that_is_no_measurement_stands_on_its_page():
    for page, numbers in home.NO_MEASUREMENT.items():
        there = home.like_measurements((ROOT / page).read_text("utf-8"))
        assert [one for one in numbers if one not in there] == [], page
