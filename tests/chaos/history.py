"""The history of a chaos run as it happened: one JSON object a line, for a look when something is wrong.

Written as it comes and never held. The judge does not read it; it has its own, smaller memory (ledger.py). What the
clients log is in it too, down to DEBUG: a stream that broke, a node that is silent, a partition that cannot be read.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path
from types import TracebackType

CLIENT_LOG = "penstock"
LOGGED_CHARACTERS_MAX = 300


class History:
    """Thread-safe; use it with `with`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._file = path.open("w", encoding="utf-8")
        self._log_handler = _LogHandler(self)

    def write(self, what: str, **details: object) -> None:
        """One event, with the seconds since the beginning."""
        line = json.dumps({"at": round(time.monotonic() - self._began, 3), "what": what, **details})
        with self._lock:
            if not self._file.closed:
                self._file.write(line + "\n")

    def __enter__(self) -> History:
        log = logging.getLogger(CLIENT_LOG)
        log.addHandler(self._log_handler)
        log.setLevel(logging.DEBUG)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        log = logging.getLogger(CLIENT_LOG)
        log.removeHandler(self._log_handler)
        log.setLevel(logging.NOTSET)
        with self._lock:
            self._file.close()


class _LogHandler(logging.Handler):
    """Writes what the clients log."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()[:LOGGED_CHARACTERS_MAX]
        self._history.write("log", level=record.levelname, logger=record.name, text=text)
