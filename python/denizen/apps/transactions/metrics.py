# SPDX-License-Identifier: Apache-2.0
"""A stage's counts for Prometheus, beside those of the runtime it runs on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from denizen.apps.transactions.records import ALERT_NAMES, MODEL_RULE, SEVERITIES, Records
from denizen.errors import MissingPackageError

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector as _Collector
except ImportError as error:
    raise MissingPackageError("prometheus-client") from error

if TYPE_CHECKING:
    from denizen.apps.transactions.stage import Stage


class Collector(_Collector):
    """Metrics ``denizen_transaction*`` of a stage; see() what it gave out."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._alerts: Counter[tuple[str, str]] = Counter()
        self._version = stage.rules.version

    def see(self, alerts: Records) -> None:
        """Counts alerts by rule and severity. From the thread that runs the stage."""
        found = self._alerts.copy()
        for rule, severity in zip(
            alerts["rule"].tolist(), alerts["severity"].tolist(), strict=True
        ):
            found[ALERT_NAMES[rule - 1], SEVERITIES[severity]] += 1
        self._alerts = found  # in one step: a scrape comes from another thread
        of_rules = alerts["rules_version"][alerts["rule"] != MODEL_RULE]
        if len(of_rules):
            self._version = int(of_rules[-1])

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        counts = self._stage.counts()
        records = CounterMetricFamily(
            "denizen_transactions", "Transactions, by what became of them.", labels=("outcome",)
        )
        for outcome, number in counts.outcomes.items():
            records.add_metric((outcome,), number)
        yield records
        alerts = CounterMetricFamily(
            "denizen_transaction_alerts", "Alerts.", labels=("rule", "severity")
        )
        for key, number in self._alerts.items():
            alerts.add_metric(key, number)
        yield alerts
        yield CounterMetricFamily(
            "denizen_transaction_shard_restarts", "Shards that had failed and were restarted.",
            value=counts.restarts,
        )  # fmt: skip
        yield GaugeMetricFamily(
            "denizen_transaction_rules_version", "Of the rules of the last alert.",
            value=self._version,
        )  # fmt: skip
