"""The history of a chaos run as it happened: one JSON object a line, for a look when something is wrong.

Written as it comes and never held. The judge does not read it; it has its own, smaller memory (ledger.py).
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import TracebackType


class History:
    """Thread-safe; use it with `with`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._file = path.open("w", encoding="utf-8")

    def write(self, what: str, **details: object) -> None:
        """One event, with the seconds since the beginning."""
        line = json.dumps({"at": round(time.monotonic() - self._began, 3), "what": what, **details})
        with self._lock:
            if not self._file.closed:
                self._file.write(line + "\n")

    def __enter__(self) -> History:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._file.close()
