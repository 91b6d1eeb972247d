"""A member's numbers, and the reasons why it has nothing to read, for people. Pure; runs on the loop."""

from __future__ import annotations

from penstock.client.cluster.waiting import Waiting, error_text
from penstock.client.consumer.groups.membership import Membership
from penstock.client.consumer.groups.membership_state import MembershipState
from penstock.client.consumer.groups.subscription import Mode
from penstock.errors import UnknownTopicOrPartitionError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Counts since the consumer was made."""

    heartbeats: int = 0
    rebalances: int = 0
    commits: int = 0
    losses: int = 0


def member_waits(member: Membership) -> tuple[Waiting, ...]:
    """One reason, or none: a member that has partitions waits for their brokers (fetching/partition_state.py)."""
    if member.state is MembershipState.ABSENT or member.reconciliation.owned:
        return ()
    if member.last_error is not None:
        why = f"the coordinator; the last answer: {error_text(member.last_error)}"
    elif member.state is MembershipState.STABLE:
        why = "a partition: another is giving one up, there are more members than partitions, or no such topic yet"
    elif member.state is MembershipState.RECONCILING:
        why = "the names and committed offsets of its partitions, or for the next poll"
    else:
        why = f"its place; it {member.state.value}"
    return (Waiting((), f"this member of group {member.identity.group_id!r} waits for {why}"),)


def not_assigned(tp: TopicPartition, mode: Mode) -> UnknownTopicOrPartitionError:
    """The error of a call about a partition that the consumer does not have, with the remedy."""
    if mode is Mode.SUBSCRIBED:
        return UnknownTopicOrPartitionError(
            f"{tp} is not assigned to this consumer now: its group gives partitions to members inside polls. Call this"
            " in on_assigned, or once assignment() has the partition"
        )
    return UnknownTopicOrPartitionError(f"{tp} is not assigned to this consumer; assign it first")
