"""Makes files and names durable: what a table's log names must be on the disk before the log names it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.durable import sync_all
from penstock.errors import PenstockError
from penstock.spark.writing.durable_plan import sync as sync


def write_durably(path: Path, text: str) -> None:
    """The file is whole as soon as it has its name."""
    waiting = path.with_name(path.name + ".tmp")
    with waiting.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        sync_all(file.fileno())
    os.replace(waiting, path)
    sync(path.parent)


def add_durably(written: Path, name: Path) -> None:
    """Gives a durable file its name, if nothing has that name yet; FileExistsError otherwise."""
    try:
        os.link(written, name)
    except FileExistsError:
        raise
    except OSError:  # a file system without links; the table's lock keeps others away
        if name.exists():
            raise FileExistsError(name) from None
        os.rename(written, name)
    sync(name.parent)


@contextmanager
def errors_of_table(table: Path) -> Iterator[None]:
    """An error of the system becomes one sentence that names the table."""
    try:
        yield
    except OSError as error:
        raise PenstockError(
            f"the table {table} cannot be written ({error.strerror or error}); when that is mended run the job again, "
            "it goes on where it was"
        ) from error
