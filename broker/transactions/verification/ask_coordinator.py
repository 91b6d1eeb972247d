"""The way to the coordinators of transactions: which broker has one, and how it is asked, also if it is this one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from broker.coordination.partition_of import partition_of
from broker.network.failed_requests import FailRequest
from broker.network.request_channel import Caller, Request
from metadata.image import MetadataImage
from metadata.internal_topics import TRANSACTION_STATE
from penstock.errors import CoordinatorNotAvailableError, RequestTimedOutError
from penstock.messages.transactions.transaction_apis import ADD_PARTITIONS_TO_TXN
from penstock.types import NO_LEADER, Endpoint

_THIS_BROKER: Final = Caller(Endpoint("localhost", 0))


class ImageCoordinators:
    """Finds them by the metadata that this broker has."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def coordinator_of(self, transactional_id: str) -> tuple[int, int]:
        """The partition of the transactions' topic, and the broker that leads it; CoordinatorNotAvailableError if there
        is none now."""
        image = self._image()
        topic = image.topic(TRANSACTION_STATE)
        if topic is None:
            raise CoordinatorNotAvailableError(f"{TRANSACTION_STATE} is not there: no transaction can have begun")
        number = partition_of(transactional_id, len(topic.partitions))
        state = image.partition(TRANSACTION_STATE, number)
        if state is None or state.leader_id == NO_LEADER:
            raise CoordinatorNotAvailableError(f"{TRANSACTION_STATE}-{number} has no leader now")
        return number, state.leader_id


class AskCoordinator:
    """Asks a broker by `call_broker`, and this one by its own handler."""

    def __init__(
        self,
        broker_id: int,
        call_broker: Callable[[int, Any, int], Awaitable[Any]],
        handle: Callable[[Request], None],
        fail: FailRequest,
        now_ns: Callable[[], int],
    ) -> None:
        """`handle` is this broker's own coordinator, `fail` answers a request that it fails to handle."""
        self._broker_id, self._call_broker, self._now_ns = broker_id, call_broker, now_ns
        self._handle, self._fail = handle, fail

    async def __call__(self, broker_id: int, body: Any, timeout_ms: int) -> Any:
        """The answer to AddPartitionsToTxn; ApiError without one."""
        if broker_id != self._broker_id:
            return await self._call_broker(broker_id, body, timeout_ms)
        sink = _OneAnswer()
        request = Request(ADD_PARTITIONS_TO_TXN.name, body, sink, _THIS_BROKER, self._now_ns)
        try:
            self._handle(request)
        except Exception as error:
            self._fail(request, error)
        try:
            await asyncio.wait_for(sink.answered.wait(), timeout_ms / 1000)
        except TimeoutError:
            request.abandoned()
            raise RequestTimedOutError(f"this broker's coordinator has not answered within {timeout_ms} ms") from None
        except asyncio.CancelledError:
            request.abandoned()
            raise
        if request.error is not None:
            raise request.error
        return request.response


class _OneAnswer:
    """The sink of one request (`ResponseSink`)."""

    def __init__(self) -> None:
        self.answered = asyncio.Event()

    def response_ready(self, request: Request) -> None:
        self.answered.set()

    def part_ready(self, request: Request) -> None:
        """It has no parts."""
