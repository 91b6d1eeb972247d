"""Makes the bytes of an open file durable, by the strongest call that the system has.

    Linux, BSD    fdatasync      the bytes, and the size
    macOS         F_FULLFSYNC    its fsync leaves them in the cache of the drive, and it has no fdatasync (fsync(2))
    others        fsync

A file system of macOS that does not know F_FULLFSYNC (one that reaches over a network) gets fsync. Not here: what must
be durable, and when.
"""

from __future__ import annotations

import errno
import fcntl
import os

_UNKNOWN = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL)


def sync_data(fd: int) -> None:
    """Flushes the bytes of the file, and its size."""
    fdatasync = getattr(os, "fdatasync", None)
    if fdatasync is None or hasattr(fcntl, "F_FULLFSYNC"):
        sync_all(fd)
    else:
        fdatasync(fd)


def sync_all(fd: int) -> None:
    """Flushes the file with all of its metadata, or the names in a directory."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(fd, full)
            return
        except OSError as error:
            if error.errno not in _UNKNOWN:
                raise
    os.fsync(fd)
