"""Makes the plan of a micro-batch durable BEFORE the batch is decided.

Spark writes CHECKPOINT/offsets/N, the plan of micro-batch N, without a sync. If the power fails after the decision, the
plan may be gone: Spark then plans N anew, with other rows, under the name of the batch that is decided. The same goes
for CHECKPOINT/metadata, which has the query's id, the name of its batches.

Works for a checkpoint in a directory of the driver's machine, as a path or a file: URI. An object store or HDFS keeps
what was closed, and is left alone. Runs on the driver.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from penstock.durable import sync_all
from penstock.errors import PenstockError

OFFSETS: Final = "offsets"
METADATA: Final = "metadata"


def keep_plan(checkpoint: str | Path, batch: int) -> None:
    """Syncs the plan, the query's id, and the directories that name them; nothing where there is no such plan here."""
    directory = checkpoint if isinstance(checkpoint, Path) else local_directory(checkpoint)
    if directory is None or not (plan := directory / OFFSETS / str(batch)).exists():
        return
    try:
        for path in (plan, plan.parent, directory / METADATA, directory):
            if path.exists():
                sync(path)
    except OSError as error:
        raise PenstockError(
            f"the plan of micro-batch {batch}, {plan}, cannot be made durable ({error.strerror or error}), so the batch"
            " was not committed; when that is mended start the query again, it goes on where it was"
        ) from error


def local_directory(location: str) -> Path | None:
    """The directory of a checkpoint's location; None for another file system than this machine's, and for none."""
    parts = urlsplit(location)
    if not location or parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path) if parts.scheme else location)


def sync(path: Path) -> None:
    """Makes a file's bytes, or a directory's names, durable. Some file systems sync no directories: theirs are."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync_all(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(descriptor)
