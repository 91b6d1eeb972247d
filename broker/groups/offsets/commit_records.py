"""The records of commits: what may be kept of an offset, and in which form.

An offset below 0 is kept as it is, as in Kafka. Its clients commit -1 or -2 to say "the end" or "the start" (kafkajs
does so after OFFSET_OUT_OF_RANGE), get it back, and begin where they are told to begin without an offset. Every reader
but the client that asks for it treats such an offset as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from broker.coordination.record_log import TxnProducer
from broker.coordination.turn import Turn
from broker.groups.group_config import GroupConfig
from broker.groups.offsets.known_partitions import KnownPartitions
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from broker.groups.records.record_codec import encoded_size
from broker.kafka_codec.primitives import STRING_BYTES_MAX
from penstock.errors import (
    ApiError,
    InvalidCommitOffsetSizeError,
    OffsetMetadataTooLargeError,
)
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetCommitResult
from penstock.types import NO_EPOCH, NO_TIMESTAMP

_UTF8_BYTES_MAX: Final = 4
_RECORD_BYTES: Final = 1_000
"""A record of an offset without its names and its text has far fewer."""
CommitRecord = tuple[OffsetCommitKey, OffsetCommitValue]


def taken(
    turn: Turn,
    partitions: Iterable[OffsetCommitPartition],
    records: Iterable[CommitRecord | ApiError],
    refusal_of: Callable[[OffsetCommitKey, OffsetCommitValue], ApiError | None],
    producer: TxnProducer | None = None,
) -> tuple[OffsetCommitResult, ...]:
    """The answer of each partition, after its record was written unless it is refused for want of memory. One after the
    other: the first offset of a group brings the group, so the next ones take less."""
    results = []
    for one, found in zip(partitions, records, strict=True):
        error = found if isinstance(found, ApiError) else refusal_of(*found)
        if error is None and not isinstance(found, ApiError):
            turn.write(*found, producer)
        results.append(OffsetCommitResult(one.partition, error))
    return tuple(results)


class CommitRecords:
    """Makes them, or says which partition is refused."""

    def __init__(self, config: GroupConfig) -> None:
        self._config = config

    def of(
        self, turn: Turn, group_id: str, partitions: Iterable[OffsetCommitPartition], expire_ms: int = NO_TIMESTAMP
    ) -> list[CommitRecord | ApiError]:
        """The record or the error of each partition that was asked for, in order."""
        known = KnownPartitions(turn.topics)
        records: list[CommitRecord | ApiError] = []
        for one in partitions:
            try:
                topic, topic_id = known.found(one.partition, one.topic_id)
                records.append(self._record(turn, group_id, topic, topic_id, one, expire_ms))
            except ApiError as error:
                records.append(error)
        return records

    def _record(
        self, turn: Turn, group_id: str, topic: str, topic_id: str, one: OffsetCommitPartition, expire_ms: int
    ) -> CommitRecord:
        if one.metadata:
            self._check_metadata(one.metadata)
        key = OffsetCommitKey(group=group_id, topic=topic, partition=one.partition.partition)
        value = OffsetCommitValue(
            offset=one.offset, metadata=one.metadata, commit_timestamp=turn.wall_ms, expire_timestamp=expire_ms
        )
        if expire_ms == NO_TIMESTAMP:  # the version that has a time of expiry has neither of these
            value.leader_epoch, value.topic_id = max(one.leader_epoch, NO_EPOCH), topic_id
        characters = len(group_id) + len(topic) + len(one.metadata)
        bytes_max = self._config.record_bytes_max
        if _RECORD_BYTES + _UTF8_BYTES_MAX * characters > bytes_max and encoded_size(key, value) > bytes_max:
            raise InvalidCommitOffsetSizeError(
                f"{one.partition}: the commit is larger than a batch of the offsets' topic may be: {bytes_max} bytes"
            )
        return key, value

    def _check_metadata(self, metadata: str) -> None:
        """Counted as Kafka does, in UTF-16."""
        units_max = self._config.offset_metadata_max_bytes
        if 2 * len(metadata) > units_max and (units := len(metadata.encode("utf-16-le")) // 2) > units_max:
            raise OffsetMetadataTooLargeError(
                f"the metadata has {units} characters, and offset.metadata.max.bytes is {units_max}"
            )
        if _UTF8_BYTES_MAX * len(metadata) > STRING_BYTES_MAX and len(metadata.encode()) > STRING_BYTES_MAX:
            raise OffsetMetadataTooLargeError(f"the metadata has more than {STRING_BYTES_MAX} bytes")

    def __repr__(self) -> str:
        return f"CommitRecords({self._config.offset_metadata_max_bytes} characters at most)"
