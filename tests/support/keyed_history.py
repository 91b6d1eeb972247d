"""Streams of keyed updates for a compacted topic: what git repositories have done to their paths, or made-up ones.

An update is (key, value); without a value it is a deletion. From git: every file that every commit touched, oldest
commit first, as `NAME:path` and the id of the blob. This module *writes* the topic. compaction_check.py computes the
expected end state, with its own code for reading the same histories.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

Update = tuple[bytes, bytes | None]
DELETED = b"D"
DELETION_SHARE = 0.1


def git_updates(git_directory: Path) -> Iterator[Update]:
    """The updates of one repository, given as its git directory."""
    log = ["log", "--raw", "--reverse", "--no-renames", "--no-abbrev", "--format=", "-z", "HEAD"]
    name = repository_name(git_directory).encode()
    with subprocess.Popen(["git", f"--git-dir={git_directory}", *log], stdout=subprocess.PIPE) as git:
        if git.stdout is None:
            raise RuntimeError("git has no output")
        fields = _fields(git.stdout)
        for what, path in zip(fields, fields, strict=True):  # :mode mode blob blob status, NUL, path, NUL
            _, _, _, blob, status = what.split(b" ")
            yield name + b":" + path, None if status == DELETED else blob
    if git.returncode != 0:
        raise RuntimeError(f"git log of {git_directory} failed with {git.returncode}")


def repository_name(git_directory: Path) -> str:
    """The last part of its path that says something."""
    return next(part for part in reversed(git_directory.absolute().parts) if part not in ("repo", ".git"))


def _fields(stream: Iterable[bytes]) -> Iterator[bytes]:
    """The fields between NULs. A pipe is iterated by lines, which mean nothing here."""
    rest = b""
    for piece in stream:
        *fields, rest = (rest + piece).split(b"\0")
        yield from fields


def made_up_updates(seed: int, count: int, keys: int) -> Iterator[Update]:
    """`count` updates of `keys` keys, some hot and most cold, with values of 40 bytes as git's."""
    source = random.Random(seed)
    for _ in range(count):
        number = int(keys * source.random() ** 3)
        is_deletion = source.random() < DELETION_SHARE
        yield b"made-up:dir/file-%06d" % number, None if is_deletion else source.randbytes(20).hex().encode()


def write_updates(path: Path, updates: Iterable[Update]) -> None:
    """Writes a line for each update, for compaction_check.py: key and value in hexadecimal; a deletion has no value."""
    with path.open("w") as file:
        file.writelines(f"{key.hex()} {'' if value is None else value.hex()}\n" for key, value in updates)
