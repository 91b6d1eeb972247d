"""The parts of the machine that storage needs, in one value that the log manager gets and shares out.

Not here: the event loop (`stop_wait.py` and `group_commit.py` run on the caller's), configuration.
"""

from __future__ import annotations

from penstock.clock import Clock
from penstock.ids import Ids
from penstock.lazy_dataclass import dataclass
from penstock.threads import Threads
from storage.disk.file_system import FileSystem


@dataclass(frozen=True, slots=True)
class Machine:
    """Ports to the disk, to time, to threads and to new ids."""

    file_system: FileSystem
    clock: Clock
    threads: Threads
    ids: Ids
    descriptors_max: int
    """How many files, sockets and pipes this process may have open (ulimit -n, LimitNOFILE=)."""
