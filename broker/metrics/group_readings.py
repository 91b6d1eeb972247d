"""The metrics of the coordinators of groups and of transactions: what they hold, and the lag of what lags most.

Read from `statistics()` and snapshots in the thread of a scrape, as in node_readings.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.groups.coordinator.group_statistics import GroupFigures
from broker.groups.lag.lag_pass import PARTITIONS_SHOWN_MAX
from broker.groups.lag.lag_watch import LagWatch
from broker.load.party_shares import SHOWN_MAX
from broker.metrics.field_readings import labelled, record_readings
from broker.metrics.metrics import Reading
from broker.transactions.coordinator.coordinator_figures import TransactionFigures
from broker.transactions.verification.verifier import Verifier

STATES: Final = {
    "classic": ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
}


def group_readings(figures: GroupFigures, watch: LagWatch) -> Iterator[Reading]:
    """Everything that is known now."""
    yield from record_readings(figures.statistics())
    help_text = f"Memory of groups by principal, or by network of anonymous clients; of the {SHOWN_MAX} largest."
    for party in figures.largest_parties():
        name = "penstock_group_coordinator_party_memory_bytes"
        yield Reading(name, help_text, party.held, labels=(("party", party.party),))
    lag = watch.snapshot
    known = {(kind, state): 0 for kind, states in STATES.items() for state in states}
    for (kind, state), count in {**known, **lag.states}.items():
        help_text = "Groups that are coordinated here, by type and state."
        yield Reading("penstock_groups", help_text, count, labels=(("type", kind), ("state", state)))
    yield from record_readings(lag.counts)
    yield from labelled("group", lag.groups)
    help_text = f"Records of a partition that a group has not committed; of the {PARTITIONS_SHOWN_MAX} largest ones."
    for row in lag.partitions:
        topic, partition = row.partition
        labels = (("group", row.group_id), ("topic", topic), ("partition", str(partition)))
        yield Reading("penstock_group_partition_lag", help_text, row.lag, labels=labels)


def transaction_readings(figures: TransactionFigures, verifier: Verifier) -> Iterator[Reading]:
    """Everything that is known now."""
    yield from record_readings(verifier.statistics())
    yield from record_readings(figures.statistics())
    help_text = (
        f"Memory of transactional ids by principal, or by network of anonymous clients; of the {SHOWN_MAX} largest."
    )
    for party in figures.largest_parties():
        labels = (("party", party.party),)
        yield Reading("penstock_transaction_coordinator_party_memory_bytes", help_text, party.held, labels=labels)
