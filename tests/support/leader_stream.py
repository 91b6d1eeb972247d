"""A leader's side of a fetch stream over real logs, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from penstock.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionFetchResult
from penstock.types import TopicPartition
from storage.log.log import Log
from tests.support.virtual_time import virtual_clock


async def until(holds: Callable[[], bool]) -> None:
    """Waits in virtual time until `holds()`."""
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


class LeaderStream:
    """A leader's side of a stream over real logs: a session, whose answers wait until there is something to send."""

    def __init__(self, logs: dict[TopicPartition, Log]) -> None:
        self.logs = logs
        self.acked: dict[TopicPartition, int] = {}
        self.sent: Counter[TopicPartition] = Counter()
        self._session: dict[TopicPartition, FetchPartition] = {}
        self._sent: dict[TopicPartition, int] = {}
        self._requests: asyncio.Queue[tuple[int, FetchRequest]] = asyncio.Queue()

    def send(self, correlation_id: int, request: FetchRequest) -> None:
        self.acked |= {wanted.partition: wanted.fetch_offset for wanted in request.partitions}
        self._requests.put_nowait((correlation_id, request))

    async def receive(self) -> tuple[int, FetchResponse]:
        number, request = await self._requests.get()
        for forgotten in request.forgotten:
            self._session.pop(forgotten, None)
        for wanted in request.partitions:
            self._session[wanted.partition] = wanted
            self._sent.pop(wanted.partition, None)
        late_ms = virtual_clock().now_ms() + request.max_wait_ms
        await until(lambda: self._is_due() or not self._requests.empty() or virtual_clock().now_ms() >= late_ms)
        return number, FetchResponse(self._new())

    def _is_due(self) -> bool:
        ends = {key: self.logs[key].log_end_offset for key in self._session}
        return any(ends[key] not in (at.fetch_offset, self._sent.get(key)) for key, at in self._session.items())

    def _new(self) -> list[PartitionFetchResult]:
        found = []
        for key, wanted in self._session.items():
            end = self.logs[key].log_end_offset
            if end not in (wanted.fetch_offset, self._sent.get(key)):
                self._sent[key] = end
                self.sent[key] += 1
                records = self.logs[key].reader.read(wanted.fetch_offset, 1 << 20).records
                found.append(PartitionFetchResult(key, wanted.topic_id, wanted.fetch_offset, None, end, 0, records))
        return found

    def cancel(self) -> None:
        """Does nothing: the stream holds nothing open."""
