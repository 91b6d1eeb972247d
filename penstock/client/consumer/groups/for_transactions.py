"""A consumer's positions for the transaction of a producer, which commits them with what was made of the records.

Not here: which positions (consumer_calls.py), and the producer (producer/transactions/offset_commits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.client.cluster.group_positions import CommittingMember, GroupPositions
from penstock.client.consumer.groups.commits import ToCommit
from penstock.client.consumer.groups.joined_group import JoinedGroup
from penstock.errors import SubscriptionError
from penstock.messages.groups.offsets import OffsetCommitPartition
from penstock.types import TopicPartition


def group_positions(
    group: JoinedGroup, to_commit: Mapping[TopicPartition, ToCommit], call_soon: Callable[..., object]
) -> GroupPositions:
    """SubscriptionError for a consumer that commits by itself, too. `call_soon` does work on the consumer's loop."""
    if group.auto_commit.enabled:
        raise SubscriptionError(
            "send_offsets needs a consumer with enable_auto_commit=False: this one also commits by itself, whatever"
            " becomes of the transaction"
        )
    parts = tuple(
        OffsetCommitPartition(tp, to.offset, to.leader_epoch, to.metadata, to.topic_id) for tp, to in to_commit.items()
    )

    def member() -> CommittingMember:
        stamp = group.stamp()
        return CommittingMember(stamp.member_id, stamp.member_epoch, stamp.instance_id or "")

    return GroupPositions(group.identity.group_id, parts, member, lambda: call_soon(group.on_stale_epoch))
