"""The values that every decision may read, and the elections that several decisions share."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from metadata.controller.config import ControllerConfig
from metadata.controller.configuration.cluster_defaults import ClusterDefaults
from metadata.controller.election import Circumstances, change_record, changed, elect
from metadata.controller.sessions import BrokerSessions
from metadata.controller.state import ControllerState, TopicState
from metadata.records import PartitionChangeRecord
from metadata.registrations import PartitionKey, PartitionRegistration
from metadata.topic_config import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION, effective_value
from penstock.config_keys import ConfigValue
from penstock.errors import (
    InconsistentClusterIdError,
    InvalidConfigError,
    InvalidRequestError,
    InvariantViolation,
    UnknownTopicOrPartitionError,
)
from penstock.ids import RandomIds
from penstock.types import NO_LEADER

NAME_SHOWN = 64
"""An error shows so much of a name that the request has, and no topic."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """State and sessions are live objects: a decision reads the state, and writes nothing but its broker's session."""

    config: ControllerConfig
    state: ControllerState
    sessions: BrokerSessions
    rng: random.Random
    cluster: ClusterDefaults

    @property
    def topic_defaults(self) -> Mapping[str, ConfigValue]:
        return self.cluster.topic_defaults

    def unclean_allowed(self, topic_id: str) -> bool:
        overrides = self.state.topic_config(self.state.topics[topic_id].name)
        return bool(effective_value(UNCLEAN_LEADER_ELECTION, overrides, self.topic_defaults))

    def min_isr(self, partition: PartitionRegistration) -> int:
        """The smallest ISR with which the partition commits records."""
        overrides = self.state.topic_config(self.state.topics[partition.topic_id].name)
        return effective_min_isr(partition, overrides, self.topic_defaults)

    def check_cluster_id(self, cluster_id: str) -> None:
        if cluster_id != self.config.cluster_id:
            raise InconsistentClusterIdError(
                f"the request is of cluster {cluster_id!r}, this is cluster {self.config.cluster_id!r}; correct"
                " controller.quorum.voters of the node that sent it, or, if that node has never held data, remove its"
                f" log dirs and format them with --cluster-id {self.config.cluster_id}"
            )

    def check_item_count(self, count: int, what: str) -> None:
        limit = self.config.max_items_per_request
        if count > limit:
            raise InvalidRequestError(f"the request names {count} {what}; at most {limit} are allowed")

    def named_topic(self, name: str) -> TopicState:
        """The topic that has the name now; UnknownTopicOrPartitionError without one."""
        topic = self.state.topic_named(name)
        if topic is None:
            raise UnknownTopicOrPartitionError(
                f"topic {name[:NAME_SHOWN]!r} does not exist; `penstock topics list` names those that do"
            )
        return topic

    def new_topic_id(self) -> str:
        """An id that no topic has, from the injected source."""
        ids = RandomIds(self.rng)
        while self.state.has_topic(topic_id := ids.new_id()):
            continue
        return topic_id


def named_partition(topic: TopicState, number: int, seen: set[PartitionKey]) -> PartitionRegistration:
    """One that a request names, which must exist and not be among `seen`, those named before; it is one of them now."""
    partition = topic.partitions.get(number)
    if partition is None:
        raise UnknownTopicOrPartitionError(
            f"topic {topic.name} has no partition {number}: it has {len(topic.partitions)}, from 0"
        )
    if partition.key in seen:
        raise InvalidRequestError(f"{topic.name}-{number} is named twice in the request")
    seen.add(partition.key)
    return partition


def changes_when_leaving(
    context: DecisionContext,
    leaving: Iterable[int],
    *,
    only_if_led: bool = False,
    doubts: Callable[[PartitionRegistration], tuple[tuple[int, ...], tuple[int, ...]]] | None = None,
) -> list[PartitionChangeRecord]:
    """The changes of every partition that has one of `leaving` in its ISR.

    `only_if_led` is for a broker that asks to stop: a partition that no other member of its ISR or ELR could lead stays
    with it until it stops, and no unclean leader is elected while an ISR member lives. `doubts` names the replicas of
    a partition that are unfit, and those without a log; then partitions with one of `leaving` in the ELR are included.
    """
    gone, state = tuple(leaving), context.state
    partitions_of = state.partitions_with_isr_member if doubts is None else state.partitions_with_member
    affected = {partition.key: partition for broker in gone for partition in partitions_of(broker)}
    changes = []
    for key in sorted(affected):
        partition = affected[key]
        unfit, without_log = ((), ()) if doubts is None else doubts(partition)
        circumstances = Circumstances(
            is_active=state.is_active,
            is_unfenced=state.is_unfenced,
            is_online=state.replica_is_online,
            min_isr=context.min_isr(partition),
            leaving=gone,
            unfit=unfit,
            without_log=without_log,
            unclean_allowed=not only_if_led and context.unclean_allowed(key.topic_id),
        )
        outcome = elect(partition, circumstances)
        change = change_record(partition, outcome)
        if change is not None and not (only_if_led and outcome.leader_id == NO_LEADER):
            changes.append(change)
    return changes


