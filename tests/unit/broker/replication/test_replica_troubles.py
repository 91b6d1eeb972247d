"""Promises of the partitions with too few replicas in sync: all are counted, and the first of each kind are named."""

from __future__ import annotations

from broker.replication.replica_troubles import NAMED_MAX, ShortPartition, counted
from penstock.types import TopicPartition


def short(topic: str, partition: int, min_isr: int = 1) -> ShortPartition:
    return ShortPartition(TopicPartition(topic, partition), (0, 1, 2), (0,), min_isr)


def test_the_clusters_own_topics_take_no_name_from_the_topics_of_users() -> None:
    found = counted([*(short("__consumer_offsets", n) for n in range(50)), short("orders", 3), short("orders", 1)])
    assert (found.under_replicated, found.under_min_isr, len(found.named)) == (52, 0, NAMED_MAX)
    named = [one.partition for one in found.named[:3]]
    assert named == [TopicPartition("orders", 1), TopicPartition("orders", 3), TopicPartition("__consumer_offsets", 0)]


def test_the_many_that_refuse_acks_all_take_no_name_from_those_that_do_not() -> None:
    found = counted([short("orders", 9), *(short("__transaction_state", n, min_isr=2) for n in range(50))])
    assert (found.under_replicated, found.under_min_isr) == (51, 50)
    assert [one.is_under_min_isr for one in found.named] == [True] * NAMED_MAX + [False]
    assert found.named[-1].partition == TopicPartition("orders", 9)
