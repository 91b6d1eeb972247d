"""Promises of the judge of errors: only the record's own fault makes a dead letter."""

from __future__ import annotations

import json
import random

import pytest

from penstock import ConsumerRecord
from penstock.backoff import Backoff
from penstock.client.processing.processing_options import ProcessingConfig
from penstock.client.processing.verdicts import Bury, End, Fault, RetryIn, Verdicts
from penstock.errors import (
    BootstrapError,
    ConfigError,
    HandlerError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    RetryLater,
    TimedOutError,
)

RECORD = ConsumerRecord("orders", 2, 7, 0, 0, None, b"{", ())


class BadOrder(Exception):
    """An error of the user's own."""


class PartnerAway(ConnectionError):
    """An outage of the user's own."""


def verdicts(**options: object) -> Verdicts:
    config = ProcessingConfig(**options)  # type: ignore[arg-type]
    return Verdicts(config, Backoff(config.backoff_ms, config.backoff_max_ms, random.Random(0)))


@pytest.mark.parametrize(
    "error, fault",
    [
        (json.JSONDecodeError("no", "{", 1), Fault.RECORD),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), Fault.RECORD),
        (KeyError("amount"), Fault.RECORD),
        (ZeroDivisionError(), Fault.RECORD),
        (ConnectionRefusedError(), Fault.WORLD),
        (PartnerAway(), Fault.WORLD),
        (TimeoutError(), Fault.WORLD),
        (RetryLater(), Fault.WORLD),
        (TimedOutError(), Fault.WORLD),
        (BootstrapError(), Fault.WORLD),
        (NotLeaderOrFollowerError(), Fault.WORLD),
        (MessageTooLargeError(), Fault.UNKNOWN),
        (TypeError(), Fault.PROGRAM),
        (UnboundLocalError(), Fault.PROGRAM),
        (ModuleNotFoundError(), Fault.PROGRAM),
        (RuntimeError(), Fault.UNKNOWN),
        (NotImplementedError(), Fault.PROGRAM),
        (ConfigError(), Fault.PROGRAM),
        (HandlerError(), Fault.PROGRAM),
        (FileNotFoundError(), Fault.UNKNOWN),
        (BadOrder(), Fault.UNKNOWN),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else each.name,
)
def test_each_error_has_somebody_whose_fault_it_is(error: Exception, fault: Fault) -> None:
    assert verdicts().fault(error) is fault


def test_the_users_word_counts_and_the_nearest_class_decides() -> None:
    everything = verdicts(dead_letters="dead", dead_letter_errors=(Exception,))
    assert everything.fault(BadOrder()) is Fault.RECORD
    assert everything.fault(ConnectionResetError()) is Fault.WORLD, "an outage is no record's fault"
    assert everything.fault(TypeError()) is Fault.PROGRAM
    named = verdicts(dead_letters="dead", dead_letter_errors=(TypeError, ConnectionError, BadOrder))
    assert {named.fault(error) for error in (TypeError(), ConnectionResetError(), BadOrder())} == {Fault.RECORD}
    assert named.fault(ValueError()) is Fault.UNKNOWN, "the tuple replaces the one that is the default"


def test_a_record_at_fault_is_buried_at_once_or_ends_the_call() -> None:
    assert verdicts(dead_letters="dead").of(RECORD, ValueError(), 1) == Bury("dead")
    ended = verdicts().of(RECORD, ValueError("no"), 1)
    assert isinstance(ended, End) and "dead_letters='TOPIC' puts such records aside" in str(ended.error)
    assert "orders-2, offset 7" in str(ended.error) and isinstance(ended.error.__cause__, ValueError)


def test_waits_double_up_to_the_limit_each_less_up_to_a_fifth() -> None:
    judge = verdicts(backoff_ms=100, backoff_max_ms=1_000)
    full = [100, 200, 400, 800, 1_000, 1_000]
    for attempt, most in enumerate(full, 1):
        again = judge.of(RECORD, ConnectionError(), attempt)
        assert isinstance(again, RetryIn) and most * 0.8 <= again.wait_ms <= most
    waits = {judge.wait_ms(5) for _ in range(20)}
    assert len(waits) > 5, "processors that failed together do not come back together"


def test_a_handler_may_say_when() -> None:
    assert verdicts().of(RECORD, RetryLater("at the partner's word", after_ms=30_000), 50) == RetryIn(30_000)
    with pytest.raises(ValueError, match="after_ms=-1"):
        RetryLater(after_ms=-1)


def test_an_outage_has_no_last_attempt_and_an_error_that_nobody_knows_has() -> None:
    judge = verdicts(retries=9, dead_letters="dead")
    assert isinstance(judge.of(RECORD, ConnectionError(), 10_000), RetryIn)
    assert isinstance(judge.of(RECORD, BadOrder(), 9), RetryIn)
    ended = judge.of(RECORD, BadOrder(), 10)
    assert isinstance(ended, End) and "name BadOrder in dead_letter_errors" in str(ended.error)
    assert isinstance(verdicts(retries=0).of(RECORD, BadOrder(), 1), End)


def test_a_mistake_of_the_program_ends_the_call_at_the_first_time() -> None:
    ended = verdicts(dead_letters="dead").of(RECORD, AttributeError("'NoneType' has no attribute 'decode'"), 1)
    assert isinstance(ended, End) and isinstance(ended.error, HandlerError)
    assert "name AttributeError in dead_letter_errors" in str(ended.error)
