# SPDX-License-Identifier: Apache-2.0
"""A model fitted to labelled payments with NumPy alone: an LSTM over each customer's payments.

Backpropagation through time over pieces of customers' payments, Adam (Kingma and Ba, 2015), and the
cross entropy of each payment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.apps.transactions.features import FEATURES, Features, Floats
from denizen.apps.transactions.records import CASES, SUSPICIOUS, TRANSACTION, Records, as_bytes
from denizen.apps.transactions.stage import Stage
from denizen.errors import ArgumentError
from denizen.infer import Model, Op

_STEPS = 128  # of a customer's payments that are looked at together
_TOGETHER = 32  # pieces
_RATE = 0.02  # at first; it falls to nothing
_LONGEST = 1.0  # gradient


def suspicious(records: Records) -> NDArray[np.bool_]:
    """Which records of a made stream belong to a case of SUSPICIOUS, by their flags."""
    return np.isin(records["flags"], [CASES.index(case) for case in SUSPICIOUS])


def fit(
    records: Records,
    profiles: Records,
    labels: NDArray[np.bool_] | None = None,
    *,
    hidden: int = 16,
    rounds: int = 20,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _text: None,
) -> Model:
    """A model that scores payments: an LSTM of ``hidden``, a linear layer, a sigmoid.

    Args:
        records, profiles: as a Stage takes them; what is not accepted is left out.
        labels: (n,) bool, which are to be found; None: suspicious(records), of a made stream.
        hidden: 1 to 1024.
        rounds: how often it sees all payments, 1 or more.
        seed: of the first weights and the order of pieces; the same gives the same model, up to
            rounding on other machines.
        tell: is given a line about each round.

    The answer for a row of FEATURES is the probability that the payment is to be found: a float32.
    """
    as_bytes(records, TRANSACTION)
    wanted = suspicious(records) if labels is None else np.asarray(labels)
    if wanted.dtype != np.bool_ or wanted.shape != records.shape:
        raise ArgumentError(
            f"labels are {wanted.dtype} of shape {wanted.shape}; give bool of {records.shape}"
        )
    if not 1 <= hidden <= 1024 or rounds < 1:
        raise ArgumentError(f"hidden = {hidden}, rounds = {rounds}; use 1 to 1024, 1 or more")
    with Stage("cpu:1", keep_outcomes=True) as stage:
        stage.put(profiles)
        for _ in stage.run(records):
            pass
        accepted = stage.take_outcomes() == 0
        limit = stage.rules.amount_limit
    if not 0 < wanted[accepted].sum() < accepted.sum():
        raise ArgumentError("the accepted records are all of one label; give some of both")
    features = Features(len(records) + len(profiles))
    features.put(profiles)
    streams, x = features.rows(records[accepted], limit)
    pieces = _pieces(streams, x, wanted[accepted])
    return _fitted(pieces, hidden, rounds, np.random.default_rng(seed), tell).model()


def _pieces(
    streams: NDArray[np.uint32], x: Floats, wanted: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """(steps, pieces, features), labels and what is there at all, (steps, pieces)."""
    order = np.argsort(streams, kind="stable")
    begins = np.flatnonzero(np.diff(streams[order], prepend=-1))
    ends = np.append(begins[1:], len(order))
    spans = [
        (at, min(at + _STEPS, end))
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        for at in range(begin, end, _STEPS)
    ]
    rows = np.zeros((_STEPS, len(spans), x.shape[1]), np.float32)
    labels, there = np.zeros((2, _STEPS, len(spans)), np.float32)
    for k, (begin, end) in enumerate(spans):
        mine = order[begin:end]
        rows[: end - begin, k] = x[mine]
        labels[: end - begin, k] = wanted[mine]
        there[: end - begin, k] = 1
    return rows, labels, there


def _fitted(
    pieces: tuple[Floats, Floats, Floats],
    hidden: int,
    rounds: int,
    random: np.random.Generator,
    tell: Callable[[str], None],
) -> _Lstm:
    model = _Lstm(hidden, random)
    count = pieces[0].shape[1]
    turns = rounds * -(-count // _TOGETHER)
    turn = 0
    for number in range(rounds):
        order = random.permutation(count)
        losses = []
        for at in range(0, count, _TOGETHER):
            some = order[at : at + _TOGETHER]
            rate = _RATE * (1 - turn / turns)
            x, labels, there = (one[:, some] for one in pieces)
            losses.append(model.learn(x, labels, there, rate))
            turn += 1
        tell(f"fitting: round {number + 1} of {rounds}, loss {np.mean(losses):.4f}")
    return model


def _sigmoid(x: Any) -> Any:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


class _Lstm:
    """Its weights, and Adam's two means of the gradient of each."""

    def __init__(self, hidden: int, random: np.random.Generator) -> None:
        def some(*shape: int) -> Floats:
            weights: Floats = random.uniform(-1, 1, shape).astype(np.float32)
            weights /= np.float32(np.sqrt(hidden))
            return weights

        b = np.zeros(4 * hidden, np.float32)
        b[hidden : 2 * hidden] = 1  # it remembers at first
        self._hidden = hidden
        self._weights = [
            some(4 * hidden, len(FEATURES)), some(4 * hidden, hidden), b,
            some(1, hidden), np.full(1, -3, np.float32),
        ]  # fmt: skip
        self._means = [(np.zeros_like(w), np.zeros_like(w)) for w in self._weights]
        self._turns = 0

    def model(self) -> Model:
        w, r, b, v, c = self._weights
        ops = (
            Op("lstm", (0,), (w, r, b), name="payments"),
            Op("linear", (1,), (v, c), name="head"),
            Op("sigmoid", (2,), name="score"),
        )
        return Model((len(FEATURES), self._hidden, 1, 1), ops, 3)

    def learn(self, x: Floats, labels: Floats, there: Floats, rate: float) -> float:
        """One turn of Adam; the loss before it."""
        w, r, b, v, offset = self._weights
        steps, pieces, _ = x.shape
        n = self._hidden
        h = c = np.zeros((pieces, n), np.float32)
        kept: list[tuple[Any, ...]] = []
        logits = np.empty((steps, pieces), np.float32)
        for t in range(steps):
            a = x[t] @ w.T + h @ r.T + b
            i, f, o = _sigmoid(a[:, :n]), _sigmoid(a[:, n : 2 * n]), _sigmoid(a[:, 3 * n :])
            g = np.tanh(a[:, 2 * n : 3 * n])
            new = f * c + i * g
            kept.append((h, c, i, f, g, o, np.tanh(new)))
            h, c = o * kept[-1][-1], new
            logits[t] = (h @ v.T + offset)[:, 0]
        p = _sigmoid(logits)
        weight = there / there.sum()
        loss = np.logaddexp(0, logits) - labels * logits
        # And back: each gradient is of the loss by what it is named after.
        of = [np.zeros_like(one) for one in self._weights]
        by_logit = ((p - labels) * weight)[:, :, None]
        by_h = by_c = np.zeros((pieces, n), np.float32)
        for t in reversed(range(steps)):
            h, c, i, f, g, o, tanh = kept[t]
            of[3] += by_logit[t].T @ (o * tanh)
            of[4] += by_logit[t].sum()
            by_h = by_h + by_logit[t] @ v
            by_c = by_c + by_h * o * (1 - tanh * tanh)
            by_a = np.concatenate(
                [by_c * g * i * (1 - i), by_c * c * f * (1 - f), by_c * i * (1 - g * g),
                 by_h * tanh * o * (1 - o)], axis=1,
            )  # fmt: skip
            of[0] += by_a.T @ x[t]
            of[1] += by_a.T @ h
            of[2] += by_a.sum(0)
            by_h, by_c = by_a @ r, by_c * f
        self._step(of, rate)
        return float((loss * weight).sum())

    def _step(self, gradients: list[Floats], rate: float) -> None:
        length = np.sqrt(sum(float((g * g).sum()) for g in gradients))
        self._turns += 1
        up, down = 1 - 0.9**self._turns, 1 - 0.999**self._turns
        for k, gradient in enumerate(gradients):
            g = gradient * min(1.0, _LONGEST / max(length, 1e-9))
            mean, square = self._means[k]
            mean[...] += 0.1 * (g - mean)
            square[...] += 0.001 * (g * g - square)
            turn = rate * (mean / up) / (np.sqrt(square / down) + 1e-8)
            self._weights[k] -= turn.astype(np.float32)
