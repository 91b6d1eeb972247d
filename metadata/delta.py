"""Makes the next image: a delta collects records on top of an image and gives the image after them.

A delta copies only the tables that a record touches: the partitions of one topic, the list of topics, the brokers, the
configuration of one resource. Everything else is shared with the image below. It also says what has changed, so that a
publisher (of a broker's replicas, say) looks at those few things and not at the cluster.

A delta is used once: after `apply` its tables belong to the new image.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import field
from typing import TypeVar

from metadata.acls import AclTable
from metadata.features import METADATA_VERSION, FinalizedLevel
from metadata.image import MetadataImage, TopicImage
from metadata.quotas import QuotaTable
from metadata.records import TOPIC_RESOURCE, FeatureLevelRecord, Record
from metadata.registrations import BrokerRegistration, PartitionKey, PartitionRegistration
from metadata.replay import replay
from metadata.scram import ScramTable
from penstock.errors import InvariantViolation
from penstock.lazy_dataclass import dataclass
from penstock.messages.configs import ConfigResource

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class _TopicEdit:
    """A topic with its own copy of the partitions, and which of them were touched."""

    name: str
    topic_id: str
    partitions: dict[int, PartitionRegistration]
    changed: set[int] = field(default_factory=set)


class MetadataDelta:
    """Records on top of an image. Implements `replay.Tables` by copy on first write."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._record_count = 0
        self._spent = False
        self.is_of_snapshot = False
        """Its records are not known: what is gone is only absent."""
        self.lowers_metadata_version = False
        """True if one of its records does: an older release cannot read what stands before that."""
        self._brokers: dict[int, BrokerRegistration] | None = None
        self._changed_brokers: set[int] = set()
        self._topics: dict[str, _TopicEdit] = {}
        self._ids_by_name: dict[str, str] = {}  # names that this delta has given
        self._deleted: dict[str, str] = {}  # topic id to name; only topics that the image below has
        self.removed_topic_ids: set[str] = set()
        """The topics that records of the delta delete, also one that was made within the delta; a snapshot deletes
        none."""
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self.next_producer_id = image.next_producer_id
        self.voters = image.voters
        self.levels = image.levels
        self.scram = ScramTable(image.scram)
        self.acls = AclTable(image.acls)
        self.quotas = QuotaTable(image.quotas)

    @classmethod
    def between(cls, image: MetadataImage, newer: MetadataImage) -> MetadataDelta:
        """The difference between an image and a later one, if the records in between are not known. It is spent."""
        delta = cls(image)
        delta._spent, delta.is_of_snapshot, delta.next_producer_id = True, True, newer.next_producer_id
        delta.voters, delta.levels = newer.voters, newer.levels
        delta.scram.replace(newer.scram)
        delta.acls.replace(newer.acls)
        delta.quotas.replace(newer.quotas)
        delta._changed_brokers = _different(image.brokers, newer.brokers)
        topics, newer_topics = image.topics_by_id, newer.topics_by_id
        delta._deleted = {topic_id: topic.name for topic_id, topic in topics.items() if topic_id not in newer_topics}
        for topic_id, topic in newer_topics.items():
            known = topics.get(topic_id)
            changed = _different({} if known is None else known.partitions, topic.partitions)
            if known is None or changed:
                delta._topics[topic_id] = _TopicEdit(topic.name, topic_id, dict(topic.partitions), changed)
        resources = _different(image.configs, newer.configs)
        delta._configs = {resource: dict(newer.configs.get(resource, {})) for resource in resources}
        return delta

    # -- what publishers read ------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        has_new_ids = self.next_producer_id != self.image.next_producer_id
        changed = self._topics or self._deleted or self._changed_brokers or self._configs
        has_new_voters = self.voters != self.image.voters or self.levels != self.image.levels
        tables = self.scram, self.acls, self.quotas
        return not (changed or has_new_ids or has_new_voters or any(table.has_changed for table in tables))

    @property
    def changed_topics(self) -> Mapping[str, Set[int]]:
        """Topic id to the partitions that were made or changed; a new topic is here with all its partitions."""
        return {topic_id: edit.changed for topic_id, edit in self._topics.items()}

    @property
    def created_topic_ids(self) -> Set[str]:
        return self._topics.keys() - self.image.topics_by_id.keys()

    @property
    def deleted_topic_ids(self) -> Set[str]:
        """Topics of the image below that are gone; one that was made and deleted within the delta never was."""
        return self._deleted.keys()

    @property
    def changed_brokers(self) -> Set[int]:
        """Brokers that were registered, changed or unregistered; the new image says which."""
        return self._changed_brokers

    @property
    def changed_configs(self) -> Set[ConfigResource]:
        """Resources with a changed configuration; those of a deleted topic too."""
        return self._configs.keys()

    # -- use -----------------------------------------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """Adds one record. Records must come in the order of the log."""
        if self._spent:
            raise InvariantViolation("a delta was used again after it gave its image")
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            before = self.levels.get(METADATA_VERSION, FinalizedLevel(0, "")).level
            self.lowers_metadata_version |= record.level < before
        replay(self, record)
        self._record_count += 1

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """The image after the last record, which stands at `offset` and was written in `epoch`."""
        if self._spent or offset < self.image.offset or epoch < self.image.epoch:
            raise InvariantViolation(f"{self!r} cannot give an image at offset {offset}, epoch {epoch}")
        self._spent = True
        topics_by_id, topics_by_name = self._applied_topics()
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            brokers=self.image.brokers if self._brokers is None else self._brokers,
            topics_by_id=topics_by_id,
            topics_by_name=topics_by_name,
            configs=self._applied_configs(),
            next_producer_id=self.next_producer_id,
            scram=self.scram.image(),
            acls=self.acls.by_id,
            quotas=self.quotas.by_entity,
            voters=self.voters,
            levels=self.levels,
        )

    def __repr__(self) -> str:
        return (
            f"MetadataDelta(on={self.image!r}, records={self._record_count}, topics={len(self._topics)},"
            f" deleted={len(self._deleted)}, brokers={len(self._changed_brokers)}, configs={len(self._configs)})"
        )

    def _applied_topics(self) -> tuple[Mapping[str, TopicImage], Mapping[str, TopicImage]]:
        if not self._topics and not self._deleted:
            return self.image.topics_by_id, self.image.topics_by_name
        by_id, by_name = dict(self.image.topics_by_id), dict(self.image.topics_by_name)
        for topic_id, name in self._deleted.items():
            del by_id[topic_id]
            del by_name[name]
        for topic_id, edit in self._topics.items():
            by_id[topic_id] = by_name[edit.name] = TopicImage(edit.name, topic_id, edit.partitions)
        return by_id, by_name

    def _applied_configs(self) -> Mapping[ConfigResource, Mapping[str, str]]:
        if not self._configs:
            return self.image.configs
        configs = {**self.image.configs, **self._configs}
        for resource, config in self._configs.items():
            if not config:
                del configs[resource]
        return configs

    # -- tables --------------------------------------------------------------------------------------------------------

    def broker_ids(self) -> Collection[int]:
        return (self.image.brokers if self._brokers is None else self._brokers).keys()

    def find_broker(self, broker_id: int) -> BrokerRegistration | None:
        return (self.image.brokers if self._brokers is None else self._brokers).get(broker_id)

    def put_broker(self, broker: BrokerRegistration) -> None:
        self._editable_brokers()[broker.broker_id] = broker
        self._changed_brokers.add(broker.broker_id)

    def drop_broker(self, broker_id: int) -> None:
        del self._editable_brokers()[broker_id]
        self._changed_brokers.add(broker_id)

    def has_topic(self, topic_id: str) -> bool:
        return topic_id in self._topics or (topic_id in self.image.topics_by_id and topic_id not in self._deleted)

    def topic_id_of(self, name: str) -> str | None:
        if name in self._ids_by_name:
            return self._ids_by_name[name]
        topic = self.image.topics_by_name.get(name)
        return None if topic is None or topic.topic_id in self._deleted else topic.topic_id

    def put_topic(self, name: str, topic_id: str) -> None:
        self._topics[topic_id] = _TopicEdit(name, topic_id, {})
        self._ids_by_name[name] = topic_id

    def drop_topic(self, topic_id: str) -> None:
        below = self.image.topics_by_id.get(topic_id)
        self.removed_topic_ids.add(topic_id)
        edit = self._topics.pop(topic_id, None)
        name = edit.name if edit is not None else below.name if below is not None else ""
        if below is not None:
            self._deleted[topic_id] = name
        self._ids_by_name.pop(name, None)
        resource = ConfigResource(TOPIC_RESOURCE, name)
        if resource in self._configs or resource in self.image.configs:
            self._configs[resource] = {}

    def find_partition(self, key: PartitionKey) -> PartitionRegistration | None:
        edit = self._topics.get(key.topic_id)
        if edit is not None:
            return edit.partitions.get(key.partition)
        topic = self.image.topics_by_id.get(key.topic_id)
        return None if topic is None or key.topic_id in self._deleted else topic.partitions.get(key.partition)

    def put_partition(self, partition: PartitionRegistration) -> None:
        edit = self._topics.get(partition.topic_id)
        if edit is None:
            topic = self.image.topics_by_id[partition.topic_id]
            edit = self._topics[partition.topic_id] = _TopicEdit(topic.name, topic.topic_id, dict(topic.partitions))
        edit.partitions[partition.partition] = partition
        edit.changed.add(partition.partition)

    def put_config(self, resource: ConfigResource, key: str, value: str | None) -> None:
        config = self._configs.get(resource)
        if config is None:
            config = self._configs[resource] = dict(self.image.configs.get(resource, {}))
        if value is None:
            config.pop(key, None)
        else:
            config[key] = value

    def _editable_brokers(self) -> dict[int, BrokerRegistration]:
        if self._brokers is None:
            self._brokers = dict(self.image.brokers)
        return self._brokers


def _different(before: Mapping[K, V], after: Mapping[K, V]) -> set[K]:
    """The keys that only one of them has, or that have another value."""
    gone = before.keys() - after.keys()
    return gone | {key for key, value in after.items() if before.get(key) != value}
