"""The log lines about records whose handler has raised: the first of a kind at once, then one in a while with a count.

A topic full of records that no handler takes would fill the log: each dead letter has its reason in its own headers,
and `ProcessingStatistics` counts them all. Dead letters and retries are two kinds. The end of a call is no line here:
it is raised. Not here: the verdicts (verdicts.py), and when a line is due (penstock/throttled_lines.py).
"""

from __future__ import annotations

import logging

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.processing.verdicts import Bury, RetryIn, Verdict, place_of
from penstock.clock import Clock
from penstock.throttled_lines import ThrottledLines

_log = logging.getLogger(__name__)


class VerdictLines:
    """The lines of one processor."""

    def __init__(self, clock: Clock) -> None:
        self._lines = ThrottledLines(clock.now_ms)

    def tell(self, record: ConsumerRecord, verdict: Verdict, why: str, attempts: int) -> None:
        if not isinstance(verdict, Bury | RetryIn):
            return
        left_out = self._lines.left_out(type(verdict).__name__)
        if left_out is None:
            return
        more = f" ({left_out} more since the last such line)" if left_out else ""
        if isinstance(verdict, Bury):
            _log.warning("%s: to %s, because %s%s", place_of(record), verdict.topic, why, more)
        else:
            text = "%s: again in %d ms, because %s (attempt %d)%s"
            _log.warning(text, place_of(record), verdict.wait_ms, why, attempts, more)

    def __repr__(self) -> str:
        return f"VerdictLines({self._lines!r})"
