"""Producers and consumers say what they wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.metadata_cache import Leader, MetadataCache
from penstock.client.cluster.waiting import Waiting
from penstock.client.consumer.fetching.partition_state import PartitionState, consumer_waits
from penstock.client.options.config import ConnectionConfig
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.stalled import producer_waits
from penstock.errors import ApiError, LeaderNotAvailableError, NotEnoughReplicasError, TimedOutError
from penstock.messages.metadata import BrokerInfo, MetadataResponse, PartitionInfo, TopicInfo
from penstock.types import TopicPartition
from tests.support.client_environment import fake_environment
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_network import FakeNetwork
from tests.support.machine import THREADS
from tests.support.virtual_time import run_virtual

FIRST, SECOND, THIRD = (TopicPartition("orders", number) for number in range(3))


def cache(*leaders: int) -> MetadataCache:
    """Broker 1 and the leader of each partition; -1: none."""
    partitions = tuple(
        PartitionInfo(
            number, leader, 5, 1, (1, 2), (1,), LeaderNotAvailableError("start broker 2") if leader < 0 else None
        )
        for number, leader in enumerate(leaders)
    )
    found = MetadataCache()
    topics = (TopicInfo("orders", "id", partitions),)
    found.update(MetadataResponse("c", 1, (BrokerInfo(1, "host", 9192),), topics, 1), 0)
    return found


def queue(tp: TopicPartition, *, error: Exception | None = None) -> PartitionQueue:
    """A partition with one closed batch."""
    made = PartitionQueue(tp, 1 << 20)
    batch = ProducerBatch(tp, 0, 0, THREADS)
    batch.last_error = error  # type: ignore[assignment]
    made.ready.append(batch)
    return made


def in_flight(tp: TopicPartition) -> PartitionQueue:
    made = queue(tp)
    made.in_flight, made.asked = [made.ready.popleft()], Leader(1, 5)
    return made


def test_a_producer_names_the_broker_that_owes_an_answer_and_who_that_one_waits_for() -> None:
    (wait,) = producer_waits([in_flight(FIRST), in_flight(SECOND)], cache(1, 1), acks=-1)
    assert wait.partitions == (FIRST, SECOND)
    assert str(wait) == (
        "orders-0, orders-1: an answer of broker 1 at host:9192, which waits for its in-sync followers"
    )
    (wait,) = producer_waits([in_flight(FIRST)], cache(1), acks=1)
    assert wait.reason == "an answer of broker 1 at host:9192"


def test_a_producer_names_the_refusal_after_which_it_tries_again() -> None:
    refused = NotEnoughReplicasError("orders-0 has 1 replicas in sync, min.insync.replicas is 2")
    (wait,) = producer_waits([queue(FIRST, error=refused), queue(SECOND, error=refused)], cache(1, 1), acks=-1)
    assert wait.partitions == (FIRST, SECOND)
    assert "the last one: NOT_ENOUGH_REPLICAS: orders-0 has 1 replicas" in wait.reason


def test_a_partition_without_a_leader_is_named_with_the_clusters_reason() -> None:
    assert producer_waits([queue(SECOND)], cache(1, -1), acks=-1) == (Waiting((SECOND,), "start broker 2"),)
    state = PartitionState(SECOND, 1)
    assert consumer_waits([state], cache(1, -1), {}) == (Waiting((SECOND,), "start broker 2"),)


def test_a_producer_with_nothing_to_send_waits_for_nothing() -> None:
    assert producer_waits([PartitionQueue(FIRST, 1 << 20)], cache(1), acks=-1) == ()


def test_a_consumer_names_brokers_in_trouble_and_refusals_and_leaves_out_what_has_only_no_new_record() -> None:
    refused = PartitionState(FIRST, 1)
    refused.failures, refused.last_error = 3, NotEnoughReplicasError("why")
    looked_up, read = PartitionState(SECOND, 1), PartitionState(THIRD, 1)
    looked_up.reset_timestamp = -1
    found = consumer_waits([refused, looked_up, read], cache(1, 1, 1), {})
    assert [str(wait) for wait in found] == [
        "orders-0: the next attempt at broker 1 at host:9192; the last one: NOT_ENOUGH_REPLICAS: why",
        "orders-1: where to begin, from broker 1 at host:9192",
    ]
    (wait,) = consumer_waits([refused, looked_up, read], cache(1, 1, 1), {1: "it does not answer"})
    assert str(wait) == "orders-0, orders-1, orders-2: broker 1 at host:9192: it does not answer"


def test_many_partitions_are_not_all_named() -> None:
    partitions = tuple(TopicPartition("orders", number) for number in range(9))
    assert str(Waiting(partitions, "a leader")) == "orders-0, orders-1, orders-2 and 6 more: a leader"


# -- reasons that nobody can confirm -----------------------------------------------------------------------------------


def test_a_reason_of_a_cluster_that_is_silent_now_is_not_told_as_if_it_were_true() -> None:
    known = cache(-1)
    assert "start broker 2" in producer_waits([queue(FIRST)], known, acks=-1)[0].reason
    known.silence = lambda: "no broker answers now (host:9192: refused)"
    for why in (known.why_offline(FIRST), producer_waits([queue(FIRST)], known, acks=-1)[0].reason):
        assert "no broker answers now (host:9192: refused)" in why and "start broker 2" not in why
    whole = cache(1)
    whole.note_epoch(FIRST, "id", 6)
    whole.silence = known.silence
    assert producer_waits([queue(FIRST)], whole, acks=-1)[0].reason == "no broker answers now (host:9192: refused)"


def test_a_reason_of_a_broker_that_hears_no_quorum_is_not_told_as_if_it_were_true() -> None:
    known = cache(-1)
    topic = replace(known.topic("orders") or TopicInfo("orders"), metadata_age_ms=12_000)
    known.update(MetadataResponse("c", 1, known.brokers, (topic,), 2), 0)
    why = known.why_offline(FIRST)
    assert "has not heard from the quorum for 12 s" in why and "start broker 2" not in why


def test_a_client_is_told_of_the_silence_of_the_cluster_until_one_broker_answers_again() -> None:
    async def story() -> None:
        network = FakeNetwork()
        brokers = FakeCluster(3, host=MemoryHost(network)).__enter__()
        brokers.create_topic("t")
        bootstrap = tuple(brokers.endpoints.values())[:1]
        cluster = ClusterClient(bootstrap, ConnectionConfig(), fake_environment(network))
        cluster.track(("t",))
        await cluster.refresh()
        assert cluster.cache.silence() == ""
        for node_id in brokers.node_ids:
            brokers.stop_node(node_id)
        with pytest.raises((ApiError, TimedOutError)):
            await cluster.refresh(deadline_ms=cluster.clock.now_ms() + 5_000)
        assert cluster.cache.silence().startswith("no broker answers now (")
        brokers.start_node(brokers.node_ids[-1])
        await cluster.refresh()
        assert cluster.cache.silence() == ""
        await cluster.close()

    run_virtual(story())
