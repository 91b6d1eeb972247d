"""Whether one log may be used: open, failed, closed; and what an error of its disk means to it.

A shortage (no room, no descriptors) refuses the one operation. Anything else leaves unknown what is on the disk, so
that everything but reads is refused from then on (ATC'20). Not here: what becomes of the log dir (broker).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import KafkaStorageError
from storage.disk.disk_errors import is_shortage, storage_error


class LogHealth:
    """The state of one log's disk, as far as the log has met it."""

    __slots__ = ("closed", "failure", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.failure: KafkaStorageError | None = None
        self.closed = False

    def fail(self, action: str, error: OSError, path: str | None = None) -> KafkaStorageError:
        """What is on the disk is not known any more: refuse everything but reads. The error to raise."""
        self.failure = storage_error(action, path or self.path, error)
        self.failure.__cause__ = error
        return self.failure

    def refuse(self, action: str, error: OSError) -> KafkaStorageError:
        """A shortage refuses this one operation, anything else all that come after it. The error to raise."""
        return storage_error(action, self.path, error) if is_shortage(error) else self.fail(action, error)

    @contextmanager
    def failing(self, action: str) -> Iterator[None]:
        """An error of the disk inside is final for the log; raised as the typed error."""
        try:
            yield
        except OSError as error:
            raise self.fail(action, error) from error

    @contextmanager
    def refusing(self, action: str) -> Iterator[None]:
        """A shortage inside only refuses the operation; raised as the typed error."""
        try:
            yield
        except OSError as error:
            raise self.refuse(action, error) from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """An error of the disk inside is raised as the typed error; what it means is for the broker to say."""
        try:
            yield
        except OSError as error:
            raise storage_error("read", self.path, error) from error

    def must_be_open(self) -> None:
        if self.closed:
            raise KafkaStorageError(f"{self.path}: the log is closed")

    def must_be_writable(self) -> None:
        self.must_be_open()
        if self.failure is not None:
            raise self.failure.with_traceback(None)  # raised many times: it would keep every caller's frames

    def __repr__(self) -> str:
        return f"LogHealth({self.path}, {'closed' if self.closed else self.failure or 'good'})"
