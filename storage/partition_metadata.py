"""partition.metadata: which topic, by id, the records in a partition's directory belong to (KIP-516).

    version: 0
    topic_id: ZHvSRhLiTqGYt7CWsTqnaA

A topic that was deleted and created again has the same name and another id; only the id keeps old records from coming
back as the new topic's.
"""

from __future__ import annotations

import re

from penstock.errors import CorruptFileError
from storage.atomic_file import read_text, write_atomically
from storage.file_names import PARTITION_METADATA
from storage.file_system import FileSystem

_CONTENT = re.compile(r"version: 0\ntopic_id: (?P<id>[A-Za-z0-9_-]{22})\n?")


def read_topic_id(fs: FileSystem, directory: str) -> str | None:
    """The topic id; None without the file; CorruptFileError when damaged."""
    path = f"{directory}/{PARTITION_METADATA}"
    text = read_text(fs, path)
    if text is None:
        return None
    match = _CONTENT.fullmatch(text)
    if match is None:
        raise CorruptFileError(path, 0, f"not 'version: 0' and 'topic_id: …' but {text[:80]!r}")
    return match["id"]


def write_topic_id(fs: FileSystem, directory: str, topic_id: str) -> None:
    """Write the file; its name becomes durable with the first flush, which comes before the first ack."""
    content = f"version: 0\ntopic_id: {topic_id}\n".encode()
    write_atomically(fs, f"{directory}/{PARTITION_METADATA}", content, sync_directory=False)
