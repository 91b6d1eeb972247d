"""The ports of a fetcher: the stream to its source, its node, and a counter of its time on the event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from broker.replication.partition import Partition
from penstock.errors import ApiError
from penstock.messages.fetch import FetchRequest, FetchResponse
from penstock.types import TopicPartition

Timed = Callable[[Coroutine[Any, Any, None]], Coroutine[Any, Any, None]]
"""Counts what a coroutine occupies of the event loop."""


class ReplicaFetchStream(Protocol):
    """One bidirectional fetch stream to a source broker; see grpc/outgoing_calls.py."""

    def send(self, correlation_id: int, request: FetchRequest) -> None:
        """Queue a request; does not wait."""
        ...

    async def receive(self) -> tuple[int, FetchResponse]:
        """The number of a request, and its answer; NetworkError when the stream broke."""
        ...

    def cancel(self) -> None: ...


class FetcherNode(Protocol):
    """The node, as a fetcher uses it; see `broker/node/parts/replication.py`."""

    @property
    def broker_epoch(self) -> int: ...

    def find(self, partition: TopicPartition) -> Partition | None: ...

    def request_flush(self, partition: Partition) -> None: ...

    def expect_cut(self, partition: Partition, offset: int, is_wanted: Callable[[], bool]) -> None:
        """The partition's log will be cut at `offset`, unless that is not wanted any more: the cuts of one fetch answer
        then share the write of each checkpoint of a log dir."""
        ...

    def when_disk_answers(
        self, partition: Partition, then: Callable[[BaseException | None], None], work: Callable[[], object] | None
    ) -> None:
        """`then` on the loop, once the partition's log dir has shown that it takes a sync, and a thread has done `work`
        after that; with what either raised."""
        ...

    def make_log_start_durable(self, partition: Partition, done: Callable[[ApiError | None], None]) -> None: ...
