"""Notes the logs whose full segments cannot be cleaned yet, and says so where that lasts.

A pass takes full segments that are flushed and below the last stable offset. Each roll leaves one for a moment that is
not. If it stays so (the ISR is too small to commit, a disk takes no flush, a transaction hangs), the log grows without
bound, and nothing else tells. A line is written once the log has been dirty enough for `PATIENCE_MS`, and again each
`AGAIN_MS`.

Not here: the share that is not cleaned (`Assessment.uncleaned_ratio`), and flushes (`group_commit.py`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from penstock.types import TopicPartition

_log = logging.getLogger(__name__)

PATIENCE_MS = 60_000
AGAIN_MS = 60 * 60_000


@dataclass(slots=True)
class _HeldUp:
    since_ms: int
    said_ms: int | None = None


class HeldUpLogs:
    """The logs of a node that are due for cleaning, but held up."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, _HeldUp] = {}

    def note(self, found: dict[TopicPartition, str], now_ms: int) -> None:
        """These logs are held up now, and why; no others are. Monotonic time."""
        self._held = {one: self._held.get(one) or _HeldUp(now_ms) for one in found}
        for topic_partition, why in found.items():
            held = self._held[topic_partition]
            waited_ms = now_ms - held.since_ms
            if waited_ms >= PATIENCE_MS and (held.said_ms is None or now_ms - held.said_ms >= AGAIN_MS):
                held.said_ms = now_ms
                _log.warning(
                    "%s: not cleaned for %d s, although it is due: %s", topic_partition, waited_ms // 1000, why
                )

    def __repr__(self) -> str:
        return f"HeldUpLogs({len(self._held)})"
