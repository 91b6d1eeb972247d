"""The cluster's metadata at one offset: an immutable value that every reader may hold for as long as it likes.

An image is made from the one before it and a delta (delta.py). Images share whatever did not change, so two images of a
large cluster differ in memory by the few topics that were touched. Readers never lock and never see half a change.

Not here: how an image is made (delta.py), and how it becomes a snapshot (`image_records` below gives only the records).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from metadata.acls import record_of
from metadata.codec import encode_record, encode_shown
from metadata.features import METADATA_VERSION, Finalized
from metadata.quotas import quota_records
from metadata.records import (
    TOPIC_RESOURCE,
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    Record,
    ScramSecretRecord,
    TopicRecord,
    VotersRecord,
)
from metadata.registrations import BrokerRegistration, PartitionRegistration
from metadata.scram import NO_SCRAM, ScramImage, scram_records, scram_seal
from penstock.lazy_dataclass import dataclass
from penstock.messages.configs import ConfigResource
from penstock.messages.security.acls import AclBinding
from penstock.messages.security.quotas import QuotaEntity
from penstock.types import NO_EPOCH, NO_OFFSET, LeaderHint
from raft.voters import NO_VOTERS, VoterSet

_EMPTY_CONFIG: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic: its name, its id, and its partitions by number."""

    name: str
    topic_id: str
    partitions: Mapping[int, PartitionRegistration]

    @property
    def replication_factor(self) -> int:
        return max((partition.replication_factor for partition in self.partitions.values()), default=0)


@dataclass(frozen=True, slots=True, repr=False)
class MetadataImage:
    """All metadata up to and with `offset`. The mappings are shared between images and must never be written to."""

    offset: int = NO_OFFSET  # of the last record in it
    epoch: int = NO_EPOCH  # of that record
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics_by_id: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)  # only what is overridden
    next_producer_id: int = 0  # the lowest that no broker was given
    scram: ScramImage = NO_SCRAM
    acls: Mapping[str, AclBinding] = field(default_factory=dict)  # by their ids
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)  # by their keys
    voters: VoterSet = NO_VOTERS  # as a record named them; none while the quorum is static
    levels: Finalized = field(default_factory=dict)  # of features, as records finalized them

    def topic(self, name: str) -> TopicImage | None:
        return self.topics_by_name.get(name)

    def topic_name(self, topic_id: str) -> str | None:
        topic = self.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition(self, name: str, partition: int) -> PartitionRegistration | None:
        topic = self.topics_by_name.get(name)
        return None if topic is None else topic.partitions.get(partition)

    def leader_hint(self, partition: PartitionRegistration) -> LeaderHint:
        """The partition's leader, with its endpoints if it is registered."""
        leader = self.brokers.get(partition.leader_id)
        endpoint, more = (None, ()) if leader is None else (leader.endpoint, leader.listeners)
        return LeaderHint(partition.leader_id, partition.leader_epoch, endpoint, partition.topic_id, more)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """The topic's own overrides, as text; `topic_config.effective_topic_config` gives the typed whole."""
        return self.configs.get(ConfigResource(TOPIC_RESOURCE, name), _EMPTY_CONFIG)

    def is_active(self, broker_id: int) -> bool:
        """True if the broker is registered, and neither fenced nor shutting down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def find_broker(self, broker_id: int) -> BrokerRegistration | None:
        return self.brokers.get(broker_id)

    def replica_is_online(self, broker_id: int, partition: PartitionRegistration) -> bool:
        """True if the broker is registered, fenced or not, and its replica's log dir is online."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_online(partition.directory_of(broker_id))

    def active_brokers(self) -> list[BrokerRegistration]:
        """The brokers that are neither fenced nor shutting down, by id."""
        return [self.brokers[broker_id] for broker_id in sorted(self.brokers) if self.brokers[broker_id].is_active]

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics_by_id.values())

    def digest(self) -> str:
        """A hash of the content, without offset and epoch: equal on all nodes whose image is at the same offset (I8).

        Costs in proportion to the whole image; for comparison and tests, not for every commit.
        """
        hasher = hashlib.sha256()
        for line in shown_lines(self):
            hasher.update(line)
        return hasher.hexdigest()

    def __repr__(self) -> str:
        return (
            f"MetadataImage(offset={self.offset}, epoch={self.epoch}, brokers={len(self.brokers)},"
            f" topics={len(self.topics_by_id)}, partitions={self.partition_count})"
        )


EMPTY_IMAGE: Final = MetadataImage()
"""The image before the first record."""


def image_records(image: MetadataImage) -> Iterator[Record]:
    """The records that make this image from an empty one, in an order that depends on nothing but its content (I9)."""
    if image.voters:
        yield VotersRecord(image.voters)
    for name in sorted(image.levels, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name, *image.levels[name])
    for broker_id in sorted(image.brokers):
        yield image.brokers[broker_id].to_record()
    for topic_id in sorted(image.topics_by_id):
        topic = image.topics_by_id[topic_id]
        yield TopicRecord(topic.name, topic.topic_id)
        for partition in sorted(topic.partitions):
            yield topic.partitions[partition].to_record()
    for resource in sorted(image.configs):
        config = image.configs[resource]
        for key in sorted(config):
            yield ConfigRecord(resource.resource_type, resource.resource_name, key, config[key])
    if image.next_producer_id:
        yield ProducerIdsRecord(image.next_producer_id)
    yield from scram_records(image.scram)
    for acl_id in sorted(image.acls):
        yield record_of(acl_id, image.acls[acl_id])
    yield from quota_records(image.quotas)


def shown_lines(image: MetadataImage) -> Iterator[bytes]:
    """The records of the image for people, a JSON line each, without secrets. In the place of the cluster's secret is a
    hash of all of them, so that equal lines still mean equal metadata; it cannot be guessed, because that secret is in
    it."""
    for record in image_records(image):
        if isinstance(record, ScramSecretRecord):
            yield encode_record(ScramSecretRecord(scram_seal(image.scram))) + b"\n"
        else:
            yield encode_shown(record) + b"\n"
