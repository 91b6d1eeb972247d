"""Reads of logs by the parts of this broker: records at once, or after a thread of the log dir has asked the disk.

The way of a reader that has no fetch session and no answer to build: the loading of state that is kept in a log
(coordination/loading.py), and the copy of a log that moves (jobs/log_dir_moves/move_copy.py). `wait_read` tries the
read (`Partition.read`). If the disk must be asked, a thread does that (`LaterRead`), and the read is tried again with
what the thread has read. The partition takes those bytes only if it would read the same ones now. So a log that is
cleaned or cut meanwhile is read anew, and never answers with records of another history.

Not here: fetch sessions, which never wait for one partition, take turns at a disk, and pay for what is read from the
memory of their answers (`apis/fetch_sessions/cold_fetches.py`, around the same `Partition.read`). News of more records:
a `PartitionWatcher` gets it. The role of this broker: a caller knows whether it leads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from broker.replication.partition import Partition
from storage.log.later_read import LaterRead
from storage.log.log_reader import Records

RunInThread = Callable[[str, Callable[[], object]], Awaitable[object]]
"""Does the work in a thread of the log dir, and ends after it. An error but CancelledError: the work was not begun."""


def _always() -> bool:
    return True


class LeaderReads:
    """Reads for one user of logs, on the event loop."""

    def __init__(self, run: RunInThread) -> None:
        self._run = run

    async def wait_read(
        self, partition: Partition, offset: int, max_bytes: int, *, goes_on: Callable[[], bool] = _always
    ) -> Records:
        """Whole batches from the offset on, up to the log end; the errors are those of `Partition.read`. No records if
        a thread had to read, and `goes_on` was False after that."""
        later: LaterRead | None = None
        while True:
            found = partition.read(offset, max_bytes, is_replica=True, later=later)
            if isinstance(found, Records):
                return found
            later = found
            await self._wait_run(partition.log.log_dir, later)
            if not goes_on():
                return Records(b"", offset)

    async def _wait_run(self, log_dir: str, later: LaterRead) -> None:
        try:
            await self._run(log_dir, later.run)
        except Exception:  # no thread
            later.discard()
            raise
        except BaseException:  # the caller is cancelled, its thread goes on
            later.cancel()
            raise

    def __repr__(self) -> str:
        return f"LeaderReads({self._run!r})"
