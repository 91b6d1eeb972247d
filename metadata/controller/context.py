"""The values that every decision may read, and what several decisions look up or check in the same way.

Not here: elections (elections/).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from metadata.controller.config import ControllerConfig
from metadata.controller.configuration.cluster_defaults import ClusterDefaults
from metadata.controller.sessions import BrokerSessions
from metadata.controller.state import ControllerState, TopicState
from metadata.registrations import PartitionKey, PartitionRegistration
from metadata.topic_config import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION, effective_value
from penstock.config_keys import ConfigValue
from penstock.errors import (
    InconsistentClusterIdError,
    InvalidConfigError,
    InvalidRequestError,
    UnknownTopicOrPartitionError,
)
from penstock.ids import Ids, RandomIds
from penstock.lazy_dataclass import dataclass
from raft.voters import VoterSet

NAME_SHOWN = 64
"""How many characters of a name or id an error shows, if the request has it and no topic does."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """State and sessions are live objects: a decision reads the state, and writes nothing but its broker's session."""

    config: ControllerConfig
    state: ControllerState
    sessions: BrokerSessions
    rng: random.Random
    ids: Ids
    """The source of ids that must not be guessed."""
    cluster: ClusterDefaults
    voters: Callable[[], VoterSet]
    """The quorum's voters at this moment."""

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
                " controller.quorum.voters or controller.quorum.bootstrap.servers of the node that sent it, or, if that"
                " node has never held data, remove its log dirs and format them with"
                f" --cluster-id {self.config.cluster_id}"
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

    def new_acl_id(self) -> str:
        ids = RandomIds(self.rng)
        while (acl_id := ids.new_id()) in self.state.acls.by_id:
            continue
        return acl_id


def named_partition(topic: TopicState, number: int, seen: set[PartitionKey]) -> PartitionRegistration:
    """The partition that a request names. It must exist, and not be among `seen`, the partitions named before; it is
    added there."""
    partition = topic.partitions.get(number)
    if partition is None:
        raise UnknownTopicOrPartitionError(
            f"topic {topic.name} has no partition {number}: it has {len(topic.partitions)}, from 0"
        )
    if partition.key in seen:
        raise InvalidRequestError(f"{topic.name}-{number} is named twice in the request")
    seen.add(partition.key)
    return partition


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
