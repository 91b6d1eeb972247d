"""Remedies for an atomic batch that the log refuses, in the words of a user of Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from penstock.errors import (
    AtomicBatchVersionError,
    InvalidProducerEpochError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    PenstockError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedVersionError,
)
from penstock.messages.transactions.atomic_batches import BATCH_PREFIX, NO_CHECKSUM
from penstock.spark.plain_errors import add_context
from penstock.spark.writing.batch_key import NAME_MARKS, BatchKey
from penstock.spark.writing.sink_options import (
    ACCEPTS,
    APPLICATION,
    AT_LEAST_ONCE,
    GOES_BACK_TO,
    TIMEOUT,
    SinkOptions,
)

_log = logging.getLogger(__name__)

UNKNOWN = -1
OLD_CHECKPOINT = (
    "the checkpoint is older than what was written last: it was set back, or it is a copy, and another run of the query"
    " has gone on, which is then the one to keep"
)
CHECKSUM_MAX = (1 << 63) - 1


@contextmanager
def with_remedy(key: BatchKey, options: SinkOptions) -> Iterator[None]:
    """Adds the remedy to an error of the calls that begin, write and commit."""
    try:
        yield
    except PenstockError as error:
        if remedy := _remedy(error, key, options):
            add_context(error, remedy)
        raise


class RowsWritten(NamedTuple):
    """The rows of a batch, as its decision keeps them: how many, and their checksum (checksum.py)."""

    number: int
    checksum: int

    @staticmethod
    def of(parts: Iterable[tuple[int, int]]) -> RowsWritten:
        """The rows of all tasks, of which each has told its number and its total. The checksum is above 0, which tells
        nothing."""
        found = list(parts)
        return RowsWritten(sum(rows for rows, _ in found), sum(total for _, total in found) & CHECKSUM_MAX or 1)

    def is_repeated_by(self, rows: RowsWritten) -> bool:
        """Compares what is known: an earlier version tells no checksum, or not even a number."""
        same_number = self.number in (rows.number, UNKNOWN)
        return same_number and (not rows.number or self.checksum in (rows.checksum, NO_CHECKSUM))


def check_repetition(key: BatchKey, rows: RowsWritten, committed: RowsWritten, options: SinkOptions) -> None:
    """A batch that is repeated has the rows that it had. Others were planned anew, by a checkpoint that was set back or
    has lost its newest plan, and would be lost without a word; or they depend on more than the source."""
    if committed.is_repeated_by(rows):
        return
    others = f"{rows.number} other rows" if committed.number == rows.number else f"{rows.number} rows"
    fact = (
        f"{key} was committed with {committed.number} rows, and is repeated with {others}, of which none were written"
    )
    if key.version == options.accepts:
        _log.warning("%s: accepted, because of %s=%d", fact, ACCEPTS, key.version)
        return
    raise AtomicBatchVersionError(
        f"{fact}. Either they depend on more than the source, such as a joined table that has changed, rand() or the"
        f" order of a sum: then none are missing, and {ACCEPTS}={key.version} goes on with those that were committed."
        f" Or {_planned_anew(key, options)}"
    )


def check_spelling(key: BatchKey, options: SinkOptions) -> None:
    """A name with one of NAME_MARKS that has no topic may be an earlier release's, or that of another write today,
    which has the mark by itself (batch_key.py). Taken for this write, that one would lose its rows without a word."""
    name = options.application
    if key.version == options.accepts or not any(mark in name for mark in NAME_MARKS):
        return
    raise AtomicBatchVersionError(
        f"version {key.version}, or a later one, was committed as {name!r}, and none of these rows were written. Either"
        f" an earlier release of Penstock, whose names had no topic, has written this job: then"
        f" {ACCEPTS}={key.version} goes on with the rows that were committed. Or another write is spelt so, because"
        f" {APPLICATION} has an '@' or a '/': then {GOES_BACK_TO}={key.version} writes these rows, or another"
        f" {APPLICATION} without them does"
    )


def _planned_anew(key: BatchKey, options: SinkOptions) -> str:
    if options.application and not options.is_write_batch:
        return "the job has other input now: write it under another txnVersion"
    before = f"offsets/{key.version - 1} of the old one ends" if key.version else "the old one began"
    return (
        "the batch was planned anew, because the checkpoint was set back or lost its newest plan: then begin with a new"
        " checkpoint, and startingOffsets where the committed rows end. From where"
        f" {before} on none would be missing, but the committed rows of this batch would be there twice"
    )


def warn_of_time(key: BatchKey, took_ms: int, options: SinkOptions) -> None:
    """Warns at half of a batch's time. A batch that takes too long is repeated as it was planned, so nothing helps
    then."""
    if took_ms >= options.timeout_ms // 2:
        _log.warning(
            "%s took %d s of the %d s that %s gives it. One that takes longer is aborted, and Spark repeats it with the"
            " same rows: set more time now, or fewer rows (maxOffsetsPerTrigger)",
            key,
            took_ms // 1000,
            options.timeout_ms // 1000,
            TIMEOUT,
        )


def _remedy(error: BaseException, key: BatchKey, options: SinkOptions) -> str:
    if isinstance(error, InvalidTransactionTimeoutError):
        return (
            f"{TIMEOUT} is {options.timeout_ms}: set less, or raise transaction.max.timeout.ms of every broker (a batch"
            " may take four times as long) and restart them one after another"
        )
    if isinstance(error, AtomicBatchVersionError):
        is_named = bool(options.application) and not options.is_write_batch
        why = "the version is older than what was written last" if is_named else OLD_CHECKPOINT
        return (
            f"{why}. Writing on would write rows again; if that is meant, set the option {GOES_BACK_TO}={key.version}"
        )
    if isinstance(error, ProducerFencedError):
        return (
            f"another run writes as {key.application!r}: a second start of the query, or a query with a copy of its "
            "checkpoint; let one of them run, and give the other a new checkpoint"
        )
    if isinstance(error, TransactionAbortedError) and error.__cause__ is not None:
        return _remedy(error.__cause__, key, options)  # most often a row that failed, which tells itself
    if isinstance(error, InvalidTxnStateError | InvalidProducerEpochError | TransactionAbortedError):
        return (
            f"{key} was aborted before it was committed, as after {TIMEOUT}={options.timeout_ms}. Spark repeats a "
            "micro-batch as it was planned, so maxOffsetsPerTrigger helps only those that come after it: set a larger "
            f"{TIMEOUT}, give the query more cores, or set semantics={AT_LEAST_ONCE} for this batch "
            "alone"
        )
    if isinstance(error, TransactionalIdAuthorizationFailedError):
        return (
            f"the atomic batches of Spark need Write on transactional ids that begin with {BATCH_PREFIX!r}:"
            f" `penstock acls create … --role spark-sink --topic {options.topic or 'TOPIC'}`"
        )
    if isinstance(error, UnsupportedVersionError):
        return f"brokers of this version have no atomic batches: update them, or set semantics={AT_LEAST_ONCE}"
    return ""
