# SPDX-License-Identifier: Apache-2.0
"""Two ways of copying an array, compared: denizen ab run copy_ab.py --json copy.json

NumPy's copyto and an assignment to a slice are the same memmove below, so within 10 % they should
be found equivalent; a copy through a second array is slower. The control copies four times.
"""

import numpy as np

from denizen import ab


def cell(params):
    source = np.arange(params["kib"] * 128, dtype=np.float64)
    target = np.empty_like(source)
    between = np.empty_like(source)

    def copyto():
        np.copyto(target, source)
        return "numpy.copyto"

    def slices():
        target[:] = source
        return "slice assignment"

    def staged():
        np.copyto(between, source)
        np.copyto(target, between)
        return "two copies"

    def four_times():
        for _ in range(4):
            np.copyto(target, source)
        return "four copies"

    def arm(name, function, marker):
        return ab.Arm(
            name=name,
            marker=marker,
            sample=ab.calls(function),
            poison=lambda: target.fill(np.nan),
            result=target.copy,
            bytes=2 * source.nbytes,
        )

    return ab.Cell(
        arms=[
            arm("copyto", copyto, "numpy.copyto"),
            arm("slice", slices, "slice assignment"),
            arm("staged", staged, "two copies"),
            arm("four times", four_times, "four copies"),
        ],
        reference=np.arange(source.size, dtype=np.float64),
    )


copying = ab.Experiment(
    name="copy",
    cell=cell,
    base="copyto",
    control="four times",
    sweep=[{"kib": 64}, {"kib": 1024}],
    blocks=15,
    processes=3,
    margin=0.10,
)
