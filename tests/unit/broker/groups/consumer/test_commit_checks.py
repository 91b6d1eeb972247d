"""Who may commit and fetch: members in their epoch, or in one that they have not heard the end of (KIP-1251)."""

from __future__ import annotations

import pytest

from broker.groups.consumer.group import ConsumerGroup
from penstock.errors import (
    IllegalGenerationError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetCommitRequest, OffsetFetchGroup
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.types import TopicPartition
from tests.support.classic_consumer import ClassicConsumer
from tests.support.consumer_groups import ConsumerHere, ConsumerShard, TopicsHere, settle


def commit(here: ConsumerShard, member_id: str, epoch: int, *partitions: int, knows_stale_epoch: bool = True) -> None:
    rows = tuple(OffsetCommitPartition(TopicPartition("t", partition), 1) for partition in partitions)
    request = OffsetCommitRequest("g", rows, member_id, epoch, knows_stale_epoch=knows_stale_epoch)
    here.core.kinds[ConsumerGroup].check_commit(here.turn(), here.group(), request)


def commit_by_transaction(here: ConsumerShard, member_id: str, epoch: int, *partitions: int) -> None:
    rows = tuple(OffsetCommitPartition(TopicPartition("t", partition), 1) for partition in partitions)
    request = TxnOffsetCommitRequest("tx", "g", 7, 0, rows, member_id, epoch)
    here.core.kinds[ConsumerGroup].check_transactional_commit(here.turn(), here.group(), request)


def fetch(here: ConsumerShard, member_id: str, epoch: int) -> None:
    here.core.kinds[ConsumerGroup].check_fetch(here.group(), OffsetFetchGroup("g", (), True, member_id, epoch))


def test_a_member_commits_in_its_epoch_and_in_an_older_one_what_it_owned_then() -> None:
    here = ConsumerShard(TopicsHere(t=4))
    first, second = ConsumerHere(here, "a", "t"), ConsumerHere(here, "b", "t")
    first.beat()
    commit(here, "a", 1, 0, 1, 2, 3)
    second.beat()
    first.beat()
    commit(here, "a", 1, 0, 1, 2, 3)  # it gives some up, and commits them before
    settle(first, second)
    mine, theirs = (sorted(partition for _, partition in one.partitions) for one in (first, second))
    assert first.epoch == 2
    commit(here, "a", 2, *mine)
    commit(here, "a", 1, *mine)
    for epoch, partitions in ((1, theirs), (1, [*mine, theirs[0]]), (1, [99]), (3, mine), (-5, mine)):
        with pytest.raises(StaleMemberEpochError):
            commit(here, "a", epoch, *partitions)
    with pytest.raises(StaleMemberEpochError):
        commit(here, "b", 1, *theirs)  # it was given them in epoch 2
    with pytest.raises(UnknownMemberIdError):
        commit(here, "c", 2, 0)
    with pytest.raises(UnknownMemberIdError):
        commit(here, "", -1, 0)  # an administrator, while there are members
    with pytest.raises(UnsupportedVersionError):
        commit(here, "a", 2, 0, knows_stale_epoch=False)


def test_a_transaction_commits_as_its_member_may_with_the_error_that_producers_know() -> None:
    """As Kafka 4.3.1 answered: an epoch that the member has left is good for what it owned then, here, too."""
    here = ConsumerShard(TopicsHere(t=4))
    first, second = ConsumerHere(here, "a", "t"), ConsumerHere(here, "b", "t")
    first.beat()
    settle(first, second)
    mine, theirs = (sorted(partition for _, partition in one.partitions) for one in (first, second))
    commit_by_transaction(here, "a", 2, *mine)
    commit_by_transaction(here, "a", 1, *mine)
    for member_id, epoch, partitions in (("a", 1, theirs), ("a", 3, mine), ("a", -1, mine), ("b", 1, theirs)):
        with pytest.raises(IllegalGenerationError):
            commit_by_transaction(here, member_id, epoch, *partitions)
    with pytest.raises(UnknownMemberIdError):
        commit_by_transaction(here, "c", 2, 0)


def test_an_administrator_commits_for_a_group_without_members() -> None:
    here = ConsumerShard(TopicsHere(t=4))
    member = ConsumerHere(here, "a", "t")
    member.beat()
    member.leave()
    commit(here, "", -1, 0)
    with pytest.raises(UnknownMemberIdError):
        commit(here, "a", 1, 0)


def test_a_fetch_says_a_known_member_and_its_epoch_or_none() -> None:
    here = ConsumerShard(TopicsHere(t=4))
    ConsumerHere(here, "a", "t").beat()
    fetch(here, "", -1)
    fetch(here, "a", 1)
    with pytest.raises(StaleMemberEpochError):
        fetch(here, "a", 0)
    with pytest.raises(UnknownMemberIdError):
        fetch(here, "b", 1)


def test_a_classic_member_commits_in_its_generation_alone() -> None:
    here = ConsumerShard(TopicsHere(t=4))
    old = ClassicConsumer(here, "t")
    old.join()
    ConsumerHere(here, "b", "t").beat()
    commit(here, old.member_id, 1, 0, knows_stale_epoch=False)
    with pytest.raises(IllegalGenerationError):
        commit(here, old.member_id, 2, 0)
