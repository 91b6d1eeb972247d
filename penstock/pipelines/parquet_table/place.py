"""Makes a table ready for a run: it belongs to the run's checkpoint, nobody else writes it, no leftovers are in it.

A checkpoint knows its micro-batches by number, and so does the table's log. A batch that the log has counts as written,
whatever is in it: with a new checkpoint, or an old copy, records would silently be left out. So both must be at the
same batch, or one apart as a crash leaves them. Leftovers of a crash go, also files that had moved to their
directories already: tools that list directories instead of reading the log then find each record once, too. The log
has whole paths, so that of a copy names files of the original; leftovers are looked for in this table alone.

A new table has an empty directory: files that its log does not name would be gone for all who read the log.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import ConfigError
from penstock.pipelines.parquet_table.durable import errors_of_table
from penstock.pipelines.parquet_table.sink_log import NONE, SinkLog, checked_lines, last_batch, path_in
from penstock.pipelines.parquet_table.table_spec import PENDING

ENTRY = ".entry"
"""The end of the name of a batch's text for the log, until it is there."""
REMEDY = "choose another output and another checkpoint"
HIDDEN = ("_", ".")
"""First letters of names that readers of tables leave out."""


def check_place(table: Path, checkpoint: Path) -> None:
    """ConfigError if table and checkpoint do not belong together: batches would be left out, or counted for others."""
    written = SinkLog(table).last_batch()
    planned, finished = last_batch(checkpoint / "offsets"), last_batch(checkpoint / "commits")
    if written == planned == NONE and (foreign := _data_in(table)) is not None:
        raise ConfigError(
            f"the table {table} is to be made, but {foreign} is there already: it would be hidden from all who read the"
            " table, because its log does not name it; choose another output, or move the files away"
        )
    if written > planned:
        raise ConfigError(
            f"the table {table} has micro-batch {written}, but the checkpoint {checkpoint} "
            + (f"ends at {planned}" if planned != NONE else "has none")
            + f": the table was written with another one, or this is an old copy; name that one, or {REMEDY}"
        )
    if written < finished:
        raise ConfigError(
            f"the checkpoint {checkpoint} has finished micro-batch {finished}, but the table {table} "
            + (f"ends at {written}" if written != NONE else "has none")
            + f": it is not the checkpoint's table, or parts of it are gone; bring them back, or {REMEDY}"
        )


@contextmanager
def locked(table: Path) -> Iterator[None]:
    """Keeps other runs away from the table; the lock on its directory ends with the process."""
    with errors_of_table(table):
        table.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(table, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"another run writes the table {table}; wait for its end, or end it") from None
        yield
    finally:
        os.close(descriptor)


def delete_leftovers(table: Path) -> None:
    """Deletes what a run that died has left of a batch that is not in the log."""
    pending, written = table / PENDING, SinkLog(table).last_batch()
    with errors_of_table(table):
        for entry in pending.glob(f"*{ENTRY}"):
            if entry.stem.isdecimal() and int(entry.stem) > written:
                for path in _own_files(table, entry):
                    path.unlink()
        empty(pending)


def _own_files(table: Path, entry: Path) -> list[Path]:
    """The entry's files that are in this table. A compacted entry also has the lines of earlier batches, whose files
    are no leftovers."""
    lines = checked_lines(entry, f"of it are leftovers; delete it, and what {table} has beyond its log")
    known = {path.name for path in SinkLog(table).paths()}
    named = [path for path in map(path_in, lines) if path.name not in known]
    places = [place for path in named for place in (table / path.name, table / path.parent.name / path.name)]
    return [place for place in places if place.is_file()]


def _data_in(table: Path) -> Path | None:
    """A file or a log of somebody else's, if there is one; names that begin with `_` or `.` are nobody's data."""
    if (delta := table / "_delta_log").exists():
        return delta
    for directory, inner, names in os.walk(table):
        inner[:] = [name for name in inner if not name.startswith(HIDDEN)]
        if data := [name for name in names if not name.startswith(HIDDEN)]:
            return Path(directory, min(data))
    return None


def empty(directory: Path) -> None:
    if directory.is_dir():
        for path in directory.iterdir():
            path.unlink(missing_ok=True)
