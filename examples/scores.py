# SPDX-License-Identifier: Apache-2.0
"""Payments that a resident model scores, beside the rules: what each of the two finds.

    python scores.py [device]

An LSTM is fitted with NumPy to one made stream, whose flags say what is to be found, and scores
another: each payment is one time step of its customer's stream. That one's flags then say how much
the rules find, the model, and both; the rules' own alerts are what they are without a model.
"""

import sys

import numpy as np

from denizen.apps import transactions as tx

device = sys.argv[1] if len(sys.argv) > 1 else "auto"
model = tx.fit(*tx.generate(8000, seed=2, share=0.2))

records, profiles = tx.generate(20_000, seed=5)
with tx.ScoredStage(model, device, threshold=0.8, keep_scores=True) as stage:
    stage.put(profiles)
    alerts = np.concatenate(list(stage.run(records)))
    scores = stage.take_scores()
    print(stage.resident)

found = tx.detection(alerts, tx.suspicious(records), ~np.isnan(scores))
for by, share in found.items():
    print(f"{by}: {share}")
assert found["both"].recall > found["rules"].recall, "the model finds nothing of its own"

reference = tx.Reference()
reference.put(profiles)
assert alerts[alerts["rule"] != 8].tobytes() == reference.feed(records).tobytes()
