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

from denizen.apps.transactions.records import (
    ALERT,
    CASES,
    ENHANCED,
    EXPOSED,
    OUTCOMES,
    PROFILE,
    RULE_NAMES,
    SEVERITIES,
    TRANSACTION,
    Rules,
    country_bit,
    generate,
)
from denizen.apps.transactions.sharded import ShardedStage
from denizen.apps.transactions.stage import Counts, Reference, Stage, program

__all__ = [
    "ALERT",
    "CASES",
    "ENHANCED",
    "EXPOSED",
    "OUTCOMES",
    "PROFILE",
    "RULE_NAMES",
    "SEVERITIES",
    "TRANSACTION",
    "Counts",
    "Reference",
    "Rules",
    "ShardedStage",
    "Stage",
    "country_bit",
    "generate",
    "program",
]
