# SPDX-License-Identifier: Apache-2.0
"""An experiment whose times are made up, so that what comes of it is known: nothing is measured."""

import numpy as np

from denizen import ab

SIZE = 8


class Made:
    """Arms that share an output. Each takes its seconds, with noise of its own."""

    def __init__(self, seed, noise=0.003):
        self.rng = np.random.default_rng(seed)
        self.noise = noise
        self.output = np.zeros(SIZE, np.float32)
        self.bytes_counted = 0.0

    def arm(
        self, name, seconds, *, marker=None, says=None, adds=0.0, moves=None, size=None, copies=0.7,
        counted=False,
    ):  # fmt: skip
        """``says`` is the marker it reports, ``adds`` an error of its result, ``moves`` the bytes
        that are counted of its ``size`` bytes. It ``copies`` for this part of its time, and sums in
        the second half."""
        marker = marker or name

        def sample(operations):
            checked = np.isnan(self.output).all()  # a measurement is not to be slowed by tracing
            self.output[:] = np.arange(SIZE) + adds
            self.bytes_counted += (moves or 0.0) * operations
            time = seconds * np.exp(self.noise * self.rng.normal())
            spans = [ab.Span("copy", 0.0, time * copies), ab.Span("sum", time * 0.5, time)]
            return ab.Sample(time, {says or marker: operations}, spans if checked else ())

        return ab.Arm(
            name=name,
            marker=marker,
            sample=sample,
            poison=lambda: self.output.fill(np.nan),
            result=self.output.copy,
            bytes=size,
            moved=(lambda: self.bytes_counted) if moves is not None else None,
            counted=counted,
        )


def experiment(change=None, *, limit=None, times=(1.0, 0.98, 1.0, 1.3), sweep=({},), **design):
    """base 1 s, quick 0.98 s, same 1 s and control 1.3 s an operation; ``change`` has the keyword
    arguments of arms by their names."""
    seeds = iter(range(1000))
    names = ("base", "quick", "same", "control")

    def cell(params):
        made = Made(next(seeds))
        arms = [
            made.arm(name, seconds, **(change or {}).get(name, {}))
            for name, seconds in zip(names, times, strict=True)
        ]
        return ab.Cell(arms, np.arange(SIZE, dtype=np.float64), limit)

    return ab.Experiment(
        **{
            "name": "synthetic",
            "cell": cell,
            "base": "base",
            "control": "control",
            "sweep": list(sweep),
            "blocks": 20,
            "processes": 3,
            **design,
        }
    )
