# SPDX-License-Identifier: Apache-2.0
"""Process mining: what really happens in a log of events, how often, and how long it takes.

    from denizen import procmine

    log = procmine.read("receipt.xes.gz")
    mined = procmine.mine(log)
    print(mined.edges[0], mined.variants[0].count)

What is mined and how it is read: docs/procmine.md.
"""

from denizen.procmine.concurrency import (
    Concurrency,
    Executions,
    by_execution,
    concurrency,
    executions,
    partial_order,
    widths,
)
from denizen.procmine.conformance import Conformance, Reference, check
from denizen.procmine.files import read
from denizen.procmine.generate import generate
from denizen.procmine.log import Attribute, Log, LogError, from_columns
from denizen.procmine.mine import Edge, Mined, Variant, mine
from denizen.procmine.patterns import Pattern, Thresholds, find
from denizen.procmine.select import select

__all__ = [
    "Attribute",
    "Concurrency",
    "Conformance",
    "Edge",
    "Executions",
    "Log",
    "LogError",
    "Mined",
    "Pattern",
    "Reference",
    "Thresholds",
    "Variant",
    "by_execution",
    "check",
    "concurrency",
    "executions",
    "find",
    "from_columns",
    "generate",
    "mine",
    "partial_order",
    "read",
    "select",
    "widths",
]
