"""Small files written whole: tmp, fsync, rename, fsync of the directory.

At any crash point a reader sees the old content or the new, never a mixture.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager

from penstock.errors import CorruptFileError
from storage.disk.file_names import TMP_SUFFIX
from storage.disk.file_system import FileSystem

NamingStep = Callable[[], AbstractContextManager[bool]]
"""A block in which files may be created, renamed or removed by name; it yields False if that is not allowed any
more."""


def always() -> AbstractContextManager[bool]:
    """A guard for a caller that always owns the names."""
    return contextlib.nullcontext(True)


def write_atomically(
    fs: FileSystem, path: str, content: bytes, *, sync_directory: bool = True, step: NamingStep = always
) -> None:
    """Replace the file's content durably.

    With `sync_directory=False` the rename becomes durable with the caller's own fsync of the directory. The content is
    synced in both cases, so the name never points to missing bytes.
    """
    _replace(fs, path, content, sync_content=True, step=step)
    if sync_directory:
        fs.fsync_dir(os.path.dirname(path))


def write_without_sync(fs: FileSystem, path: str, content: bytes) -> None:
    """Write a file that is new. A killed process leaves all of it or nothing; a power cut may leave the name with other
    content, until the caller has synced the file and its directory."""
    _replace(fs, path, content, sync_content=False, step=always)


def _replace(fs: FileSystem, path: str, content: bytes, *, sync_content: bool, step: NamingStep) -> None:
    tmp = path + TMP_SUFFIX
    with step() as may_be_named:
        if not may_be_named:
            return
        with contextlib.suppress(FileNotFoundError):
            fs.unlink(tmp)
        fd = fs.open(tmp, create=True)
    try:
        write_and_close(fs, fd, content, sync_content=sync_content)
        with step() as may_be_named:
            if may_be_named:
                fs.rename(tmp, path)
    except OSError:
        with step() as may_be_named, contextlib.suppress(OSError):  # on a full disk its blocks are needed
            if may_be_named:
                fs.unlink(tmp)
        raise


def write_and_close(fs: FileSystem, fd: int, content: bytes, *, sync_content: bool) -> None:
    """Write the content at the beginning of the file; whatever happens, the descriptor is closed."""
    try:
        written = 0
        while written < len(content):
            written += fs.pwritev(fd, [memoryview(content)[written:]], written)
        if sync_content and content:  # an empty file has nothing that a crash could take
            fs.fdatasync(fd)
    finally:
        fs.close(fd)


def sync_file(fs: FileSystem, path: str) -> None:
    """Sync the file's content."""
    fd = fs.open(path)
    try:
        fs.fdatasync(fd)
    finally:
        fs.close(fd)


def read_text(fs: FileSystem, path: str) -> str | None:
    """The file's content, None when there is no such file, CorruptFileError when it is not text."""
    try:
        raw = fs.read_file(path)
    except FileNotFoundError:
        return None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFileError(path, error.start, "not UTF-8 text") from error
