"""Refuses a request by the leader epoch that its sender knows (KIP-320). Pure."""

from __future__ import annotations

from metadata.registrations import PartitionRegistration
from penstock.errors import FencedLeaderEpochError, UnknownLeaderEpochError
from penstock.types import LeaderHint, TopicPartition


def check_leader_epoch(partition: TopicPartition, state: PartitionRegistration, current_leader_epoch: int) -> None:
    """The sender's epoch must be that of `state`: an older one hears of the leader, a newer one asks again."""
    known = state.leader_epoch
    if current_leader_epoch < known:
        raise FencedLeaderEpochError(
            f"{partition}: leader epoch {current_leader_epoch} is older than {known}",
            leader=LeaderHint(state.leader_id, known, topic_id=state.topic_id),
        )
    if current_leader_epoch > known:
        raise UnknownLeaderEpochError(
            f"{partition}: leader epoch {current_leader_epoch} is newer than {known} of this broker"
        )
