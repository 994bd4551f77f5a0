# SPDX-License-Identifier: Apache-2.0
"""Transaction monitoring: rules over a stream of payments, one keyed stage on GPU or CPU threads.

    from denizen.apps import transactions as tx

    records, profiles = tx.generate(100_000, seed=1)
    with tx.Stage("auto") as stage:
        stage.put(profiles)
        stage.feed(records)
        alerts = stage.drain()          # dtype tx.ALERT, in the order of the stream

docs/transactions.md defines the rules. :class:`Reference` is them once more, on one thread.
"""

from denizen.apps.transactions.detection import Found, detection
from denizen.apps.transactions.features import FEATURES
from denizen.apps.transactions.fit import fit, suspicious
from denizen.apps.transactions.records import (
    ALERT,
    ALERT_NAMES,
    CASES,
    ENHANCED,
    EXPOSED,
    OUTCOMES,
    PROFILE,
    RULE_NAMES,
    SEVERITIES,
    SUSPICIOUS,
    TRANSACTION,
    Rules,
    country_bit,
    generate,
)
from denizen.apps.transactions.scored import ScoredStage
from denizen.apps.transactions.sharded import ShardedStage
from denizen.apps.transactions.stage import Counts, Reference, Stage, program

__all__ = [
    "ALERT",
    "ALERT_NAMES",
    "CASES",
    "ENHANCED",
    "EXPOSED",
    "FEATURES",
    "OUTCOMES",
    "PROFILE",
    "RULE_NAMES",
    "SEVERITIES",
    "SUSPICIOUS",
    "TRANSACTION",
    "Counts",
    "Found",
    "Reference",
    "Rules",
    "ScoredStage",
    "ShardedStage",
    "Stage",
    "country_bit",
    "detection",
    "fit",
    "generate",
    "program",
    "suspicious",
]
