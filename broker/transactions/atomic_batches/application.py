"""One application of atomic batches, as its last record has it.

`open_version` is the one that writers write now, -1 if none is. Where none is open, `accepted` has the producer ids of
the last decision: what is undecided of the application's writers is to be committed if it is named there, and aborted
else. So this record alone decides; the transactions of the writers follow, in the same turn or after a load. Not here:
decisions (decisions.py), bytes (batch_records.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.coordination.held_memory import text_bytes
from penstock.messages.transactions.atomic_batches import NO_CHECKSUM
from penstock.types import NO_TIMESTAMP

NO_VERSION: Final = -1
NOT_GIVEN: Final = -1
FENCED_RUNS_MAX: Final = 16
"""The runs that are known to be over. A run that comes back after this many others is taken for a new one."""


class BatchApplication(NamedTuple):
    """One application of atomic batches, as its last record has it. `update_ms` is the calendar's."""

    last_version: int = NO_VERSION
    """The last one that was committed."""
    last_records: int = NOT_GIVEN
    """The records of it, as its commit has told."""
    last_checksum: int = NO_CHECKSUM
    """The sum over them, as its commit has told."""
    open_version: int = NO_VERSION
    accepted: tuple[int, ...] = ()
    run: str = ""
    """The run that began last; empty if none was named."""
    fenced_runs: tuple[str, ...] = ()
    """The newest first."""
    is_one_off: bool = False
    update_ms: int = NO_TIMESTAMP

    @property
    def is_open(self) -> bool:
        return self.open_version != NO_VERSION

    def opened(self, version: int, *, is_one_off: bool, wall_ms: int) -> BatchApplication:
        """The application with this version open; the last writer that opens one says how long it is known."""
        return self._replace(open_version=version, accepted=(), is_one_off=is_one_off, update_ms=wall_ms)

    def committed(
        self, version: int, records: int, checksum: int, accepted: tuple[int, ...], wall_ms: int
    ) -> BatchApplication:
        """The application with this version committed: what these have written."""
        closed = self.closed(accepted, wall_ms)
        return closed._replace(last_version=version, last_records=records, last_checksum=checksum)

    def closed(self, accepted: tuple[int, ...], wall_ms: int) -> BatchApplication:
        """The application without an open version."""
        return self._replace(open_version=NO_VERSION, accepted=accepted, update_ms=wall_ms)

    def of_run(self, run: str) -> BatchApplication:
        """The application as another run has it."""
        fenced = (self.run, *self.fenced_runs)[:FENCED_RUNS_MAX] if self.run else self.fenced_runs
        return self._replace(run=run, fenced_runs=fenced)


def application_bytes(application: BatchApplication | None, name: str) -> int:
    """An estimate of its memory."""
    if application is None:
        return 0
    runs = sum(100 + text_bytes(run) for run in application.fenced_runs)
    return 700 + 2 * text_bytes(name) + 40 * len(application.accepted) + runs
