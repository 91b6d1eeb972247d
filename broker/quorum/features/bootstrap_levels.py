"""The feature levels that a cluster begins with, beside the metadata log of a controller that was formatted with some.

    bootstrap-levels    {"levels": {"metadata.version": 2, …}, "data_version": 1, "crc32c": …}

Written once, by `penstock node format`. When the controller leads, and the cluster has no metadata yet, it finalizes
these. A dir that was formatted by release 0.2.0 or before has no such file: its cluster stays at the levels of that
release until an operator raises them. The file stays and means nothing from then on, as Kafka's bootstrap.checkpoint.
Not here: that decision (metadata/controller/features.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from metadata.features import LEVEL_MAX
from penstock.errors import CorruptFileError
from storage.disk.atomic_file import read_text, write_atomically
from storage.disk.file_names import BOOTSTRAP_LEVELS
from storage.disk.file_system import FileSystem
from storage.disk.sealed_text import seal_json, unseal_json

VERSION: Final = 1


def write_bootstrap_levels(fs: FileSystem, log_dir: str, levels: Mapping[str, int]) -> None:
    """`log_dir` is that of the metadata log."""
    content = seal_json({"levels": dict(sorted(levels.items())), "data_version": VERSION})
    write_atomically(fs, f"{log_dir}/{BOOTSTRAP_LEVELS}", content)


def read_bootstrap_levels(fs: FileSystem, log_dir: str) -> Mapping[str, int]:
    """Nothing without such a file; CorruptFileError for a damaged one."""
    path = f"{log_dir}/{BOOTSTRAP_LEVELS}"
    text = read_text(fs, path)
    if text is None:
        return {}
    found, _ = unseal_json(path, text)
    levels = found.get("levels")
    if found.get("data_version") != VERSION or not isinstance(levels, dict):
        raise CorruptFileError(path, 0, f"not of data_version {VERSION}")
    if any(type(level) is not int or not 0 <= level <= LEVEL_MAX for level in levels.values()):
        raise CorruptFileError(path, 0, "a level is not a number")
    return levels
