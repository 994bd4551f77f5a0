# SPDX-License-Identifier: Apache-2.0
"""A stage with one more rule: a model that stays resident scores each payment that is accepted."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.apps.transactions.features import FEATURES, Features, Floats
from denizen.apps.transactions.records import (
    ALERT,
    MODEL_RULE,
    PROFILE,
    TRANSACTION,
    Records,
    Rules,
    as_bytes,
    in_order,
)
from denizen.apps.transactions.stage import Counts, Stage
from denizen.device import parse_device
from denizen.errors import ArgumentError
from denizen.infer import Model, Resident, model_of

CUSTOMERS = 1 << 18
_UNDER_WAY = 4096  # requests to the model at once
_COPIED = ("id", "customer", "dest", "amount_cents", "ts_ms", "country")
_PATIENCE = 60.0  # seconds for one piece's scores


class ScoredStage(Stage):
    """A Stage beside a denizen.infer.Resident with a stream for each customer.

    Each accepted payment is one time step of its customer's stream: a row of FEATURES, whose answer
    is the payment's score, 0 to 1. One of at least ``threshold`` is an alert of rule 8, "model",
    behind those of the rules: ``value`` and ``limit`` are score and threshold in millionths,
    ``score`` is in percent, ``severity`` high in the upper half above the threshold, else medium,
    ``rules_version`` that of the model's weights.

    The scores depend on the accepted records, the profiles, the rules and the model alone: not on
    how the stream was cut. Between devices they may differ by rounding.

    Args:
        model: as of denizen.infer.model_of: a Model such as fit() makes, a path of .npz or .onnx,
            or a module of PyTorch. It takes FEATURES and gives one float, 0 to 1.
        device: of the stage and of the model, as of Stage. On the CPU the model has threads of its
            own, as many as a Resident takes by itself.
        threshold: above 0, at most 1.
        customers: most that there may be, each with a state of its own at the model; one more is an
            ExhaustedError.
        weights: as of denizen.infer.Resident.
        keep_scores: of each record, for take_scores().
        stage: what else a Stage takes, but for restore and keep_outcomes.

    put(), change() and swap() wait for what was fed before them. There are no snapshots: the
    model's states are not in them. Once a call has ended in an error of the model, the stage can
    only be closed.
    """

    def __init__(
        self,
        model: Any,
        device: str = "auto",
        *,
        threshold: float = 0.7,
        customers: int = CUSTOMERS,
        weights: str = "fp32",
        keep_scores: bool = False,
        **stage: Any,
    ) -> None:
        if not isinstance(threshold, int | float) or not 0 < threshold <= 1:
            raise ArgumentError(f"threshold = {threshold!r}; use a number above 0, at most 1")
        for name in ("restore", "keep_outcomes"):
            if stage.get(name):
                raise ArgumentError(f"{name} is not for a stage with a model; use Stage")
        stage = {k: v for k, v in stage.items() if k not in ("restore", "keep_outcomes")}
        self._threshold = np.float32(threshold)
        self._keep_scores = keep_scores
        place = "cpu" if parse_device(device).threads is not None else device
        self._resident = Resident(
            _scorer(model), device=place, streams=customers, weights=weights, requests=_UNDER_WAY
        )
        try:
            super().__init__(device, keep_outcomes=True, **stage)
        except BaseException:
            self._resident.close()
            raise
        self._features = Features(customers)
        self._fed: deque[Records] = deque()  # and not done yet
        self._scored = 0  # records before this place have been
        self._alerts = 0  # of the model
        self._ready: list[Records] = []
        self._scores: list[Floats] = []

    @property
    def resident(self) -> Resident:
        """The model, for its stats()."""
        return self._resident

    def put(self, profiles: Records) -> None:
        """As of Stage."""
        as_bytes(profiles, PROFILE)
        self._settle()
        super().put(profiles)
        self._features.put(profiles)

    def change(self, rules: Rules) -> None:
        """As of Stage."""
        self._settle()
        super().change(rules)

    def swap(self, model: Any) -> int:
        """Other weights for the records that are fed from now on; the customers' states stay.

        As of denizen.infer.Resident; returns the new version.
        """
        self._settle()
        return self._resident.swap(_scorer(model))

    def feed(self, records: Records) -> None:
        """As of Stage."""
        as_bytes(records, TRANSACTION)
        self._fed.append(records.reshape(-1).copy())
        super().feed(records)

    def take(self) -> Records:
        """As of Stage, with the model's alerts."""
        return self._with_scores(super().take())

    def drain(self) -> Records:
        """As of Stage, with the model's alerts."""
        return self._with_scores(super().drain())

    def take_scores(self) -> Floats:
        """Of the records whose alerts were taken since the last call, in the stream's order; NaN of
        those that were not accepted. float32, (n,). ArgumentError unless they are kept."""
        if not self._keep_scores:
            raise ArgumentError("no scores are kept; make the stage with keep_scores=True")
        scores = np.concatenate([np.zeros(0, np.float32), *self._scores])
        self._scores = []
        return scores

    def take_outcomes(self) -> NDArray[np.uint8]:
        """ArgumentError: they are looked at here. What was not accepted has the score NaN."""
        raise ArgumentError("a stage with a model keeps no outcomes; see take_scores()")

    def counts(self) -> Counts:
        """As of Stage, with the model's alerts among them."""
        counts = super().counts()
        return replace(counts, alerts=counts.alerts + self._alerts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """ArgumentError: there are no snapshots of a stage with a model."""
        raise ArgumentError(
            f"{os.fspath(path)}: a snapshot has no states of the model; use a Stage without one"
        )

    def close(self) -> None:
        """As of Stage; the model ends too."""
        try:
            super().close()
        finally:
            self._resident.close()

    def _settle(self) -> None:
        self._ready.append(self.drain())

    def _with_scores(self, alerts: Records) -> Records:
        """The alerts that are ready: ``alerts``, of the rules, and those of what is done since."""
        ready, self._ready = self._ready, []
        outcomes = super().take_outcomes()
        if len(outcomes):
            found = self._score(self._done(len(outcomes)), outcomes == 0)
            self._alerts += len(found)
            alerts = in_order([alerts, found])
        return np.concatenate([*ready, alerts])

    def _done(self, count: int) -> Records:
        """The next records, as many as are done."""
        pieces = []
        while count > 0:  # ends: no more are done than were fed, and each turn takes some
            piece = self._fed.popleft()
            pieces.append(piece[:count])
            if len(piece) > count:
                self._fed.appendleft(piece[count:])
            count -= len(pieces[-1])
        return np.concatenate(pieces)

    def _score(self, records: Records, accepted: NDArray[np.bool_]) -> Records:
        """The model's alerts of the next records."""
        mine = records[accepted]
        streams, rows = self._features.rows(mine, self.rules.amount_limit)
        answers = self._resident.answers(rows, streams, timeout=_PATIENCE)
        scores = answers.outputs[:, 0]
        sequences = self._scored + np.flatnonzero(accepted)
        wrong = np.flatnonzero(~((scores >= 0) & (scores <= 1)))
        if len(wrong):
            raise ArgumentError(
                f"the model's score of record {sequences[wrong[0]]} is {scores[wrong[0]]}, not 0 "
                "to 1; end it with a sigmoid"
            )
        self._scored += len(records)
        if self._keep_scores:
            every = np.full(len(records), np.nan, np.float32)
            every[accepted] = scores
            self._scores.append(every)
        fires = scores >= self._threshold
        alerts = np.zeros(int(fires.sum()), ALERT)
        for name in _COPIED:
            alerts[name] = mine[name][fires]
        score = scores[fires].astype(np.float64)
        alerts["sequence"] = sequences[fires]
        alerts["value"] = np.rint(score * 1e6)
        alerts["limit"] = round(float(self._threshold) * 1e6)
        alerts["rules_version"] = answers.versions[fires]
        alerts["rule"] = MODEL_RULE
        alerts["severity"] = 1 + (score >= (1 + float(self._threshold)) / 2)
        alerts["score"] = score * 100
        return alerts


def _scorer(model: Any) -> Model:
    """A model of FEATURES with one answer; ArgumentError for any other."""
    found = model_of(model, width=len(FEATURES))
    takes, gives = found.widths[0], found.widths[found.output]
    if found.tokens or takes != len(FEATURES) or gives != 1:
        raise ArgumentError(
            f"the model takes {takes} {'token' if found.tokens else 'floats'} and gives {gives}; a "
            f"score needs one of {len(FEATURES)} ({', '.join(FEATURES)}) that gives 1"
        )
    return found
