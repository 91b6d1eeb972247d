"""Which replicas and votes of a node keep another one from stopping."""

from __future__ import annotations

from broker.node.sync_checks import replicas_missing, vote_missing
from metadata.image import MetadataImage, TopicImage
from metadata.registrations import PartitionRegistration
from tests.support.voters import disk_of, voters_of, voters_on_disks


def partition(number: int, isr: tuple[int, ...], leader_id: int = 1, **more: tuple[int, ...]) -> PartitionRegistration:
    replicas = more.pop("replicas", (1, 2, 3))
    return PartitionRegistration("t" * 22, number, replicas, isr, leader_id, 0, 0, **more)  # type: ignore[arg-type]


def image(*partitions: PartitionRegistration) -> MetadataImage:
    topic = TopicImage("orders", "t" * 22, {each.partition: each for each in partitions})
    return MetadataImage(topics_by_id={topic.topic_id: topic}, topics_by_name={topic.name: topic})


def test_a_replica_out_of_the_isr_is_missing_for_its_broker_alone() -> None:
    found = image(partition(0, (1, 2, 3)), partition(1, (1, 2)))
    assert replicas_missing(found, 3) == "1 of 2 replicas are not in sync yet: orders-1"
    assert replicas_missing(found, 1) == replicas_missing(found, 2) == replicas_missing(found, 4) == ""


def test_many_are_counted_and_three_are_named() -> None:
    found = image(*(partition(number, (1,)) for number in range(12)))
    text = "12 of 12 replicas are not in sync yet: orders-0, orders-1, orders-2, …"
    assert replicas_missing(found, 2) == text


def test_a_replica_that_a_reassignment_brings_is_not_waited_for() -> None:
    found = image(partition(0, (1, 2), replicas=(1, 2, 3), adding_replicas=(3,)))
    assert replicas_missing(found, 3) == ""


def test_a_partition_without_a_leader_is_not_waited_for() -> None:
    assert replicas_missing(image(partition(0, (1,), leader_id=-1)), 2) == ""


def test_a_voter_is_its_disk() -> None:
    voters = voters_on_disks(1, 2)
    assert vote_missing(voters, 1, disk_of(1) or "") == ""
    assert vote_missing(voters, 3, "d" * 22) == f"controller 3 is not a voter yet, with the disk {'d' * 22}"
    assert vote_missing(voters, 1, "d" * 22) != "", "the same id on another disk"
    assert vote_missing(voters_of(1), 1, "d" * 22) == "", "a static quorum knows no disks"
