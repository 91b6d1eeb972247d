"""Promises of a broker's standing: a partition that it should lead and cannot is named, with what can be done."""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker.node.registration.own_status import stalled_partitions, unserved_partitions
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.lost_replicas import LostReplicas
from metadata.image import MetadataImage, TopicImage
from metadata.records import PartitionRecord, TopicRecord
from metadata.registrations import PartitionRegistration
from penstock.clock import ManualClock
from penstock.errors import CorruptFileError
from penstock.messages.cluster import PartitionTroubleKind
from penstock.types import NO_LEADER, TopicPartition
from storage.log.group_commit import GroupCommit
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.machine import THREADS, stop_wait
from tests.support.replicas import PublishedMetadata, Replicas
from tests.support.storage import NOW_MS, batch, open_manager

ME, OTHER = 3, 1
ROT = CorruptFileError("/d/t-0/00000000000000000000.log", 17, "the checksum is wrong")


def test_of_the_lost_replicas_those_count_that_this_broker_should_lead() -> None:
    lost = LostReplicas(HostedPartitions(ME))
    leaders = {0: ME, 1: OTHER, 2: NO_LEADER}
    partitions = {n: PartitionRegistration("id", n, (ME, OTHER), (ME,), leader, 5, 9) for n, leader in leaders.items()}
    topic = TopicImage("t", "id", partitions)
    for number in (*leaders, 7):  # 7 is deleted by the metadata already
        lost.found(TopicPartition("t", number), ROT)
    (found,) = unserved_partitions(lost, MetadataImage(4, topics_by_id={"id": topic}, topics_by_name={"t": topic}))
    assert (found.topic, found.partition, found.kind) == ("t", 0, PartitionTroubleKind.UNSERVED)
    assert (found.replicas, found.in_sync) == ((ME, OTHER), (ME,))
    assert "the checksum is wrong" in found.reason and "this broker has to register anew" in found.reason


def test_a_led_partition_with_records_that_wait_for_a_silent_disk_is_stalled(tmp_path: Path) -> None:
    async def scenario() -> None:
        fs = FaultyFileSystem()
        log_manager = open_manager(fs, (str(tmp_path / "a"), str(tmp_path / "b")))
        group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        replicas = Replicas(ME, log_manager, group_commit, ManualClock())
        numbers = range(4)
        parts = (PartitionRecord("A" * 22, n, (ME,), (ME,), ME if n < 3 else NO_LEADER) for n in numbers)
        PublishedMetadata(replicas, log_manager).publish(TopicRecord("t", "A" * 22), *parts)
        silent = str(tmp_path / "a")
        led = [replicas.find(TopicPartition("t", n)) for n in numbers]
        assert [partition.log.log_dir == silent for partition in led if partition] == [True, False, True, False]
        hosted = replicas.parts.hosted.all()
        assert not stalled_partitions(hosted, (silent,)), "nothing waits"
        for partition in hosted[:3]:
            partition.log.append.as_leader(batch(b"value"), 0, NOW_MS)
        assert {p.topic_partition.partition for p in stalled_partitions(hosted, (silent,))[silent]} == {0, 2}
        assert not stalled_partitions(hosted, ())
        await group_commit.close(stop_wait())
        log_manager.close()

    asyncio.run(scenario())
