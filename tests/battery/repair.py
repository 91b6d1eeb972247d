"""A bit rots on one replica's disk; the replica is made anew from its peer, and is equal to it byte for byte.

Two nodes hold a log, the one as leader, the other fetched it. One bit of the follower's segments is flipped while it is
down. It starts; what it refuses, at the start or while it is read, is set aside (never deleted) and fetched again. Only
storage is real here: when a replica may be given up is the broker's (`lost_replicas.py`), and has tests of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import CorruptFileError
from storage.disk.file_names import LOG_SUFFIX
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager
from tests.battery.nodes import IDS, ONE, config_for, start
from tests.battery.outcome import Outcome, Result, Size
from tests.battery.workload import Workload
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import log_named

SMALL_FLIPS = 60
FETCH_BYTES = 400


def run(size: Size) -> Iterator[Result]:
    leader = _leader()
    follower = _follower(leader)
    places = [(path, at) for path in follower.files() if path.endswith(LOG_SUFFIX) for at in range(follower.size(path))]
    for number in size.of(len(places), SMALL_FLIPS):
        path, at = places[number]
        damaged = follower.clone()
        bit = (at + size.seed) % 8
        damaged.damage(path, at, 1 << bit)
        yield Result(f"{path} bit {bit} of byte {at} flipped", *_repaired(damaged, leader))


def _leader() -> Log:
    node = Workload(LosingFileSystem())
    node.open()
    node.create(ONE, IDS[ONE])
    node.append(ONE, 12, 3)
    node.append(ONE, 9, 5, per_batch=2)
    node.flush(ONE)
    log = log_named(node.manager, ONE) if node.manager is not None else None
    assert log is not None
    return log


def _follower(leader: Log) -> LosingFileSystem:
    node = Workload(LosingFileSystem())
    node.open()
    node.create(ONE, IDS[ONE])
    assert node.manager is not None
    _fetch_all(node.manager, leader)
    node.close(5)
    return node.fs.clone()


def _fetch_all(manager: LogManager, leader: Log) -> None:
    log = manager.get_or_create(ONE, IDS[ONE], config_for(ONE), is_new=True)
    while log.log_end_offset < leader.log_end_offset:
        log.append.as_follower(leader.reader.read(log.log_end_offset, FETCH_BYTES).records)
    log.flush()


def _repaired(fs: LosingFileSystem, leader: Log) -> tuple[Outcome, str]:
    manager = start(fs)
    log = log_named(manager, ONE)
    if log is not None:
        try:
            equal = _content(log) == _content(leader)
        except CorruptFileError as damage:
            manager.fail_log(log, damage)
        else:
            return (Outcome.EXACT, "") if equal else (Outcome.WRONG, f"{log!r}: differs, and nobody noticed")
    aside = manager.removal.set_aside_rotten(ONE, IDS[ONE])
    _fetch_all(manager, leader)
    manager.close(True, 6)
    manager = start(fs.after_crash())
    log = log_named(manager, ONE)
    if log is None or _content(log) != _content(leader):
        return Outcome.WRONG, f"{log!r}: is not equal to its peer"
    if aside not in manager.removal.rotten:
        return Outcome.WRONG, f"{aside}: what was set aside is gone"
    return Outcome.REPAIRED, ""


def _content(log: Log) -> bytes:
    content, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        fetched = log.reader.read(offset, FETCH_BYTES)
        content, offset = content + fetched.records, fetched.next_offset
    return content
