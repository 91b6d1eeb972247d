"""Promises of role news: each lead is told once when it begins and once when it ends, after the image, in order."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable

import pytest

from broker.replication.hosting.role_news import Lead
from metadata.records import PartitionChangeRecord, PartitionRecord, Record, RemoveTopicRecord, TopicRecord
from penstock.clock import ManualClock
from penstock.errors import CorruptFileError
from penstock.types import TopicPartition
from storage.log.group_commit import GroupCommit
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS, stop_wait
from tests.support.replicas import PublishedMetadata, Replicas
from tests.support.storage import open_manager

ME, OTHER = 1, 2
ID = "A" * 22
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Broker:
    """A publisher over real replicas, and a part that hears of its leads."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.fatal: list[BaseException] = []
        self.log_manager = open_manager(LosingFileSystem())
        self.group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        self.replicas = Replicas(
            ME, self.log_manager, self.group_commit, ManualClock(), self.fatal.append, role_listeners=(self,)
        )
        self.publish = PublishedMetadata(self.replicas, self.log_manager).publish
        self.publish(TopicRecord("t", ID), *(PartitionRecord(ID, n, (ME, OTHER), (ME, OTHER), ME) for n in range(2)))

    def began_to_lead(self, lead: Lead) -> None:
        led = [found.topic_partition for found in self.replicas.parts.hosted.all() if found.leading is not None]
        assert lead.partition.leading is not None and lead.partition.topic_partition in led
        self.heard.append(f"began {lead.partition.topic_partition} in {lead.leader_epoch}, of {len(led)}")

    def ceased_to_lead(self, lead: Lead) -> None:
        self.heard.append(f"ceased {lead.partition.topic_partition} in {lead.leader_epoch}")

    async def news(self) -> list[str]:
        """The news since the last call."""
        assert not self.replicas.parts.news.is_announced and self.heard == [], "only in a later turn of the loop"
        await asyncio.sleep(0)
        assert self.replicas.parts.news.is_announced
        heard, self.heard = self.heard, []
        return heard


def elected(leader: int, number: int = 0) -> Record:
    return PartitionChangeRecord(ID, number, leader_id=leader)


def run(scenario: Callable[[Broker], Awaitable[None]]) -> None:
    async def main() -> None:
        broker = Broker()
        assert await broker.news() == ["began t-0 in 0, of 2", "began t-1 in 0, of 2"], "after all roles of the image"
        await scenario(broker)
        assert not broker.fatal
        await broker.replicas.deletions.close(stop_wait())
        await broker.group_commit.close(stop_wait())

    asyncio.run(main())


def test_another_leads_and_then_this_broker_again() -> None:
    async def scenario(broker: Broker) -> None:
        broker.publish(elected(OTHER))
        assert await broker.news() == ["ceased t-0 in 0"]
        broker.publish(elected(ME))
        assert await broker.news() == ["began t-0 in 2, of 2"]

    run(scenario)


def test_a_newer_epoch_ends_the_lead_and_begins_another() -> None:
    async def scenario(broker: Broker) -> None:
        broker.publish(elected(ME, 1))
        assert await broker.news() == ["ceased t-1 in 0", "began t-1 in 1, of 2"]

    run(scenario)


def test_what_has_changed_twice_is_told_as_it_is_now() -> None:
    async def scenario(broker: Broker) -> None:
        broker.publish(elected(OTHER), elected(OTHER, 1))
        broker.publish(elected(ME))
        assert await broker.news() == ["ceased t-0 in 0", "began t-0 in 2, of 1", "ceased t-1 in 0"]

    run(scenario)


ENDS: dict[str, Callable[[Broker], object]] = {
    "the topic is deleted": lambda broker: broker.publish(RemoveTopicRecord(ID)),
    "the replicas are moved away": lambda broker: broker.publish(
        *(PartitionChangeRecord(ID, n, leader_id=OTHER, isr=(OTHER,), replicas=(OTHER,)) for n in range(2))
    ),
    "their log dir fails": lambda broker: broker.replicas.failures.directory_failed(
        broker.replicas.get(FIRST, ID).log.log_dir, OSError(errno.EIO, "EIO")
    ),
    "their logs rot": lambda broker: [
        broker.replicas.failures.partition_failed(broker.replicas.get(key, ID), CorruptFileError("0.log", 0, "rot"))
        for key in (FIRST, SECOND)
    ],
}


@pytest.mark.parametrize("why", ENDS)
def test_every_end_of_a_lead_is_told(why: str) -> None:
    async def scenario(broker: Broker) -> None:
        ENDS[why](broker)
        assert await broker.news() == ["ceased t-0 in 0", "ceased t-1 in 0"]
        assert broker.replicas.parts.news.led == {}

    run(scenario)


def test_a_topic_that_is_made_anew_is_another_lead() -> None:
    async def scenario(broker: Broker) -> None:
        again = "B" * 22
        broker.publish(
            RemoveTopicRecord(ID), TopicRecord("t", again), PartitionRecord(again, 0, (ME, OTHER), (ME, OTHER), ME)
        )
        before = await broker.news()
        await broker.replicas.logs_have_left()
        await asyncio.sleep(0)
        assert sorted([*before, *broker.heard]) == ["began t-0 in 0, of 1", "ceased t-0 in 0", "ceased t-1 in 0"]
        assert [lead.partition.topic_id for lead in broker.replicas.parts.news.led.values()] == [again]

    run(scenario)


def test_a_change_of_the_isr_is_no_news() -> None:
    async def scenario(broker: Broker) -> None:
        broker.publish(PartitionChangeRecord(ID, 0, isr=(ME,)))
        await asyncio.sleep(0)
        assert broker.heard == []

    run(scenario)


def test_the_isr_changes_of_a_lead_are_counted_after_its_topic_is_deleted() -> None:
    """A counter never falls: a scrape would take it for a restart."""

    async def scenario(broker: Broker) -> None:
        broker.publish(PartitionChangeRecord(ID, 0, isr=(ME,)))
        assert broker.replicas.statistics().isr_shrinks == 1
        broker.publish(RemoveTopicRecord(ID))
        assert (broker.replicas.statistics().isr_shrinks, broker.replicas.statistics().leaders) == (1, 0)
        await asyncio.sleep(0)

    run(scenario)
