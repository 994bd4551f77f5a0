# SPDX-License-Identifier: Apache-2.0
"""The simulation in NumPy, in double precision: one array operation after the other."""

import numpy as np


class Room:
    """As wave.Simulation, with ``sources``: a list of (function of the step, place)."""

    def __init__(self, shape, courant, *, damping=0.0, absorber=0.0, boundary=("reflecting",) * 3,
                 cells=None):  # fmt: skip
        self.now = np.zeros(shape)
        self.before = np.zeros(shape)
        self.courant = courant
        self.damping, self.absorber = damping, absorber  # per step
        self.boundary = boundary
        self.cells = np.zeros(shape, int) if cells is None else np.array(cells, int)
        self.sources = []
        self.step = 0

    def _beside(self, array, axis, by, outside):
        moved = np.roll(array, by, axis)
        if self.boundary[axis] != "periodic":
            edge = [slice(None)] * 3
            edge[axis] = 0 if by == 1 else -1
            moved[tuple(edge)] = outside
        return moved

    def run(self, steps):
        for _ in range(steps):
            total = np.zeros_like(self.now)
            loss = self.damping + np.where(self.cells == 1, self.absorber, 0.0)
            for axis in range(3):
                for by in (1, -1):
                    kind = self._beside(self.cells, axis, by, 9)
                    value = self._beside(self.now, axis, by, 0.0)
                    total += np.where((kind == 2) | (kind == 9), 0.0, value - self.now)
                    if self.boundary[axis] == "absorbing":
                        loss = loss + np.where(kind == 9, self.courant / 2, 0.0)
            after = 2 * self.now - (1 - loss) * self.before + self.courant**2 * total
            after = np.where(self.cells >= 2, 0.0, after / (1 + loss))
            for drive, at in self.sources:
                if self.cells[at] < 2:
                    after[at] += drive(self.step)
            self.before, self.now = self.now, after
            self.step += 1

    def fill(self, index, kind):
        self.cells[index] = kind
        if kind >= 2:
            self.now[index] = self.before[index] = 0.0
