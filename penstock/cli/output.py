"""Prints results: a table on a terminal, tabs in a pipe, JSON when asked; and progress bars on stderr.

rich is imported only where it draws. stdout has the result and nothing else; messages for a person go to stderr.
Everything but the bytes of records is printed here, so that no name and no error from outside steers the terminal
(`plain_text.py`).
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from penstock.errors import AuthorizationFailedError, PenstockError
from penstock.plain_text import one_line, plain_json


class Progress(Protocol):
    """Counts work; `advance` is cheap enough to be called for every batch."""

    def advance(self, count: int) -> None: ...


class Human(NamedTuple):
    """A value in two forms: `raw` for scripts, `text` for a person at a terminal."""

    raw: object
    text: str

    def __str__(self) -> str:
        return self.text if sys.stdout.isatty() else str(self.raw)


def count(number: int) -> Human:
    """A number with commas for people: 1234567 as 1,234,567."""
    return Human(number, f"{number:,}")


def when(time_ms: int) -> Human:
    """ms since 1970 as local time. A producer may write any time: one outside the calendar, such as a time in
    microseconds, is shown as it is."""
    try:
        local = datetime.fromtimestamp(time_ms / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return Human(time_ms, f"{time_ms} ms since 1970")
    return Human(time_ms, local.isoformat(sep=" ", timespec="milliseconds"))


def say(*cells: object, flush: bool = False) -> None:
    """A line of the result: one text, or cells with tabs between them."""
    print("\t".join(map(one_line, cells)), flush=flush)


def print_json(value: Any, *, flush: bool = True) -> None:
    """One JSON document on one line."""
    print(json_text(value), flush=flush)


def json_text(value: Any) -> str:
    """JSON with its own escapes for letters that standard output's encoding may lack."""
    return plain_json(json.dumps(value, ensure_ascii=not is_utf8(sys.stdout), default=str))


def is_utf8(stream: object) -> bool:
    """True if a text stream can take every letter as it is."""
    return str(getattr(stream, "encoding", "")).lower().replace("-", "") == "utf8"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table for people; in a pipe a header line and tab-separated rows."""
    if not sys.stdout.isatty():
        for row in [columns, *rows]:
            say(*row)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold")
    for number, name in enumerate(columns):
        are_numbers = all(_is_number(row[number]) for row in rows)
        table.add_column(name, justify="right" if are_numbers else "left")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))  # as text: `[/x]` in a name is no markup
    Console().print(table)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]], as_json: bool) -> None:
    """The rows as a table, or as a list of objects."""
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)


def _is_number(cell: object) -> bool:
    return str(cell).replace(",", "").replace(".", "").removeprefix("-").isdigit()


def print_fields(fields: dict[str, object]) -> None:
    """Name and value, one pair a line."""
    width = max(map(len, fields)) if sys.stdout.isatty() else 0
    for name, value in fields.items():
        say(f"{name + ':':<{width + 1}} {value}")


def note(text: str) -> None:
    """A message for a person, one line on stderr; lost where that is full or closed, as the work goes on."""
    with suppress(OSError):
        print(one_line(text), file=sys.stderr, flush=True)


def bytes_fields(name: str, data: bytes | None) -> dict[str, str | None]:
    """Bytes as JSON can hold them: as text when they are UTF-8, otherwise as NAME_base64."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}


def raise_common_refusal(errors: Sequence[PenstockError | None]) -> None:
    """Raises the refusal that all parts of an answer have: one line says which right is missing, not one for each."""
    first = errors[0] if errors else None
    if isinstance(first, AuthorizationFailedError) and {str(error) for error in errors} == {str(first)}:
        raise first


class _NoProgress:
    def advance(self, count: int) -> None:
        """stderr is no terminal: shows nothing."""


class _Bar:
    def __init__(self, bar: Any, task: Any) -> None:
        self._bar, self._task = bar, task

    def advance(self, count: int) -> None:
        self._bar.advance(self._task, count)


@contextmanager
def progress(title: str, total: int | None, *, quiet: bool = False) -> Iterator[Progress]:
    """A progress bar on a terminal's stderr, otherwise nothing."""
    if quiet or not sys.stderr.isatty():
        yield _NoProgress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar, bar.add_task(one_line(title), total=total))
