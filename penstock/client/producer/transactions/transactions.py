"""The calls of a transactional producer: its coordinator, the flush before an end, and callers that wait.

The first use asks for the producer's id and epoch, which fences older instances (InitProducerId). An end is a task of
its own: it goes on when the caller that waits is interrupted or out of time, and asks until it is known how the
transaction ended. A later call waits for the same end. One call at a time: another thread's is refused.

Works on one event loop. Not here: what may be called and what answers mean (transaction_core.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.coordinators import Coordinators
from penstock.client.cluster.group_positions import GroupPositions
from penstock.client.options.config import ProducerConfig
from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.sending.sender import Sender
from penstock.client.producer.transactions.offset_commits import TransactionOffsets
from penstock.client.producer.transactions.transaction_core import Phase, TransactionCore
from penstock.client.producer.transactions.whole_flush import flush_whole
from penstock.errors import (
    ClientClosedError,
    PenstockError,
    TimedOutError,
    TransactionAbortedError,
    TransactionStateError,
    UnknownServerError,
)
from penstock.messages.client_apis import INIT_PRODUCER_ID
from penstock.messages.groups.coordinators import CoordinatorType
from penstock.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from penstock.messages.transactions.producers import EndTxnRequest, EndTxnResponse
from penstock.messages.transactions.transaction_apis import END_TXN
from penstock.types import PRODUCER_EPOCH_MAX, ProducerIdAndEpoch

_log = logging.getLogger(__name__)


class Opening:
    """The caller that begins a transaction; one that was interrupted meanwhile does not get it."""

    __slots__ = ("is_left",)

    def __init__(self) -> None:
        self.is_left = False


class Transactions:
    """The transactions of one producer."""

    def __init__(
        self,
        core: TransactionCore,
        config: ProducerConfig,
        cluster: ClusterClient,
        accumulator: Accumulator,
        sender: Sender,
    ) -> None:
        self._core = core
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._sender = sender
        self._coordinators = Coordinators(cluster, CoordinatorType.TRANSACTION)
        self._offsets = TransactionOffsets(core.transactional_id, cluster)
        self._sent_positions: list[GroupPositions] = []
        """Positions of consumers that the open transaction commits."""
        self._ending: asyncio.Task[bool] | None = None
        self._waiters = 0  # for the end
        self._closed = False
        self._opening: Opening | None = None
        self._caller: tuple[str, asyncio.Task[None] | None, asyncio.Event] | None = None

    @asynccontextmanager
    async def _alone(self, call: str) -> AsyncIterator[int]:
        """Refuses a second caller; waits for one that was interrupted, and is about to end. Gives the deadline."""
        while self._caller is not None:
            other, task, over = self._caller
            if task is None or not task.cancelling():
                raise TransactionStateError(
                    f"{call} was called while {other} is under way: one thread begins and ends transactions"
                )
            await over.wait()
        over = asyncio.Event()
        self._caller = (call, asyncio.current_task(), over)
        try:
            yield self._cluster.clock.now_ms() + self._config.max_block_ms
        finally:
            self._caller = None
            over.set()

    # -- begin ---------------------------------------------------------------------------------------------------------

    async def begin(self, opening: Opening) -> None:
        """A transaction is open; the first one asks for the producer's id."""
        async with self._alone("begin_transaction") as deadline_ms:
            if self._core.phase is Phase.ABORTING:  # nobody waited for its end
                await self._wait_ended("the abort of the last transaction")
            if self._core.phase is Phase.NEW:
                await self._initialize(deadline_ms)
            if not opening.is_left:
                self._core.begin()
                self._opening = opening

    async def _initialize(self, deadline_ms: int) -> None:
        core, config = self._core, self._config
        request = InitProducerIdRequest(core.transactional_id, config.transaction_timeout_ms)
        try:
            await self._cluster.wait_ready()
            answer = await self._coordinators.ask(INIT_PRODUCER_ID, request, deadline_ms)
        except PenstockError as error:
            raise core.on_not_initialized(error) from error
        if answer.producer_id < 0 or not 0 <= answer.producer_epoch <= PRODUCER_EPOCH_MAX:
            given = f"producer id {answer.producer_id} in epoch {answer.producer_epoch}"
            raise core.on_not_initialized(UnknownServerError(f"the coordinator answered with {given}"))
        identity = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        core.on_initialized(identity)
        self._sender.on_producer_id(identity)

    # -- offsets -------------------------------------------------------------------------------------------------------

    async def send_offsets(self, positions: GroupPositions) -> None:
        """The offsets are committed with the transaction, or with it they are not."""
        async with self._alone("send_offsets") as deadline_ms:
            core = self._core
            core.must_take_records()
            if not positions.partitions or core.identity is None:
                return
            core.on_sent()
            self._sent_positions.append(positions)
            try:
                await self._offsets.commit(positions, core.identity, deadline_ms)
            except BaseException as error:
                interrupted = TimedOutError("send_offsets was interrupted: the group may have the offsets, or not")
                self.offsets_failed(error if isinstance(error, PenstockError) else interrupted)
                if isinstance(error, PenstockError):
                    core.must_take_records()
                raise

    def offsets_failed(self, error: PenstockError) -> None:
        """The open transaction lacks positions of what it was made of: it can only be aborted. In any thread."""
        self._core.on_failed(error)
        self._sender.wake()

    # -- end -----------------------------------------------------------------------------------------------------------

    async def commit(self) -> None:
        async with self._alone("commit_transaction"):
            if self._core.begin_commit() and not await self._wait_ended("the commit"):
                raise TransactionAbortedError("the transaction was aborted before it could be committed: by a close")

    async def abort(self) -> None:
        async with self._alone("abort_transaction"):
            self._core.begin_abort()
            await self._wait_ended("the abort")

    def leave(self, opening: Opening | None) -> None:
        """The caller of a block was interrupted: what is not decided yet is aborted, and nobody waits for it. Nothing
        if the open transaction is another's."""
        if (
            opening is self._opening
            and self._core.phase in (Phase.OPEN, Phase.FLUSHING)
            and not self._core.unreported_commit
        ):
            self._core.begin_abort()
            self._begin_end()

    def _begin_end(self) -> asyncio.Task[bool]:
        self._sender.wake()
        if self._ending is None or self._ending.done():
            self._ending = asyncio.ensure_future(self._end())
            self._ending.add_done_callback(_seen)
        return self._ending

    async def _wait_ended(self, what: str) -> bool:
        """True if it is committed. Waits for `max_block_ms`; what is under way goes on after that."""
        ending = self._begin_end()
        self._waiters += 1
        try:
            await asyncio.wait((ending,), timeout=self._config.max_block_ms / 1000)
        finally:
            self._waiters -= 1
        unknown = f"transactional id {self._core.transactional_id!r}: {what} is not known to be done"
        if self._closed:
            raise ClientClosedError(f"{unknown}, and the producer was closed")
        if not ending.done() or ending.cancelled():  # the program may cancel all tasks of its loop
            raise TimedOutError(
                f"{unknown} after max_block_ms={self._config.max_block_ms}; it goes on, and the same call waits for it"
                " again"
            )
        return ending.result()

    async def _end(self) -> bool:
        await flush_whole(self._accumulator, self._sender)
        answer = await self._answer() if self._core.on_flushed() else None
        is_committed = self._core.on_ended(answer, is_awaited=self._waiters > 0)
        if answer is not None and self._core.identity is not None:
            self._sender.on_producer_id(self._core.identity)
        sent, self._sent_positions = self._sent_positions, []
        if is_committed:  # BEFORE the program goes on: it may seek to what is committed
            for positions in sent:
                positions.on_committed(self._offsets.coordinator_of(positions.group_id))
        return is_committed

    async def _answer(self) -> EndTxnResponse | InitProducerIdResponse:
        """The coordinator's answer, however long it takes: only a close, or an error that is final, ends it."""
        attempt = 0
        while True:
            attempt += 1
            try:
                deadline_ms = self._cluster.clock.now_ms() + self._config.request_timeout_ms
                question = self._core.question(self._config.transaction_timeout_ms)
                if isinstance(question, EndTxnRequest):
                    return await self._coordinators.ask(END_TXN, question, deadline_ms)
                return await self._coordinators.ask(INIT_PRODUCER_ID, question, deadline_ms)
            except PenstockError as error:
                self._core.on_not_ended(error)
                _log.debug("transactional id %r: its end is asked for again: %s", self._core.transactional_id, error)
            await asyncio.sleep(max(self._cluster.backoff.wait_ms(attempt), 1) / 1000)

    # -- close ---------------------------------------------------------------------------------------------------------

    async def close(self, timeout: float | None = None) -> None:
        """Closes the producer. An open transaction is aborted. A commit or abort under way is waited for, at most
        `timeout` seconds (None: `max_block_ms`)."""
        self.leave(self._opening)
        if self._core.phase in (Phase.COMMITTING, Phase.ABORTING):
            limit = self._config.max_block_ms / 1000 if timeout is None else max(timeout, 0)
            ending = self._begin_end()
            await asyncio.wait((ending,), timeout=limit)
            if not ending.done():
                _log.warning(
                    "transactional id %r: %s is not known to be done within the %g s of the close; an open transaction"
                    " is aborted after transaction_timeout_ms=%d, or when a producer with this id begins",
                    self._core.transactional_id,
                    "the commit" if self._core.phase is Phase.COMMITTING else "the abort",
                    limit,
                    self._config.transaction_timeout_ms,
                )
        if self._ending is not None:
            self._closed = not self._ending.done()
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)

    def __repr__(self) -> str:
        return f"Transactions({self._core!r})"


def _seen(ending: asyncio.Task[bool]) -> None:
    """asyncio logs an exception that nobody asks for, and the caller may have left."""
    if not ending.cancelled():
        ending.exception()
