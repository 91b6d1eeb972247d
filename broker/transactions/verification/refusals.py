"""The error of a batch, or of offsets, whose transaction the coordinator did not confirm. Pure.

    the coordinator says                                    the producer is told
    INVALID_TXN_STATE, TRANSACTION_ABORTABLE                TRANSACTION_ABORTABLE: it aborts, and begins again
    PRODUCER_FENCED                                         INVALID_PRODUCER_EPOCH: what producing has for it
    nothing in time, or only that it cannot say now         NOT_ENOUGH_REPLICAS: it sends the batch again
    CONCURRENT_TRANSACTIONS until the time is up            that, which is retriable, too
    INVALID_PRODUCER_ID_MAPPING and others                  that
    nothing: its release does not know the call             UNSUPPORTED_VERSION

Clients that do not know one of these are told another one by their protocol (`broker/kafka/errors.py`).
"""

from __future__ import annotations

from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    NotEnoughReplicasError,
    OperationNotAttemptedError,
    ProducerFencedError,
    TransactionAbortableError,
    UnsupportedVersionError,
)
from penstock.types import TopicPartition


def is_no_answer(error: ApiError) -> bool:
    """The coordinator cannot say now: it is asked again. Also if it knows another partition of the question not yet."""
    return error.retriable or isinstance(error, OperationNotAttemptedError)


def refusal(partition: TopicPartition, error: ApiError) -> ApiError:
    """The coordinator's answer, for the producer."""
    if isinstance(error, InvalidTxnStateError | TransactionAbortableError):
        return TransactionAbortableError(
            f"{partition} is not part of the transaction: {error}; nothing was written, abort the transaction"
        )
    if isinstance(error, ProducerFencedError):
        return InvalidProducerEpochError(str(error))
    if isinstance(error, UnsupportedVersionError):
        return UnsupportedVersionError(
            f"the broker that should coordinate the transaction is of a release without transactions: {error}; nothing"
            " was written; upgrade all brokers, then use them"
        )
    return error


def marked_meanwhile(partition: TopicPartition) -> ApiError:
    """A marker came while the coordinator was asked."""
    return TransactionAbortableError(
        f"a transaction of the producer has ended in {partition} while its coordinator was asked; nothing was written,"
        " abort the transaction"
    )


def time_is_up(partition: TopicPartition, last: ApiError | None) -> ApiError:
    """The error for a producer whose coordinator did not confirm in time; all are retriable. `last`: what it said last,
    which decides between CONCURRENT_TRANSACTIONS and NOT_ENOUGH_REPLICAS."""
    if isinstance(last, ConcurrentTransactionsError):
        return ConcurrentTransactionsError(f"{partition}: {last}; nothing was written, send it again")
    why = f": {last}" if last is not None else ""
    return NotEnoughReplicasError(
        f"the coordinator has not confirmed in time that {partition} is part of the transaction{why}; nothing was"
        " written, send it again"
    )
