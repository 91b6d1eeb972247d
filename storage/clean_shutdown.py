""".kafka_cleanshutdown: the last thing a node writes into a log dir when it stops in order.

    {"version": 0, "brokerEpoch": 17}

The marker says two things: everything in the dir was flushed, so that the next start need not check it; and in which
broker epoch that was, so that the controller can tell an orderly restart from a crash (KIP-966). It is removed,
durably, BEFORE anything in the dir may change. A marker that cannot be read is none.
"""

from __future__ import annotations

import json

from storage.atomic_file import write_atomically
from storage.file_names import CLEAN_SHUTDOWN
from storage.file_system import FileSystem

VERSION = 0
NO_BROKER_EPOCH = -1


def take_marker(fs: FileSystem, log_dir: str) -> int | None:
    """Remove the marker; the broker epoch that was in it, None when there was no good one."""
    path = f"{log_dir}/{CLEAN_SHUTDOWN}"
    try:
        raw = fs.read_file(path)
    except FileNotFoundError:
        return None
    fs.unlink(path)
    fs.fsync_dir(log_dir)
    try:
        marker = json.loads(raw)
        epoch = marker["brokerEpoch"]
        good = marker["version"] == VERSION and type(epoch) is int and epoch >= NO_BROKER_EPOCH
    except (ValueError, KeyError, TypeError):
        return None
    return epoch if good else None


def write_marker(fs: FileSystem, log_dir: str, broker_epoch: int) -> None:
    content = json.dumps({"version": VERSION, "brokerEpoch": broker_epoch}).encode() + b"\n"
    write_atomically(fs, f"{log_dir}/{CLEAN_SHUTDOWN}", content)
