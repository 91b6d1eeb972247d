"""A bundle as a file: a gzipped tar with one folder, and `bundle.json` in it, which says what is there and what not.

It is written beside its place and put there when it is whole, readable for its owner alone. It is read within bounds,
and nothing of it is written to the disk: it may come from anybody.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from penstock.errors import ConfigError

INDEX: Final = "bundle.json"
FORMAT: Final = 1
PART_BYTES_MAX: Final = 64 << 20
"""A longer part keeps its end: the newest lines of a log."""
BUNDLE_BYTES_MAX: Final = 1 << 30
"""Unpacked; so large is one of 16 such parts."""
FILES_MAX: Final = 10_000
CUT: Final = b"(the beginning is left out: too long)\n"


class BundleWriter:
    """A bundle that is being written. Its file appears when the `with` ends without an error."""

    def __init__(self, path: Path, folder: str, now_s: int, part_bytes_max: int = PART_BYTES_MAX) -> None:
        """OSError where it cannot be written; FileExistsError if something is there."""
        if path.exists():
            raise FileExistsError(17, "there is a file already", str(path))
        self._path, self._folder, self._now_s, self._part_bytes_max = path, folder, now_s, part_bytes_max
        self._part = path.with_name(path.name + ".part")
        self._part.unlink(missing_ok=True)
        descriptor = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w:gz")  # noqa: SIM115

    def add(self, name: str, text: str) -> int:
        """Adds a file; its bytes."""
        data = text.encode("utf-8", "replace")
        if len(data) > self._part_bytes_max:
            data = CUT + data[-self._part_bytes_max + len(CUT) :]
        info = tarfile.TarInfo(f"{self._folder}/{name}")
        info.size, info.mtime, info.mode = len(data), self._now_s, 0o600
        self._tar.addfile(info, io.BytesIO(data))
        return len(data)

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with self._file:
                self._tar.close()
            if error is None:
                os.replace(self._part, self._path)
        finally:
            with contextlib.suppress(OSError):
                self._part.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"BundleWriter({self._path})"


class Bundle:
    """A bundle that was read: its files by their paths."""

    def __init__(self, index: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        self.index, self.files = index, files

    def json(self, path: str) -> Any:
        """The JSON document of a part; None where it is not there, or is none."""
        try:
            return json.loads(self.files[path])
        except (KeyError, ValueError):
            return None

    def __repr__(self) -> str:
        return f"Bundle({len(self.files)} files)"


def read_bundle(path: Path) -> Bundle:
    """ConfigError for a file that is no bundle, is cut, or is beyond the bounds; OSError where it cannot be read."""
    files: dict[str, bytes] = {}
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe would be waited for without end
        raise ConfigError(f"{path}: no bundle of `penstock debug bundle`: it is no file")
    try:
        with tarfile.open(path, "r:gz") as tar:
            for member in tar:
                if member.offset_data + member.size > BUNDLE_BYTES_MAX or len(files) >= FILES_MAX:
                    raise ConfigError(
                        f"{path}: a bundle has {BUNDLE_BYTES_MAX >> 20} MiB and {FILES_MAX} files at most"
                    )
                content = tar.extractfile(member) if member.isfile() else None
                if content is not None:
                    files[member.name.partition("/")[2]] = content.read()
        index = json.loads(files.pop(INDEX))
        if index["format"] != FORMAT:
            raise ConfigError(f"{path}: a bundle of format {index['format']}; this release reads format {FORMAT}")
        return Bundle({**index, "parts": [dict(part) for part in index["parts"]]}, files)
    except (tarfile.TarError, EOFError, zlib.error, KeyError, ValueError, TypeError) as error:
        raise ConfigError(f"{path}: no bundle of `penstock debug bundle`, or not whole: {error}") from error
