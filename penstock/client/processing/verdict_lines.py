"""The log lines about records whose handler has raised: the first of a kind at once, then one in a while with a count.

A topic full of records that no handler takes would fill the log: each dead letter has its reason in its own headers,
and `ProcessingStatistics` counts them all. Dead letters and retries are two kinds. The end of a call is no line here:
it is raised. Not here: the verdicts (verdicts.py).
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.client.processing.verdicts import Bury, RetryIn, Verdict, place_of
from penstock.clock import Clock

AGAIN_MS: Final = 30_000
"""The time between two lines of a kind; as long as a producer waits before it says again why nothing is acked."""

_log = logging.getLogger(__name__)


class VerdictLines:
    """The lines of one processor."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[type, tuple[int, int]] = {}
        """The time of the last line of each kind, and how many were left out since."""

    def tell(self, record: ConsumerRecord, verdict: Verdict, why: str, attempts: int) -> None:
        if not isinstance(verdict, (Bury, RetryIn)) or (more := self._due(type(verdict))) is None:
            return
        if isinstance(verdict, Bury):
            _log.warning("%s: to %s, because %s%s", place_of(record), verdict.topic, why, more)
        else:
            text = "%s: again in %d ms, because %s (attempt %d)%s"
            _log.warning(text, place_of(record), verdict.wait_ms, why, attempts, more)

    def _due(self, kind: type) -> str | None:
        """The line's addition about those that were left out before it; None: leave this one out, too."""
        now_ms = self._clock.now_ms()
        said_ms, unsaid = self._said.get(kind, (now_ms - AGAIN_MS, 0))
        if now_ms - said_ms < AGAIN_MS:
            self._said[kind] = said_ms, unsaid + 1
            return None
        self._said[kind] = now_ms, 0
        return f" ({unsaid} more since the last such line)" if unsaid else ""

    def __repr__(self) -> str:
        return f"VerdictLines({len(self._said)} kinds)"
