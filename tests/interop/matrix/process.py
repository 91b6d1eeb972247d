"""A driver as a process: one question, one answer, each with a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.interop.drivers.serve import WAIT_S

ANSWER_S = 4.0 * WAIT_S
"""More than a driver waits for anything itself, which is three times WAIT_S."""
MESSAGE_MAX = 400


class ClientError(Exception):
    """The client failed; the text is its own."""


class NoAnswerError(ClientError):
    """It may come later."""


class NotOfferedError(Exception):
    """The client has no way to do this."""


class DriverProcess:
    """One driver, from `with` to its end. The end of its stderr goes into the error of a driver that died.
    `login` are variables (tests/interop/drivers/login.py)."""

    def __init__(self, command: list[str], bootstrap: str, folder: Path, login: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed in __exit__)
        self._process = subprocess.Popen(
            [*command, bootstrap],
            cwd=folder,
            env={**os.environ, **login},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> DriverProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()  # type: ignore[union-attr]
        self._process.stdout.close()  # type: ignore[union-attr]
        self._errors.close()

    def ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        """The answer to one question."""
        self.begin(verb, **arguments)
        return self.answer()

    def begin(self, verb: str, **arguments: Any) -> None:
        """A question whose answer is taken later."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer will say that it has ended
            self._process.stdin.write(json.dumps({"do": verb, **arguments}) + "\n")
            self._process.stdin.flush()

    def answer(self, within_s: float = ANSWER_S) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=within_s)
        except queue.Empty:
            raise NoAnswerError(f"no answer within {within_s:.0f} s") from None
        if not line:
            self._errors.seek(0)
            raise ClientError(f"the driver ended: {self._errors.read()[-MESSAGE_MAX:]}")
        shown: dict[str, Any] = json.loads(line)
        if "not_offered" in shown:
            raise NotOfferedError(shown["not_offered"])
        if "error" in shown:
            raise ClientError(shown["error"][:MESSAGE_MAX])
        return shown

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")
