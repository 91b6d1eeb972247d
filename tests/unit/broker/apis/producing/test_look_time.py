"""The event loop looks at the records of one request for a short while, however many partitions the request has."""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker.apis.producing.produce_conversion import LOOK_NS, ProduceConverter
from broker.network.request_channel import Request
from penstock.clock import ManualClock
from penstock.messages.produce import PartitionRecords, ProduceRequest
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from storage.append.record_validation import ReadableRecords
from tests.support.machine import NOW_NS, THREADS
from tests.support.partitions import TOPIC_ID, make_partition, state
from tests.support.sinks import CALLER, Sink

PARTITION = TopicPartition("plain", 0)
BATCH = build_batch([b"a", b"bb", b"ccc"], timestamps_ms=1_700_000_000_000)


class Slow(ManualClock):
    """Each look takes a third of the time."""

    looks = 0

    def now_ns(self) -> int:
        self.looks += 1
        return self.looks * LOOK_NS // 3


def test_a_thread_looks_at_what_the_loop_has_no_time_for(tmp_path: Path) -> None:
    partition = make_partition(tmp_path)
    partition.become_leader(state(isr=(1,)), 0)
    executor = THREADS.executor("produce-conversion", 2)
    converter = ProduceConverter(lambda key: partition, Slow(), executor, 2, 1 << 20)
    body = ProduceRequest(1, 60_000, [PartitionRecords(PARTITION, TOPIC_ID, BATCH) for _ in range(20)])

    async def scenario() -> int:
        begun = converter.begin(Request("Produce", body, Sink(), CALLER, NOW_NS))
        at_once = sum(isinstance(part.records, ReadableRecords) for part in body.partitions)
        assert begun is not None
        await begun
        return at_once

    assert asyncio.run(scenario()) == 2
    assert all(isinstance(part.records, ReadableRecords) and part.records == BATCH for part in body.partitions)
    converter.close()
