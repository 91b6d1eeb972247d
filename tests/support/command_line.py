"""The `penstock` command within the process of a test: its output, its errors and its exit code, as main.py makes them.

A process of its own takes nearly a second of a processor to import what the command needs, and shows nothing more but
signals, pipes that end, and what is imported: for these there are tests with processes (test_cli.py, test_main.py).
The command runs in a thread, because main() sets signals of the main thread.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from penstock.cli.main import main

TIMEOUT_S = 120


def penstock(*arguments: object, stdin: bytes = b"", bootstrap: str = "") -> subprocess.CompletedProcess[bytes]:
    """Runs to its end; `bootstrap` is PENSTOCK_BOOTSTRAP in its environment. Not in two threads at a time."""
    words = ["penstock", *map(str, arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    ended: list[object] = []

    def run() -> None:
        try:
            main()
        except SystemExit as end:
            ended.append(end.code or 0)
        except BaseException as error:
            ended.append(error)

    given = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    with _replaced(argv=words, stdin=given, stdout=out, stderr=err), _environment(bootstrap), _main_of_no_package():
        thread = threading.Thread(target=run, name="penstock", daemon=True)
        thread.start()
        thread.join(TIMEOUT_S)
    assert ended, f"{words} has not ended within {TIMEOUT_S} s"
    (code,) = ended
    if isinstance(code, BaseException):
        raise code
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(words, code, out.buffer.getvalue(), err.buffer.getvalue())  # type: ignore[attr-defined]


@contextmanager
def _replaced(**values: Any) -> Iterator[None]:
    before = {name: getattr(sys, name) for name in values}
    try:
        for name, value in values.items():
            setattr(sys, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(sys, name, value)


@contextmanager
def _main_of_no_package() -> Iterator[None]:
    """Help texts name the program by the package that Python was started with (`python -m pytest`), if there is one."""
    before = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = before


@contextmanager
def _environment(bootstrap: str) -> Iterator[None]:
    before = os.environ.pop("PENSTOCK_BOOTSTRAP", None)
    try:
        if bootstrap:
            os.environ["PENSTOCK_BOOTSTRAP"] = bootstrap
        yield
    finally:
        os.environ.pop("PENSTOCK_BOOTSTRAP", None)
        if before is not None:
            os.environ["PENSTOCK_BOOTSTRAP"] = before
