"""Remedies for an atomic batch that the log refuses, in the words of a user of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
from penstock.messages.transactions.atomic_batches import BATCH_PREFIX
from penstock.spark.plain_errors import add_context
from penstock.spark.writing.batch_key import BatchKey
from penstock.spark.writing.sink_options import AT_LEAST_ONCE, GOES_BACK_TO, TIMEOUT, SinkOptions

UNKNOWN = -1


@contextmanager
def with_remedy(key: BatchKey, options: SinkOptions) -> Iterator[None]:
    """Around the calls that begin, write and commit."""
    try:
        yield
    except PenstockError as error:
        if remedy := _remedy(error, key, options):
            add_context(error, remedy)
        raise


def check_repetition(key: BatchKey, rows: int, committed: int) -> None:
    """A batch that is repeated has the rows that it had. A checkpoint that was set back may have planned it anew, with
    others, which would be lost without a word. Only their number is compared: the rest of a row may depend on their
    order, like the sum of fractions. Below 0: it is not known."""
    if committed not in (rows, UNKNOWN):
        raise AtomicBatchVersionError(
            f"{key} was written before with {committed} rows, and has {rows} now, of which none were written: the "
            "checkpoint was set back, or the plan was changed; go on with a new checkpoint, and startingOffsets where "
            "the rows that are missing begin"
        )


def _remedy(error: BaseException, key: BatchKey, options: SinkOptions) -> str:
    if isinstance(error, InvalidTransactionTimeoutError):
        return f"set {TIMEOUT}, now {options.timeout_ms}, or raise transaction.max.timeout.ms of the brokers"
    if isinstance(error, AtomicBatchVersionError):
        return (
            "the checkpoint, or the version, is older than what was written last: writing on would write rows again; "
            f"if that is meant, set the option {GOES_BACK_TO}={key.version}"
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
            f"{key} was aborted before it was committed, as after {TIMEOUT}={options.timeout_ms}; a batch must take "
            "less time than that, or be smaller"
        )
    if isinstance(error, TransactionalIdAuthorizationFailedError):
        return (
            f"the atomic batches of Spark need Write on transactional ids that begin with {BATCH_PREFIX!r}:"
            f" `penstock acls add … --role spark-sink --topic {options.topic or 'TOPIC'}`"
        )
    if isinstance(error, UnsupportedVersionError):
        return f"brokers of this version have no atomic batches: update them, or set semantics={AT_LEAST_ONCE}"
    return ""
