"""The metrics of consumer groups: what the coordinator here holds, and the lag of what lags most.

Read from `statistics()` and snapshots in the thread of a scrape, as in node_readings.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.coordination.memory_shares import SHOWN_MAX
from broker.groups.lag.lag_pass import PARTITIONS_SHOWN_MAX
from broker.metrics.field_readings import labelled, readings
from broker.metrics.metrics import Reading
from broker.metrics.node_view import BrokerView

STATES: Final = {
    "classic": ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
}


def group_readings(broker: BrokerView) -> Iterator[Reading]:
    """Everything that is known now."""
    yield from readings(broker.group_figures.statistics())
    help_text = f"Memory of groups by principal, or by network of anonymous clients; of the {SHOWN_MAX} largest."
    for party in broker.group_figures.largest_parties():
        name = "penstock_group_coordinator_party_memory_bytes"
        yield Reading(name, help_text, party.bytes, labels=(("party", party.party),))
    lag = broker.group_lag.snapshot
    known = {(kind, state): 0 for kind, states in STATES.items() for state in states}
    for (kind, state), count in {**known, **lag.states}.items():
        help_text = "Groups that are coordinated here, by type and state."
        yield Reading("penstock_groups", help_text, count, labels=(("type", kind), ("state", state)))
    yield from readings(lag.counts)
    yield from labelled("group", lag.groups)
    help_text = f"Records of a partition that a group has not committed; of the {PARTITIONS_SHOWN_MAX} largest ones."
    for row in lag.partitions:
        topic, partition = row.partition
        labels = (("group", row.group_id), ("topic", topic), ("partition", str(partition)))
        yield Reading("penstock_group_partition_lag", help_text, row.lag, labels=labels)
