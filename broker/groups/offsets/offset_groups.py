"""The groups of a shard, as decisions about their offsets need them.

A group id that has offsets and is not known here is a simple group: consumers that assign their partitions themselves,
or an administrator, made it by a commit. It has no members and no record of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from broker.coordination.turn import Turn
from penstock.messages.groups.offsets import OffsetCommitRequest, OffsetFetchGroup
from penstock.messages.transactions.producers import TxnOffsetCommitRequest


class OffsetExpiry(NamedTuple):
    """The offsets of a group may expire now, but for topics that a member reads. They do so offsets.retention.minutes
    after their commit, and not before the group has been empty for as long."""

    empty_since_ms: int | None = None
    """The calendar time since which the group is empty, where a record has it."""
    is_empty: bool = False
    """The group had members and has none now; without a record the time counts from when that was first noticed."""


class OffsetGroups(Protocol):
    """The groups of a shard. For a group that is not known only `knows` and `group_ids` may be called."""

    def knows(self, group_id: str) -> bool: ...

    def group_ids(self) -> Iterable[str]: ...

    def check_commit(self, turn: Turn, request: OffsetCommitRequest) -> None:
        """Raises the error with which this commit is refused as a whole."""
        ...

    def check_transactional_commit(self, turn: Turn, request: TxnOffsetCommitRequest) -> None:
        """Raises the error with which this commit by a transaction is refused as a whole."""
        ...

    def check_fetch(self, turn: Turn, request: OffsetFetchGroup) -> None:
        """Raises the error with which nothing of the group is told."""
        ...

    def check_offset_delete(self, group_id: str) -> None:
        """NON_EMPTY_GROUP for a group with members whose subscriptions are not known (KIP-496)."""
        ...

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        """True if a member reads the topic."""
        ...

    def offset_expiry(self, group_id: str) -> OffsetExpiry | None:
        """None while nothing of the group may expire (KIP-211): a classic group that rebalances, or whose members'
        subscriptions are not known."""
        ...

    def delete_if_empty(self, turn: Turn, group_id: str) -> None:
        """Deletes a group that has no members: its last offset is gone."""
        ...
