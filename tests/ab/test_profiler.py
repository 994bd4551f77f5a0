# SPDX-License-Identifier: Apache-2.0
"""Profilers' files, and overlap of spans against counting."""

import sqlite3

import numpy as np
import pytest

from denizen.ab import ExperimentError, Span, profiler

# As ncu 2025 prints, with columns that are not read left out.
NCU = """==PROF== Connected to process 4711 (/tmp/program)
sum 45
==PROF== Disconnected from process 4711
"ID","Process ID","Process Name","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","4711","program","copy_plain(float *)","GPU Speed Of Light Throughput","SM Frequency","Ghz","1.59"
"0","4711","program","copy_plain(float *)","GPU Speed Of Light Throughput","Duration","us","1,234.50"
"0","4711","program","copy_plain(float *)","Command line profiler metrics","gpu__time_duration.sum","us","1,234.50"
"1","4711","program","copy_bulk(float *)","Command line profiler metrics","gpu__time_duration.sum","nsecond","800"
"2","4711","program","copy_plain(float *)","Command line profiler metrics","gpu__time_duration.sum","ms","2"
"""  # noqa: E501


def test_ncu(tmp_path):
    path = tmp_path / "ncu.csv"
    path.write_text(NCU)
    found = profiler.ncu_durations(path)
    assert found["copy_plain(float *)"] == pytest.approx([1.2345e-3, 2e-3])
    assert found["copy_bulk(float *)"] == pytest.approx([8e-7])
    path.write_text(NCU.replace('"ms"', '"fortnight"'))
    with pytest.raises(ExperimentError, match="fortnight"):
        profiler.ncu_durations(path)
    path.write_text("==PROF== nothing\n")
    with pytest.raises(ExperimentError, match="no durations"):
        profiler.ncu_durations(path)


def export(path, *, copies=True):
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    database.execute("INSERT INTO StringIds VALUES (7, 'reduce')")
    kernel = "CUPTI_ACTIVITY_KIND_KERNEL"
    database.execute(f"CREATE TABLE {kernel} (start INT, end INT, shortName INT)")
    database.execute(f"INSERT INTO {kernel} VALUES (1500, 4000, 7)")
    if copies:
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT)")
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1000, 2000)")
    database.commit()
    database.close()


def test_nsys(tmp_path):
    export(tmp_path / "a b.sqlite")
    spans = profiler.nsys_spans(tmp_path / "a b.sqlite")
    assert [span.track for span in spans] == ["copy", "reduce"]
    assert [spans[0].end, spans[1].begin] == pytest.approx([2e-6, 1.5e-6])
    assert profiler.overlap(spans[:1], spans[1:]) == pytest.approx(5e-7)
    export(tmp_path / "b.sqlite", copies=False)
    assert len(profiler.nsys_spans(tmp_path / "b.sqlite")) == 1


def test_files_that_are_no_export(tmp_path):
    with pytest.raises(ExperimentError, match="no export of nsys"):
        profiler.nsys_spans(tmp_path / "none.sqlite")
    (tmp_path / "text").write_text("no database" * 100)
    with pytest.raises(ExperimentError, match="no export of nsys"):
        profiler.nsys_spans(tmp_path / "text")
    sqlite3.connect(tmp_path / "empty").execute("CREATE TABLE a (b INT)")
    with pytest.raises(ExperimentError, match="neither kernels nor copies"):
        profiler.nsys_spans(tmp_path / "empty")


def test_overlap_of_kinds_is_that_of_one_place():
    copies = [Span("copy, block 0", 0, 10), Span("copy, block 33", 100, 110)]
    sums = [Span("sum, block 0", 5, 20), Span("sum, block 33", 0, 100)]  # the second in no copy
    waits = [Span("wait, block 0", 0, 200)]
    assert profiler.overlaps([*copies, *sums, *waits]) == "sum ran during 25% of copy"
    assert profiler.overlaps([*copies, *waits]) == ""
    assert profiler.overlaps([*copies, *sums, Span("third", 0, 1)]) == ""
    assert (
        profiler.overlaps([Span("copy", 0, 4), Span("sum", 3, 9)]) == "sum ran during 25% of copy"
    )


def test_overlap_against_counting():
    rng = np.random.default_rng(0)
    for _ in range(50):
        drawn, seconds = [], []
        for track in "ab":
            begins, lengths = rng.integers(0, 80, 6), rng.integers(0, 20, 6)
            ends = begins + lengths
            drawn.append([Span(track, b, e) for b, e in zip(begins, ends, strict=True)])
            seconds.append({t for b, e in zip(begins, ends, strict=True) for t in range(b, e)})
        assert profiler.overlap(*drawn) == len(seconds[0] & seconds[1])
        assert profiler.busy(drawn[0]) == len(seconds[0])
