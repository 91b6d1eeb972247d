"""The names that belong to the cluster: what each is for, which part of a broker writes it, and the configuration that
it gets.

No user creates a topic of such a name, or of one that collides with it. No client writes to one or deletes its records;
any may read. The controller makes one when a coordinator needs it for the first time. Not here: the rule for other
names, and the list of these alone (`penstock/topic_names.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from penstock.errors import InvalidTopicError
from penstock.lazy_dataclass import dataclass
from penstock.topic_names import CONSUMER_OFFSETS as CONSUMER_OFFSETS
from penstock.topic_names import TRANSACTION_STATE as TRANSACTION_STATE
from penstock.topic_names import collision_key
from penstock.types import METADATA_TOPIC

_SEGMENT_BYTES: Final = str(100 << 20)
"""Kafka's: a coordinator loads such a log whole, and the active segment is never compacted."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """One row. `config` are the overrides of the new topic."""

    name: str
    holds: str
    writer: str
    config: Mapping[str, str] = field(default_factory=dict)


INTERNAL_TOPICS: Final = {
    topic.name: topic
    for topic in (
        InternalTopic(METADATA_TOPIC, "the quorum's own log", "the quorum's voters"),
        InternalTopic(
            CONSUMER_OFFSETS,
            "the offsets of consumer groups",
            "the coordinators of consumer groups",
            {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": _SEGMENT_BYTES},
        ),
        InternalTopic(
            TRANSACTION_STATE,
            "the state of transactions",
            "the coordinators of transactions",
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "segment.bytes": _SEGMENT_BYTES,
                "unclean.leader.election.enable": "false",
            },
        ),
    )
}
"""The internal topics by name."""
_BY_COLLISION_KEY: Final = {collision_key(name): topic for name, topic in INTERNAL_TOPICS.items()}


def check_creation(name: str) -> None:
    """InvalidTopicError if no user may create a topic of this name."""
    topic = _BY_COLLISION_KEY.get(collision_key(name))
    if topic is None:
        return
    if name == topic.name:
        raise InvalidTopicError(f"topic name {name!r} is reserved for {topic.holds}")
    raise InvalidTopicError(f"topic name {name} collides with {topic.name}, which is reserved for {topic.holds}")


def check_write(name: str) -> None:
    """InvalidTopicError if no client may write to this topic."""
    if (topic := INTERNAL_TOPICS.get(name)) is not None:
        raise InvalidTopicError(f"{name} is the cluster's own topic; only {topic.writer} write to it")


def check_deletion_of_records(name: str) -> None:
    """InvalidTopicError if no client may delete records of this topic."""
    if name in INTERNAL_TOPICS:
        raise InvalidTopicError(f"{name} is the cluster's own topic; its records cannot be deleted")


def check_partitions_change(name: str) -> None:
    """InvalidTopicError if the topic can have no other number of partitions: a group's or a transaction's state is in
    the partition that its id gives, by that number."""
    if name in INTERNAL_TOPICS:
        raise InvalidTopicError(f"{name} is the cluster's own topic; it keeps its number of partitions")
