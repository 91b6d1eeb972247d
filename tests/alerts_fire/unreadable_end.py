"""Puts a record that this release cannot read at the end of a coordinator's log, on every replica."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.record.batch import BatchHeader, read_header
from penstock.record.builder import build_batch
from tests.alerts_fire.stage import NODES, FaultError, Stage

LATER_VERSION = 99
"""No release writes a value in it."""


@contextmanager
def unreadable_end(stage: Stage, topic: str, key: bytes) -> Iterator[None]:
    """The topic's only partition ends with a value of this key in a later version, while the block lasts."""
    stage.cluster.wait_in_sync()
    stage.begins()
    kill_all(stage)
    logs = [path for dirs in stage.log_dirs for one in dirs for path in (one / f"{topic}-0").glob("*.log")]
    whole = logs[0].read_bytes()
    if len(logs) != NODES or any(path.read_bytes() != whole for path in logs):
        raise FaultError(f"the replicas differ: {[(path, path.stat().st_size) for path in logs]}")
    for path in logs:
        path.write_bytes(whole + unknown_value(key, last_header(whole)))
    start_all(stage)
    yield
    kill_all(stage)
    for path in logs:
        path.write_bytes(whole)
    start_all(stage)


def kill_all(stage: Stage) -> None:
    for node in range(NODES):
        stage.cluster.kill(node)


def start_all(stage: Stage) -> None:
    for node in range(NODES):
        stage.cluster.start(node, wait=False)
    stage.cluster.wait_ready()


def unknown_value(key: bytes, last: BatchHeader) -> bytes:
    """The batch behind the last one."""
    return build_batch(
        [struct.pack(">h", LATER_VERSION)],
        keys=[key],
        timestamps_ms=last.max_timestamp_ms,
        base_offset=last.next_offset,
        leader_epoch=last.leader_epoch,
    )


def last_header(log: bytes) -> BatchHeader:
    at, found = 0, None
    while at < len(log):
        found = read_header(log, at)
        at += found.size_bytes
    if found is None:
        raise FaultError("the log is empty")
    return found
