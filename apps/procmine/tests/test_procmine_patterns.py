# SPDX-License-Identifier: Apache-2.0
"""Patterns and conformance, on logs whose answers are known."""

import json
from collections import Counter
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import denizen
from denizen import procmine
from denizen.procmine.patterns import repeats, wilson


def of_kind(mined, kind, **limits):
    return [p for p in procmine.find(mined, procmine.Thresholds(**limits)) if p.kind == kind]


def test_rework(mined):
    b, c = of_kind(mined, "rework", rework=0)
    assert (b.activities, b.cases, b.evidence) == (("b",), 2, ["c4", "c5"])
    assert b.figures == {"share": pytest.approx(2 / 6), "repetitions": 2, "most": 1}
    assert (c.activities, c.cases, c.evidence) == (("c",), 1, ["c5"])
    assert b.confidence == pytest.approx(0.0967715)  # R: binom::binom.wilson(2, 6)
    assert [p.activities for p in of_kind(mined, "rework", rework=0.3)] == [("b",)]


def test_loops(mined):
    found = {p.activities: (p.cases, p.figures["repetitions"]) for p in of_kind(mined, "loop")}
    assert found == {("b",): (1, 1), ("b", "c"): (1, 1)}
    assert {p.activities for p in of_kind(mined, "loop", loop_length=1)} == {("b",)}
    assert of_kind(mined, "loop", loop=0.5) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("abab", {"ab": 1}),
        ("baba", {"ab": 1}),
        ("ababab", {"ab": 2}),
        ("aaaa", {"a": 3}),
        ("aabaab", {"a": 2, "aab": 1}),
        ("abcabcabcd", {"abc": 2}),
        ("abcba", {}),
        ("", {}),
    ],
)
def test_blocks_that_follow_themselves(path, expected):
    found = repeats([ord(c) for c in path], 5)
    assert {"".join(map(chr, block)): times for block, times in found.items()} == expected


# Blocks that are repeated and some that are not: by chance alone long ones are rare.
BLOCKS = st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.integers(1, 3))


@settings(deadline=None)
@given(st.lists(BLOCKS, max_size=6))
def test_every_repeated_block_is_there(blocks):
    path = [step for block, times in blocks for step in block * times]
    for block, times in repeats(path, 4).items():
        n = len(block)
        assert times >= 1
        turned = [block[k:] + block[:k] for k in range(n)]
        assert block == min(turned)
        assert any(tuple(path[i : i + n]) == tuple(path[i + n : i + 2 * n]) in turned
                   for i in range(len(path)))  # fmt: skip
    assert repeats(path, 4) == repeats_by_runs(path, 4)


def repeats_by_runs(path, longest):
    """A stretch in which everything equals what comes n later holds a block of n that often again
    as n goes into its length."""
    found = Counter()
    for n in range(1, longest + 1):
        begin = 0
        for same, run in groupby(a == b for a, b in zip(path, path[n:], strict=False)):
            length = len(list(run))
            block = path[begin : begin + n]
            power = any(block == block[k:] + block[:k] for k in range(1, n))
            if same and length >= n and not power:
                found[min(tuple(block[k:] + block[:k]) for k in range(n))] += length // n
            begin += length
    return dict(found)


def test_bottlenecks(mined):
    (found,) = of_kind(mined, "bottleneck", bottleneck=0.5, slow=0)
    assert found.activities == ("c", "d")
    assert found.cases == 4 and found.evidence == ["c1", "c2", "c4", "c5"]
    assert found.figures["share"] == found.confidence == pytest.approx(585 / 780)
    assert found.figures["median"] == 600_000_000
    assert of_kind(mined, "bottleneck", bottleneck=0.5, slow=1.5) == []


def test_long_running(mined):
    (found,) = of_kind(mined, "long-running")
    assert found.evidence == ["c5"] and found.cases == 1
    # Durations 0 0 30 45 45 60 600 minutes: quartiles 15 and 52.5.
    assert found.figures["fence"] == (52.5 + 1.5 * 37.5) * 60e6
    assert found.confidence == pytest.approx(1 - 108.75 / 600)
    assert of_kind(mined, "long-running", long_running=100) == []


