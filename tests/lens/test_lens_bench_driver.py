# SPDX-License-Identifier: Apache-2.0
"""denizen bench driver on a GPU: all runs of its program, and what they must agree on."""

import pytest

from denizen.lab import bench, observers

pytestmark = pytest.mark.gpu


def test_every_part_is_measured_and_verified():
    made = bench.run("driver", "gpu:0", quick=True)
    assert [row.case for row in made.rows if not row.verified] == []
    cases = {row.case for row in made.rows}
    assert cases >= {
        "copy", "copy, until done", "copy, by events", "copy, submitted", "graph, a chain",
        "graph, a chain, submitted", "launches, a chain, submitted", "largest inline copy",
        "API time over submitted bytes, slope", "API time over kernels, correlation",
        "loop's doorbells", "added to a doorbell", "in the lens's handler",
        "raw copy", "raw copy, start", "raw copy, most", "raw copy, not the engine's",
        observers.ALONE, observers.ASLEEP, observers.ATTACHED, observers.DETACHED,
        "lens, attach under launches", "lens, detach under launches",
    }  # fmt: skip
    if observers.cupti() is not None:
        assert cases >= {observers.RECORDS, observers.FINALIZED}
    for function, base in (("cudaLaunchKernelExC", "cudaLaunchKernel"),
                           ("cuLaunchKernelEx", "cuLaunchKernel")):  # fmt: skip
        rows = [row for row in made.rows if row.case == f"kernel launch by {function}"]
        assert [row.params["kernel"] for row in rows] == ["small", "large"]
        assert all(f"kernel launch by {base}" in row.ratio_to for row in rows)
    assert all(row.max == 0 for row in made.rows if row.case == "doorbells other than one a launch")
    most = max(row.params["bytes"] for row in made.rows if row.case == "raw copy")
    assert most == 32 << 20
