"""An `OSError` becomes a `KafkaStorageError` that names the file and the remedy: the one mapping, at storage's edge.

The `OSError` stays as `__cause__`, so that the broker can tell a full disk (refuse writes, go on reading) from a broken
one (take the log dir offline). The broker decides what goes offline.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from penstock.errors import ApiError, KafkaStorageError

_REMEDIES = {
    errno.ENOSPC: "the disk is full: free space or lower retention",
    errno.EDQUOT: "the disk quota is used up: raise it or free space",
    errno.EROFS: "the file system is read-only: look for disk errors in the kernel log, remount it, restart the broker",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n, LimitNOFILE=) and restart the broker",
    errno.ENFILE: "too many open files on this machine: raise fs.file-max and restart the broker",
    errno.EIO: "the disk failed: read the kernel log, replace the disk; the replica is then rebuilt from the leader",
    errno.EACCES: "no permission: give the directory to the user that runs the broker",
    errno.EPERM: "no permission: give the directory to the user that runs the broker",
    errno.EBUSY: "wait: the broker goes on by itself once the disk answers",
    errno.ETIMEDOUT: "the disk hangs: read the kernel log, repair or replace the disk, restart the broker",
    errno.ENOENT: "the file is gone: it was removed under the running broker; restart the broker",
}


def storage_error(action: str, path: str, error: OSError, *, is_tried_again: bool = False) -> KafkaStorageError:
    """The typed error for a failed file operation, with `error` as its cause. `is_tried_again`: of one that a full disk
    only puts off."""
    remedy = _REMEDIES.get(error.errno or 0, "read the kernel log and check the disk")
    hope = "; the broker goes on by itself once there is room" if is_tried_again and is_disk_full(error) else ""
    failure = KafkaStorageError(f"{path}: cannot {action}: {error.strerror or error}; {remedy}{hope}")
    failure.__cause__ = error  # also of an error that is returned, or kept: a caller may ask what it comes from
    return failure


def offline_error(path: str, error: Exception) -> ApiError:
    """Why the log or log dir at `path` is offline: the error as a typed one, with the remedy if the disk is the
    cause."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, OSError):
        return storage_error("be used any more", path, error)
    return KafkaStorageError(f"{path}: cannot be used any more: {error}")


OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""The process, or the machine, has no descriptors left."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_SHORTAGES = (*_NO_ROOM, *OUT_OF_DESCRIPTORS)


class RollAwaitedError(OSError):
    """A segment cannot take an append at all, and the next one is begun once the disk answers: try again soon."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EBUSY, "the segment is full, and the next one waits for the disk", path)


class FlushDeferredError(OSError):
    """A flush could not begin for lack of room or descriptors. No data is lost; the flush may be tried again."""


def is_shortage(error: BaseException | None) -> bool:
    """True when this error or a cause of it is a lack of room or descriptors, or a segment that is not there yet: the
    operation may succeed later."""
    return any(
        isinstance(cause, OSError) and (cause.errno in _SHORTAGES or isinstance(cause, RollAwaitedError))
        for cause in _causes(error)
    )


def is_disk_full(error: BaseException | None) -> bool:
    """True when this error or a cause of it is a full disk: the only disk error that does not fail the log dir."""
    return any(isinstance(cause, OSError) and cause.errno in _NO_ROOM for cause in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, its cause, and so on; each only once, because an error can be its own cause."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__
