"""The event loop looks at the records of one request for a short while, however many partitions the request has."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from broker.apis.producing.produce_conversion import LOOK_NS, ProduceConverter
from broker.network.request_channel import Request
from penstock.clock import ManualClock
from penstock.messages.produce import PartitionRecords, ProduceRequest
from penstock.record.batch import HEADER_BYTES, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from storage.append.key_validation import LOOP_BYTES_MAX
from storage.log_config import LogConfig
from tests.support.machine import NOW_NS, THREADS
from tests.support.partitions import TOPIC_ID, make_partition, state
from tests.support.sinks import CALLER, Sink

PARTITION = TopicPartition("plain", 0)
T = 1_700_000_000_000
BATCH = build_batch([b"a", b"bb", b"ccc"], keys=[b"k"] * 3, timestamps_ms=T)


class Slow(ManualClock):
    """Each look takes a third of the time."""

    looks = 0

    def now_ns(self) -> int:
        self.looks += 1
        return self.looks * LOOK_NS // 3


def converted(path: Path, config: LogConfig, *batches: bytes) -> list[int]:
    """The places of those that were looked at, or left to the append, on the event loop. All are marked at the end."""
    partition = make_partition(path)
    partition.log.update_config(config)
    partition.become_leader(state(isr=(1,)), 0)
    converter = ProduceConverter(lambda key: partition, Slow(), THREADS.executor("produce-conversion", 2), 2, 1 << 20)
    body = ProduceRequest(1, 60_000, [PartitionRecords(PARTITION, TOPIC_ID, batch) for batch in batches])
    at_work: list[int] = []
    run = converter._run

    def runs(work: Any, now_ms: int) -> Any:
        at_work.extend(one.index for one in work)
        return run(work, now_ms)

    async def scenario() -> None:
        converter._run = runs  # type: ignore[method-assign]
        begun = converter.begin(Request("Produce", body, Sink(), CALLER, NOW_NS))
        assert begun is not None
        await begun

    asyncio.run(scenario())
    converter.close()
    for part in body.partitions:
        assert read_header(part.records).max_timestamp_ms == T and part.records[HEADER_BYTES:] == BATCH[HEADER_BYTES:]
    return [index for index in range(len(batches)) if index not in at_work]


def test_a_thread_looks_at_what_the_loop_has_no_time_for(tmp_path: Path) -> None:
    assert converted(tmp_path, LogConfig(), *[BATCH] * 20) == [0, 1]


def test_a_thread_sets_the_times_that_the_loop_has_no_time_for(tmp_path: Path) -> None:
    wrong = pack_batch(read_header(BATCH)._replace(max_timestamp_ms=T - 1), BATCH[HEADER_BYTES:])
    assert converted(tmp_path, LogConfig(), *[wrong] * 20) == [0, 1]


def test_a_thread_looks_for_keys_where_a_request_has_many_small_batches(tmp_path: Path) -> None:
    on_the_loop = converted(tmp_path, LogConfig(cleanup_policy="compact"), *[BATCH] * 500)
    assert on_the_loop == list(range(LOOP_BYTES_MAX // len(BATCH)))
