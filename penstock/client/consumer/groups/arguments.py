"""Checks what the user gives to a commit: offsets by partition, each of a partition that is this consumer's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.client.cluster.arguments import MAX_INT32, checked_mapping, checked_number, checked_partition
from penstock.client.consumer.groups.commits import ToCommit
from penstock.errors import CommitFailedError, TopicRecreatedError
from penstock.position import Position
from penstock.types import NO_EPOCH, CommittedOffset, TopicPartition

EXAMPLE = "{record_partition: record.position}"


def checked_offsets(positions: Any, owned: Mapping[TopicPartition, str] | None) -> dict[TopicPartition, ToCommit]:
    """`owned` are the partitions that the group has given to this consumer; None: it assigns them itself."""
    if positions is not None and not isinstance(positions, Mapping):
        positions = checked_mapping("positions", positions, EXAMPLE)
    found = {}
    for given, position in positions.items():
        tp = checked_partition(given)
        if owned is not None and tp not in owned:
            raise CommitFailedError(
                f"{tp} is not assigned to this consumer (any more): commit in on_revoked at the latest; the member that"
                " has it now reads again from what was committed before"
            )
        found[tp] = _checked(tp, position, "" if owned is None else owned[tp])
    return found


def _checked(tp: TopicPartition, given: Any, topic_id: str) -> ToCommit:
    if isinstance(given, Position):
        if topic_id and given.topic_id and given.topic_id != topic_id:
            raise TopicRecreatedError(tp.topic, tp.partition, expected_id=given.topic_id, found_id=topic_id)
        return ToCommit(given.offset, given.leader_epoch, topic_id=given.topic_id or topic_id)
    if isinstance(given, CommittedOffset):
        offset = checked_number("offset", given.offset, 0)
        epoch = checked_number("leader_epoch", given.leader_epoch, NO_EPOCH, MAX_INT32)
        if not isinstance(given.metadata, str):
            raise TypeError(f"metadata={given.metadata!r} must be a str")
        return ToCommit(offset, epoch, given.metadata, topic_id)
    if hasattr(given, "position"):
        raise TypeError(f"{tp}: commit record.position, the place after the record, and not the record")
    return ToCommit(checked_number("offset", given, 0), topic_id=topic_id)
