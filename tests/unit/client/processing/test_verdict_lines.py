"""A topic full of records that no handler takes does not fill the log."""

from __future__ import annotations

import pytest

from penstock import ConsumerRecord
from penstock.client.processing.verdict_lines import VerdictLines
from penstock.client.processing.verdicts import Bury, End, RetryIn
from penstock.clock import ManualClock
from penstock.errors import HandlerError
from penstock.throttled_lines import SAY_INTERVAL_MS

RECORD = ConsumerRecord("in", 0, 0, 0, 0, b"k", b"1", ())


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def test_of_many_dead_letters_the_first_has_a_line_and_the_others_a_count(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(now_ms=5)
    lines = VerdictLines(clock)
    for _ in range(10_000):
        lines.tell(RECORD, Bury("dead"), "it is bad", 1)
    assert lines_of(caplog) == ["in-0, offset 0: to dead, because it is bad"]

    clock.advance(SAY_INTERVAL_MS - 1)
    lines.tell(RECORD, Bury("dead"), "it is bad", 1)
    assert lines_of(caplog) == []
    clock.advance(1)
    lines.tell(RECORD, Bury("dead"), "it is bad", 1)
    assert lines_of(caplog) == ["in-0, offset 0: to dead, because it is bad (10000 more since the last such line)"]


def test_a_flood_of_one_kind_hides_no_line_of_the_other(caplog: pytest.LogCaptureFixture) -> None:
    lines = VerdictLines(ManualClock())
    for attempt in (1, 2, 3):
        lines.tell(RECORD, Bury("dead"), "it is bad", attempt)
        lines.tell(RECORD, RetryIn(100), "nobody answers", attempt)
        lines.tell(RECORD, End(HandlerError("over")), "it is over", attempt)
    assert lines_of(caplog) == [
        "in-0, offset 0: to dead, because it is bad",
        "in-0, offset 0: again in 100 ms, because nobody answers (attempt 1)",
    ]
