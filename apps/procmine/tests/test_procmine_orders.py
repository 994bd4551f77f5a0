# SPDX-License-Identifier: Apache-2.0
"""Partial orders, their width, and filters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import denizen
from denizen import procmine
from denizen.procmine.log import Attribute


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5)), min_size=1, max_size=14))
def test_width_is_that_of_dilworth(spans):
    csgraph = pytest.importorskip("scipy.sparse.csgraph")
    sparse = pytest.importorskip("scipy.sparse")
    begin = np.array([a for a, _ in spans])
    end = begin + [d for _, d in spans]
    log = procmine.from_columns(["c"] * len(spans), ["x"] * len(spans), end, start=begin)
    found = procmine.executions(log)
    before = procmine.partial_order(found, 0)
    n = len(spans)
    assert not (before & before.T).any()
    assert not ((before.astype(int) @ before > 0) & ~before).any()  # transitive
    # The least number of chains that cover an order: n less a largest matching.
    matching = csgraph.maximum_bipartite_matching(sparse.csr_matrix(before.astype(int)), "column")
    assert procmine.widths(found, 1)[0] == n - (matching >= 0).sum()


def lifecycle_log():
    rows = [  # a from 0 to 10, b from 5 to 8 and again, open, from 9; c at 20, by itself
        ("a", 0, 1), ("b", 5, 1), ("b", 8, 2), ("b", 9, 1), ("a", 10, 2), ("c", 20, 2),
        ("d", 20, 3),
    ]  # fmt: skip
    log = procmine.from_columns(["k"] * len(rows), [r[0] for r in rows], [r[1] for r in rows])
    stages = np.array([r[2] for r in rows], np.uint8)
    return procmine.Log(
        "x", log.cases, log.activities, log.case, log.activity, log.time, None, stages
    )


def test_pairs_of_a_lifecycle():
    found = procmine.executions(lifecycle_log())
    rows = list(zip(found.activity.tolist(), found.start.tolist(), found.end.tolist(), strict=True))
    assert rows == [(0, 0, 10), (1, 5, 8), (1, 9, 9), (2, 20, 20), (3, 20, 20)]
    assert found.open == 1
    log = procmine.by_execution(lifecycle_log())
    rows = list(zip(log.activity.tolist(), log.start.tolist(), log.time.tolist(), strict=True))
    assert rows == [(1, 5, 8), (1, 9, 9), (0, 0, 10), (2, 20, 20), (3, 20, 20)]
    again = procmine.executions(log)
    for name in ("case", "activity", "start", "end"):
        assert getattr(again, name).tolist() == getattr(found, name).tolist()


def test_concurrency():
    found = procmine.concurrency(lifecycle_log())
    assert found.width.tolist() == [2]
    assert found.pairs == [("a", "b", 2), ("c", "d", 1)]
    assert found.left_out == 0
    moments = procmine.from_columns(["1"] * 3 + ["2"], list("aabc"), [1, 1, 2, 1])
    found = procmine.concurrency(moments)
    assert found.width.tolist() == [2, 1]
    assert found.pairs == [("a", "a", 1)]


def test_filters(log):
    minute = 60_000_000

    def kept(**conditions):
        return procmine.select(log, **conditions).cases

    assert kept() == ["c1", "c2", "c3", "c4", "c5", "c6", "c7"]
    assert kept(contains=["a", "d"]) == ["c1", "c2", "c3", "c4", "c5"]
    assert kept(without=["c"]) == ["c6", "c7"]
    assert kept(starts_with=["b"]) == ["c7"]
    assert kept(ends_with=["a", "d"], least=45 * minute, most=60 * minute) == ["c2", "c3", "c4"]
    assert kept(begin=5 * minute) == ["c3", "c6"]
    assert kept(end=46 * minute) == ["c1", "c4", "c6", "c7"]
    assert kept(begin=55 * minute, window="touching") == ["c2", "c5"]
    assert kept(begin=1, end=6 * minute, window="starting") == ["c3"]
    assert kept(begin=50 * minute, end=61 * minute, window="ending") == ["c2", "c3"]
    assert kept(contains=["a"], without=["b"], most=0) == ["c6"]
    some = procmine.select(log, contains=["b"], starts_with=["a"])
    mined = procmine.mine(some)
    assert mined.start_activities == {"a": 5}
    assert len(mined.case_events) == 5 and (mined.case_events > 0).all()
    assert len(procmine.select(log, least=10**12)) == 0
    assert procmine.mine(procmine.select(log, least=10**12)).edges == []
    for bad in ({"contains": ["z"]}, {"window": "near", "begin": 0}, {"where": {"k": "v"}}):
        with pytest.raises(denizen.ArgumentError):
            kept(**bad)


def test_filters_by_attribute(log):
    codes = np.full(len(log), 0xFFFFFFFF, np.uint32)
    codes[0], codes[-1] = 0, 1
    of_cases = np.full(len(log.cases), 0xFFFFFFFF, np.uint32)
    of_cases[2] = 0
    more = procmine.Log(
        log.source, log.cases, log.activities, log.case, log.activity, log.time,
        attributes={"who": Attribute(["Jo", "Al"], codes)},
        case_attributes={"who": Attribute(["Jo"], of_cases)},
    )  # fmt: skip
    assert procmine.select(more, where={"who": "Jo"}).cases == ["c1", "c3"]
    left = procmine.select(more, where={"who": "Al"})
    assert left.cases == ["c7"] and left.attributes["who"].codes.tolist() == [0xFFFFFFFF, 1]
    assert procmine.select(more, where={"who": "Bo"}).cases == []
