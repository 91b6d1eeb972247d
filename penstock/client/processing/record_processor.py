"""Reads records, has a handler make others of them, and writes these in one transaction with the positions (KIP-447).

    poll ──► begin ──► handler for each record ──► send what it returns ──► send the positions ──► commit
      ▲                                                                                              │
      └──────────── aborted: back to the first record of the batch ◄── refused, or a member no more ◄┘

Either everything that a batch has made is committed with the group's offsets, or nothing of it is, and the batch is
read again: here, or by whoever has the partition then. So each record's outputs are in the log once, for readers of
committed records. A handler may run twice for a record: what it does elsewhere (a call, a file) may happen twice. Not
here: the transaction, and who has which partition.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.client.consumer.consumer import Consumer
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.environment import ClientEnvironment, given_or_system
from penstock.client.processing.output import Output, Outputs, checked_outputs
from penstock.client.processing.processing_statistics import ProcessingStatistics
from penstock.client.producer.producer import Producer
from penstock.errors import (
    AuthorizationFailedError,
    ConfigError,
    FatalProducerError,
    PenstockError,
    ProcessingError,
    TimedOutError,
    TransactionAbortedError,
    TransactionStateError,
)
from penstock.threads import Event
from penstock.types import TopicPartition

if TYPE_CHECKING:
    from penstock.client.processing.processing_metrics import ProcessingCollector

POLL_MS: Final = 200
"""A stop is noticed within so long."""
ERROR_CHARACTERS_MAX: Final = 1_000

Handler = Callable[[ConsumerRecord], Outputs]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Batch:
    """The records of one transaction, and what it writes."""

    records: Sequence[ConsumerRecord]
    began_ns: int
    outputs: int = 0
    dead_letters: int = 0


class RecordProcessor:
    """See the module. `run` belongs to one thread; `stop` may be called in any, and in a signal handler."""

    def __init__(
        self,
        consumer: Consumer,
        producer: Producer,
        handler: Handler,
        *,
        batch_records: int | None = None,
        dead_letters: str | None = None,
        stop: Event | None = None,
        environment: ClientEnvironment | None = None,
    ) -> None:
        """`batch_records` is the most that one transaction takes; None: what a poll gives. `dead_letters` is the topic
        for records whose handler raises; without one, the error ends the run."""
        _check(consumer, producer)
        if batch_records is not None and batch_records < 1:
            raise ValueError(f"batch_records={batch_records} must be at least 1")
        self._consumer, self._producer, self._handler = consumer, producer, handler
        self._batch_records, self._dead_letters = batch_records, dead_letters
        machine = given_or_system(environment)
        self._stopped = machine.threads.event() if stop is None else stop
        self._now_ns = machine.clock.now_ns
        self._undecided: _Batch | None = None
        self._counts = ProcessingStatistics()

    def stop(self) -> None:
        """The transaction under way is the last one."""
        self._stopped.set()

    @property
    def statistics(self) -> ProcessingStatistics:
        return self._counts

    def collector(self) -> ProcessingCollector:
        """The `statistics` for Prometheus: `prometheus_client.REGISTRY.register(processor.collector())`."""
        from penstock.client.processing.processing_metrics import ProcessingCollector

        group, transactional_id = self._consumer._core.config.group_id, self._producer._core.config.transactional_id
        return ProcessingCollector(lambda: self._counts, group or "", transactional_id or "")

    def run(self) -> ProcessingStatistics:
        """Until `stop`. ConfigError where the consumer has nothing to read; ProcessingError where a handler raises and
        nobody takes dead letters; AuthorizationFailedError where a right is missing; FatalProducerError where another
        producer has the transactional id; other errors as `poll` and the transaction raise them."""
        if not self._consumer.subscription() and not self._consumer.assignment():
            raise ConfigError("the consumer has subscribed to no topic: call consumer.subscribe([TOPIC]) before")
        while not self._stopped.is_set():
            if self._undecided is not None:  # the last run was interrupted in its commit
                self._commit(self._undecided)
            records = self._consumer.poll(POLL_MS, self._batch_records)
            if records:
                self._one_batch(records)
        return self._counts

    def _one_batch(self, records: Sequence[ConsumerRecord]) -> None:
        batch = _Batch(records, self._now_ns())
        try:
            self._producer.begin_transaction()
            self._fill(batch)
        except TransactionAbortedError as error:
            self._aborted(batch, error)
        except BaseException:
            self._go_back(records)  # whoever catches it may call `run` again
            with contextlib.suppress(TransactionStateError, FatalProducerError):  # it has not begun, or is over
                self._producer.abort_transaction()
            raise
        else:
            self._undecided = batch
            self._commit(batch)

    def _fill(self, batch: _Batch) -> None:
        for record in batch.records:
            outputs, is_dead = self._handled(record)
            for output in outputs:
                self._producer.send(*output)
            batch.outputs += len(outputs)
            batch.dead_letters += is_dead
        self._producer.send_offsets(self._consumer)

    def _commit(self, batch: _Batch) -> None:
        """Until it is known how it ended: a commit that nobody has answered may have been carried out."""
        while True:
            try:
                self._producer.commit_transaction()
                break
            except TransactionAbortedError as error:
                self._undecided = None
                self._aborted(batch, error)
                return
            except TimedOutError as error:
                if self._stopped.is_set():
                    raise
                _log.warning("the commit of %d records is asked for again: %s", len(batch.records), error)
        self._undecided = None
        counts = self._counts
        self._counts = ProcessingStatistics(
            counts.records + len(batch.records),
            counts.outputs + batch.outputs,
            counts.dead_letters + batch.dead_letters,
            counts.committed + 1,
            counts.aborted,
            counts.seconds + self._seconds(batch),
        )

    def _aborted(self, batch: _Batch, error: TransactionAbortedError) -> None:
        refusal = error.__cause__ if isinstance(error.__cause__, AuthorizationFailedError) else None
        if refusal is None:
            _log.warning("%d records are processed again, their transaction is aborted: %s", len(batch.records), error)
        self._go_back(batch.records)
        self._producer.abort_transaction()
        counts = self._counts
        self._counts = replace(counts, aborted=counts.aborted + 1, seconds=counts.seconds + self._seconds(batch))
        if refusal is not None:
            raise refusal  # once more would be refused once more

    def _seconds(self, batch: _Batch) -> float:
        return (self._now_ns() - batch.began_ns) / 1e9

    def _handled(self, record: ConsumerRecord) -> tuple[tuple[Output, ...], bool]:
        """The outputs for the record; True with them if it is the record itself, as a dead letter."""
        try:
            return checked_outputs(self._handler(record)), False
        except Exception as error:
            place = f"{record.topic}-{record.partition}, offset {record.offset}"
            if self._dead_letters is None:
                raise ProcessingError(f"{place}: the handler has raised {error!r}") from error
            _log.warning("%s: to %s, because the handler has raised %r", place, self._dead_letters, error)
            return (_dead_letter(self._dead_letters, record, error),), True

    def _go_back(self, records: Sequence[ConsumerRecord]) -> None:
        """To the first record of the batch in each partition that the consumer still has."""
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        for partition, offset in first.items():
            with contextlib.suppress(PenstockError, ValueError, KeyError):  # it has another owner, or is gone
                self._consumer.seek(partition, offset)

    def __repr__(self) -> str:
        return f"RecordProcessor({self._consumer!r}, {self._producer!r}, {self._counts!r})"


def _dead_letter(topic: str, record: ConsumerRecord, error: Exception) -> Output:
    headers = (
        *record.headers,
        ("penstock.dead.topic", record.topic.encode()),
        ("penstock.dead.partition", str(record.partition).encode()),
        ("penstock.dead.offset", str(record.offset).encode()),
        ("penstock.dead.error", f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX].encode()),
    )
    return Output(topic, record.value, record.key, headers, None, record.timestamp_ms)


def _check(consumer: Any, producer: Any) -> None:
    """ConfigError where the two cannot give each record's effect once."""
    wrong = []
    if not isinstance(consumer, Consumer) or not isinstance(producer, Producer):
        raise TypeError("process takes a Consumer, a Producer and a handler: the plain ones, not the asynchronous ones")
    settings, made = consumer._core.config, producer._core.config
    if settings.group_id is None:
        wrong.append("the consumer needs a group_id")
    elif settings.enable_auto_commit:
        wrong.append("the consumer needs enable_auto_commit=False: the transaction commits its positions")
    if settings.isolation_level == "read_uncommitted":
        wrong.append("the consumer needs isolation_level='read_committed'")
    if made.transactional_id is None:
        wrong.append("the producer needs a transactional_id, one for each process")
    if wrong:
        raise ConfigError("; ".join(wrong))
