"""A fetcher and its session on a leader of one partition: sends requests, keeps the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from broker.apis.fetch_sessions.fetch_session import FetchSession, SessionMemory
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from broker.network.request_ports import TopicRights
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import NO_REPORTS, Partition, PartitionReports
from broker.replication.read_replicas import ReadReplicas
from penstock.clock import ManualClock
from penstock.errors import UnknownTopicIdError
from penstock.messages.fetch import FetchPartition, FetchRequest, FetchResponse
from penstock.types import TopicPartition
from tests.support.machine import NOW_NS
from tests.support.memory import unlimited
from tests.support.partitions import PARTITION, TOPIC_ID, batch, make_partition, state
from tests.support.readers import leaders_alone
from tests.support.sinks import CALLER
from tests.support.stepped_io import SteppedIo

WALL_MS = 1_700_000_000_000
LONG_WAIT_MS = 600_000


class Fetcher:
    """The other end of a fetch session, which is a stream's or one that outlives its answers."""

    def __init__(
        self,
        partition: Partition,
        memory: SessionMemory | None = None,
        *,
        is_stream: bool = True,
        readers: ReadReplicas | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self.bytes_out: list[tuple[int, bool]] = []
        self.hosted = {PARTITION: partition}
        self.answers: list[FetchResponse] = []
        self.written: list[Request] = []
        self.rights: TopicRights | None = None
        self.session = FetchSession(
            self.get,
            clock or ManualClock(),
            1 << 20,
            lambda results, size, is_replica: self.bytes_out.append((size, is_replica)),
            memory or unlimited(),
            FailedRequests(pytest.fail).fail,
            SteppedIo(),
            MoveThrottle(),
            readers or leaders_alone(),
            is_stream=is_stream,
        )

    def get(self, key: TopicPartition, topic_id: str) -> Partition:
        found = self.hosted.get(key)
        if found is None or found.topic_id != topic_id:
            raise UnknownTopicIdError(f"no {key} of {topic_id}")
        return found

    def response_ready(self, request: Request) -> None:
        self.written.append(request)
        if request.error is None:
            assert isinstance(request.response, FetchResponse)
            self.answers.append(request.response)

    def ask(
        self,
        *wanted: FetchPartition,
        replica_id: int = -1,
        wait_ms: int = LONG_WAIT_MS,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        broker_epoch: int = 102,
        forgotten: Sequence[TopicPartition] = (),
        is_full: bool = False,
        read_committed: bool = False,
        rack_id: str = "",
    ) -> Request:
        body = FetchRequest(
            replica_id,
            broker_epoch,
            wait_ms,
            min_bytes,
            max_bytes,
            list(wanted),
            forgotten,
            is_full=is_full,
            read_committed=read_committed,
            rack_id=rack_id,
        )
        request = Request("Fetch", body, self, CALLER, NOW_NS)
        request.rights = self.rights
        self.session.handle(request, body)
        return request


def at(offset: int, epoch: int = 5, last_epoch: int = -1, topic_id: str = TOPIC_ID) -> FetchPartition:
    return FetchPartition(PARTITION, topic_id, offset, epoch, last_epoch)


def run(
    path: Path,
    scenario: Callable[[Partition, Fetcher], Awaitable[None]],
    isr: tuple[int, ...] = (1,),
    reports: PartitionReports = NO_REPORTS,
    *,
    is_stream: bool = True,
) -> None:
    async def main() -> None:
        partition = make_partition(path, reports=reports)
        partition.become_leader(state(isr=isr), 0)
        fetcher = Fetcher(partition, is_stream=is_stream)
        await scenario(partition, fetcher)
        fetcher.session.close()
        assert not partition.watchers, "a closed session still watches"

    asyncio.run(main())


def produce(partition: Partition, *values: bytes) -> None:
    partition.append_as_leader(batch(*values), -1, 0, WALL_MS)
