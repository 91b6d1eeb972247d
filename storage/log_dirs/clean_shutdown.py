""".kafka_cleanshutdown: the last file that a node writes into a log dir at a clean stop.

    {"version": 1, "brokerEpoch": 17, "directoryIds": ["7PC9ms0-Q_u3kKqQvVvr8A"], "crc32c": "0a1b2c3d"}

The marker says three things. Everything in the dir was flushed, so the next start need not check it. The broker epoch
of the stop lets the controller tell a clean restart from a crash (KIP-966). And it lists the node's log dirs: if one of
them is missing at the next start, replicas are missing, and the stop must not count as clean, or the controller would
keep them in their ISRs. (Kafka's version 0 has no such list; it is read.)

The marker is removed durably BEFORE anything in the dir may change. A marker that cannot be read counts as missing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from penstock.errors import CorruptFileError
from storage.disk.atomic_file import read_text, write_atomically
from storage.disk.file_names import CLEAN_SHUTDOWN
from storage.disk.file_system import FileSystem
from storage.disk.sealed_text import seal_json, unseal_json

VERSION = 1
NO_BROKER_EPOCH = -1
_UNSEALED = {"version", "brokerEpoch"}


class CleanStop(NamedTuple):
    """The content of a good marker."""

    broker_epoch: int
    directory_ids: frozenset[str] | None
    """The log dirs that the node used; None if the marker has no list."""


def take_marker(fs: FileSystem, log_dir: str) -> CleanStop | None:
    """Remove the marker and return its content; None if there was no good one."""
    path = f"{log_dir}/{CLEAN_SHUTDOWN}"
    if not fs.exists(path):
        return None
    try:
        text = read_text(fs, path)
        stop = _parse(path, text or "")
    except CorruptFileError:
        stop = None
    fs.unlink(path)
    fs.fsync_dir(log_dir)
    return stop


def _parse(path: str, text: str) -> CleanStop | None:
    fields, sealed = unseal_json(path, text)
    epoch = fields.get("brokerEpoch")
    if type(epoch) is not int or epoch < NO_BROKER_EPOCH:
        return None
    if not sealed:
        return CleanStop(epoch, None) if set(fields) == _UNSEALED and fields["version"] == 0 else None
    ids = fields.get("directoryIds")
    if fields.get("version") != VERSION or not isinstance(ids, list):
        return None
    return CleanStop(epoch, frozenset(map(str, ids)))


def write_marker(fs: FileSystem, log_dir: str, broker_epoch: int, directory_ids: Collection[str] = ()) -> None:
    content = seal_json({"version": VERSION, "brokerEpoch": broker_epoch, "directoryIds": sorted(directory_ids)})
    write_atomically(fs, f"{log_dir}/{CLEAN_SHUTDOWN}", content)
