# SPDX-License-Identifier: Apache-2.0
"""Payments a second by the rules alone, and with a resident model's score of each as one more rule:
both from Python, by turns, over the same stream.

``python -m denizen.apps.transactions.benchmark --device DEVICE [--quick]`` prints its cases as the
C++ programs of ``denizen bench`` do (denizen.lab.programs), which runs it beside them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence

import numpy as np

from denizen import infer
from denizen.apps import transactions as tx
from denizen.apps.transactions.features import Features, Floats
from denizen.apps.transactions.records import MODEL_RULE, Records
from denizen.lab.infer_rivals import numpy_answers
from denizen.lab.record import Measured, Scalar

_PAYMENTS, _ROUNDS = 200_000, 9
_PAYMENTS_QUICK, _ROUNDS_QUICK = 20_000, 3
_THRESHOLD = 0.7
_OFF = 2e-5  # of scores, against NumPy's in single precision

Run = Callable[[], tuple[float, bool]]  # seconds, and whether all was right


def main(words: Sequence[str] | None = None) -> None:
    """With a model that is fitted to another stream: an LSTM of 16."""
    parser = argparse.ArgumentParser(prog="benchmark")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args(words)
    model = tx.fit(*tx.generate(4000, seed=2, share=0.2), rounds=10)
    payments, rounds = (_PAYMENTS_QUICK, _ROUNDS_QUICK) if given.quick else (_PAYMENTS, _ROUNDS)
    made = tx.generate(payments, seed=1, share=0.01)
    for one in compared(model, *made, given.device, rounds):
        print(
            json.dumps(
                {
                    "case": one.case,
                    "params": one.params,
                    "unit": one.unit,
                    "samples": one.samples.tolist(),
                    "n": one.n,
                    "verified": one.verified,
                    "ratio_base": one.ratio_base,
                    "arm": one.arm,
                    "rounds": one.rounds,
                }
            )
        )


def compared(
    model: infer.Model, records: Records, profiles: Records, device: str, rounds: int
) -> list[Measured]:
    """Million payments per second, from the first that is fed to the last alert.

    With and without the model the rules' alerts must be the reference's, byte by byte. Each score
    must be NumPy's.
    """
    reference = tx.Reference()
    reference.put(profiles)
    of_rules = reference.feed(records).tobytes()
    scores = _scores(model, records, profiles)

    def rules() -> tuple[float, bool]:
        with tx.Stage(device) as stage:
            seconds, alerts = _streamed(stage, records, profiles)
        return seconds, alerts.tobytes() == of_rules

    def rules_and_scores() -> tuple[float, bool]:
        with tx.ScoredStage(
            model, device, threshold=_THRESHOLD, customers=len(profiles), keep_scores=True
        ) as stage:
            seconds, alerts = _streamed(stage, records, profiles)
            found = stage.take_scores()
        of_model = alerts["rule"] == MODEL_RULE
        fires = np.flatnonzero(found >= np.float32(_THRESHOLD))
        right = (
            alerts[~of_model].tobytes() == of_rules
            and np.array_equal(alerts["sequence"][of_model], fires)
            and np.allclose(found, scores, rtol=0, atol=_OFF, equal_nan=True)
        )
        return seconds, right

    return _by_turns(rules, rules_and_scores, len(records), rounds)


def _streamed(stage: tx.Stage, records: Records, profiles: Records) -> tuple[float, Records]:
    stage.put(profiles)
    begin = time.perf_counter()
    alerts = list(stage.run(records))
    return time.perf_counter() - begin, np.concatenate(alerts)


def _scores(model: infer.Model, records: Records, profiles: Records) -> Floats:
    """Of each record, customer by customer in NumPy; NaN of those that are not accepted."""
    with tx.Stage("cpu:1", keep_outcomes=True) as stage:
        stage.put(profiles)
        for _ in stage.run(records):
            pass
        accepted = np.flatnonzero(stage.take_outcomes() == 0)
        limit = stage.rules.amount_limit
    features = Features(len(profiles))
    features.put(profiles)
    streams, rows = features.rows(records[accepted], limit)
    scores = np.full(len(records), np.nan, np.float32)
    for stream in np.unique(streams):
        mine = streams == stream
        scores[accepted[mine]] = numpy_answers(model, rows[mine])[:, 0]
    return scores


def _by_turns(rules: Run, rules_and_scores: Run, payments: int, rounds: int) -> list[Measured]:
    """Forth and back; the rules alone twice (A/A)."""
    arms = (rules, rules_and_scores, rules)
    rates = np.empty((len(arms), rounds))
    right = [True] * len(arms)
    for number in range(-1, rounds):  # the first is a warm-up
        for arm in range(len(arms)) if number % 2 == 0 else reversed(range(len(arms))):
            seconds, ok = arms[arm]()
            right[arm] &= ok
            if number >= 0:
                rates[arm, number] = payments / seconds * 1e-6
    n, params = payments * rounds, dict[str, Scalar](payments=payments)
    alone, scored = "rules, from Python", "rules and a model's scores, from Python"
    return [
        Measured(alone, params, "M/s", rates[0], n, right[0], rounds=rounds),
        Measured(scored, params, "M/s", rates[1], n, right[1], (alone,), rounds=rounds),
        Measured(alone, params, "M/s", rates[2], n, right[2], arm="A/A", rounds=rounds),
    ]


if __name__ == "__main__":
    main()
