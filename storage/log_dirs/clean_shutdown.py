""".kafka_cleanshutdown: the last thing a node writes into a log dir when it stops in order.

    {"version": 1, "brokerEpoch": 17, "directoryIds": ["7PC9ms0-Q_u3kKqQvVvr8A"], "crc32c": "0a1b2c3d"}

The marker says three things: everything in the dir was flushed, so that the next start need not check it; in which
broker epoch that was, so that the controller can tell an orderly restart from a crash (KIP-966); and which log dirs the
node had. When one of those is not there at the next start, replicas are missing, and the stop must not count as clean:
the controller would keep them in their ISRs (Kafka's version 0 does not say it; it is read).

It is removed, durably, BEFORE anything in the dir may change. A marker that cannot be read is none.
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
    """What a good marker says."""

    broker_epoch: int
    directory_ids: frozenset[str] | None
    """The log dirs that the node used; None where the marker does not say."""


def take_marker(fs: FileSystem, log_dir: str) -> CleanStop | None:
    """Remove the marker; what was in it, None when there was no good one."""
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
