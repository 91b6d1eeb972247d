"""OffsetCommit: who may commit, and which offsets are taken.

An error of the group or of its member refuses the whole commit; one of a partition that partition alone.
"""

from __future__ import annotations

from typing import Final

from broker.coordination.turn import Client, Ticket, Turn
from broker.groups.group_config import GroupConfig
from broker.groups.offsets.known_partitions import KnownPartitions
from broker.groups.offsets.offset_groups import OffsetGroups
from broker.groups.offsets.offsets_state import GroupOffsetsState
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from broker.groups.records.record_codec import encoded_size
from broker.kafka_codec.primitives import STRING_BYTES_MAX
from penstock.errors import (
    ApiError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InvalidCommitOffsetSizeError,
    OffsetMetadataTooLargeError,
    OffsetOutOfRangeError,
    UnknownMemberIdError,
)
from penstock.messages.groups.offsets import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResult,
)
from penstock.types import NO_EPOCH, NO_TIMESTAMP

_TIME_MAX: Final = (1 << 63) - 1
_UTF8_BYTES_MAX: Final = 4
_RECORD_BYTES: Final = 1_000
"""A record of an offset without its names and its text has far fewer."""


class OffsetCommits:
    """Decides about commits."""

    def __init__(self, config: GroupConfig, state: GroupOffsetsState, groups: OffsetGroups) -> None:
        self._config = config
        self._state = state
        self._groups = groups

    def commit(self, turn: Turn, ticket: Ticket, request: OffsetCommitRequest, client: Client) -> None:
        self._check(turn, request)
        expire_ms = NO_TIMESTAMP
        if request.retention_ms != -1:
            expire_ms = min(turn.wall_ms + request.retention_ms, _TIME_MAX)
        known = KnownPartitions(turn.topics)
        results = []
        records = []
        for one in request.partitions:
            try:
                topic, topic_id = known.found(one.partition, one.topic_id)
                records.append(self._record(turn, request.group_id, topic, topic_id, one, expire_ms))
            except ApiError as error:
                results.append(OffsetCommitResult(one.partition, error))
            else:
                results.append(OffsetCommitResult(one.partition))
        for key, value in records:
            turn.write(key, value)
        turn.answer(ticket, OffsetCommitResponse(tuple(results)))

    def _check(self, turn: Turn, request: OffsetCommitRequest) -> None:
        group_id = request.group_id
        if self._groups.knows(group_id):
            self._groups.check_commit(turn, request)
        elif request.member_epoch >= 0:
            if group_id in self._state:
                raise UnknownMemberIdError(f"group {group_id} has no members: join it, or commit without a member")
            if request.knows_stale_epoch:
                raise GroupIdNotFoundError(f"there is no group {group_id}")
            raise IllegalGenerationError(f"there is no group {group_id}: join it, or commit without a generation")

    def _record(
        self, turn: Turn, group_id: str, topic: str, topic_id: str, one: OffsetCommitPartition, expire_ms: int
    ) -> tuple[OffsetCommitKey, OffsetCommitValue]:
        if one.offset < 0:
            raise OffsetOutOfRangeError(f"{one.partition}: no offset is {one.offset}; to forget one, delete it")
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
        return f"OffsetCommits({self._state!r})"
