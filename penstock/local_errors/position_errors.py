"""Errors of a consumer's position: the log has no such place any more, or what stands there cannot be read.

Each tells where reading can go on. They never cross a wire. Users import them from penstock.errors.
"""

from __future__ import annotations

from penstock.base_error import PenstockError
from penstock.types import TopicPartition


class LogTruncationError(PenstockError):
    """A consumer's position is not in the leader's log any more: records that it has read were lost (KIP-320).

    `divergent_offset` is the first offset that may differ from what was read; seek there to go on.
    """

    __module__ = "penstock.errors"

    def __init__(self, message: str, *, topic: str, partition: int, position: int, divergent_offset: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.position = position
        self.divergent_offset = divergent_offset


class TopicRecreatedError(PenstockError):
    """A position belongs to a deleted topic; another topic has the name now (KIP-516)."""

    __module__ = "penstock.errors"

    def __init__(self, topic: str, partition: int, *, expected_id: str, found_id: str) -> None:
        super().__init__(
            f"{topic}-{partition}: topic {topic!r} was deleted and created again: its id is {found_id}, not"
            f" {expected_id}. Offsets of the old topic are not valid in the new one; seek to read the new topic"
        )
        self.topic = topic
        self.partition = partition
        self.expected_id = expected_id
        self.found_id = found_id


class UndecodableBatchError(PenstockError):
    """A record batch is damaged, or its bytes contradict its header. No record behind it was returned.

    The bounds are the offset at which the batch begins, and `next_offset`, where reading can go on without it.
    """

    __module__ = "penstock.errors"

    def __init__(self, tp: TopicPartition, bounds: tuple[int, int], why: str, remedy: str = "") -> None:
        offset, next_offset = bounds
        remedy = remedy or f"seek past it: consumer.seek(TopicPartition({tp.topic!r}, {tp.partition}), {next_offset})"
        super().__init__(f"{tp}: the batch at offset {offset} cannot be decoded: {why}. To go on without it, {remedy}")
        self.topic_partition = tp
        self.topic, self.partition = tp
        self.offset = offset
        self.next_offset = next_offset
        self.why = why
