"""The errors of transactions. Users import the names from penstock.errors."""

from __future__ import annotations

from penstock.local_errors.client_errors import FatalProducerError, TransactionAbortedError
from penstock.wire_errors.api_error import ApiError


class InvalidTxnStateError(ApiError, code=48, name="INVALID_TXN_STATE", nothing_written=True):
    """The transaction is not in a state in which this can be done."""


class InvalidProducerIdMappingError(
    ApiError, FatalProducerError, code=49, name="INVALID_PRODUCER_ID_MAPPING", nothing_written=True
):
    """The transactional id belongs to another producer id (now)."""


class InvalidTransactionTimeoutError(
    ApiError, FatalProducerError, code=50, name="INVALID_TRANSACTION_TIMEOUT", nothing_written=True
):
    """The time-out is not above 0, or above transaction.max.timeout.ms."""


class ConcurrentTransactionsError(
    ApiError, code=51, name="CONCURRENT_TRANSACTIONS", retriable=True, nothing_written=True
):
    """The producer's last transaction is still being ended; ask again soon."""


class TransactionCoordinatorFencedError(ApiError, code=52, name="TRANSACTION_COORDINATOR_FENCED", nothing_written=True):
    """A newer coordinator has written to the partition."""


class OperationNotAttemptedError(ApiError, code=55, name="OPERATION_NOT_ATTEMPTED", nothing_written=True):
    """Nothing was done for this part of the request, because another part of it failed."""


class ProducerFencedError(ApiError, FatalProducerError, code=90, name="PRODUCER_FENCED", nothing_written=True):
    """A newer producer with the same transactional id has begun."""


class TransactionalIdNotFoundError(ApiError, code=105, name="TRANSACTIONAL_ID_NOT_FOUND", nothing_written=True):
    """The coordinator knows no such transactional id."""


class TransactionAbortableError(
    ApiError, TransactionAbortedError, code=120, name="TRANSACTION_ABORTABLE", nothing_written=True
):
    """The transaction cannot go on: abort it, and begin again (KIP-890)."""
