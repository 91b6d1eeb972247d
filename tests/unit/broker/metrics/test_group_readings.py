"""The metrics of groups: every type and state from the start, what lags most, and ids with any letters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from broker.groups.coordinator.group_statistics import CoordinatorStatistics
from broker.groups.lag.lag_pass import GroupLag, LagCounts, LagSnapshot, PartitionLagRow
from broker.load.party_shares import PartyShare
from broker.metrics.group_readings import group_readings
from broker.metrics.metrics import Readings
from broker.metrics.metrics_text import metrics_text
from penstock.types import TopicPartition

PARTIES = "penstock_group_coordinator_party_memory_bytes"
ID = 'a "group"\\ of\nmany letters ü'


def shown(snapshot: LagSnapshot) -> dict[tuple[str, tuple[str, ...]], float]:
    """The value of each sample, by its name and the values of its labels."""
    figures = CoordinatorStatistics(3, 1, 0, 7, 9, 2, 1_000, 300, 2_000, 12, 5, 6, 8, 4, 44, 1_500, 2_500)
    parties = [PartyShare("User:anna", 600), PartyShare("10.0.0.1", 400)]
    of_groups: Any = SimpleNamespace(statistics=lambda: figures, largest_parties=lambda: parties)
    watch: Any = SimpleNamespace(snapshot=snapshot)
    registry = CollectorRegistry()
    registry.register(Readings(lambda: group_readings(of_groups, watch)))
    families = text_string_to_metric_families(metrics_text(registry))
    return {(one.name, tuple(one.labels.values())): one.value for family in families for one in family.samples}


def test_types_and_states_are_there_before_any_group_is() -> None:
    found = shown(LagSnapshot())
    states = {labels: value for (name, labels), value in found.items() if name == "penstock_groups"}
    assert len(states) == 10 and set(states.values()) == {0.0}
    assert found["penstock_group_coordinator_partitions", ("loading",)] == 1
    assert found["penstock_group_coordinator_pending_offsets", ()] == 2
    assert found["penstock_group_commits_total", ()] == 5 and found["penstock_group_load_seconds", ()] == 1.5
    assert not [
        name
        for name, labels in found
        if labels and name not in ("penstock_groups", "penstock_group_coordinator_partitions", PARTIES)
    ]
    assert found[PARTIES, ("User:anna",)] == 600 and found[PARTIES, ("10.0.0.1",)] == 400
    assert found["penstock_group_coordinator_memory_refusals_total", ()] == 12


def test_what_lags_has_series_under_ids_of_any_letters() -> None:
    snapshot = LagSnapshot(
        {ID: GroupLag(30, 2_500, 2, 7, 900)},
        (PartitionLagRow(ID, TopicPartition("orders", 3), 30),),
        {("consumer", "Stable"): 1, ("share", "Stable"): 2},
        LagCounts(groups=1, hidden_groups=4),
    )
    found = shown(snapshot)
    assert found["penstock_group_lag", (ID,)] == 30 and found["penstock_group_lag_seconds", (ID,)] == 2.5
    assert found["penstock_group_members", (ID,)] == 2 and found["penstock_group_stalled_seconds", (ID,)] == 0.9
    assert found["penstock_group_partition_lag", (ID, "orders", "3")] == 30
    assert found["penstock_groups", ("consumer", "Stable")] == 1 and found["penstock_groups", ("share", "Stable")] == 2
    assert found["penstock_group_lag_hidden_groups", ()] == 4
