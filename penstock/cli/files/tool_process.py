"""The process that does the work of `penstock log` and `penstock metadata`, and the progress that it reports.

The process writes one JSON object a line into a pipe. Lines of type `progress` become a bar on stderr; they are asked
for only when stderr is a terminal. The process writes its errors to stderr and dies with this one. `log_text.py` knows
what the other lines mean.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from penstock.errors import PenstockError
from penstock.node import PARENT_VARIABLE, node_command

_PROGRESS = b'{"type": "progress"'


class ToolProcess:
    """One run of a log action; its exit code is known after the `with`."""

    def __init__(self, action: str, request: Mapping[str, Any]) -> None:
        request = {**request, "progress": sys.stderr.isatty()}
        self._process = subprocess.Popen(
            node_command(action, "--request", json.dumps(request)),
            stdout=subprocess.PIPE,
            env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
        )
        self._bar: _Bar | None = None
        self.last_line = b""
        self.exit_code = 0

    def __enter__(self) -> ToolProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hide()
        with self._process as process:
            if error is not None:
                process.terminate()
        if error is None and process.returncode < 0:
            raise PenstockError(
                f"the process that reads the files was ended by signal {-process.returncode}; run the command again"
            )
        self.exit_code = process.returncode

    def pass_on(self) -> None:
        """Every line to stdout, as it is."""
        for line in self._lines():
            with self.bar_hidden():
                sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every line, parsed."""
        for line in self._lines():
            self.last_line = line
            yield json.loads(line)

    def _lines(self) -> Iterator[bytes]:
        for line in self._process.stdout or ():
            if line.startswith(_PROGRESS):
                self._show(json.loads(line))
            else:
                yield line

    def _show(self, progress: Mapping[str, Any]) -> None:
        if self._bar is None:
            self._bar = _Bar(progress["total_bytes"])
        self._bar.update(progress["bytes"])

    def _hide(self) -> None:
        if self._bar is not None:
            self._bar.hide()

    @contextmanager
    def bar_hidden(self) -> Iterator[None]:
        """Hides the bar while a line is printed, if both are on a terminal."""
        if sys.stdout.isatty():
            self._hide()
        yield

    def __repr__(self) -> str:
        return f"ToolProcess({self._process.pid})"


class _Bar:
    """Bytes read, on stderr."""

    def __init__(self, total_bytes: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._progress = Progress(
            *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._task = self._progress.add_task("", total=total_bytes)

    def update(self, read_bytes: int) -> None:
        """Shows it again if it was hidden."""
        self._progress.start()
        self._progress.update(self._task, completed=read_bytes)

    def hide(self) -> None:
        self._progress.stop()
