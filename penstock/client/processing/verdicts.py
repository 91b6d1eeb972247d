"""Decides what becomes of a record whose handler has raised: whose fault is it?

    the record's    an error of `dead_letter_errors`                     a dead letter, or the end of the call
                    its output is too large, or no valid record          the same
    the world's     RetryLater, a lost connection, a time-out            again, until it is over
                    the brokers' clocks and this machine's are apart     the same
    the program's   TypeError, NameError, a wrong return, …              the end of the call, at once
    not known       all others                                           again `retries` times, then the end of the call

Only a record's own fault makes it a dead letter: an outage, or a mistake of the program, would bury a whole topic. The
class of an error decides that is nearest to it among its bases, so `dead_letter_errors=(Exception,)` leaves a
ConnectionError the world's, and a class that the user names counts before one that stands here. Pure. Not here: the
wait itself, and what was written before (processing_core.py).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from penstock.backoff import Backoff
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.processing.processing_options import ProcessingConfig
from penstock.errors import (
    ApiError,
    AuthorizationFailedError,
    BootstrapError,
    BufferExhaustedError,
    CalledInCallbackError,
    ClientClosedError,
    ConfigError,
    ForkedClientError,
    HandlerError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTopicError,
    InvariantViolation,
    MessageTooLargeError,
    ProcessingError,
    RecordListTooLargeError,
    RetryLater,
    SubscriptionError,
    TimedOutError,
    TransactionStateError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionTypeError,
)
from penstock.lazy_dataclass import dataclass


class Fault(Enum):
    """The party that is at fault in an error."""

    RECORD = "the record's"
    WORLD = "the world's"
    PROGRAM = "the program's"
    UNKNOWN = "not known"


OUTAGES: Final = (TimedOutError, BootstrapError, BufferExhaustedError)
"""The brokers do not answer: the batch is tried again, as one whose handler's world is away."""
RECORD_ERRORS: Final = (MessageTooLargeError, RecordListTooLargeError, InvalidRecordError, InvalidTimestampError)
"""Errors of producing that are about the one record: another of the same program may be taken. A missing right, a
missing topic and a compression that a broker does not know are about all of them."""

REFUSALS: Final = (AuthorizationFailedError, InvalidTopicError, UnknownTopicOrPartitionError)
"""Errors of a send that end the call: a right, or a topic, is missing, for all records."""
FINAL_ERRORS: Final = (AuthorizationFailedError, InvalidTopicError, UnsupportedCompressionTypeError)
"""Errors for which a transaction is aborted, and would be once more, whatever its records are."""

FAULTS: Final[dict[type[BaseException], Fault]] = {
    **dict.fromkeys((RetryLater, ConnectionError, TimeoutError), Fault.WORLD),
    **dict.fromkeys(OUTAGES, Fault.WORLD),
    **dict.fromkeys((TypeError, AttributeError, NameError, AssertionError, ImportError), Fault.PROGRAM),
    **dict.fromkeys((NotImplementedError, SyntaxError, ReferenceError, HandlerError), Fault.PROGRAM),
    **dict.fromkeys((ConfigError, SubscriptionError, TransactionStateError, InvariantViolation), Fault.PROGRAM),
    **dict.fromkeys((ClientClosedError, ForkedClientError, CalledInCallbackError), Fault.PROGRAM),
}


@dataclass(frozen=True, slots=True)
class Bury:
    """The record goes to this topic, and processing goes on behind it."""

    topic: str


@dataclass(frozen=True, slots=True)
class RetryIn:
    """The record is processed again after `wait_ms`."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class End:
    """The call ends with this error; the record stays the next one."""

    error: ProcessingError


Verdict = Bury | RetryIn | End


class Verdicts:
    """The judge of one processor."""

    def __init__(self, config: ProcessingConfig, backoff: Backoff) -> None:
        self._config = config
        self._backoff = backoff

    def wait_ms(self, attempts: int) -> int:
        """The wait after this many failed attempts."""
        return self._backoff.wait_ms(attempts)

    def of(self, record: ConsumerRecord, error: Exception, attempts: int, *, is_refusal: bool = False) -> Verdict:
        """The verdict on a record that has failed with this. `attempts`: how often it was tried, with this time;
        `is_refusal`: the error is that of an output, one of `RECORD_ERRORS`."""
        fault, config = Fault.RECORD if is_refusal else self.fault(error), self._config
        raised = f"{place_of(record)}: {failure_text(error, is_refusal=is_refusal)}"
        if fault is Fault.RECORD:
            if config.dead_letters is not None:
                return Bury(config.dead_letters)
            return _end(ProcessingError(f"{raised}; dead_letters='TOPIC' puts such records aside"), error)
        if fault is Fault.PROGRAM:
            wrong = "the program is wrong, and nothing of the batch is written"
            if isinstance(error, HandlerError):
                return _end(HandlerError(f"{place_of(record)}: {error}: {wrong}"), error)
            return _end(
                HandlerError(
                    f"{raised}: {wrong}. Where a record can cause this error, name {type(error).__name__} in"
                    " dead_letter_errors"
                ),
                error,
            )
        if fault is Fault.UNKNOWN and attempts > config.retries:
            return _end(
                ProcessingError(
                    f"{raised}, at each of {attempts} attempts. If the record is at fault, name"
                    f" {type(error).__name__} in dead_letter_errors; if something else is, raise RetryLater from it"
                ),
                error,
            )
        after_ms = error.after_ms if isinstance(error, RetryLater) else None
        return RetryIn(self.wait_ms(attempts) if after_ms is None else after_ms)

    def fault(self, error: Exception) -> Fault:
        """The cause of a handler's error: the record, the program, the world, or not known."""
        for base in type(error).__mro__:
            if base in self._config.dead_letter_errors:
                return Fault.RECORD
            if base in FAULTS:
                return FAULTS[base]
        return Fault.WORLD if isinstance(error, ApiError) and error.retriable else Fault.UNKNOWN


def is_of_clocks(refusal: Exception | None, *, is_dated: bool) -> bool:
    """True where brokers refuse the time of outputs which have that of this machine's clock: no record is at fault.
    Another worker, or this one once the clocks agree, gets them written. `is_dated`: some have a time of their own."""
    return isinstance(refusal, InvalidTimestampError) and not is_dated


def failure_text(error: Exception, *, is_refusal: bool) -> str:
    """The reason why a record has failed, for a person."""
    return f"{'what the handler has returned is refused with' if is_refusal else 'the handler has raised'} {error!r}"


def place_of(record: ConsumerRecord) -> str:
    """The record's place, for a person."""
    return f"{record.topic}-{record.partition}, offset {record.offset}"


def _end(ending: ProcessingError, cause: Exception) -> End:
    ending.__cause__ = cause
    return End(ending)
