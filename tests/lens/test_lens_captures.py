# SPDX-License-Identifier: Apache-2.0
"""The decoder on what an H100's driver (580.159.04) really submitted.

``small``: graphs of 1 and 10 kernels launched three times each, five kernels of 32 threads, copies
of 1 B to 64 KiB in both directions. ``graphs``: chains of 1 to 2000 kernels, three launches each.
"""

import gzip
from pathlib import Path

import pytest

from denizen.lab import schema
from denizen.lens import lines, log, page, summary
from denizen.lens.places import Places

CAPTURES = Path(__file__).with_name("captures")


@pytest.fixture(scope="module", params=["small", "graphs"])
def name(request):
    return request.param


@pytest.fixture(scope="module")
def capture(name, tmp_path_factory):
    path = tmp_path_factory.mktemp("captures") / f"{name}.lens"
    packed = CAPTURES / f"h100-580.159.04-{name}.lens.gz"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return log.read(path)


@pytest.fixture(scope="module")
def decoded(capture):
    return list(summary.decoded(capture))


def test_every_method_is_known(capture, decoded):
    made = summary.summarize(capture, decoded)
    assert capture.complete and not summary.warnings(capture, made)
    assert not made.unknown and made.problems == 0
    assert all(found.recorded for _, found in decoded)
    assert made.doorbells == len(decoded) == capture.end.doorbells
    assert made.bytes == sum(cost.bytes for cost in made.costs)


def test_every_word_is_accounted_for(decoded):
    """Each segment is headers and the data they count; all of it was decoded."""
    for submission, found in decoded:
        words = sum(len(segment) for segment in submission.segments)
        data = sum(found.methods.values())
        assert 0 < data <= 1.5 * words  # immediate data shares a word with its header
        assert found.operations


def test_every_submission_ends_with_a_timestamped_release(decoded):
    for _, found in decoded:
        last = found.operations[-1]
        assert last.kind == "release" and last.detail["timestamp"] is True


def test_every_line_fits_its_schema(capture, decoded):
    whole = lines.submission_schema()
    for submission, found in decoded[:: max(1, len(decoded) // 60)]:
        schema.check(lines.line(capture, submission, found, Places(capture)), whole, root=whole)


def test_the_page(capture):
    assert "cuGraphLaunch" in page.render(capture)


def test_graph_launches(name, capture, decoded):
    """A chain is one doorbell however long; from 10 kernels on about a byte more for each."""
    launched = summary.calls_of(capture, ["cuGraphLaunch"])
    sizes = {"small": (76, 92), "graphs": (76, 92, 172, 556, 1020, 1964)}[name]
    # The first launch of each graph also uploads it; it is not named so here.
    assert [size for *_, size in launched] == [size for size in sizes for _ in range(2)]
    assert {bells for _, _, bells, _ in launched} == {1}
    kernels = {"small": 1 + 10 + 5, "graphs": 1 + 10 + 100 + 500 + 1000 + 2000}[name]
    run = [op for _, found in decoded for op in found.operations if op.kind == "launch"]
    described = {op.detail["qmd_address"] for op in run}
    assert all(op.detail["grid"] == [1, 1, 1] and op.detail["registers"] == 16 for op in run)
    assert len({op.detail["program"] for op in run}) == 1
    # Every kernel is scheduled once when it is uploaded; a single one again by each launch.
    assert len(run) == kernels + 2
    assert len(described) <= kernels


@pytest.mark.parametrize("name", ["small"], indirect=True)
def test_launches_and_copies(decoded, capture):
    api = [(summary.api_of(capture, s.doorbell), s.doorbell.bytes, f) for s, f in decoded]
    blocks = [
        op.detail["block"]
        for which, _, found in api
        for op in found.operations
        if op.kind == "launch" and which == "cuLaunchKernel"
    ]
    assert blocks == [[32, 1, 1]] * 5
    to_device = [
        (op.kind, op.bytes)
        for which, _, found in api
        for op in found.operations
        if which == "cuMemcpyHtoD_v2" and op.kind in {"inline copy", "copy"}
    ]
    assert to_device
    # Small ones go through the stream, and none through it is larger than one that does not.
    inline = [size for kind, size in to_device if kind == "inline copy"]
    assert inline and max(inline) <= 65_536
    to_host = [
        op.kind
        for which, _, found in api
        for op in found.operations
        if which == "cuMemcpyDtoH_v2" and op.bytes
    ]
    assert set(to_host) == {"copy"}


def test_launches_with_clusters_and_cooperative_ones(tmp_path):
    """``calls``: everyday calls; 132 blocks of 32 threads, in clusters of 4, and all as one."""
    path = tmp_path / "calls.lens"
    packed = CAPTURES / "h100-580.159.04-calls.lens.gz"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    calls = log.read(path)
    made = summary.summarize(calls)
    assert calls.complete and not made.unknown and made.problems == 0
    launches = [
        op.detail
        for _, found in summary.decoded(calls)
        for op in found.operations
        if op.kind == "launch" and "cluster" in op.detail
    ]
    assert {(str(d["type"]), tuple(d["cluster"])) for d in launches} == {
        ("GRID_GPC_CGA", (4, 1, 1)), ("GRID_GPU_CGA", (132, 1, 1)),
    }  # fmt: skip
    assert all(d["grid"] == [132, 1, 1] and d["block"] == [32, 1, 1] for d in launches)
