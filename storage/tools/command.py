"""The server side of `penstock log`: runs what a request asks for and prints one JSON object a line.

Started by the launcher (`penstock/node.py`) as `log-dump|log-verify|log-recover --request JSON`; the command line
renders the lines, or passes them on. Types of lines: the rows of a dump; `finding`, `log`, `change`, `recovered`,
`truncation`, `restart`, `progress` (only when asked for), and `summary` at the end.

Exit codes: 0 sound or done, 1 damage, 3 (verify) only warnings. Not here: any decision.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, field
from itertools import islice
from typing import Any

from penstock.clock import SystemClock
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.lazy_dataclass import dataclass
from penstock.plain_text import plain_json
from penstock.threads import SystemThreads
from storage.disk.disk_errors import storage_error
from storage.disk.file_system import FileSystem, OsFileSystem
from storage.tools.checkpoint_reader import read_knowledge
from storage.tools.dump_files import dump
from storage.tools.dump_log import DumpOptions, Row
from storage.tools.overlay import OverlayFileSystem
from storage.tools.recorded import Change
from storage.tools.recover import Recovered, RecoverOptions, recover
from storage.tools.target import LogPath, Target, find_target
from storage.tools.truncation import Repair, Restart, Truncation, find_repair, find_repairs
from storage.tools.verify.findings import Finding, LogReport
from storage.tools.verify.verify_log import VerifyOptions
from storage.tools.verify.verify_log_dir import verify
from storage.tools.work import bytes_to_recover, bytes_to_verify

EXIT_DONE, EXIT_DAMAGE, EXIT_WARNINGS = 0, 1, 3
EXIT_INTERRUPTED = 130
PROGRESS_BYTES = 16 * 1024 * 1024
"""The bytes between two progress lines: several lines a second at the speed of a good disk."""


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """The request of the command line; each action uses only its own fields."""

    path: str
    progress: bool = False
    what: str = "batches"
    from_offset: int = 0
    count: int = 0
    max_bytes: int | None = None
    deep: bool = False
    dry_run: bool = False
    rebuild_indexes: bool = False
    plan_truncation: bool = False
    truncate_at: dict[str, int] = field(default_factory=dict)
    start_at: dict[str, int] = field(default_factory=dict)


def main(action: str, request_json: str) -> int:
    """Runs one action; its exit code."""
    logging.getLogger().addHandler(logging.NullHandler())  # recovery's log messages are printed as lines here
    try:
        request = ToolRequest(**json.loads(request_json))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{action}: --request: {error}; use the command `penstock log`") from error
    try:
        return _ACTIONS[action](request, _Lines(request.progress))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise ConfigError(f"{error.filename or request.path}: {error.strerror}") from error
    except OSError as error:
        raise storage_error("read", str(error.filename or request.path), error) from error


class _Lines:
    """The lines on stdout, and the progress among them."""

    def __init__(self, wants_progress: bool) -> None:
        self._wants_progress = wants_progress
        self._clock = SystemClock()
        self._started_ms = self._clock.now_ms()
        self.read_bytes = self._reported_bytes = 0

    def write(self, row: Row, *, flush: bool = True) -> None:
        sys.stdout.buffer.write(plain_json(json.dumps(row, ensure_ascii=False)).encode() + b"\n")
        if flush:
            sys.stdout.buffer.flush()

    def begin(self, total_bytes: int) -> None:
        if self._wants_progress:
            self.write({"type": "progress", "bytes": 0, "total_bytes": total_bytes})

    def on_read(self, count: int) -> None:
        self.read_bytes += count
        if self._wants_progress and self.read_bytes - self._reported_bytes >= PROGRESS_BYTES:
            self._reported_bytes = self.read_bytes
            self.write({"type": "progress", "bytes": self.read_bytes})

    def speed(self) -> Row:
        seconds = (self._clock.now_ms() - self._started_ms) / 1000
        return {
            "read_bytes": self.read_bytes,
            "seconds": round(seconds, 3),
            "mb_per_s": round(self.read_bytes / 1e6 / max(seconds, 1e-6), 1),
        }


def _dump(request: ToolRequest, lines: _Lines) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that closes the pipe ends it
    options = DumpOptions(request.what, request.from_offset, request.max_bytes)
    problems = 0
    for row in islice(dump(OverlayFileSystem(), request.path, options), request.count or None):
        lines.write(row, flush=False)
        problems += row["type"] == "problem"
    sys.stdout.buffer.flush()
    return EXIT_DAMAGE if problems else EXIT_DONE


def _verify(request: ToolRequest, lines: _Lines) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    fs = OverlayFileSystem()
    target = find_target(fs, request.path)
    lines.begin(bytes_to_verify(fs, target))
    totals = dict.fromkeys(("damage", "warning", "note", "logs", "segments", "batches", "records"), 0)
    for found in verify(target, VerifyOptions(request.deep, lines.on_read)):
        lines.write(_line(found))
        if isinstance(found, Finding):
            totals[found.severity] += 1
        else:
            totals["logs"] += 1
            for name in ("segments", "batches", "records"):
                totals[name] += getattr(found, name)
    lines.write({"type": "summary", **totals, **lines.speed()})
    if totals["damage"]:
        return EXIT_DAMAGE
    return EXIT_WARNINGS if totals["warning"] else EXIT_DONE


def _recover(request: ToolRequest, lines: _Lines) -> int:
    fs: FileSystem = OverlayFileSystem() if request.dry_run or request.plan_truncation else OsFileSystem()
    target = find_target(fs, request.path)
    if request.plan_truncation:
        return _plan_truncation(target, lines, fs)
    lines.begin(bytes_to_recover(fs, target))
    agreed_at = _agreed_at(target)
    options = RecoverOptions(request.rebuild_indexes, request.truncate_at, request.start_at, agreed_at, lines.on_read)
    logs = refused = changes = 0
    for found in recover(fs, target, options, SystemThreads(), SystemClock()):
        lines.write(_line(found))
        logs += isinstance(found, Recovered)
        refused += isinstance(found, Finding)
        changes += isinstance(found, Change)
    counts: Row = {"logs": logs, "refused": refused, "changes": changes, "dry_run": request.dry_run}
    lines.write({"type": "summary", **counts, **lines.speed()})
    return EXIT_DAMAGE if refused else EXIT_DONE


def _agreed_at(target: Target) -> Callable[[LogPath], int | None]:
    knowledge = read_knowledge(target.log_dir)

    def agreed_at(log: LogPath) -> int | None:
        found = find_repair(log, knowledge, lambda count: None)
        return found.offset if found is not None else None

    return agreed_at


def _plan_truncation(target: Target, lines: _Lines, fs: FileSystem) -> int:
    if read_knowledge(target.log_dir).is_in_use:
        raise MetaPropertiesError(f"{target.log_dir} is in use by a running node; stop it first")
    lines.begin(bytes_to_verify(fs, target))
    for found in find_repairs(target, lines.on_read):
        lines.write(_line(found))
    return EXIT_DONE


def _line(found: Finding | LogReport | Change | Recovered | Repair) -> Row:
    fields: dict[str, Any] = found._asdict() if isinstance(found, Change) else asdict(found)
    return {"type": _TYPES[type(found)], **{name: value for name, value in fields.items() if value not in (None, "")}}


_TYPES: dict[type, str] = {
    Finding: "finding",
    LogReport: "log",
    Change: "change",
    Recovered: "recovered",
    Truncation: "truncation",
    Restart: "restart",
}
_ACTIONS: dict[str, Callable[[ToolRequest, _Lines], int]] = {
    "log-dump": _dump,
    "log-verify": _verify,
    "log-recover": _recover,
}
