"""One process of a driver, and its tasks in the processes of two executors: AsyncAtomicBatches, the client that ships.

A task writes its rows by a writer of its own. Some attempts die half-way, some are made twice at the same time; the
driver accepts one of those that came through. What it is not told it asks for again. Not here: versions and checkpoints
(application.py).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from penstock.client.producer.future import RecordFuture
from penstock.client.producer.transactions.async_atomic_batches import AsyncAtomicWriter
from penstock.errors import (
    ApiError,
    AtomicBatchVersionError,
    BootstrapError,
    InvalidTxnStateError,
    PenstockError,
    ProducerFencedError,
    TimedOutError,
    TransactionAbortedError,
)
from penstock.types import ProducerIdAndEpoch
from tests.simulation.cluster.clients.cores import core_of
from tests.simulation.cluster.sink.oracle import Attempt, Call, Row

if TYPE_CHECKING:
    from tests.simulation.cluster.sink.application import SinkApplication

BLOCK_MS, RETRY_SECONDS, EXECUTORS = 3_000, 0.1, 2
DIE_SHARE, DIE_IN_COMMIT_SHARE, DIE_BEFORE_NOTED_SHARE, STILL_SHARE, REPLACE_SHARE = 0.04, 0.06, 0.04, 0.04, 0.04
TASK_DIES_SHARE, TWICE_SHARE = 0.06, 0.15


class Over(Exception):
    """The process has ended."""


class Committed(Exception):
    """A task was told that its version is committed already."""


class Written(NamedTuple):
    """An attempt that came through; None for a part without rows, which no writer has."""

    attempt: Attempt | None
    identity: ProducerIdAndEpoch | None


NO_ROWS = Written(None, None)


class Driver:
    """See the module."""

    def __init__(self, application: SinkApplication) -> None:
        self.application, self.clients, self.plan = application, application.clients, application.plan
        self.oracle, self.draw, self.work = application.oracle, application.draw, application.clients.transactions
        self.run_of = self.oracle.run()
        self.has_left = asyncio.Event()
        """Another one may take its place."""
        self.is_left_alone = self.is_done = False
        """Taken for dead, and lives; has committed everything until it was over."""
        self._version = application.noted
        self._batches, *self._executors = [self.clients.atomic_batches(BLOCK_MS) for _ in range(1 + EXECUTORS)]

    async def run(self) -> None:
        """Until it is over, or the process ends."""
        try:
            while not self.clients.is_over:
                await self._write_version()
                self._note()
                await asyncio.sleep(self.plan.pause_s * (0.5 + self.draw.random()))
            self.is_done = True
            for batches in (self._batches, *self._executors):
                await batches.close()
        except Over:
            await self._die()
        except ProducerFencedError:
            self.clients.calls["sink runs fenced"] += 1
            await self._die()
        finally:
            self.has_left.set()

    def _note(self) -> None:
        """In the checkpoint, which is another one's if this one was taken for dead."""
        if self.is_left_alone:
            raise Over
        self._maybe(DIE_BEFORE_NOTED_SHARE)
        self._version += 1
        self.application.noted = self._version

    async def _die(self) -> None:
        """Without a word to anybody."""
        self.clients.calls["sink drivers died"] += 1
        for batches in (self._batches, *self._executors):
            await core_of(batches).close_forgotten()
            self.application.ended.append(batches)

    def _maybe(self, share: float) -> None:
        """Dies here, in so many of the cases."""
        if self._is_troubled and self.draw.random() < share:
            raise Over

    @property
    def _is_troubled(self) -> bool:
        return self.plan.is_troubled and not self.clients.is_mended

    # -- a version -----------------------------------------------------------------------------------------------------

    async def _write_version(self) -> None:
        """Until it is known to be committed."""
        while True:
            tasks = [asyncio.ensure_future(self._task(task)) for task in range(self.plan.tasks)]
            try:
                written = await asyncio.gather(*tasks)
            except Committed:
                return
            finally:
                await _end(tasks)
            if await self._commit([each for each in written if each.attempt is not None]):
                return

    async def _commit(self, written: list[Written]) -> bool:
        """False: the version is to be written anew."""
        self._maybe(DIE_SHARE)
        await asyncio.sleep(self.plan.pause_s * self.draw.random())  # the slowest task
        await self._maybe_stand_still()
        version, run = self._version, self.run_of
        attempts = [each.attempt for each in written if each.attempt is not None]
        records = sum(self.application.rows(version, task) for task in range(self.plan.tasks))
        call = self.oracle.asks(run, version, attempts, records)
        asking = asyncio.ensure_future(
            self._ask(call, [each.identity for each in written if each.identity is not None])
        )
        if self._is_troubled and self.draw.random() < DIE_IN_COMMIT_SHARE:
            self.clients.calls["sink drivers died in a commit"] += 1
            await asyncio.sleep(self.draw.choice((0.0, 0.003, 0.02, 0.2)) * self.draw.random())
            await _end([asking])
            raise Over
        return await asking

    async def _ask(self, call: Call, identities: list[ProducerIdAndEpoch]) -> bool:
        while True:
            asked_s = self.clients.network.scheduler.now_s
            try:
                answer = await self._batches.commit(
                    self.plan.name, call.version, identities, run=call.run.name, records=call.records
                )
            except InvalidTxnStateError:
                self.clients.calls["sink versions written anew"] += 1
                self.oracle.refused(call)
                return False
            except ProducerFencedError:
                raise
            except PenstockError as error:
                await self._unsure(error)
                continue
            self.oracle.answered(call.run, asked_s)
            if answer.was_committed:
                self.oracle.was_committed(call.run, call.version, answer.records)
            else:
                self.oracle.committed(call)
            return True

    async def _unsure(self, error: PenstockError) -> None:
        """The outcome is not known. No broker may answer a new client's first call: it is to call again."""
        self.clients.refused[f"sink {type(error).__name__}"] += 1
        is_passing = isinstance(error, TimedOutError | BootstrapError)
        may_pass = is_passing or (isinstance(error, ApiError) and error.retriable)
        if self.is_left_alone and isinstance(error, AtomicBatchVersionError):
            self.clients.calls["sink runs behind"] += 1  # another run has its place, and has committed later versions
            raise Over
        if not may_pass:
            self.clients.ledger.report("sink-refused", f"{self.run_of.name} was told {error!r}")
            raise Over
        await asyncio.sleep(RETRY_SECONDS)

    async def _maybe_stand_still(self) -> None:
        number = self.draw.random()
        if not self._is_troubled or number >= STILL_SHARE + REPLACE_SHARE:
            return
        self.clients.calls["sink drivers stood still"] += 1
        if number < REPLACE_SHARE:
            self.is_left_alone = True
            self.has_left.set()
        await asyncio.sleep(self.draw.uniform(0.3, 1.5) * self.plan.timeout_ms / 1000)

    # -- a task --------------------------------------------------------------------------------------------------------

    async def _task(self, task: int) -> Written:
        """Attempt after attempt, until one comes through; Committed if the version is committed already."""
        if not self.application.rows(self._version, task):
            return NO_ROWS
        while True:
            count = 2 if self._is_troubled and self.draw.random() < TWICE_SHARE else 1
            attempts = [asyncio.ensure_future(self._attempt(task)) for _ in range(count)]
            try:
                found = [each for each in await asyncio.gather(*attempts) if each is not None]
            finally:
                await _end(attempts)
            if found:
                return self.draw.choice(found)
            await asyncio.sleep(RETRY_SECONDS)

    async def _attempt(self, task: int) -> Written | None:
        """None: it did not come through."""
        writer = await self._begin()
        if writer is None:
            return None
        attempt = self.oracle.begins(self.run_of, self._version)
        try:
            for number in range(self.application.rows(self._version, task)):
                if self._is_troubled and self.draw.random() < TASK_DIES_SHARE / self.plan.records:
                    raise TransactionAbortedError("the task dies")
                await self._send(writer, attempt, Row(self._version, task, number))
            await writer.flush(BLOCK_MS / 1000)
        except ProducerFencedError:
            raise
        except PenstockError as error:
            self.clients.refused[f"sink {type(error).__name__}"] += 1
            attempt.given_up()
            return None
        finally:
            await writer.close()
        return Written(attempt, writer.identity)

    async def _begin(self) -> AsyncAtomicWriter | None:
        executor, run = self.draw.choice(self._executors), self.run_of
        asked_s = self.clients.network.scheduler.now_s
        try:
            writer = await executor.begin(self.plan.name, self._version, timeout_ms=self.plan.timeout_ms, run=run.name)
        except ProducerFencedError:
            raise
        except PenstockError as error:
            await self._unsure(error)
            return None
        self.oracle.answered(run, asked_s)
        if writer is None:
            self.oracle.was_committed(run, self._version)
            raise Committed
        return writer

    async def _send(self, writer: AsyncAtomicWriter, attempt: Attempt, row: Row) -> None:
        tp = self.draw.choice(self.clients.partitions(self.plan.output))
        spot = self.work.spot(tp)
        assert spot is not None
        value = self.oracle.row(attempt, spot, row)

        def answered(answer: RecordFuture) -> None:
            if answer.exception(0) is None:
                self.work.acked(tp, spot, answer.result(0).offset, value)

        try:
            future = await writer.send(tp.topic, value, value, partition=tp.partition)
        except PenstockError:
            attempt.transaction.takes_back()
            raise
        future.add_done_callback(answered)

    def __repr__(self) -> str:
        return f"Driver({self.run_of.name}, version {self._version})"


async def _end(
    tasks: list[asyncio.Task[bool]] | list[asyncio.Task[Written]] | list[asyncio.Task[Written | None]],
) -> None:
    """Nothing of what was begun goes on."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
