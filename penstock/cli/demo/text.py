"""The text that the demo streams, and sums of it by file: of what was sent, of what the log has, of what the table has.

With a path the text is that file, or every file below that directory. Without one it is every source file of the Python
installation (the standard library and its tests, not the installed packages). It is bounded in bytes, and the rest is
counted. A record is a line with its line end, keyed by file, so the values of a file joined are the file: sums are
equal exactly if nothing is missing, came twice, or changed its place within its file.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError, PenstockError
from penstock.lazy_dataclass import dataclass

LINE_BYTES_MAX = 256 * 1024
"""A longer line (there are files without any line end) is cut into records of this size, far below a record's limit."""
NOT_THE_INSTALLATION = frozenset({"site-packages", "dist-packages", "__pycache__"})
UNLIMITED = 0


@dataclass(frozen=True, slots=True)
class TextFile:
    """One file: its key in the topic, and how many of its bytes belong to the run."""

    path: Path
    key: bytes
    size_bytes: int

    def lines(self) -> list[bytes]:
        """The records of the file: together they are its first `size_bytes` bytes."""
        try:
            with self.path.open("rb") as stream:
                lines = stream.read(self.size_bytes).splitlines(keepends=True)
        except OSError as error:
            raise PenstockError(f"{self.path}: cannot be read ({error.strerror}); give another path") from None
        return [line[at : at + LINE_BYTES_MAX] for line in lines for at in range(0, len(line), LINE_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class Text:
    """The files to stream, in order, and how many bytes the bound has left out."""

    root: Path
    files: tuple[TextFile, ...]
    left_out_bytes: int

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def find_text(path: Path | None, max_bytes: int) -> Text:
    """The text of one run; ConfigError if there is nothing to stream. `max_bytes` 0 means no bound."""
    root = Path(sysconfig.get_path("stdlib")) if path is None else path
    if not root.exists():
        raise ConfigError(f"{root}: no such file or directory; give a text file or a directory of them")
    base = root if root.is_dir() else root.parent
    files: list[TextFile] = []
    left_bytes, left_out_bytes = max_bytes, 0
    for found in _find(root, only_python=path is None):
        size_bytes = found.stat().st_size
        taken = size_bytes if max_bytes == UNLIMITED else min(size_bytes, left_bytes)
        left_bytes -= taken
        left_out_bytes += size_bytes - taken
        if taken:
            files.append(TextFile(found, os.fsencode(found.relative_to(base).as_posix()), taken))
    if not files:
        raise ConfigError(f"{root}: all files are empty, or there are none; give a text file or a directory of them")
    return Text(root, tuple(files), left_out_bytes)


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


@dataclass(slots=True)
class _File:
    lines: int = 0
    sha256: Any = field(default_factory=hashlib.sha256)


class Sums:
    """Sums up records in the order in which they come."""

    def __init__(self) -> None:
        self.records = 0
        self.size_bytes = 0
        self._files: dict[bytes, _File] = {}

    def add(self, key: bytes, lines: Iterable[bytes]) -> None:
        """The next lines of a file."""
        file = self._files.setdefault(key, _File())
        for line in lines:
            self.records += 1
            self.size_bytes += len(line)
            file.lines += 1
            file.sha256.update(line)

    def missing_in(self, other: Sums) -> int:
        """Lines that are here and not there, by the number of lines of each file."""
        there = {key: file.lines for key, file in other._files.items()}
        return sum(max(0, file.lines - there.get(key, 0)) for key, file in self._files.items())

    @property
    def checksum(self) -> str:
        """One SHA-256 over all files: each key with the SHA-256 of its lines, by key."""
        whole = hashlib.sha256()
        for key, file in sorted(self._files.items()):
            whole.update(len(key).to_bytes(4, "big") + key + file.sha256.digest())
        return whole.hexdigest()

    def __repr__(self) -> str:
        return f"Sums({self.records} records of {len(self._files)} files)"
