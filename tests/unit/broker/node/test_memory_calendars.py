"""Three whole nodes in one simulated process: stamps of a leader whose calendar is wrong, and the records it takes."""

from __future__ import annotations

import asyncio

import pytest

from penstock import AsyncAdmin, AsyncProducer
from penstock.types import TopicPartition
from storage.append.batch_validation import whole_batches
from tests.simulation.cluster.loop import WALL_MS, MachineTime
from tests.support.amount import at_night, usually
from tests.support.memory_cluster import MemoryCluster, run_in_memory

PLACE = TopicPartition("t", 0)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def stamped(off_ms: int, stamps: str, *, from_the_start: bool, seed: int = 1) -> list[int]:
    """By so much the times of the record and of the marker of a transaction are ahead of the right time."""

    async def story(cluster: MemoryCluster) -> list[int]:
        clock = cluster.clocks[0] = MachineTime(cluster.memory.scheduler)
        if from_the_start:
            clock.set_calendar(off_ms)
        cluster.format()
        await cluster.start()
        if not from_the_start:
            await asyncio.sleep(1.0)
        clock.set_calendar(off_ms)
        clients = {"environment": cluster.clients()}
        async with AsyncAdmin(cluster.bootstrap(), **clients) as admin:
            config = {"message.timestamp.type": stamps}
            topic = await admin.create_topic("t", assignments=[[0, 1, 2]], config=config)
        async with (
            AsyncProducer(cluster.bootstrap(), transactional_id="t", **clients) as producer,
            producer.transaction() as transaction,
        ):
            await transaction.send("t", b"record")
        partition = cluster.nodes[0].log_manager.get(PLACE, topic.topic_id)
        assert partition is not None
        now_ms = cluster.clock.wall_ms()
        await asyncio.sleep(1.0)  # the marker follows the answer
        records = partition.reader.read(0, 1 << 20).records
        await cluster.stop()
        return [header.max_timestamp_ms - now_ms for _, header in whole_batches(records)]

    return run_in_memory(seed, story)


@pytest.mark.parametrize("off_ms", at_night([-WALL_MS, -30 * DAY_MS, -2 * HOUR_MS], [-30 * DAY_MS]))
@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("from_the_start", [True, False])
def test_a_leader_far_behind_takes_records_and_stamps_as_most_brokers(
    off_ms: int, stamps: str, from_the_start: bool
) -> None:
    """By its own calendar it would refuse the record with CreateTime as one of the future."""
    record, marker = stamped(off_ms, stamps, from_the_start=from_the_start)
    assert abs(record) < 1_000 and abs(marker) < 1_000


@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("seed", usually(range(1, 3), long=range(1, 9)))
def test_a_broker_that_has_just_started_leads_by_no_calendar_that_is_not_compared(stamps: str, seed: int) -> None:
    """Whichever of three is in service first: the topic is made as soon as all of them are."""
    record, marker = stamped(-WALL_MS, stamps, from_the_start=True, seed=seed)
    assert abs(record) < 1_000 and abs(marker) < 1_000


def test_a_leader_that_is_ahead_stamps_by_its_own_calendar() -> None:
    record, marker = stamped(DAY_MS, "LogAppendTime", from_the_start=True)
    assert abs(record - DAY_MS) < 1_000 and abs(marker - DAY_MS) < 1_000
