# SPDX-License-Identifier: Apache-2.0
"""Graph, variants and figures: against what was worked out by hand, by NumPy, and by pm4py."""

import itertools
from collections import Counter

import numpy as np
import pytest
from by_hand import EDGES, MINUTE

import denizen
from denizen import _core, procmine

COMPILED = pytest.mark.skipif(not _core.procmine_has_gpu, reason="built without nvcc")
DEVICES = ["cpu:1", "cpu:2", pytest.param("gpu", marks=[pytest.mark.gpu, COMPILED])]


@pytest.mark.parametrize("device", DEVICES)
def test_by_hand(log, device):
    mined = procmine.mine(log, device=device)
    found = {(e.source, e.to): (e.count, e.mean, e.median, e.p95) for e in mined.edges}
    assert found.keys() == EDGES.keys()
    for pair, (count, *durations) in EDGES.items():
        assert found[pair][0] == count
        np.testing.assert_allclose(found[pair][1:], np.array(durations) * MINUTE, rtol=1e-12)
    assert mined.start_activities == {"a": 6, "b": 1}
    assert mined.end_activities == {"a": 1, "d": 6}
    assert mined.activity_counts.tolist() == [6, 8, 6, 6]
    assert {"".join(v.path): v.count for v in mined.variants} == {
        "abcd": 2, "a": 1, "abbcd": 1, "abcbcd": 1, "acbd": 1, "bd": 1,
    }  # fmt: skip
    assert mined.variants[0].path == ("a", "b", "c", "d")
    assert mined.cases_of(0) == ["c1", "c2"]
    assert mined.case_seconds[4] == 36_000
    assert (mined.edge_least[3], mined.edge_most[3]) == (10 * MINUTE, 30 * MINUTE)


@pytest.mark.parametrize("device", DEVICES)
def test_numpy_finds_the_same(device):
    log = procmine.generate(20_000, activities=11, seed=4)
    shuffled = np.random.default_rng(1).permutation(len(log))
    other = procmine.Log(
        "x",
        log.cases,
        log.activities,
        log.case[shuffled],
        log.activity[shuffled],
        log.time[shuffled],
    )
    mined = procmine.mine(other, device=device)
    order = np.lexsort((log.time, log.case))
    case, activity, time = log.case[order], log.activity[order], log.time[order]
    same = case[1:] == case[:-1]
    pairs = np.stack([activity[:-1][same], activity[1:][same]])
    spent = np.diff(time)[same]
    for i, (a, b) in enumerate(zip(mined.edge_from, mined.edge_to, strict=True)):
        durations = spent[(pairs[0] == a) & (pairs[1] == b)]
        assert mined.edge_count[i] == len(durations)
        np.testing.assert_allclose(mined.edge_mean[i], durations.mean(), rtol=1e-12)
        assert mined.edge_median[i] == np.median(durations)
        np.testing.assert_allclose(mined.edge_p95[i], np.percentile(durations, 95), rtol=1e-14)
    paths = Counter(tuple(p.tolist()) for p in np.split(activity, np.flatnonzero(~same) + 1))
    assert {
        tuple(mined.path(v).tolist()): int(n) for v, n in enumerate(mined.variant_count)
    } == paths


def test_a_generated_log_is_its_seed_s():
    one, same, other = (procmine.generate(5_000, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(one.time, same.time)
    np.testing.assert_array_equal(one.activity, same.activity)
    assert not np.array_equal(one.activity, other.activity)
    # What it gave when it was written: the same on every machine.
    assert (len(one), len(one.cases)) == (5_000, 282)
    assert _core.procmine_path_hash(one.activity) == 2237716918708913162
    with pytest.raises(denizen.ArgumentError, match="activities = 3"):
        procmine.generate(100, activities=3)


def test_what_is_refused(log):
    with pytest.raises(denizen.ArgumentError, match="one GPU or the CPU"):
        procmine.mine(log, device="cpu:2x2")
    if not _core.procmine_has_gpu:
        with pytest.raises(denizen.DeviceError, match="without CUDA"):
            procmine.mine(log, device="gpu")
    with pytest.raises(denizen.ArgumentError, match="no case"):
        log.trace("c99")


SIZES = {  # events, cases, edges, variants
    "hand.xes.gz": (26, 7, 7, 6),
    "02_teleclaims.xes.gz": (46_138, 3_512, 30, 12),
    "07_bpic2013_incidents.xes.gz": (65_533, 7_554, 11, 1_511),
    "08_receipt.xes.gz": (8_577, 1_434, 99, 116),
}


def test_sizes_of_whole_logs(log_file):
    log = procmine.read(log_file, on_error="stop")
    mined = procmine.mine(log)
    found = (len(log), len(log.cases), len(mined.edges), len(mined.variants))
    paths = [[] for _ in log.cases]
    for event in np.argsort(log.time, kind="stable"):
        paths[log.case[event]].append(log.activity[event])
    edges = {pair for path in paths for pair in itertools.pairwise(path)}
    assert found == (len(log.time), len(paths), len(edges), len(set(map(tuple, paths))))
    assert found == SIZES.get(log_file.name, found)


@pytest.mark.filterwarnings("ignore")
def test_pm4py_finds_the_same(log_file):
    pm4py = pytest.importorskip("pm4py")
    mined = procmine.mine(procmine.read(log_file))
    theirs = pm4py.read_xes(str(log_file))
    graph, starts, ends = pm4py.discover_dfg(theirs)
    assert mined.counts == dict(graph)
    assert mined.start_activities == starts
    assert mined.end_activities == ends
    variants = pm4py.get_variants_as_tuples(theirs)
    assert {v.path: v.count for v in mined.variants} == {
        path: cases if isinstance(cases, int) else len(cases) for path, cases in variants.items()
    }
    durations, _, _ = pm4py.discover_performance_dfg(theirs)
    for edge in mined.edges:
        their = durations[edge.source, edge.to]
        for what, ours in (
            ("mean", edge.mean), ("median", edge.median), ("min", edge.least), ("max", edge.most),
        ):  # fmt: skip
            assert their[what] == pytest.approx(ours * 1e-6, rel=1e-9, abs=1e-6)
