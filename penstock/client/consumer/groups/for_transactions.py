"""A consumer's positions for the transaction of a producer, which commits them with what was made of the records.

Not here: which positions (consumer_calls.py), and the producer (producer/transactions/offset_commits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from penstock.client.cluster.group_positions import CommittingMember, GroupPositions
from penstock.client.consumer.groups.commits import ToCommit
from penstock.client.consumer.groups.joined_group import JoinedGroup
from penstock.client.consumer.groups.membership_state import MembershipState
from penstock.client.consumer.groups.subscription import Mode
from penstock.errors import CommitFailedError, SubscriptionError
from penstock.messages.groups.offsets import OffsetCommitPartition
from penstock.types import TopicPartition


class ConsumerHere(Protocol):
    """The consumer. `call_soon` does work on its loop; `check_open` raises ClientClosedError."""

    def call_soon(self, work: Callable[..., object], *args: Any) -> None: ...

    def check_open(self) -> None: ...


def group_positions(
    group: JoinedGroup, to_commit: Mapping[TopicPartition, ToCommit], consumer: ConsumerHere
) -> GroupPositions:
    """SubscriptionError for a consumer that commits by itself, too. ClientClosedError or CommitFailedError for one that
    has given up its partitions: it has no positions any more, and none would be taken for all that it has read."""
    if group.auto_commit.enabled:
        raise SubscriptionError(
            "send_offsets needs a consumer with enable_auto_commit=False: this one also commits by itself, whatever"
            " becomes of the transaction"
        )
    if not to_commit:
        consumer.check_open()
        if group.mode is not Mode.SUBSCRIBED or group.member.state is MembershipState.LEAVING:
            raise CommitFailedError("this consumer has unsubscribed, or never subscribed: it has no positions")
    parts = tuple(
        OffsetCommitPartition(tp, to.offset, to.leader_epoch, to.metadata, to.topic_id) for tp, to in to_commit.items()
    )

    def member() -> CommittingMember:
        stamp = group.stamp()
        return CommittingMember(stamp.member_id, stamp.member_epoch, stamp.instance_id or "")

    def on_committed(coordinator_id: int | None) -> None:
        with suppress(RuntimeError):  # its loop is closed: nobody seeks any more
            consumer.call_soon(group.on_transaction, parts, coordinator_id)

    def on_stale_epoch() -> None:
        consumer.call_soon(group.on_stale_epoch)

    return GroupPositions(group.identity.group_id, parts, member, on_stale_epoch, on_committed)
