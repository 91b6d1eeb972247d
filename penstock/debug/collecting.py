"""Collects the parts of a bundle: runs commands side by side, each within its time, and keeps what fails as a reason.

An edge. A cluster of which a maintainer wants to know is one where something hangs, so nothing here waits for long,
and no part that fails keeps another from the bundle.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from penstock.debug.archive import FORMAT, INDEX, BundleWriter
from penstock.debug.parts import BundlePart
from penstock.debug.secrets import without_secrets
from penstock.version import __version__

T = TypeVar("T")

AT_ONCE: Final = 3
COMMAND: Final = (sys.executable, "-P", "-c", "from penstock.cli.main import main; main()")
PACKAGES: Final = ("grpcio", "protobuf", "aiofiles", "crc32c", "prometheus-client", "uvloop", "pyspark", "cramjam")
"""The packages whose version is told, where they are installed."""
REASON_CHARACTERS_MAX: Final = 2_000


class Collector:
    """The parts of one bundle so far."""

    def __init__(
        self,
        writer: BundleWriter,
        timeout_s: float,
        now_ms: Callable[[], int],
        command: Sequence[str] = COMMAND,
    ) -> None:
        """`timeout_s` is that of each part, `command` what stands for `penstock`; `now_ms` is monotonic."""
        self._command = command
        self._writer, self._timeout_s, self._now_ms = writer, timeout_s, now_ms
        self._began_ms = now_ms()
        self._parts: list[dict[str, Any]] = []

    @property
    def missing(self) -> Sequence[str]:
        """A line for each part that could not be had."""
        return [f"{part['path']}: {part['error']}" for part in self._parts if part["error"]]

    def run(self, parts: Sequence[BundlePart]) -> Mapping[str, str]:
        """Adds what these commands print, in their order; the texts by path."""
        found = {}
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="bundle") as threads:
            for part, (text, error, exit_code) in zip(parts, threads.map(self._ran, parts), strict=True):
                self._add(part.path, text, error, command=" ".join(("penstock", *part.command)), exit_code=exit_code)
                found[part.path] = text
        return found

    def _ran(self, part: BundlePart) -> tuple[str, str, int | None]:
        """The command's output, why it is not whole, and the exit code. Other codes than 0 with an output are
        findings: 3 and 4 of `cluster health`."""
        try:
            done = subprocess.run(
                (*self._command, *part.command),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            text = late.stdout.decode("utf-8", "replace") if late.stdout else ""
            return text, f"it did not end within {self._timeout_s:g} s", None
        text, said = (raw.decode("utf-8", "replace") for raw in (done.stdout, done.stderr))
        failed = done.returncode and not text
        return text, _reason(said) or f"exit code {done.returncode}" if failed else "", done.returncode

    def within(self, find: Callable[[], T]) -> T:
        """The result of a look at this machine. TimeoutError if it does not end: a look at a disk that hangs cannot be
        ended, and is left behind."""
        ended: list[T | Exception] = []

        def look() -> None:
            try:
                ended.append(find())
            except Exception as error:
                ended.append(error)

        thread = threading.Thread(target=look, name="bundle-look", daemon=True)
        thread.start()
        thread.join(self._timeout_s)
        if not ended:
            raise TimeoutError(f"it did not end within {self._timeout_s:g} s")
        (found,) = ended
        if isinstance(found, Exception):
            raise found
        return found

    def take(self, path: str, find: Callable[[], str]) -> None:
        """Adds a text that is found here; an OSError or a ValueError is its reason."""
        try:
            text, error = self.within(find), ""
        except (OSError, ValueError) as failed:
            text, error = "", str(failed) or type(failed).__name__
        self._add(path, text, error)

    def lack(self, path: str, why: str) -> None:
        """Notes a part that is not there."""
        self._add(path, "", why)

    def _add(self, path: str, text: str, error: str, **more: object) -> None:
        if text:
            self._writer.add(path, without_secrets(text))
        shown = without_secrets(error)[:REASON_CHARACTERS_MAX]
        self._parts.append({"path": path, "error": shown, "at_ms": self._now_ms() - self._began_ms, **more})

    def finish(self, bootstrap: str, made_at_ms: int) -> None:
        """Adds the index. `made_at_ms`: since 1970."""
        index = {
            "format": FORMAT,
            "made_at_ms": made_at_ms,
            "bootstrap": bootstrap,
            "penstock": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": dict(_versions(PACKAGES)),
            "parts": self._parts,
        }
        self._writer.add(INDEX, json.dumps(index, indent=1) + "\n")

    def __repr__(self) -> str:
        return f"Collector({len(self._parts)} parts)"


def _reason(said: str) -> str:
    """The sentence of an error, which commands print as JSON where they print JSON."""
    try:
        return str(json.loads(said)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return said.strip()


def _versions(packages: Iterable[str]) -> Iterable[tuple[str, str]]:
    for package in packages:
        try:
            yield package, importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
