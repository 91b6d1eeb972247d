"""The text that the demo streams: files as records, one line a record, keyed by file.

With a path the text is that file, or every file below that directory. Without one it is every source file of the Python
installation (the standard library and its tests, not the installed packages). The plan holds names and sizes only;
lines are read when they are sent. A value is a line with its line end, so the values of a file joined are the file, and
one checksum serves for the source, the log and the table. The text is bounded in bytes, and the rest is counted.
Partitions and sending are in stream.py.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ConfigError, PenstockError

LINE_BYTES_MAX = 256 * 1024
"""A longer line (there are files without any line end) is cut into records of this size, far below a record's limit."""
NOT_THE_INSTALLATION = frozenset({"site-packages", "dist-packages", "__pycache__"})
UNLIMITED = 0


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: its key in the topic, and how many of its bytes belong to the run."""

    path: Path
    name: str
    size_bytes: int

    @property
    def key(self) -> bytes:
        return os.fsencode(self.name)


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The files to stream, in order, and how many bytes the bound has left out."""

    root: Path
    files: tuple[SourceFile, ...]
    left_out_bytes: int

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def plan_source(path: Path | None, max_bytes: int) -> SourcePlan:
    """The files of one run; ConfigError if there is nothing to stream. `max_bytes` 0 means no bound."""
    root = Path(sysconfig.get_path("stdlib")) if path is None else path
    if not root.exists():
        raise ConfigError(f"{root}: no such file or directory; give a text file or a directory of them")
    sized = [(found, found.stat().st_size) for found in _find(root, only_python=path is None)]
    base = root if root.is_dir() else root.parent
    files: list[SourceFile] = []
    left_bytes, left_out_bytes = max_bytes, 0
    for found, size_bytes in sized:
        taken = size_bytes if max_bytes == UNLIMITED else min(size_bytes, left_bytes)
        left_bytes -= taken
        left_out_bytes += size_bytes - taken
        if taken:
            files.append(SourceFile(found, found.relative_to(base).as_posix(), taken))
    if not files:
        raise ConfigError(f"{root}: all files are empty, or there are none; give a text file or a directory of them")
    return SourcePlan(root, tuple(files), left_out_bytes)


def read_lines(file: SourceFile) -> list[bytes]:
    """The records of one file: together they are its first `size_bytes` bytes."""
    try:
        with file.path.open("rb") as stream:
            content = stream.read(file.size_bytes)
    except OSError as error:
        raise PenstockError(f"{file.path}: cannot be read ({error.strerror}); give another path") from None
    return list(_cut(content.splitlines(keepends=True)))


def _cut(lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        if len(line) <= LINE_BYTES_MAX:
            yield line
        else:
            yield from (line[at : at + LINE_BYTES_MAX] for at in range(0, len(line), LINE_BYTES_MAX))


def _find(root: Path, *, only_python: bool) -> Iterator[Path]:
    """Regular files in a stable order. Links are not followed: no file is streamed twice, and no loop is entered."""
    if root.is_file():
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not (only_python and name in NOT_THE_INSTALLATION))
        for name in sorted(names):
            path = Path(folder, name)
            if (path.suffix == ".py" or not only_python) and path.is_file() and not path.is_symlink():
                yield path
