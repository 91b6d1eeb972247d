"""The file of the audit log (`audit.log.location`): JSON lines, which only the node's user may read, in a few files.

    {"time":"2026-11-26T22:05:58.001Z","node":1,"outcome":"done","principal":"User:admin",…}

A thread writes it, so that no disk holds up the node. A line that the file does not take, because its disk is full or
hangs, goes to the node's log with the reason, also when the node stops: no line is lost. A program that sends the lines
elsewhere reads FILE, and FILE.1 to FILE.9, the newest first. Not here: the content of the lines (`broker/audit/`).
"""

from __future__ import annotations

import errno
import logging
import os
import queue
import stat
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from broker.config.node_config import NodeConfig
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass

_log = logging.getLogger(__name__)

FILES: Final = 10
MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class AuditFileLimits:
    """The size of a file, and how much and how long the node waits for its disk."""

    file_bytes: int = 100 * 1024 * 1024
    queued_lines: int = 10_000
    """Lines that wait for the disk."""
    close_seconds: float = 2


def audit_file(config: NodeConfig) -> AuditFile | None:
    """None if audits are in the node's log. ConfigError if the file cannot be written."""
    path = config.audit_log_location
    if not path:
        return None
    try:
        return AuditFile(path, config.node_id)
    except OSError as error:
        raise _refusal(path, error) from None


def check_audit_file(config: NodeConfig) -> None:
    """ConfigError where `audit_file` would raise it. Makes and changes nothing."""
    path = config.audit_log_location
    if not path:
        return
    try:
        try:
            _check_kind(os.stat(path))
            at, needed = path, os.R_OK | os.W_OK
        except FileNotFoundError:
            at, needed = os.path.dirname(path), os.W_OK | os.X_OK
            os.stat(at)
        if not os.access(at, needed):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _refusal(path, error) from None


def _check_kind(found: os.stat_result) -> None:
    """OSError for what is no file: a pipe would hold the node up, and a device would lose its mode."""
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")


def _refusal(path: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"audit.log.location = {path}: cannot be written ({error.strerror}); name a file in a directory of the "
        "node's user, or leave it out"
    )


class AuditFile(logging.Handler):
    """The handler of one process's audits."""

    def __init__(self, path: str, node_id: int, limits: AuditFileLimits = AuditFileLimits()) -> None:
        super().__init__()
        self._path, self._node_id, self._limits = path, node_id, limits
        self._lines: queue.Queue[logging.LogRecord | None] = queue.Queue(limits.queued_lines)
        self._under_way: logging.LogRecord | None = None
        self._files = _Files(path, limits.file_bytes)
        self.setFormatter(_AuditLines(node_id))
        self._thread = threading.Thread(target=self._write, name="audit-log", daemon=True)
        self._thread.start()

    def take(self, logger: logging.Logger) -> None:
        """Takes the lines of the logger from now on; the node's log leaves them out."""
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(record)
        except queue.Full:
            self._to_nodes_log(record, "its disk does not take lines as fast as they come")

    def _write(self) -> None:
        while (record := self._lines.get()) is not None:
            self._under_way = record
            try:
                self._files.write(self.format(record).encode() + b"\n")
            except OSError as error:
                self._to_nodes_log(record, error.strerror)
            self._under_way = None

    def _to_nodes_log(self, record: logging.LogRecord, why: object) -> None:
        """Writes a line with its time: the node's log would leave out a line that is equal to another one, and two acts
        may be."""
        _log.error("the audit log %s cannot be written (%s); its line: %s", self._path, why, self.format(record))

    def close(self) -> None:
        """Waits for the lines so far, but not for a disk that hangs: the node's log has those that it holds up."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=self._limits.close_seconds)
        self._thread.join(self._limits.close_seconds)
        held = [self._under_way]
        with suppress(queue.Empty):
            while True:
                held.append(self._lines.get_nowait())
        for record in held:
            if record is not None:
                self._to_nodes_log(record, "its disk had not taken the line when the node stopped")
        super().close()

    def __repr__(self) -> str:
        return f"AuditFile({self._path})"


class _Files:
    """The newest file, and those before it. Raises OSError; the next line is tried anew."""

    def __init__(self, path: str, file_bytes: int) -> None:
        self._path, self._file_bytes = path, file_bytes
        self._is_torn = False
        """The file ends in half a line: the disk took no more of it, or the machine lost its power."""
        self._fd = self._open()

    def write(self, line: bytes) -> None:
        self._keep_the_newest(len(line))
        begun = b"\n" + line if self._is_torn else line
        written = os.write(self._fd, begun)
        self._is_torn = written < len(begun)
        if self._is_torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _keep_the_newest(self, more: int) -> None:
        """Begins a new file where the file is gone, because somebody has moved it, or is large enough."""
        here = os.fstat(self._fd)
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            named = None
        is_same = named is not None and (named.st_dev, named.st_ino) == (here.st_dev, here.st_ino)
        if is_same and here.st_size and here.st_size + more > self._file_bytes:
            for number in range(FILES - 2, 0, -1):
                with suppress(FileNotFoundError):
                    os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
            os.replace(self._path, f"{self._path}.1")
            is_same = False
        if not is_same:
            fd = self._open()
            os.close(self._fd)
            self._fd = fd

    def _open(self) -> int:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, MODE)
        try:
            found = os.fstat(fd)
            _check_kind(found)
            os.fchmod(fd, MODE)  # of one that was there
            self._is_torn = found.st_size > 0 and os.pread(fd, 1, found.st_size - 1) != b"\n"
        except BaseException:
            os.close(fd)
            raise
        return fd


class _AuditLines(logging.Formatter):
    def __init__(self, node_id: int) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f'{{"time":"{time}","node":{self._node_id},{record.getMessage()[1:]}'
