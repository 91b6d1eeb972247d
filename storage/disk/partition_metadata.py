"""partition.metadata: the id of the topic to which the records in a partition's directory belong (KIP-516).

    version: 1
    topic_id: ZHvSRhLiTqGYt7CWsTqnaA
    crc32c 0a1b2c3d                          checksum of the lines before (sealed_text.py)

A topic that was deleted and created again has the same name and another id. Only the id keeps old records from
returning as the new topic's. A flipped bit in the id must be noticed too: otherwise the log would count as another
topic's and be set aside for an empty one. Version 0 is Kafka's, without a checksum; it is read, never written.
"""

from __future__ import annotations

import re
import sys

from penstock.errors import CorruptFileError
from storage.disk.atomic_file import NamingStep, always, read_text, sync_file, write_atomically, write_without_sync
from storage.disk.disk_errors import is_shortage
from storage.disk.file_names import PARTITION_METADATA
from storage.disk.file_system import FileSystem
from storage.disk.sealed_text import seal, unseal

VERSION = 1
_CONTENT = re.compile(r"version: (?P<version>0|1)\ntopic_id: (?P<id>[A-Za-z0-9_-]{22})\n?")


def read_topic_id(fs: FileSystem, directory: str) -> str | None:
    """The topic id; None without the file; CorruptFileError when damaged."""
    path = f"{directory}/{PARTITION_METADATA}"
    text = read_text(fs, path)
    if text is None:
        return None
    sealed = text.startswith(f"version: {VERSION}\n")
    match = _CONTENT.fullmatch(unseal(path, text) if sealed else text)
    if match is None:
        raise CorruptFileError(path, 0, f"not 'version: {VERSION}' and 'topic_id: …' but {text[:80]!r}")
    return sys.intern(match["id"])  # one string for all partitions of a topic


def note_topic_id(fs: FileSystem, directory: str, topic_id: str) -> None:
    """Write the file of a new log without a sync; it is durable with the first flush, which comes before the first ack.

    A topic may have thousands of partitions, and they are created on the event loop. Until that flush a power cut may
    leave the file empty. An empty file means the same as a missing one: no record was acked.
    """
    write_without_sync(fs, _path(directory), _content(topic_id))


def write_topic_id(fs: FileSystem, directory: str, topic_id: str, step: NamingStep = always) -> None:
    """Write the file anew and sync its content; its name is durable with the next sync of the directory."""
    write_atomically(fs, _path(directory), _content(topic_id), sync_directory=False, step=step)


def sync_topic_id(fs: FileSystem, directory: str, topic_id: str) -> None:
    """Sync the file's content; cheap if it is durable already.

    If a shortage refused a sync, the file is written anew instead: a second sync might wrongly report success.
    """
    try:
        sync_file(fs, _path(directory))
    except OSError as error:
        if not is_shortage(error):
            raise
        write_topic_id(fs, directory, topic_id)


def remove_topic_id(fs: FileSystem, directory: str) -> None:
    """Durably remove a file that a power cut damaged before the first flush of its log."""
    fs.unlink(_path(directory))
    fs.fsync_dir(directory)


def _path(directory: str) -> str:
    return f"{directory}/{PARTITION_METADATA}"


def _content(topic_id: str) -> bytes:
    return seal(f"version: {VERSION}\ntopic_id: {topic_id}\n")
