"""The health of one log (open, failed, closed): judges what an error of its disk means for it.

A shortage (no room, no descriptors) refuses one operation. After any other error the content of the disk is not known,
so from then on every operation but reading is refused (Rebello et al., "Can Applications Recover from fsync Failures?",
ATC'20). The broker decides what becomes of the log dir.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import KafkaStorageError
from storage.disk.disk_errors import is_shortage, storage_error


class LogHealth:
    """The health of one log, by the disk errors that it has met."""

    __slots__ = ("closed", "failure", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.failure: KafkaStorageError | None = None
        self.closed = False

    def fail(self, action: str, error: OSError, path: str | None = None) -> KafkaStorageError:
        """Refuses everything but reads from now on, because the content of the disk is not known. Returns the error to
        raise."""
        self.failure = storage_error(action, path or self.path, error)
        return self.failure

    def refuse(self, action: str, error: OSError) -> KafkaStorageError:
        """A shortage refuses this operation only; any other error fails the log. The error to raise."""
        return storage_error(action, self.path, error) if is_shortage(error) else self.fail(action, error)

    @contextmanager
    def failing(self, action: str) -> Iterator[None]:
        """A disk error in the block fails the log; it is raised as the typed error."""
        try:
            yield
        except OSError as error:
            raise self.fail(action, error) from error

    @contextmanager
    def refusing(self, action: str) -> Iterator[None]:
        """A shortage in the block refuses the operation only; it is raised as the typed error."""
        try:
            yield
        except OSError as error:
            raise self.refuse(action, error) from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A disk error in the block is raised as the typed error; the broker decides what follows."""
        try:
            yield
        except OSError as error:
            raise storage_error("read", self.path, error) from error

    def close(self) -> None:
        """The log is closed: it takes and gives nothing more."""
        self.closed = True

    def must_be_open(self) -> None:
        if self.closed:
            raise KafkaStorageError(f"{self.path}: the log is closed")

    def must_be_writable(self) -> None:
        self.must_be_open()
        if self.failure is not None:
            raise self.failure.with_traceback(None)  # one error for all callers: it must not keep their frames

    def __repr__(self) -> str:
        return f"LogHealth({self.path}, {'closed' if self.closed else self.failure or 'good'})"
