"""The positions of a consumer on their way into a producer's transaction: what a producer needs of a consumer.

Producers and consumers do not know each other; this is what they share. Not here: which positions (consumer_calls.py),
and how they are sent (producer/transactions/offset_commits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from penstock.messages.groups.offsets import OffsetCommitPartition
from penstock.position import Position
from penstock.types import CommittedOffset, TopicPartition

Offsets = Mapping[TopicPartition, int | Position | CommittedOffset]


class CommittingMember(NamedTuple):
    """The member that has read the records; nobody, for a consumer that assigns its partitions itself."""

    member_id: str
    member_epoch: int
    group_instance_id: str


class GroupPositions(NamedTuple):
    """The offsets that are to be committed for a group. `member` tells who commits as of now, or raises
    CommitFailedError; `on_stale_epoch` has it ask its coordinator for its new epoch. `on_committed` is called once a
    transaction has committed them, with the broker that took them, if it is known: the consumer asks that one from now
    on, and goes back to no offset before them. All in any thread."""

    group_id: str
    partitions: tuple[OffsetCommitPartition, ...]
    member: Callable[[], CommittingMember]
    on_stale_epoch: Callable[[], object]
    on_committed: Callable[[int | None], object]


class PositionsSource(Protocol):
    """A consumer of a group."""

    def group_positions(self, positions: Offsets | None = None) -> GroupPositions: ...
