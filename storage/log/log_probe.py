"""The port through which a log tells of itself in the moment of a change, by the name of its directory.

A call for an append, a roll or a cut, never one for a record. In production nobody listens. The simulator
does: its invariants compare a log with its disk before anything else happens. Not here: counts for operators
(`LogStatistics`), and what the broker makes of a change (`partition.py`).
"""

from __future__ import annotations

from typing import Protocol

from penstock.errors import ApiError


class LogProbe(Protocol):
    """Called in the midst of the work: must not raise, and must leave the log alone."""

    def appending(self, directory: str) -> None:
        """Batches are about to be written."""
        return

    def append_refused(self, directory: str, error: ApiError) -> None:
        """The append that was begun has been taken back, as far as that was possible."""
        return

    def rolled(self, directory: str) -> None:
        """A new segment was begun."""
        return

    def cut(self, directory: str) -> None:
        """The end was cut, or everything; start, end and epochs are those of the segments that are left."""
        return


class UnheardLog(LogProbe):
    """Ignores everything: the probe of a process."""


UNHEARD_LOG = UnheardLog()
