"""Reads records, has a handler make others of them, and writes these in one transaction with the positions (KIP-447).

    poll ──► handler for each record ──► begin ──► send what it returns ──► send the positions ──► commit
      ▲                                                                                              │
      └─────────── undone: back to the first record of the batch ◄── refused, or a member no more ◄──┘

Either everything that a batch has made is committed with the group's offsets, or nothing of it is, and the batch is
read again: here, or by the member that has the partition then. So each record's outputs are in the log once, for
readers of committed records. A handler may run twice for a record: what it does elsewhere (a call, a file) may happen
twice.

A record whose handler fails and that is to be tried again ends its part of the batch: what is before it is committed,
and its partition is paused until the time of the retry. So no transaction is open while a processor waits, polls keep
the consumer in its group, and a stop is noticed within POLL_MS. A batch that takes half of the transaction's time is
committed as far as it is.

Whatever ends a run, at whichever line, the next one knows where to begin: a batch whose commit was asked for is asked
for again until it is told how it ended; any other is undone; and where neither is known, the group is asked for what it
has committed. No I/O: `Clients` has that, plain or async. Not here: whose fault an error is (verdicts.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from inspect import isawaitable
from typing import Any, Final, Protocol

from penstock.backoff import Backoff
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.processing.batch import Batch
from penstock.client.processing.clients import Clients
from penstock.client.processing.dead_letter_topic import look_at, no_letter
from penstock.client.processing.output import Output, checked_outputs, dead_letter
from penstock.client.processing.processing_options import ProcessingConfig
from penstock.client.processing.processing_statistics import ProcessingStatistics
from penstock.client.processing.refused_outputs import OutputRefused, RefusedOutputs
from penstock.client.processing.verdict_lines import VerdictLines
from penstock.client.processing.verdicts import (
    FINAL_ERRORS,
    OUTAGES,
    RECORD_ERRORS,
    REFUSALS,
    End,
    RetryIn,
    Verdict,
    Verdicts,
    failure_text,
    is_of_clocks,
    place_of,
)
from penstock.clock import Clock
from penstock.errors import (
    ConfigError,
    FatalProducerError,
    HandlerError,
    PenstockError,
    TimedOutError,
    TransactionAbortedError,
    TransactionStateError,
)
from penstock.types import TopicPartition

POLL_MS: Final = 200
"""The longest time until a stop is noticed."""
PASSED_MS: Final = 5_000
"""How often positions are committed that have only moved past the ends of transactions (Kafka's
auto.commit.interval.ms)."""
SHORT_MS: Final = 1_000
"""A batch that has taken less is not committed early."""

_log = logging.getLogger(__name__)


class StopEvent(Protocol):
    """A `threading.Event`, or an `asyncio.Event`."""

    def set(self) -> None: ...

    def is_set(self) -> bool: ...


class ProcessingCore:
    """One processor. `run` belongs to one thread, or task."""

    def __init__(
        self,
        clients: Clients,
        handler: Callable[[ConsumerRecord], Any],
        config: ProcessingConfig,
        stopped: StopEvent,
        clock: Clock,
        backoff: Backoff,
    ) -> None:
        self.clients = clients
        self._handler, self._config = handler, config
        self.stopped, self._clock = stopped, clock
        self._verdicts, self._lines = Verdicts(config, backoff), VerdictLines(clock)
        self.counts = ProcessingStatistics()
        self._batch: Batch | None = None  # until it is committed, or undone
        self._held: dict[TopicPartition, int] = {}
        """Partitions that are paused, and when they are resumed."""
        self._attempts: dict[TopicPartition, tuple[int, int]] = {}
        """The record that each partition waits for: its offset, and how often its handler has failed."""
        self._refusals = RefusedOutputs()
        self._delayed: dict[TopicPartition, tuple[int, int]] = {}
        """The record that each partition waits for: its offset, and when its time has come."""
        self._undone = 0  # batches in a row
        self._passed_due_ms = clock.now_ms()

    async def run(self) -> ProcessingStatistics:
        """Works until the stop is set."""
        if not self.clients.has_something_to_read:
            raise ConfigError("the consumer has subscribed to no topic: call consumer.subscribe([TOPIC]) before")
        if (topic := self._config.dead_letters) is not None:
            await look_at(self.clients, topic)
        await self._settle()
        try:
            while not self.stopped.is_set():
                await self._turn()
        finally:
            self._held.clear()
            self.clients.release()
        return self.counts

    async def _turn(self) -> None:
        clients, now_ms = self.clients, self._clock.now_ms()
        released = [partition for partition, due_ms in self._held.items() if due_ms <= now_ms]
        clients.release(released)
        for partition in released:
            del self._held[partition]
        wait_ms = min((POLL_MS, *(due_ms - now_ms for due_ms in self._held.values())))
        clients.unsettle()
        records = await clients.poll(max(wait_ms, 0), self._refusals.records_max(self._config.batch_records))
        if records:
            await self._one_batch(Batch(records, self._clock.now_ns()))
            return
        clients.settle()
        if not self.stopped.is_set() and not self._held:
            await self._maybe_commit_passed()

    async def _maybe_commit_passed(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._passed_due_ms:
            return
        self._passed_due_ms = now_ms + PASSED_MS
        try:
            await self.clients.commit_passed()
        except PenstockError as error:  # the next transaction, or the next time, commits them
            _log.debug("positions behind the ends of transactions are not committed yet: %s", error)

    # -- where to begin ------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Ends what an earlier run was interrupted in, of this processor or another one with this consumer."""
        self._held.clear()
        self.clients.release()
        if (batch := self._batch) is not None:
            if not batch.is_committing:
                await self._undo(batch)
            else:
                with suppress(TransactionStateError):  # it was told already, in the moment of the interruption
                    await self._commit(batch)
        if self.clients.is_unsettled:
            await self._go_to_committed()
            self._batch = None
            self.clients.settle()

    async def _go_to_committed(self) -> None:
        """The group is asked once nothing of this producer, or of one before it with its id, is undecided."""
        clients = self.clients
        try:
            await clients.abort()
        except TransactionStateError:  # none is open, or it is being committed
            try:
                await self._commit_until_known()
            except TransactionStateError:
                pass
            except TransactionAbortedError:
                await clients.abort()
        await clients.begin()
        try:
            await clients.go_to_committed()
        finally:
            await clients.abort()

    async def _undo(self, batch: Batch) -> None:
        """Nothing of the batch counts, and its records are the next again."""
        await self.clients.go_to(batch.first())
        try:
            await self.clients.abort()
        except (TransactionStateError, FatalProducerError):  # it has not begun, or is over
            pass
        except TimedOutError as error:  # the next transaction begins after it
            _log.warning("the abort of %d records goes on: %s", len(batch.records), error)
        self._batch = None
        self.clients.settle()

    # -- a batch -------------------------------------------------------------------------------------------------------

    async def _one_batch(self, batch: Batch) -> None:
        self._batch = batch
        try:
            await self._fill(batch)
        except (TransactionAbortedError, *OUTAGES) as error:
            await self._aborted(batch, error)
        except OutputRefused:
            await self._undo(batch)
            self._count_aborted(batch)
            self._refusals.on_undone(batch.records)
        except BaseException:
            await self._undo(batch)  # whoever catches it may call `run` again
            raise
        else:
            if batch.done:
                await self._commit(batch)
            else:
                await self._undo(batch)
                self._hold(batch)

    async def _fill(self, batch: Batch) -> None:
        """Processes or leaves every record; adds the positions of those done to the transaction."""
        for record in batch.records:
            if batch.has_left(record):
                continue
            partition = TopicPartition(record.topic, record.partition)
            if self._is_late(batch):
                batch.leave(record)
            elif self._config.delay_ms and (due_ms := self._due_ms(record, partition)) is not None:
                batch.leave(record, due_ms)
            else:
                await self._process(batch, record, partition)
        if batch.done:
            await self._begin(batch)
            await self.clients.send_offsets(batch.ends if batch.left else None)

    async def _begin(self, batch: Batch) -> None:
        if not batch.is_begun:
            await self.clients.begin()
            batch.is_begun = True

    def _is_late(self, batch: Batch) -> bool:
        taken_ms = (self._clock.now_ns() - batch.began_ns) // 1_000_000
        return batch.done > 0 and taken_ms >= SHORT_MS and taken_ms >= self.clients.batch_ms_max

    def _due_ms(self, record: ConsumerRecord, partition: TopicPartition) -> int | None:
        """The time before which the record is not processed, if it has not come. A record whose timestamp is in the
        future waits for `delay_ms`, and no longer."""
        delay_ms, now_ms = self._config.delay_ms, self._clock.now_ms()
        offset, due_ms = self._delayed.get(partition, (-1, 0))
        if offset != record.offset:
            left_ms = record.timestamp_ms + delay_ms - self._clock.wall_ms()
            due_ms = now_ms + min(left_ms, delay_ms)
            self._delayed[partition] = record.offset, due_ms
        return due_ms if due_ms > now_ms else None

    async def _process(self, batch: Batch, record: ConsumerRecord, partition: TopicPartition) -> None:
        fault: Exception | None = self._refusals.of(record)
        is_refusal = fault is not None
        if fault is None:
            try:
                outputs = await self._handled(record)
            except Exception as error:
                fault = error
            else:
                fault = await self._write(batch, record, outputs)
                is_refusal = fault is not None
        if fault is not None:
            verdict = self._verdict(record, partition, fault, is_refusal=is_refusal)
            if isinstance(verdict, End):
                raise verdict.error from fault
            if isinstance(verdict, RetryIn):
                batch.leave(record, self._clock.now_ms() + verdict.wait_ms)
                self.counts = replace(self.counts, retries=self.counts.retries + 1)
                return
            refusal = await self._write(batch, record, (dead_letter(verdict.topic, record, fault),))
            if refusal is not None:
                raise no_letter(record, self._config.dead_letters, refusal)
            batch.dead_letters += 1
        batch.finish(record)

    async def _handled(self, record: ConsumerRecord) -> tuple[Output, ...]:
        returned = self._handler(record)
        if self.clients.awaits and isawaitable(returned):
            returned = await returned
        return checked_outputs(returned)

    def _verdict(
        self, record: ConsumerRecord, partition: TopicPartition, error: Exception, *, is_refusal: bool
    ) -> Verdict:
        offset, failed = self._attempts.get(partition, (record.offset, 0))
        attempts = failed + 1 if offset == record.offset else 1
        self._attempts[partition] = record.offset, attempts
        why = failure_text(error, is_refusal=is_refusal)
        verdict = self._verdicts.of(record, error, attempts, is_refusal=is_refusal)
        self._lines.tell(record, verdict, why, attempts)
        return verdict

    async def _write(self, batch: Batch, record: ConsumerRecord, outputs: tuple[Output, ...]) -> PenstockError | None:
        """The error of a first output that is the record's: then nothing is written for it."""
        if outputs:
            await self._begin(batch)
        for number, output in enumerate(outputs):
            batch.is_dated = batch.is_dated or output.timestamp_ms is not None
            try:
                await self.clients.send(output)
            except RECORD_ERRORS as error:
                if not number:
                    return error
                self._refusals.note(record, error)
                raise OutputRefused from error
            except (TypeError, ValueError) as error:
                raise HandlerError(f"{place_of(record)}: what the handler returned cannot be sent: {error}") from error
            except REFUSALS as error:
                error.add_note(f"{place_of(record)}: what was to be sent for this record to {output.topic} is refused")
                raise
        batch.outputs += len(outputs)
        return None

    # -- the end of a transaction --------------------------------------------------------------------------------------

    async def _commit_until_known(self) -> None:
        """Commits until the outcome is known: a commit that nobody has answered may have been carried out."""
        while True:
            try:
                await self.clients.commit()
                return
            except TimedOutError as error:
                if self.stopped.is_set():
                    raise
                _log.warning("a commit is asked for again: %s", error)

    async def _commit(self, batch: Batch) -> None:
        batch.is_committing = True
        try:
            await self._commit_until_known()
        except TransactionAbortedError as error:
            batch.is_committing = False
            await self._aborted(batch, error)
            return
        await self.clients.go_to(batch.left)
        self._batch = None
        self.clients.settle()
        self.clients.note_committed(batch.ends)
        self._refusals.on_committed(batch.ends)
        self._hold(batch)
        self._undone = 0
        counts = self.counts
        self.counts = replace(
            counts,
            records=counts.records + batch.done,
            outputs=counts.outputs + batch.outputs,
            dead_letters=counts.dead_letters + batch.dead_letters,
            committed=counts.committed + 1,
            seconds=counts.seconds + self._seconds(batch),
        )

    def _hold(self, batch: Batch) -> None:
        """Pauses partitions with a record that waits. Partitions in which records are done have none that fails."""
        for partition in batch.ends:
            if partition not in batch.left and partition in self._attempts:
                del self._attempts[partition]
        self.clients.hold(batch.due_ms)
        self._held |= batch.due_ms

    async def _aborted(self, batch: Batch, error: PenstockError) -> None:
        cause = error.__cause__
        is_refused = isinstance(cause, RECORD_ERRORS) and not is_of_clocks(cause, is_dated=batch.is_dated)
        self._undone += not is_refused
        wait_ms = 0 if is_refused else self._verdicts.wait_ms(self._undone)
        if not isinstance(cause, FINAL_ERRORS):
            text = "%d records are processed again in %d ms, because their transaction is aborted: %s"
            _log.warning(text, len(batch.records), wait_ms, error)
        await self._undo(batch)
        self._count_aborted(batch)
        if isinstance(cause, FINAL_ERRORS):
            raise cause  # once more would be refused once more
        if is_refused and isinstance(cause, PenstockError):
            if not self._refusals.on_refused(batch.records, cause):
                raise no_letter(batch.records[0], self._config.dead_letters, cause)
            return
        due_ms = self._clock.now_ms() + wait_ms
        self.clients.hold(batch.first())
        self._held |= dict.fromkeys(batch.first(), due_ms)

    def _count_aborted(self, batch: Batch) -> None:
        counts = self.counts
        self.counts = replace(counts, aborted=counts.aborted + 1, seconds=counts.seconds + self._seconds(batch))

    def _seconds(self, batch: Batch) -> float:
        return (self._clock.now_ns() - batch.began_ns) / 1e9

    def __repr__(self) -> str:
        return f"ProcessingCore({self.clients!r}, {self.counts!r})"
