"""When a log must be flushed although no request waits for it: flush.messages and flush.ms. Pure.

A flush is due only with `flush.policy=os`: with fsync every acked record is flushed already. The broker asks
regularly, with monotonic time. Not here: a full segment is flushed whatever these keys say
(`Log.has_unflushed_segment`).
"""

from __future__ import annotations

from storage.log_config import LogConfig


class FlushSchedule:
    """Remembers since when one log has unflushed records."""

    __slots__ = ("_dirty_since_ms",)

    def __init__(self) -> None:
        self._dirty_since_ms: int | None = None

    def flushed(self) -> None:
        self._dirty_since_ms = None

    def is_due(self, unflushed: int, config: LogConfig, now_ms: int) -> bool:
        """`unflushed` counts records; time runs from the first call that sees one."""
        if not unflushed:
            self._dirty_since_ms = None
            return False
        if self._dirty_since_ms is None:
            self._dirty_since_ms = now_ms
        if config.flush_messages is not None and unflushed >= config.flush_messages:
            return True
        return config.flush_ms is not None and now_ms - self._dirty_since_ms >= config.flush_ms
