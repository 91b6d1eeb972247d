"""Takes the files of each micro-batch into the table, exactly once: on the driver, after all its tasks have ended.

    1  the table's log has the batch already: nothing to do, and its tasks do not run
    2  the tasks run; their files are in TABLE/_pending, durable, and the driver has the names of the accepted ones
    3  TABLE/_pending/BATCH.entry is written: the text for the log
    4  the files move into their directories
    5  the plan of the batch in Spark's checkpoint is made durable: a replay of it reads the same offsets
    6  BATCH.entry becomes TABLE/_spark_metadata/BATCH: from now on the files belong to the table

A crash before 6 leaves a batch that never was, and files that the next run deletes (place.py). A crash after 6, and
before Spark's own commit: Spark repeats the batch, and 1 ends it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.frame.plain_error import plain_errors
from penstock.pipelines.parquet_table.durable import errors_of_table, sync, write_durably
from penstock.pipelines.parquet_table.place import ENTRY, empty
from penstock.pipelines.parquet_table.sink_log import COMPACT_EVERY, SinkLog, TableFile
from penstock.pipelines.parquet_table.table_spec import PENDING
from penstock.spark.writing.durable_plan import keep_plan


@dataclass(frozen=True)
class CommitBatch:
    """Spark calls it with the files of each micro-batch (`foreachBatch`); picklable."""

    table: Path
    checkpoint: Path
    compact_every: int = COMPACT_EVERY

    def __call__(self, files: Any, batch: int) -> None:
        log = SinkLog(self.table, self.compact_every)
        if batch <= log.last_batch():
            return
        with errors_of_table(self.table):
            empty(self.table / PENDING)
        with plain_errors():
            accepted = [row.asDict() for row in files.collect()]
        with errors_of_table(self.table):
            self._take_in(log, batch, accepted)
            empty(self.table / PENDING)  # also what attempts have written that lost

    def _take_in(self, log: SinkLog, batch: int, accepted: Sequence[dict[str, Any]]) -> None:
        pending = self.table / PENDING
        pending.mkdir(parents=True, exist_ok=True)
        moves = {pending / row["name"]: self.table / row["directory"] / row["name"] for row in accepted}
        files = [_checked(path, row["size_bytes"], moves[path]) for path, row in zip(moves, accepted, strict=True)]
        entry = pending / f"{batch}{ENTRY}"
        write_durably(entry, log.text(batch, files))
        self._move(moves)
        keep_plan(self.checkpoint, batch)
        log.add(batch, entry)
        sync(self.table)

    def _move(self, moves: dict[Path, Path]) -> None:
        directories = {target.parent for target in moves.values()}
        for directory in directories:
            directory.mkdir(exist_ok=True)
        for path, target in moves.items():
            os.rename(path, target)
        for directory in {*directories, self.table}:
            sync(directory)


def _checked(path: Path, size_bytes: int, target: Path) -> TableFile:
    try:
        found = path.stat()
    except FileNotFoundError:
        found = None
    if found is None or found.st_size != size_bytes:
        raise PenstockError(
            f"{path}, which a task has written, is not here; all machines of the Spark cluster must see the output "
            "under the same path"
        )
    return TableFile(target, size_bytes, int(found.st_mtime * 1000))
