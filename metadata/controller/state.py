"""The active controller's state: the facts of the image, changed in place, with indexes.

Only `replay` changes it, with the records of the controller's own decisions, before they are committed. (A controller
that loses its leadership is thrown away, and its uncommitted records with it.) The rules are in replay.py. The indexes
name the partitions that have a broker in their ISR or ELR, those without a leader, and those without their preferred
leader, so a decision costs only what it touches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from heapq import nsmallest
from types import MappingProxyType
from typing import Final, NamedTuple

from metadata.acls import AclTable
from metadata.controller.balance.replica_counts import ReplicaCounts
from metadata.controller.elections.preferred_leaders import PreferredLeaders
from metadata.controller.topics.owners import NOBODY, TopicOwners
from metadata.cordon import is_cordoned
from metadata.image import MetadataImage, TopicImage
from metadata.quotas import QuotaTable
from metadata.records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    OWNER_KEY,
    TOPIC_OWNER_RESOURCE,
    TOPIC_RESOURCE,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
)
from metadata.registrations import BrokerRegistration, PartitionKey, PartitionRegistration
from metadata.replay import replay
from metadata.scram import ScramTable
from penstock.balance.racks import rack_name
from penstock.errors import InvariantViolation
from penstock.lazy_dataclass import dataclass
from penstock.messages.configs import ConfigResource
from penstock.topic_names import collision_key

_NO_CONFIG: Final[Mapping[str, str]] = MappingProxyType({})


class LeaderChange(NamedTuple):
    """A partition got another leader, or none."""

    topic: str
    before: PartitionRegistration
    after: PartitionRegistration

    @property
    def is_unclean(self) -> bool:
        """The leader was neither in sync nor eligible, or its log is lost: acked records may be lost."""
        leader_id, before = self.after.leader_id, self.before
        is_in_sync = leader_id in before.isr and not before.log_lost
        return self.after.has_leader and not is_in_sync and leader_id not in before.elr


@dataclass(slots=True)
class TopicState:
    """One topic and its partitions by number."""

    name: str
    topic_id: str
    partitions: dict[int, PartitionRegistration]

    @property
    def replication_factor(self) -> int:
        return max((partition.replication_factor for partition in self.partitions.values()), default=0)


class ControllerState:
    """The controller's tables. Implements `replay.Tables` in place."""

    def __init__(self, image: MetadataImage) -> None:
        self.brokers: dict[int, BrokerRegistration] = {}
        self.topics: dict[str, TopicState] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.next_producer_id = 0
        self.voters, self.levels = image.voters, image.levels
        self.scram, self.acls, self.quotas = ScramTable(image.scram), AclTable(image.acls), QuotaTable(image.quotas)
        self.partition_count = self.unclean_elections = 0
        self.leader_changes: list[LeaderChange] = []
        """The changes of leaders since `take_leader_changes` was called last."""
        self.replica_set_changes = 0
        """How many reassignments began, replaced others, or were cancelled. A reassignment that completes is not
        counted again."""
        self.preferred_leaders = PreferredLeaders()
        self.replica_counts = ReplicaCounts()
        self.owners = TopicOwners()
        self._ids_by_name: dict[str, str] = {}
        self._names_by_collision_key: dict[str, str] = {}
        self._keys_by_isr_member: dict[int, set[PartitionKey]] = {}
        self._keys_by_elr_member: dict[int, set[PartitionKey]] = {}
        self._leaderless: set[PartitionKey] = set()
        self._reassigning: set[PartitionKey] = set()
        self._lost_leadership_at: dict[int, int] = {}
        self._made_at: dict[PartitionKey, int] = {}  # not of those that the image had: it does not say
        self._loaded_offset = self._offset = image.offset
        self._take(image)

    def _take(self, image: MetadataImage) -> None:
        """Takes over an image, with the same result as `image_records` in the same order. A controller begins so, on
        the event loop: registrations are values, and are taken as they are, because making each from its record takes
        twice as long."""
        for broker_id in sorted(image.brokers):
            self.put_broker(image.brokers[broker_id])
        for topic_id in sorted(image.topics_by_id):
            topic = image.topics_by_id[topic_id]
            self.put_topic(topic.name, topic_id)
            for number in sorted(topic.partitions):
                self.put_partition(topic.partitions[number])
        for resource in sorted(image.configs):
            for key, value in sorted(image.configs[resource].items()):
                self.put_config(resource, key, value)
        self.next_producer_id = image.next_producer_id

    def replay(self, record: Record, offset: int) -> None:
        """Makes the record's change; `offset` is the place that it will have in the metadata log."""
        if offset <= self._offset:
            raise InvariantViolation(f"{record} at offset {offset} was replayed after offset {self._offset}")
        if isinstance(record, RegisterBrokerRecord) and record.broker_epoch != offset:
            raise InvariantViolation(f"{record} stands at offset {offset}, which must be its broker epoch")
        self._offset = offset
        replay(self, record)
        if isinstance(record, PartitionRecord):
            self._made_at[PartitionKey(record.topic_id, record.partition)] = offset

    def to_image(self, epoch: int) -> MetadataImage:
        """The state as an image; copies everything, for comparison."""
        topics = [TopicImage(topic.name, topic.topic_id, dict(topic.partitions)) for topic in self.topics.values()]
        return MetadataImage(
            offset=self._offset,
            epoch=epoch,
            brokers=dict(self.brokers),
            topics_by_id={topic.topic_id: topic for topic in topics},
            topics_by_name={topic.name: topic for topic in topics},
            configs={resource: dict(config) for resource, config in self.configs.items()},
            next_producer_id=self.next_producer_id,
            scram=self.scram.image(),
            acls=dict(self.acls.by_id),
            quotas=dict(self.quotas.by_entity),
            voters=self.voters,
            levels=self.levels,
        )

    # -- what decisions ask --------------------------------------------------------------------------------------------

    def is_active(self, broker_id: int) -> bool:
        """True if replicas of this broker may join an ISR or be elected."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def is_unfenced(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def active_brokers(self) -> list[BrokerRegistration]:
        return [self.brokers[broker_id] for broker_id in sorted(self.brokers) if self.brokers[broker_id].is_active]

    def topic_named(self, name: str) -> TopicState | None:
        topic_id = self._ids_by_name.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def name_colliding_with(self, name: str) -> str | None:
        """An existing topic whose name differs from this one only in '.' and '_'."""
        return self._names_by_collision_key.get(collision_key(name))

    def topic_config(self, name: str) -> Mapping[str, str]:
        return self.configs.get(ConfigResource(TOPIC_RESOURCE, name), {})

    def broker_config(self, name: str) -> Mapping[str, str]:
        """The metadata's values for a broker, by its id as text, or for ALL_BROKERS. Another mapping after a change."""
        return self.configs.get(ConfigResource(BROKER_RESOURCE, name), _NO_CONFIG)

    def client_metrics_config(self, name: str) -> Mapping[str, str]:
        return self.configs.get(ConfigResource(CLIENT_METRICS_RESOURCE, name), _NO_CONFIG)

    def replica_is_online(self, broker_id: int, partition: PartitionRegistration) -> bool:
        """True if the broker is registered, fenced or not, and its replica's log dir is online."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_online(partition.directory_of(broker_id))

    def is_cordoned(self, broker_id: int) -> bool:
        """True if no new replica is placed on the broker."""
        broker = self.brokers.get(broker_id)
        return broker is not None and is_cordoned(broker, self.configs)

    def rack_of(self, broker_id: int) -> str:
        """The name of the broker's rack; a broker without one, or that is not registered, is a rack of its own."""
        broker = self.brokers.get(broker_id)
        return rack_name(broker_id, "" if broker is None else broker.rack)

    def only_log_dir(self, broker_id: int) -> str:
        """The log dir in which the broker puts each new replica; "" if the broker chooses."""
        broker = self.brokers.get(broker_id)
        return "" if broker is None else broker.only_log_dir

    def partitions_with_isr_member(self, broker_id: int) -> list[PartitionRegistration]:
        """The partitions by topic id and partition, so that the same state always gives the same records."""
        return list(self._sorted(self._keys_by_isr_member.get(broker_id, set())))

    def partitions_with_member(self, broker_id: int) -> list[PartitionRegistration]:
        """The partitions that have the broker in their ISR or ELR."""
        isrs, elrs = self._keys_by_isr_member, self._keys_by_elr_member
        return list(self._sorted(isrs.get(broker_id, set()) | elrs.get(broker_id, set())))

    def partitions_with_elr(self) -> list[PartitionRegistration]:
        return list(self._sorted(set().union(*self._keys_by_elr_member.values())))

    def leaderless_partitions(self) -> list[PartitionRegistration]:
        return list(self._sorted(self._leaderless))

    @property
    def leaderless_count(self) -> int:
        return len(self._leaderless)

    def reassigning_partitions(self, after: PartitionKey | None, count: int) -> list[PartitionRegistration]:
        """The next partitions whose replicas move, behind `after` in their order; at most `count`."""
        keys = nsmallest(count, (key for key in self._reassigning if after is None or key > after))
        return list(self._sorted(set(keys)))

    @property
    def reassigning_count(self) -> int:
        return len(self._reassigning)

    def lost_leadership_at(self, broker_id: int) -> int:
        """The offset of the last record that took a leadership from the broker; an upper bound if that was long ago."""
        return self._lost_leadership_at.get(broker_id, self._loaded_offset)

    def was_made_from(self, offset: int, key: PartitionKey) -> bool:
        """True if the record that made the partition is known to stand at this offset or behind it."""
        return self._made_at.get(key, -1) >= offset

    def __repr__(self) -> str:
        return (
            f"ControllerState(offset={self._offset}, brokers={len(self.brokers)}, topics={len(self.topics)},"
            f" partitions={self.partition_count}, leaderless={self.leaderless_count})"
        )

    # -- tables --------------------------------------------------------------------------------------------------------

    def broker_ids(self) -> Collection[int]:
        return self.brokers.keys()

    def find_broker(self, broker_id: int) -> BrokerRegistration | None:
        return self.brokers.get(broker_id)

    def put_broker(self, broker: BrokerRegistration) -> None:
        self.brokers[broker.broker_id] = broker

    def drop_broker(self, broker_id: int) -> None:
        del self.brokers[broker_id]
        self._lost_leadership_at.pop(broker_id, None)

    def has_topic(self, topic_id: str) -> bool:
        return topic_id in self.topics

    def topic_id_of(self, name: str) -> str | None:
        return self._ids_by_name.get(name)

    def put_topic(self, name: str, topic_id: str) -> None:
        self.topics[topic_id] = TopicState(name, topic_id, {})
        self._ids_by_name[name] = topic_id
        self._names_by_collision_key[collision_key(name)] = name

    def drop_topic(self, topic_id: str) -> None:
        topic = self.topics.pop(topic_id)
        del self._ids_by_name[topic.name]
        self._names_by_collision_key.pop(collision_key(topic.name), None)
        self.configs.pop(ConfigResource(TOPIC_RESOURCE, topic.name), None)
        self.partition_count -= len(topic.partitions)
        self.owners.partitions_changed(topic_id, -len(topic.partitions))
        for partition in topic.partitions.values():
            self._unindex(partition)
            self._made_at.pop(partition.key, None)

    def find_partition(self, key: PartitionKey) -> PartitionRegistration | None:
        topic = self.topics.get(key.topic_id)
        return None if topic is None else topic.partitions.get(key.partition)

    def put_partition(self, partition: PartitionRegistration) -> None:
        partitions = self.topics[partition.topic_id].partitions
        before = partitions.get(partition.partition)
        if before is None:
            self.partition_count += 1
            self.owners.partitions_changed(partition.topic_id, 1)
        else:
            self._unindex(before)
            self._note_change(before, partition)
        partitions[partition.partition] = partition
        self.preferred_leaders.put(partition)
        self.replica_counts.put(partition)
        key = partition.key
        for member in partition.isr:
            self._keys_by_isr_member.setdefault(member, set()).add(key)
        for member in partition.elr:
            self._keys_by_elr_member.setdefault(member, set()).add(key)
        if not partition.has_leader:
            self._leaderless.add(key)
        if partition.is_reassigning:
            self._reassigning.add(key)

    def put_config(self, resource: ConfigResource, key: str, value: str | None) -> None:
        config = {**self.configs.get(resource, _NO_CONFIG)}
        if value is None:
            config.pop(key, None)
        else:
            config[key] = value
        self.configs[resource] = config
        if not config:
            del self.configs[resource]
        if resource.resource_type == TOPIC_OWNER_RESOURCE:
            topic = self.topics.get(resource.resource_name)
            partitions = 0 if topic is None else len(topic.partitions)
            self.owners.put(resource.resource_name, config.get(OWNER_KEY, NOBODY), partitions)

    def _note_change(self, before: PartitionRegistration, after: PartitionRegistration) -> None:
        if before.leader_id != after.leader_id and before.has_leader:
            self._lost_leadership_at[before.leader_id] = self._offset
        if before.leader_id != after.leader_id:
            change = LeaderChange(self.topics[after.topic_id].name, before, after)
            self.leader_changes.append(change)
            self.unclean_elections += change.is_unclean
        self.replica_set_changes += set(before.target_replicas) != set(after.target_replicas)

    def _unindex(self, partition: PartitionRegistration) -> None:
        for member in partition.isr:
            self._keys_by_isr_member[member].discard(partition.key)
        for member in partition.elr:
            self._keys_by_elr_member[member].discard(partition.key)
        self._leaderless.discard(partition.key)
        self.preferred_leaders.drop(partition)
        self.replica_counts.drop(partition)
        self._reassigning.discard(partition.key)

    def _sorted(self, keys: set[PartitionKey]) -> Iterator[PartitionRegistration]:
        return (self.topics[key.topic_id].partitions[key.partition] for key in sorted(keys))
