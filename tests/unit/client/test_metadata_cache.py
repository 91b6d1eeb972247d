"""The newest epoch wins, hints count at once, and a topic created anew begins anew."""

from __future__ import annotations

from penstock.client.messages import BrokerInfo, ClusterSnapshot, PartitionInfo, TopicInfo
from penstock.client.metadata_cache import MetadataCache
from penstock.errors import UnknownTopicOrPartitionError
from penstock.types import Endpoint, LeaderHint, TopicPartition

TP = TopicPartition("t", 0)


def snapshot(leader: int, epoch: int, topic_id: str = "id", error: bool = False) -> ClusterSnapshot:
    brokers = (BrokerInfo(1, "a", 1), BrokerInfo(2, "b", 2))
    partition = PartitionInfo(0, leader, epoch, 0, (1, 2), (1, 2))
    topic = TopicInfo("t", topic_id, (partition,), error=UnknownTopicOrPartitionError() if error else None)
    return ClusterSnapshot("c", 1, brokers, (topic,), 0)


def cache_with(leader: int, epoch: int) -> MetadataCache:
    cache = MetadataCache()
    cache.update(snapshot(leader, epoch), 0)
    return cache


def test_an_older_leader_epoch_does_not_undo_a_newer_one() -> None:
    cache = cache_with(2, 5)
    cache.update(snapshot(1, 4), 1)
    assert cache.leader(TP) == (2, 5)


def test_a_partition_without_leader_has_none() -> None:
    assert cache_with(-1, 3).leader(TP) is None


def test_a_hint_moves_the_leader_and_tells_the_endpoint() -> None:
    cache = cache_with(1, 1)
    assert cache.apply_hint(TP, LeaderHint(7, 2, Endpoint("new", 9)))
    assert cache.leader(TP) == (7, 2)
    assert cache.endpoint(7) == Endpoint("new", 9)


def test_a_hint_that_is_old_known_or_useless_changes_nothing() -> None:
    cache = cache_with(1, 4)
    assert not cache.apply_hint(TP, LeaderHint(2, 3, Endpoint("b", 2)))
    assert not cache.apply_hint(TP, LeaderHint(1, 4, None))
    assert not cache.apply_hint(TP, LeaderHint(-1, 9, None))
    assert not cache.apply_hint(TP, LeaderHint(8, 9, None))
    assert cache.leader(TP) == (1, 4)


def test_a_topic_created_anew_begins_with_its_own_epochs() -> None:
    cache = cache_with(1, 9)
    cache.update(snapshot(2, 0, topic_id="other"), 1)
    assert cache.leader(TP) == (2, 0)


def test_a_topic_that_is_gone_is_forgotten() -> None:
    cache = cache_with(1, 1)
    cache.update(snapshot(1, 1, error=True), 1)
    assert cache.topic("t") is None and cache.leader(TP) is None
    assert cache.statistics().updates == 2


def test_partitions_with_a_leader_are_preferred_for_records_without_a_key() -> None:
    cache = MetadataCache()
    partitions = (PartitionInfo(0, -1, 0, 0, (1,), ()), PartitionInfo(1, 1, 0, 0, (1,), (1,)))
    cache.update(ClusterSnapshot("c", 1, (BrokerInfo(1, "a", 1),), (TopicInfo("t", "id", partitions),), 0), 0)
    assert cache.led_partitions("t") == (1,)
    assert cache.led_partitions("other") == ()
