"""The nodes' counts of idempotent producers in a chaos run, added up over all lives of all nodes.

A node's counts begin at 0 with its process, so they are taken just before it ends. Those of a node that cannot be asked
any more are left out: the sums are lower bounds.
"""

from __future__ import annotations

import urllib.request
from collections import Counter
from contextlib import suppress

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 2.0
ANSWERED = "penstock_producer_duplicates"
REFUSED = "penstock_producer_batches_refused"


class ProducerCounts:
    """`found`: batches that were in the log already, and those that were refused, by the reason."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def take(self, metrics_url: str) -> None:
        """Adds the counts of a node that is about to end; nothing if it does not answer."""
        with suppress(OSError), urllib.request.urlopen(metrics_url, timeout=TIMEOUT_S) as answer:
            self.add(answer.read().decode())

    def add(self, exposition: str) -> None:
        """Adds the counts of one page of metrics."""
        for family in text_string_to_metric_families(exposition):
            for sample in family.samples:
                if sample.name == f"{ANSWERED}_total":
                    self.found["duplicates_answered"] += int(sample.value)
                elif sample.name == f"{REFUSED}_total":
                    self.found[sample.labels["why"]] += int(sample.value)

    def __repr__(self) -> str:
        return f"ProducerCounts({dict(self.found)})"
