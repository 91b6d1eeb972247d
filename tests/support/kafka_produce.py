"""The way of a Produce request in Kafka's protocol to a real log, and of its answer back over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker.apis.producing.produce import ProduceApi
from broker.apis.producing.produce_conversion import ProduceConverter
from broker.kafka.apis.produce import produce_plan
from broker.kafka.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.network.request_channel import Request
from broker.replication.hosting.assignment import TopicSettings
from metadata.image import TopicImage
from penstock.errors import ApiError
from storage.log_config import LogConfig
from tests.support.kafka_plans import KAFKA_CALLER, OTHER, asked, parts_of, read_by_client
from tests.support.machine import NOW_NS, THREADS
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, state
from tests.support.sinks import WaitedSink
from tests.support.upkeep_stage import ME, Stage, stage
from tests.support.verification import Coordinators, held_by

VERSION: Final = 12
UNPACKED_BYTES_MAX: Final = 64 << 20
BOTH: Final = (ME, OTHER)


@dataclass
class Producing:
    """The way of a client's requests to the log."""

    at: Stage
    converter: ProduceConverter

    def __post_init__(self) -> None:
        self.parts: Any = parts_of(TopicImage(PARTITION.topic, TOPIC_ID, {0: state(ME)}))

    async def send(
        self, records: Any, acks: int = -1, version: int = VERSION, timeout_ms: int = 10_000, partition: int = 0
    ) -> Any:
        """The answer for one partition."""
        data = [PartitionProduceData(index=partition, records=records if records is None else memoryview(records))]
        topic = TopicProduceData(name="t", topic_id="", partition_data=data)
        body = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
        plan = produce_plan(self.parts)(asked(version), body)
        try:
            ask = next(plan)
            request = Request(ask.api, ask.body, WaitedSink(), KAFKA_CALLER, NOW_NS)
            preparing = self.converter.begin(request)
            if preparing is not None:
                await preparing
            await self._handle(request)
            plan.send(request.response) if request.error is None else plan.throw(request.error)
        except StopIteration as end:
            if end.value is None:
                return None
            ((part,),) = [one.partition_responses for one in read_by_client(end.value, version).responses]
            return part

    async def _handle(self, request: Request) -> None:
        parts, sink = self.at.replicas.parts, request.sink
        assert isinstance(sink, WaitedSink)
        api = ProduceApi(parts.hosted, parts.durability, parts.traffic, self.at.clock, held_by(Coordinators()))
        try:
            api.handle(request, request.body)  # type: ignore[arg-type]
        except ApiError as error:
            request.fail(error)
        await asyncio.wait_for(sink.answered.wait(), 10)

    def lead(
        self, isr: tuple[int, ...] = (ME,), min_isr: int = 1, epoch: int = 2, config: LogConfig | None = None
    ) -> None:
        settings = TopicSettings(config or LogConfig(), min_isr)
        self.at.replicas.apply(PARTITION, TOPIC_ID, state(ME, 5, epoch, isr, BOTH), settings, NOBODY)

    @property
    def end(self) -> int:
        return self.at.partition.log.log_end_offset


def run_story(path: Path, story: Callable[[Producing], Awaitable[None]], config: LogConfig | None = None) -> None:
    async def main() -> None:
        async with stage(path, config or LogConfig()) as at:
            converter = ProduceConverter(
                at.replicas.parts.hosted.find,
                at.clock,
                THREADS.executor("produce-conversion", 2),
                2,
                UNPACKED_BYTES_MAX,
            )
            try:
                await story(Producing(at, converter))
            finally:
                converter.close()

    asyncio.run(main())