def changes_when_joining(context: DecisionContext, joining: int) -> list[PartitionChangeRecord]:
    """The changes of the partitions without a leader that can have one now that broker `joining` is active."""

    def is_active(broker_id: int) -> bool:
        return broker_id == joining or context.state.is_active(broker_id)

    changes = []
    for partition in context.state.leaderless_partitions():
        if joining in partition.replicas:
            allowed = context.unclean_allowed(partition.topic_id)
            state, min_isr = context.state, context.min_isr(partition)
            circumstances = Circumstances(
                is_active, is_active, state.replica_is_online, min_isr, unclean_allowed=allowed
            )
            outcome = elect(partition, circumstances)
            change = change_record(partition, outcome)
            if change is not None:
                changes.append(change)
    return changes


def changes_when_dirs_fail(context: DecisionContext, broker_id: int, failed: Set[str]) -> list[PartitionChangeRecord]:
    """The changes of the partitions whose replica on the broker is in one of the log dirs, or in one that nobody knows;
    they come BEFORE the record of the failure."""
    changes = (
        elected(context, partition, leaving=(broker_id,))
        for partition in context.state.partitions_with_member(broker_id)
        if partition.directory_of(broker_id) in failed | {""}
    )
    return [change for change in changes if change is not None]


def elected(
    context: DecisionContext,
    partition: PartitionRegistration,
    *,
    leaving: tuple[int, ...] = (),
    unfit: tuple[int, ...] = (),
) -> PartitionChangeRecord | None:
    """The change of one partition, whose replicas may be elsewhere now; None when it stays as it is.

    Those that are `unfit` leave the ELR. Those `leaving`, because their log dir has failed, leave the ISR too.
    """
    state = context.state
    circumstances = Circumstances(
        state.is_active,
        state.is_unfenced,
        state.replica_is_online,
        context.min_isr(partition),
        leaving=leaving,
        unfit=(*unfit, *leaving),
        unclean_allowed=context.unclean_allowed(partition.topic_id),
    )
    return change_record(partition, elect(partition, circumstances))


def preferred_obstacle(context: DecisionContext, partition: PartitionRegistration) -> str:
    """Why the preferred leader, the first replica, cannot be elected now; "" if it can."""
    preferred, state = partition.replicas[0], context.state
    if preferred not in partition.isr:
        return f"broker {preferred} is not in sync; the ISR is {list(partition.isr)}"
    if partition.log_lost:
        return f"broker {preferred} has lost its log"
    if not state.is_active(preferred):
        return f"broker {preferred} is fenced or shuts down"
    if not state.replica_is_online(preferred, partition):
        return f"the log dir of the replica on broker {preferred} is offline"
    return ""


def preferred_elected(context: DecisionContext, partition: PartitionRegistration) -> PartitionChangeRecord:
    """The change that gives the partition its preferred leader, where another leads and there is no obstacle."""
    change = changed(partition, context.min_isr(partition), leader_id=partition.replicas[0])
    if change is None:
        raise InvariantViolation(f"broker {partition.replicas[0]} is to lead {partition}, and nothing changes")
    return change


def effective_min_isr(
    partition: PartitionRegistration, overrides: Mapping[str, str], defaults: Mapping[str, ConfigValue]
) -> int:
    """`min.insync.replicas`, but not more than the replication factor; its leader reckons in the same way."""
    asked = effective_value(MIN_INSYNC_REPLICAS, overrides, defaults)
    return min(asked, partition.replication_factor) if isinstance(asked, int) else 1


def check_min_insync_replicas(name: str, config: Mapping[str, ConfigValue], replication_factor: int) -> None:
    """A topic that asks for more in-sync replicas than it has could never be written with acks=all."""
    asked = config.get(MIN_INSYNC_REPLICAS)
    if isinstance(asked, int) and asked > replication_factor:
        raise InvalidConfigError(
            f"{MIN_INSYNC_REPLICAS} = {asked} is above the replication factor {replication_factor} of topic {name};"
            f" it must be from 1 to {replication_factor}"
        )
