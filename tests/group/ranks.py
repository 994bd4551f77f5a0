# SPDX-License-Identifier: Apache-2.0
"""What tests of collectives in Python share: a call of each kind, and what NumPy makes of it."""

import numpy as np

RANKS = 3
SUM, LEAST, GREATEST, MEAN, SCATTER, GATHER, SEND, SWAP = range(8)

# Elements' types, and the grain of the actors and tasks that are tested with them.
GRAINS = {
    np.float32: "warp",
    np.float64: "thread",
    np.int32: "warp",
    np.int64: "thread",
    np.uint8: "thread",
}


def called(ctx, kind, rank, x, out, root):  # noqa: PLR0917  (functions of handlers have no names)
    """For handlers and tasks: the call, and a barrier behind it."""
    good = False
    if kind == SUM:
        good = ctx.all_reduce(rank, x, out)
    elif kind == LEAST:
        good = ctx.all_reduce(rank, x, out, "min")
    elif kind == GREATEST:
        good = ctx.all_reduce(rank, x, out, "max")
    elif kind == MEAN:
        good = ctx.all_reduce(rank, x, out, "avg")
    elif kind == SCATTER:
        good = ctx.reduce_scatter(rank, x, out, "sum")
    elif kind == GATHER:
        good = ctx.all_gather(rank, x, out)
    elif kind == SEND:
        good = ctx.broadcast(rank, x, out, root)
    elif kind == SWAP:
        good = ctx.all_to_all(rank, x, out)
    if good:
        good = ctx.barrier(rank)
    return good


def wanted(kind, x, rank, root):
    """What each rank's `out` is, of all ranks' arrays."""
    parts = np.stack(x)
    mine = np.array_split(parts, len(x), axis=1)[rank]
    with np.errstate(over="ignore"):
        return {
            SUM: parts.sum(0, dtype=parts.dtype),
            LEAST: parts.min(0),
            GREATEST: parts.max(0),
            MEAN: (parts.sum(0, dtype=parts.dtype) / len(x)).astype(parts.dtype),
            SCATTER: mine.sum(0, dtype=parts.dtype),
            GATHER: parts.ravel(),
            SEND: parts[root],
            SWAP: mine.ravel(),
        }[kind]


def arrays(kind, element, n, ranks=RANKS, seed=0):
    """Small whole numbers, whose sums and means are exact, and how long the result is."""
    rng = np.random.default_rng((kind, seed))
    most = 256 // ranks**2 if element is np.uint8 else 20
    x = [ranks * rng.integers(0, most, n * ranks).astype(element) for _ in range(ranks)]
    size = {GATHER: n * ranks * ranks, SCATTER: n}.get(kind, n * ranks)
    return x, size
