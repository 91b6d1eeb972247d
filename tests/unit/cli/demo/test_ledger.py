"""The demo's ledger: where the stream may go, and what counts as acking again."""

from __future__ import annotations

import time

import pytest

from penstock.cli.demo.ledger import Ledger, Sent
from penstock.errors import PenstockError, TimedOutError

PAUSE_S = 0.001


def sent(partition: int, size_bytes: int) -> Sent:
    return Sent(partition, size_bytes, time.monotonic())


def test_the_stream_runs_to_the_limit_and_on_when_it_is_lifted() -> None:
    ledger = Ledger({0: 50, 1: 50})
    ledger.set_limit(0.5)
    assert ledger.wait_turn(PAUSE_S)
    ledger.on_sent(50)
    ledger.watch({0})
    assert not ledger.wait_turn(PAUSE_S)
    ledger.set_limit(1.0)
    ledger.on_sent(50)
    assert ledger.wait_turn(PAUSE_S), "the last turn, which finds nothing, may be taken too"


def test_only_what_was_sent_after_the_kill_acks_again() -> None:
    ledger = Ledger({0: 50, 1: 50})
    before = sent(0, 10)
    ledger.watch({0})
    ledger.on_acked(before)
    with pytest.raises(TimedOutError):
        ledger.wait_acked_again(PAUSE_S)
    ledger.on_acked(sent(1, 10))
    ledger.on_acked(sent(0, 10))
    assert set(ledger.wait_acked_again(PAUSE_S)) == {0}


def test_a_partition_without_a_record_left_is_not_waited_for() -> None:
    ledger = Ledger({0: 10, 1: 50})
    ledger.on_acked(sent(0, 10))
    ledger.watch({0, 2})
    assert ledger.wait_acked_again(PAUSE_S) == {}


def test_what_is_left_is_what_is_not_acked() -> None:
    ledger = Ledger({0: 10, 1: 50})
    ledger.on_sent(60)
    ledger.on_acked(sent(1, 20))
    assert ledger.left_bytes() == {0: 10, 1: 30}
    ledger.wait_acked(0.33)


def test_the_first_failure_ends_the_stream_and_every_wait() -> None:
    ledger = Ledger({0: 10})
    ledger.fail(PenstockError("first"))
    ledger.fail(PenstockError("second"))
    with pytest.raises(PenstockError, match="first"):
        ledger.wait_turn(PAUSE_S)
    with pytest.raises(PenstockError, match="first"):
        ledger.wait_acked(1.0)
