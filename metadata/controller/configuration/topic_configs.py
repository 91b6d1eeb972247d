"""Decides on a change of one topic's configuration.

Two keys change partitions in the same batch. If `min.insync.replicas` is lowered, an ELR is emptied BEFORE the lower
value counts, where the ISR is large enough from then on: a leader commits nothing while there is an ELR. If unclean
elections are allowed, the partitions without a leader get one. Both are here for broker_configs.py too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from metadata.controller.configuration.changes import altered_texts, config_records
from metadata.controller.context import DecisionContext, check_min_insync_replicas, effective_min_isr
from metadata.controller.elections.election import Circumstances, change_record, changed, elect
from metadata.records import TOPIC_RESOURCE, Record
from metadata.registrations import PartitionRegistration
from metadata.topic_config import (
    UNCLEAN_LEADER_ELECTION,
    effective_value,
    topic_config_definition,
    validate_topic_config,
)
from penstock.config_keys import ConfigValue
from penstock.messages.configs import AlterConfigsResource

MinIsr = Callable[[PartitionRegistration], int]


def topic_records(context: DecisionContext, resource: AlterConfigsResource) -> list[Record]:
    name, defaults = resource.resource_name, context.topic_defaults
    topic = context.named_topic(name)
    before = context.state.topic_config(name)

    def present(key: str) -> ConfigValue:
        return effective_value(key, before, defaults)

    def min_isr(partition: PartitionRegistration) -> int:
        return effective_min_isr(partition, after, defaults)

    after: Mapping[str, str] = altered_texts(before, resource.changes, topic_config_definition, present)
    check_min_insync_replicas(name, validate_topic_config(after), topic.replication_factor)
    records: list[Record] = [*config_records(TOPIC_RESOURCE, name, before, after)]
    partitions = topic.partitions.values()
    if effective_value(UNCLEAN_LEADER_ELECTION, after, defaults):
        records += unclean_elections(context, partitions, min_isr)
    return [*emptied_elrs(partitions, min_isr), *records]


def emptied_elrs(partitions: Iterable[PartitionRegistration], min_isr: MinIsr) -> list[Record]:
    """Changes that empty the ELR of each partition whose leader may commit again with the new configuration."""
    led = (partition for partition in partitions if partition.has_leader and partition.elr)
    changes = (changed(partition, min_isr(partition)) for partition in led)
    return [change for change in changes if change is not None]


def unclean_elections(
    context: DecisionContext, partitions: Iterable[PartitionRegistration], min_isr: MinIsr
) -> list[Record]:
    """Elections for the partitions without a leader, now that any replica may be one."""
    state = context.state
    changes = []
    for partition in partitions:
        if not partition.has_leader:
            circumstances = Circumstances(
                state.is_active, state.is_unfenced, state.replica_is_online, min_isr(partition), unclean_allowed=True
            )
            changes.append(change_record(partition, elect(partition, circumstances)))
    return [change for change in changes if change is not None]
