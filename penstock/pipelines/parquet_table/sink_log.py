"""The log of a Parquet table: which files belong to it, in the format of Spark's file sink.

    TABLE/_spark_metadata/8            v1
                                       {"path":"file:///TABLE/date=2026-01-01/part-….parquet","size":1234,…}
    TABLE/_spark_metadata/9.compact    the same for all batches up to this one

One file of JSON lines for each micro-batch, also for one without rows: a reader wants every batch since the last
compacted one. Each tenth is compacted. From which batches are compacted a reader finds out how often they are, so a
table goes on as it was begun (`interval_of`, Spark's own rule). A file that is not named here does not count.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote, unquote, urlparse

from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.parquet_table.durable import add_durably

METADATA_DIRECTORY = "_spark_metadata"
NONE = -1
"""The number before the first batch."""
COMPACT = ".compact"
COMPACT_EVERY = 10
BATCHES_KEPT_MIN = 100
DELETE_AFTER_S = 600.0
"""Files that a later compacted file stands for are kept for this many batches, and this many seconds: a reader may have
begun with them. Both numbers are Spark's."""
BLOCK_SIZE = 32 * 1024 * 1024
"""The block size that Spark has for local files; readers cut files by their own settings."""
_HEADER = "v1"
_PLAIN = "/!$&'()*+,;=:@~"
"""Characters that a path in a URI may have as they are; Spark leaves them so."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of the table, as the log names it."""

    path: Path
    size_bytes: int
    modified_ms: int

    def line(self) -> str:
        """The fields that Spark writes, in its order."""
        found = {
            "path": f"file://{quote(str(self.path), safe=_PLAIN)}",
            "size": self.size_bytes,
            "isDir": False,
            "modificationTime": self.modified_ms,
            "blockReplication": 1,
            "blockSize": BLOCK_SIZE,
            "action": "add",
        }
        return json.dumps(found, separators=(",", ":"))


def path_in(line: str) -> Path:
    return Path(unquote(urlparse(json.loads(line)["path"]).path))


def checked_lines(path: Path, remedy: str) -> list[str]:
    """The lines of a batch's text, each of them whole. PenstockError with the remedy if the text is missing, or a line
    is damaged: a line that is cut off would be taken into the next compacted batch."""
    try:
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        is_whole = header == _HEADER and all(isinstance(json.loads(line)["path"], str) for line in lines)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        is_whole = False
    if not is_whole:
        raise PenstockError(f"{path} is missing or damaged, so it is not known which files {remedy}")
    return lines


def last_batch(log: Path) -> int:
    """The last batch in a log, which is a directory with a file for each: this one, or one of a checkpoint."""
    return max((number for number, _ in _numbers(log)), default=NONE)


def _numbers(log: Path) -> list[tuple[int, bool]]:
    """Number, and whether it is compacted, of every file in the log."""
    if not log.is_dir():
        return []
    names = (path.name.partition(".") for path in log.iterdir())
    return [(int(number), rest == COMPACT[1:]) for number, _, rest in names if number.isdecimal()]


def interval_of(compacted: Iterable[int], default: int = COMPACT_EVERY) -> int:
    """Every how many batches one is compacted, as a reader will find out."""
    latest = sorted(compacted, reverse=True)[:2]
    if not latest:
        return default
    if len(latest) == 2:
        return latest[0] - latest[1]
    count = latest[0] + 1
    if count <= default:
        return count
    if default < count // 2:
        return next(number for number in range(default, count + 1) if count % number == 0)
    return count


class SinkLog:
    """The log of one table; nothing is kept in memory."""

    def __init__(self, table: Path, compact_every: int = COMPACT_EVERY) -> None:
        self._directory = table / METADATA_DIRECTORY
        self._compact_every = compact_every

    def last_batch(self) -> int:
        return last_batch(self._directory)

    def paths(self) -> list[Path]:
        """The table's files, in the order in which they came."""
        return list(dict.fromkeys(path_in(line) for line in self._lines_until(self.last_batch())))

    def text(self, batch: int, files: Sequence[TableFile]) -> str:
        """The content of a new batch's file: with all lines before it where it is compacted."""
        before = self._lines_until(batch - 1) if self._is_compacted(batch) else []
        return "\n".join([_HEADER, *before, *(file.line() for file in files)])

    def add(self, batch: int, written: Path) -> None:
        """Takes a durable file with the text of the batch into the log: from then on its files belong to the table."""
        self._directory.mkdir(exist_ok=True)
        is_compacted = self._is_compacted(batch)
        name = f"{batch}{COMPACT}" if is_compacted else str(batch)
        try:
            add_durably(written, self._directory / name)
        except FileExistsError:
            raise PenstockError(
                f"{self._directory / name} was written by somebody else meanwhile: two runs write one table; end one"
            ) from None
        if is_compacted:
            self._delete_old(batch)

    def _is_compacted(self, batch: int) -> bool:
        return (batch + 1) % self._interval() == 0

    def _interval(self) -> int:
        return interval_of(
            (number for number, compacted in _numbers(self._directory) if compacted), self._compact_every
        )

    def _lines_until(self, batch: int) -> list[str]:
        found = _numbers(self._directory)
        first = max((number for number, compacted in found if compacted and number <= batch), default=NONE)
        lines = self._lines(f"{first}{COMPACT}") if first != NONE else []
        for number in range(first + 1, batch + 1):
            lines += self._lines(str(number))
        return lines

    def _lines(self, name: str) -> list[str]:
        return checked_lines(
            self._directory / name,
            "belong to the table; bring it back from a copy, or begin anew with another output and another checkpoint",
        )

    def _delete_old(self, batch: int) -> None:
        """Deletes what a compacted batch before the last `BATCHES_KEPT_MIN` stands for."""
        interval, oldest_kept = self._interval(), batch + 1 - BATCHES_KEPT_MIN
        first = oldest_kept - oldest_kept % interval - 1
        for number, compacted in _numbers(self._directory):
            path = self._directory / (f"{number}{COMPACT}" if compacted else str(number))
            if number < first and path.stat().st_mtime < time.time() - DELETE_AFTER_S:
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
                path.unlink(missing_ok=True)
