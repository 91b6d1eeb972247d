"""Gives producer ids to the requests for them, and asks the controller for blocks: the driver of id_blocks.py.

One call to the controller is under way at a time (broker/call_queue.py). Requests without an id wait meanwhile. Belongs
to the event loop. Not here: finding the controller (broker/quorum/controller_channel.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random

from broker.call_queue import CallQueue
from broker.producer_ids.id_blocks import ProducerIdBlocks, ProducerIdStatistics
from penstock.backoff import Backoff
from penstock.clock import Clock
from penstock.errors import ApiError
from penstock.messages.produce import AllocateProducerIdsRequest, AllocateProducerIdsResponse

_log = logging.getLogger(__name__)

RETRY_MS = 50
RETRY_MS_MAX = 1_000

Answer = Callable[[int | ApiError], None]
"""Takes the id, or the error for which none was given; called once, on the loop."""


class ProducerIdManager:
    """Gives producer ids. There is one per broker."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        call: Callable[[AllocateProducerIdsRequest], Awaitable[AllocateProducerIdsResponse]],
        clock: Clock,
        on_fatal: Callable[[BaseException], None],
        random: Random,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._blocks: ProducerIdBlocks[Answer] = ProducerIdBlocks()
        self._timer: asyncio.TimerHandle | None = None
        self._calls = CallQueue("producer-ids", self, call, Backoff(RETRY_MS, RETRY_MS_MAX, random), on_fatal)

    def start(self) -> None:
        self._calls.start()

    async def stop(self) -> None:
        """Requests that wait get no answer: the listeners are closed by then."""
        if self._timer is not None:
            self._timer.cancel()
        await self._calls.stop()

    def request(self, answer: Answer) -> None:
        """Gives `answer` an id, now or once there is a block; ResourceExhaustedError if too many wait already."""
        producer_id = self._blocks.request(answer, self._clock.now_ms())
        if self._blocks.wants_block:
            self._calls.wake()
        if producer_id is not None:
            answer(producer_id)
        elif self._timer is None:
            self._wait_for_deadline()

    def next_request(self) -> AllocateProducerIdsRequest | None:
        return AllocateProducerIdsRequest(self._broker_id, self._broker_epoch()) if self._blocks.wants_block else None

    def failed(self, error: ApiError, attempt: int) -> None:
        if attempt == 1:
            _log.warning("no block of producer ids: %s; retrying", error)
        self._blocks.block_refused(error)

    def answered(self, block: AllocateProducerIdsResponse, attempt: int) -> bool:
        try:
            given = self._blocks.block_came(block.first_producer_id, block.count)
        except ApiError as error:
            self.failed(error, attempt)
            return False
        for answer, producer_id in given:
            answer(producer_id)
        return True

    def _wait_for_deadline(self) -> None:
        deadline_ms = self._blocks.next_deadline_ms
        self._timer = None
        if deadline_ms is not None:
            left_ms = max(deadline_ms - self._clock.now_ms(), 1)
            self._timer = asyncio.get_running_loop().call_later(left_ms / 1000, self._time_up)

    def _time_up(self) -> None:
        for answer, error in self._blocks.expired(self._clock.now_ms()):
            answer(error)
        self._wait_for_deadline()

    def statistics(self) -> ProducerIdStatistics:
        """May be called in any thread."""
        return self._blocks.statistics()

    def __repr__(self) -> str:
        return f"ProducerIdManager({self._blocks!r})"
