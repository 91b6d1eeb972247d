"""How far a log counts as flushed by its policy, and when it must be flushed although no request waits for it. Pure.

With `flush.policy=os` the log end counts, which is LOSSY and opt-in; flush.messages and flush.ms then bound what a
power cut takes. With fsync every acked record is flushed already. The broker asks regularly, with monotonic time. A
full segment is flushed whatever these keys say. Not here: what is really durable, and how it gets there (flush.py).
"""

from __future__ import annotations

from storage.log.log_parts import LogParts


class FlushSchedule:
    """Remembers since when one log has unflushed records."""

    __slots__ = ("_dirty_since_ms", "_flushing", "_segments", "_settings", "_span")

    def __init__(self, parts: LogParts) -> None:
        self._settings, self._span = parts.settings, parts.span
        self._flushing, self._segments = parts.flushing, parts.segments
        self._dirty_since_ms: int | None = None

    @property
    def flushed_offset(self) -> int:
        """Every record below it counts as durable by the flush policy; acks wait for it."""
        return self._span.end if self._settings.flush_policy == "os" else self._flushing.recovery_point

    def flushed(self) -> None:
        """A flush has completed."""
        self._dirty_since_ms = None

    @property
    def has_unflushed_segment(self) -> bool:
        """A full one: it is flushed soon with flush.policy=os as well, or it could not be cleaned."""
        return self._flushing.recovery_point < self._segments.active.base_offset

    def is_due(self, now_ms: int) -> bool:
        """True if a roll, flush.messages or flush.ms asks for a flush; called regularly, with monotonic time."""
        return self.has_unflushed_segment or self._is_long_dirty(now_ms)

    def _is_long_dirty(self, now_ms: int) -> bool:
        """Time runs from the first call that sees an unflushed record."""
        config, unflushed = self._settings.config, self._span.end - self._flushing.recovery_point
        if not unflushed:
            self._dirty_since_ms = None
            return False
        if self._dirty_since_ms is None:
            self._dirty_since_ms = now_ms
        if config.flush_messages is not None and unflushed >= config.flush_messages:
            return True
        return config.flush_ms is not None and now_ms - self._dirty_since_ms >= config.flush_ms

    def __repr__(self) -> str:
        return f"FlushSchedule({self._settings.flush_policy}, {self._flushing!r})"
