"""The errors of idempotent producers. Users import the names from penstock.errors."""

from __future__ import annotations

from penstock.wire_errors.api_error import ApiError


class OutOfOrderSequenceError(ApiError, code=45, name="OUT_OF_ORDER_SEQUENCE_NUMBER", nothing_written=True):
    """A batch's sequence number does not follow the last one of its producer; this attempt wrote nothing."""


class InvalidProducerEpochError(ApiError, code=47, name="INVALID_PRODUCER_EPOCH", nothing_written=True):
    """A batch has an older epoch of its producer than the partition knows; this attempt wrote nothing."""


class UnknownProducerIdError(ApiError, code=59, name="UNKNOWN_PRODUCER_ID", nothing_written=True):
    """The partition knows nothing of the producer, whose batch is not its first one; this attempt wrote nothing."""
