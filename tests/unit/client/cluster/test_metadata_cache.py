"""The newest epoch wins, hints count at once, and a topic created anew begins anew."""

from __future__ import annotations

from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.errors import UnknownTopicOrPartitionError
from penstock.messages.metadata import BrokerInfo, MetadataResponse, PartitionInfo, TopicInfo
from penstock.types import Endpoint, LeaderHint, TopicPartition

TP = TopicPartition("t", 0)


def snapshot(
    leader: int, epoch: int, topic_id: str = "id", error: bool = False, metadata_offset: int = 0, cluster_id: str = "c"
) -> MetadataResponse:
    brokers = (BrokerInfo(1, "a", 1), BrokerInfo(2, "b", 2))
    partition = PartitionInfo(0, leader, epoch, 0, (1, 2), (1, 2))
    topic = TopicInfo("t", topic_id, (partition,), error=UnknownTopicOrPartitionError() if error else None)
    return MetadataResponse(cluster_id, 1, brokers, (topic,), metadata_offset)


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
    assert cache.apply_hint(TP, LeaderHint(7, 2, Endpoint("new", 9), "id"))
    assert cache.leader(TP) == (7, 2)
    assert cache.endpoint(7) == Endpoint("new", 9)


def test_a_hint_that_is_old_known_or_useless_changes_nothing() -> None:
    cache = cache_with(1, 4)
    assert not cache.apply_hint(TP, LeaderHint(2, 3, Endpoint("b", 2), "id"))
    assert not cache.apply_hint(TP, LeaderHint(1, 4, None, "id"))
    assert not cache.apply_hint(TP, LeaderHint(-1, 9, None, "id"))
    assert not cache.apply_hint(TP, LeaderHint(8, 9, None, "id"))
    assert cache.leader(TP) == (1, 4)


def test_a_topic_created_anew_begins_with_its_own_epochs() -> None:
    cache = cache_with(1, 9)
    cache.update(snapshot(2, 0, topic_id="other"), 1)
    assert cache.leader(TP) == (2, 0)


def test_a_hint_of_a_topic_that_had_the_name_before_pins_no_leader() -> None:
    cache = cache_with(1, 7)
    cache.update(snapshot(2, 0, topic_id="anew"), 1)
    assert not cache.apply_hint(TP, LeaderHint(1, 7, topic_id="id"))
    assert not cache.apply_hint(TP, LeaderHint(1, 7))
    assert cache.leader(TP) == (2, 0)
    assert cache.apply_hint(TP, LeaderHint(1, 1, topic_id="anew"))


def test_a_node_that_lags_brings_no_deleted_topic_back() -> None:
    cache = MetadataCache()
    cache.update(snapshot(2, 0, topic_id="anew", metadata_offset=30), 0)
    for lagging in (
        snapshot(1, 7, topic_id="deleted", metadata_offset=10),
        snapshot(1, 7, error=True, metadata_offset=20),
    ):
        assert cache.is_stale(lagging)
        cache.update(lagging, 1)
        assert (cache.topic_id("t"), cache.leader(TP)) == ("anew", (2, 0))
    cache.update(snapshot(1, 0, topic_id="newer still", metadata_offset=31), 1)
    assert cache.topic_id("t") == "newer still"


def test_another_cluster_at_the_same_address_has_offsets_of_its_own() -> None:
    cache = MetadataCache()
    cache.update(snapshot(2, 0, metadata_offset=30), 0)
    cache.update(snapshot(1, 0, topic_id="there", metadata_offset=3, cluster_id="another"), 1)
    assert cache.topic_id("t") == "there" and not cache.is_stale(snapshot(1, 0, metadata_offset=2))


def test_a_topic_that_is_gone_is_forgotten() -> None:
    cache = cache_with(1, 1)
    cache.update(snapshot(1, 1, error=True), 1)
    assert cache.topic("t") is None and cache.leader(TP) is None
    assert cache.statistics().updates == 2


def test_partitions_with_a_leader_are_preferred_for_records_without_a_key() -> None:
    cache = MetadataCache()
    partitions = (PartitionInfo(0, -1, 0, 0, (1,), ()), PartitionInfo(1, 1, 0, 0, (1,), (1,)))
    cache.update(MetadataResponse("c", 1, (BrokerInfo(1, "a", 1),), (TopicInfo("t", "id", partitions),), 0), 0)
    assert cache.led_partitions("t") == (1,)
    assert cache.led_partitions("other") == ()
