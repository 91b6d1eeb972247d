"""The value types that every part of Penstock shares: names for places in a log, and nothing that does anything.

The types are immutable, hashable, and free of I/O, so that a core, a driver, a client and a test can pass the same
value. Not here: record bytes (`penstock.record`), errors (`penstock.errors`), wire messages (`penstock.pb`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from penstock.lazy_dataclass import dataclass

NO_LEADER = -1
"""The leader id of a partition or a quorum that has no leader."""
NO_EPOCH = -1
"""An epoch that is not known; sent as an epoch it means 'do not check'."""
NO_OFFSET = -1
"""An offset that is not known."""
NO_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
MAX_TIMESTAMP = -3
"""Sentinels of ListOffsets (Kafka protocol, ListOffsets; KIP-734 for -3)."""
CONSUMER_REPLICA_ID = -1
"""The replica id of a fetch that comes from a consumer."""
CLIENT_LISTENER = "BROKER"
"""The listener for clients that every broker has."""
_EVERY_ADDRESS = re.compile(r"\*?|(0+|0x0+)(\.(0+|0x0+)){0,3}|\[?[0:]*:[0:]*(ffff:)?[0:.]*\]?", re.IGNORECASE)
METADATA_TOPIC = "__cluster_metadata"
"""The quorum's own log (KIP-595); no user topic may have this name."""


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndEpoch(NamedTuple):
    """A position in a log together with the leader epoch of the record before it."""

    offset: int
    epoch: int


class EpochEntry(NamedTuple):
    """`epoch` began at `start_offset`: one line of a leader-epoch-checkpoint."""

    epoch: int
    start_offset: int


class MetadataOffset(NamedTuple):
    """How far one cluster's metadata has been heard; nothing is known of another cluster's."""

    cluster_id: str = ""
    offset: int = NO_OFFSET


NOTHING_SEEN = MetadataOffset()


class EpochEndOffset(NamedTuple):
    """The answer to 'where does this epoch end?'; (-1, -1) when the log cannot say (KIP-101, KIP-279)."""

    epoch: int
    end_offset: int


class TimestampAndOffset(NamedTuple):
    """The first record at or after a time: its timestamp (ms since 1970), its offset, and its leader epoch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


PRODUCER_EPOCH_MAX = 2**15 - 1
"""A batch has 16 bits with a sign for it."""


class ProducerIdAndEpoch(NamedTuple):
    """Names a producer in its batches; the epoch is the first one of a new id."""

    producer_id: int
    epoch: int


class RecordMetadata(NamedTuple):
    """The place of an acked record. `timestamp_ms` is the record's own (create time) or the broker's (append time)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Endpoint(NamedTuple):
    """A host and port that accept connections."""

    host: str
    port: int

    @property
    def is_every_address(self) -> bool:
        """The host means every address of a machine, in any spelling (0.0.0.0, 0, ::, 0:0::0, ::ffff:0.0.0.0, *): fine
        to listen on, useless to connect to."""
        return _EVERY_ADDRESS.fullmatch(self.host) is not None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset that a group will read of a partition, and the text that it has left with it.

    `leader_epoch` is that of the record before it, or -1: by it a log that was truncated is noticed (KIP-320). Kafka's
    clients call it OffsetAndMetadata. The time is told by answers alone.
    """

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP


class ListenerType(StrEnum):
    """The protocol that a listener speaks."""

    GRPC = "GRPC"
    """Penstock's own."""
    KAFKA = "KAFKA"
    """Apache Kafka's, for Kafka's clients and tools."""


class SecurityProtocol(StrEnum):
    """The security of a listener, in Kafka's words: is a connection encrypted, and which side proves its identity?"""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    """TLS; a client may have to show a certificate."""
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def is_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class ListenerEndpoint(NamedTuple):
    """The address at which clients reach one of a broker's listeners."""

    name: str
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.name}://{self.endpoint}"


@dataclass(frozen=True, slots=True)
class LeaderHint:
    """The leader of a partition or of the quorum, as far as the answering node knows; `endpoint` may be unknown.

    `topic_id` is that of the partition, because epochs of another topic of the same name mean nothing; "" for the
    quorum. `endpoint` is that of the listener BROKER, and `more` are those of the leader's other listeners for clients:
    a node tells each client the one of the listener that the client uses.
    """

    leader_id: int
    leader_epoch: int
    endpoint: Endpoint | None = None
    topic_id: str = ""
    more: tuple[ListenerEndpoint, ...] = ()

    def at(self, listener: str) -> LeaderHint:
        """The hint for a client of that listener; without an endpoint if the leader has no such listener."""
        if listener == CLIENT_LISTENER or self.endpoint is None:
            return self
        return replace(self, endpoint=next((found.endpoint for found in self.more if found.name == listener), None))
