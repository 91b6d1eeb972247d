"""Promises of a broker's standing: a partition that it should lead and cannot is named, with what can be done."""

from __future__ import annotations

from broker.node.own_standing import unserved_partitions
from broker.replication.lost_replicas import LostReplicas
from broker.requests import PartitionTroubleKind
from metadata.image import MetadataImage, TopicImage
from metadata.registrations import PartitionRegistration
from penstock.errors import CorruptFileError
from penstock.types import NO_LEADER, TopicPartition

ME, OTHER = 3, 1
ROT = CorruptFileError("/d/t-0/00000000000000000000.log", 17, "the checksum is wrong")


def test_of_the_lost_replicas_those_count_that_this_broker_should_lead() -> None:
    lost = LostReplicas(ME)
    leaders = {0: ME, 1: OTHER, 2: NO_LEADER}
    partitions = {n: PartitionRegistration("id", n, (ME, OTHER), (ME,), leader, 5, 9) for n, leader in leaders.items()}
    topic = TopicImage("t", "id", partitions)
    for number in (*leaders, 7):  # 7 is deleted by the metadata already
        lost.found(TopicPartition("t", number), ROT)
    (found,) = unserved_partitions(lost, MetadataImage(4, topics_by_id={"id": topic}, topics_by_name={"t": topic}))
    assert (found.partition, found.kind) == (TopicPartition("t", 0), PartitionTroubleKind.UNSERVED)
    assert (found.replicas, found.in_sync) == ((ME, OTHER), (ME,))
    assert "the checksum is wrong" in found.reason and "this broker has to register anew" in found.reason
