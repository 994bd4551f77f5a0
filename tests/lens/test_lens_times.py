# SPDX-License-Identifier: Apache-2.0
"""What submissions took on the GPU, of logs whose releases are known."""

import gzip
import statistics
from pathlib import Path

import stream as s

from denizen.lens import log, summary, times

PLACE = 0x204600FF0
LAUNCH, COPY = 0x3000001, 0x3000002


def capture(tmp_path, bells, releases):
    """``bells``: (time, API) of submissions with payloads from 1; ``releases``: (time, payload, GPU
    time)."""
    made = s.Log().channel(0).name(LAUNCH, "cuLaunchKernel").name(COPY, "cuMemcpyHtoD_v2")
    for payload, (time, api) in enumerate(bells, 1):
        made.submit(0, s.host_release(PLACE, payload), api=api, time=time)
    for time, payload, gpu_ns in releases:
        made.release(0, PLACE, payload, gpu_ns, time=time)
    return log.read(made.end().write(tmp_path / "a.lens"))


def taken(one):
    return times.taken(one, summary.decoded(one))


def test_a_busy_gpu_is_told_from_one_that_waits(tmp_path):
    bells = [(time, LAUNCH) for time in (1000, 2000, 3000, 4000, 9000)]
    # Payload 1 is seen at the doorbell of 4: 2 and 3 were rung before it was released. That of 3 is
    # seen at 5, which has waited for it or not; that of 5 at the end.
    releases = [(4001, 1, 70_000), (9001, 3, 74_200), (20_000, 5, 90_000)]
    found = taken(capture(tmp_path, bells, releases))
    two = ("cuLaunchKernel",) * 2
    assert found == [times.Taken(0, two, 4_200, True), times.Taken(0, two, 15_800, False)]
    assert times.summary(found) == (
        "GPU time between releases: cuLaunchKernel 2.10 us (1), at most 7.90 us (1)"
    )


def test_one_after_the_other_is_at_most(tmp_path):
    bells = [(1000, LAUNCH), (2000, COPY), (3000, LAUNCH)]
    releases = [(2001, 1, 500), (3001, 2, 1_700), (9000, 3, 4_000)]
    found = taken(capture(tmp_path, bells, releases))
    assert [(one.apis, one.ns, one.busy) for one in found] == [
        (("cuMemcpyHtoD_v2",), 1_200, False), (("cuLaunchKernel",), 2_300, False),
    ]  # fmt: skip


def test_what_no_submission_releases_is_left_out(tmp_path):
    bells = [(1000, LAUNCH), (2000, LAUNCH)]
    one = capture(tmp_path, bells, [(2001, 1, 500), (2500, 99, 600), (3000, 2, 800)])
    assert [found.ns for found in taken(one)] == [300]
    assert times.summary(taken(capture(tmp_path, bells, []))) == ""


def test_a_launch_ends_with_the_next_release(tmp_path):
    """An H200's log of products of matrices, each behind a memset.

    300 back to back, 171 us each by CUDA's events, and 50 that were waited for.
    """
    packed = Path(__file__).with_name("captures") / "h200-580.159.04-products.lens.gz"
    path = tmp_path / "products.lens"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    of: dict[str, list[float]] = {}
    for one in taken(log.read(path)):
        if len(one.apis) == 1 and one.apis[0] in {"cuLaunchKernelEx", "cuMemsetD8Async"}:
            of.setdefault(one.apis[0], []).append(one.ns * 1e-3)
    assert all(len(took) > 50 for took in of.values())
    assert 171 < statistics.median(of["cuLaunchKernelEx"]) < 250
    assert statistics.median(of["cuMemsetD8Async"]) < 25