def test_confidence_is_a_share(make):
    log = make({f"c{i}": "a0 b1 a2 a3 b4 a5 b90" for i in range(30)} | {"x": "a0 b900000"})
    for pattern in procmine.find(procmine.mine(log), procmine.Thresholds(rework=0, loop=0)):
        assert 0 <= pattern.confidence <= 1
        assert len(pattern.evidence) <= 10 and pattern.cases >= len(pattern.evidence)
    assert wilson(0, 0) == wilson(0, 9) == 0
    assert wilson(10**9, 10**9) == pytest.approx(1)
    for limits in ({"rework": 2}, {"loop_length": 0}, {"slow": -1}):
        with pytest.raises(denizen.ArgumentError):
            procmine.Thresholds(**limits)


def test_a_log_fits_its_own_graph(mined):
    found = procmine.check(mined, procmine.Reference.of_mined(mined))
    assert (found.fitness, found.fitting_cases, found.deviations) == (1, 1, [])
    assert 0 < found.precision < 1
    assert (found.case_fitness == 1).all()


def test_conformance_by_hand(make):
    mined = procmine.mine(make({"1": "a0 b1 c2", "2": "a0 b1 c2", "3": "a0 c1", "4": "b0 c1"}))
    reference = procmine.Reference.of(
        [("a", "b"), ("b", "c"), ("b", "d"), ("c", "b")], ["a"], ["c", "e"]
    )
    found = procmine.check(mined, reference)
    # Steps 4 + 4 + 3 + 3; a -> c and the beginning with b are not allowed.
    assert found.fitness == pytest.approx(12 / 14)
    assert found.fitting_cases == 0.5
    assert found.deviations == [("", "b", 1), ("a", "c", 1)]
    assert found.case_fitness.tolist() == pytest.approx([1, 1, 2 / 3, 2 / 3])
    # Prefixes: none 4 x {a}; a 3 x {b}; ab 2 x {c, d}, d escapes; abc 2 x {b, end}, b escapes.
    assert found.precision == pytest.approx(1 - (2 + 2) / (4 + 3 + 4 + 4))
    tight = procmine.Reference.of([("a", "b"), ("b", "c")], ["a"], ["c"])
    assert procmine.check(mined, tight).precision == 1
    nothing = procmine.check(mined, procmine.Reference.of([], [], []))
    assert (nothing.fitness, nothing.precision) == (0, 0)


def test_references_as_files(tmp_path, mined):
    reference = procmine.Reference.of_mined(mined, least=2)
    assert ("a", "c") not in reference.edges
    path = tmp_path / "graph.json"
    reference.write(path)
    assert procmine.Reference.read(path) == reference
    path.write_text(json.dumps({"edges": [["a"]], "starts": [], "ends": []}))
    with pytest.raises(denizen.ArgumentError, match=r"graph\.json: no reference graph"):
        procmine.Reference.read(path)


def test_conformance_of_a_very_long_case(make):
    # Prefixes are not kept one by one: a case of 20,000 events would have 1.6 GB of them.
    path = ["a", "b"] * 10_000
    log = procmine.from_columns(
        ["long"] * len(path), path, [i * 1_000_000 for i in range(len(path))]
    )
    mined = procmine.mine(log)
    reference = procmine.Reference.of([("a", "b"), ("b", "a")], ["a"], ["b"])
    found = procmine.check(mined, reference)
    assert (found.fitness, found.deviations) == (1, [])
    # After each b but the last one end escapes, at the end the way back: of 30,001 that may be.
    assert found.precision == pytest.approx(1 - 10_000 / 30_001)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("least", [1, 20])
def test_pm4py_finds_the_same_precision(log_file, monkeypatch, least):
    monkeypatch.setenv("PM4PY_SHOW_PROGRESS_BAR", "False")
    pm4py = pytest.importorskip("pm4py")
    if "bpic2013" in log_file.name:
        pytest.skip("its replay takes pm4py most of a minute")
    mined = procmine.mine(procmine.read(log_file))
    # Frequent edges, and the most frequent one from and to each activity: pm4py's replay takes a
    # case to fit that does what the model does not know at all.
    graph = {pair: n for pair, n in mined.counts.items() if n >= least}
    for side in (0, 1):
        best = {}
        for pair, n in sorted(mined.counts.items(), key=lambda edge: edge[1]):
            best[pair[side]] = (pair, n)
        graph.update(best.values())
    reference = procmine.Reference.of(graph, mined.start_activities, mined.end_activities)
    net = pm4py.convert_to_petri_net(graph, mined.start_activities, mined.end_activities)
    theirs = pm4py.precision_token_based_replay(pm4py.read_xes(str(log_file)), *net)
    ours = procmine.check(mined, reference, end_is_a_step=False)
    assert (ours.fitness == 1) == (graph.keys() == mined.counts.keys())
    assert ours.precision == pytest.approx(theirs, rel=1e-9)
