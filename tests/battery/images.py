"""Log dirs to be damaged, and the truth about each: what its logs hold, batch by batch, as bytes.

An image is made by a real node, stopped in order or crashed with everything in place; the truth is what an undamaged
copy of it shows. `recovery_point` is as far as the node's checkpoints promise: a bad byte above it, after a crash,
looks like a torn tail to anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.quorum.metadata_log import METADATA_PARTITION, METADATA_TOPIC_ID, QuorumStateFile
from penstock.record.batch import iter_headers
from penstock.record.reader import read_columns
from penstock.types import EpochEntry, TopicPartition
from raft.quorum_state import ElectionState
from storage.disk.checkpoint_file import read_offsets
from storage.disk.file_names import LOG_SUFFIX, SWAP_SUFFIX
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.log_table import LogId
from tests.battery.history import LogHistory
from tests.battery.nodes import DIR, FAR, IDS, KEYED, ONE, TWO, start
from tests.battery.workload import WRITERS, Workload
from tests.support.losing_fs import LosingFileSystem

BROKER_EPOCH = 5
FAR_APART = "far apart"
VOTE = ElectionState(epoch=7, leader_id=-1, voted_id=2)


@dataclass(frozen=True)
class Batch:
    """One batch as it stands in the log."""

    base_offset: int
    next_offset: int
    content: bytes
    leader_epoch: int
    times: tuple[tuple[int, int], ...]
    """(timestamp, offset) of its records."""


@dataclass(frozen=True)
class LogTruth:
    """One log."""

    topic_id: str
    batches: tuple[Batch, ...]
    epochs: tuple[EpochEntry, ...]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    """Checkpointed: what is below may not be lost."""
    high_watermark: int
    is_compacted: bool
    history: LogHistory
    """All changes of the log until then."""

    def first_at_or_after(self, timestamp_ms: int, log_start_offset: int) -> int | None:
        times = sorted((offset, time_ms) for batch in self.batches for time_ms, offset in batch.times)
        found = (o for o, time_ms in times if time_ms >= timestamp_ms and o >= log_start_offset)
        return next(found, None)


@dataclass(frozen=True)
class Image:
    """A stopped log dir."""

    name: str
    fs: LosingFileSystem
    clean: bool
    logs: dict[TopicPartition, LogTruth]
    directory_id: str
    has_swap: bool
    """Something is left to be finished, which a start may do before it refuses something else."""
    vote: ElectionState | None


def plain(node: Workload) -> None:
    """Four segments, two epochs, a log start in the middle of the first segment; and another log beside."""
    node.create(ONE, IDS[ONE])
    node.create(TWO, IDS[TWO])
    node.append(TWO, 3, 0)
    node.flush(TWO)
    for number in range(20):
        node.now_ms += 1
        node.append(ONE, 1, 4 if number >= 13 else 0)
        if number == 16:
            node.flush(ONE)
            node.advance_log_start(ONE, 2)
            node.checkpoint()


def compacted(node: Workload) -> None:
    """A log that was cleaned: records are missing inside its segments, and one has none."""
    node.create(ONE, IDS[ONE])
    node.append(ONE, 2, 0)
    node.flush(ONE)
    node.create(KEYED, IDS[KEYED])
    for epoch, keys in enumerate(("abcabcaBabcdabeab", "fghabcdeijklmnopA", "qrstuvabcxyza")):
        for key in keys:
            node.now_ms += 1
            node.append_keys(KEYED, key, epoch)
    node.flush(KEYED)
    node.clean()
    node.checkpoint()


def transactional(node: Workload) -> None:
    """Two logs with transactions, a compacted one that was cleaned: some are aborted, one is open."""
    one, two = WRITERS
    node.create(ONE, IDS[ONE])
    node.create(KEYED, IDS[KEYED])
    for round_ in range(6):
        for log in (ONE, KEYED):
            node.now_ms += 1
            node.transact(log, "ab"[: 1 + round_ % 2], 0, one)
            node.append_keys(log, "c", 0)
            node.transact(log, "defghi"[round_], 0, two)
            node.end(log, 0, one, commits=round_ % 3 == 0)
            if round_ % 2:
                node.end(log, 0, two, commits=round_ > 2, bumps=False)
        if round_ == 3:
            node.append_keys(KEYED, "abcde", 0)
            node.flush(KEYED)
            for _ in range(2):
                node.clean()
                node.wait(5_000)
            node.flush(ONE)
            node.checkpoint()
    node.end(ONE, 0, two, commits=False)
    node.transact(KEYED, "z", 0, one)
    node.end(KEYED, 0, two, commits=False)


def swapping(node: Workload) -> None:
    """A cleaning that was interrupted: the new segment has the name that a start finishes, the old ones are there."""
    moments: list[LosingFileSystem] = []

    def watch(now: LosingFileSystem) -> None:
        if now.trace[-1].endswith(f"{LOG_SUFFIX}{SWAP_SUFFIX}"):
            moments.append(now.clone())

    node.fs.watch = watch
    compacted(node)
    node.fs.watch = None
    node.fs.root = moments[len(moments) // 2].root


def far_apart(node: Workload) -> None:
    """Two segments, of 205 and of 3 small batches: one index has an entry, and the other has none."""
    node.create(ONE, IDS[ONE])
    node.append(ONE, 2, 0)
    node.flush(ONE)
    node.create(FAR, IDS[FAR])
    for count in (205, 3):
        node.now_ms += 1
        node.follow(FAR, count, 0)
        node.flush(FAR)
        if count == 205:
            node.roll(FAR)
    node.checkpoint()


def metadata(node: Workload) -> None:
    """A voter's log and its vote."""
    node.create(ONE, IDS[ONE])
    node.append(ONE, 2, 0)
    node.flush(ONE)
    node.create(METADATA_PARTITION, METADATA_TOPIC_ID)
    for epoch in (1, 1, 1, 3, 3, 3, 6, 6, 6, 6):
        node.now_ms += 1
        node.append(METADATA_PARTITION, 1, epoch)
    node.flush(METADATA_PARTITION)
    node.checkpoint()
    quorum_state(node.fs).save(VOTE)


def quorum_state(fs: LosingFileSystem) -> QuorumStateFile:
    return QuorumStateFile(f"{DIR}/{METADATA_PARTITION}", fs)


KINDS: dict[str, Callable[[Workload], None]] = {
    "plain": plain,
    "compacted": compacted,
    "transactional": transactional,
    "swapping": swapping,
    "metadata": metadata,
    FAR_APART: far_apart,
}
STOPPED_IN_ORDER = ("plain", "compacted", "transactional", "metadata", FAR_APART)
"""The kinds that exist also after a clean stop."""


def image(name: str, clean: bool) -> Image:
    fs = LosingFileSystem()
    node = Workload(fs)
    node.open()
    KINDS[name](node)
    if clean:
        node.close(BROKER_EPOCH)
    stopped = fs.clone()
    manager = start(stopped.clone())
    points = _checkpointed(stopped, clean)
    histories = node.history.logs
    logs = {log.topic_partition: _truth(manager, log, points, histories) for log in manager.logs()}
    vote = quorum_state(fs).load() if name == "metadata" else None
    directory_id = next(iter(manager.meta_properties.values())).directory_id
    has_swap = any(path.endswith(SWAP_SUFFIX) for path in stopped.files())
    return Image(f"{name}, {'clean stop' if clean else 'crash'}", stopped, clean, logs, directory_id, has_swap, vote)


def _checkpointed(fs: LosingFileSystem, clean: bool) -> dict[TopicPartition, int]:
    return read_offsets(fs, f"{DIR}/recovery-point-offset-checkpoint") or {}


def _truth(
    manager: LogManager, log: Log, points: dict[TopicPartition, int], histories: dict[TopicPartition, LogHistory]
) -> LogTruth:
    batches: list[Batch] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        fetched = log.reader.read(offset, 1)
        for at, header in iter_headers(fetched.records):
            content = fetched.records[at : at + header.size_bytes]
            columns = read_columns(content)
            times = tuple(zip(columns.timestamps_ms, columns.offsets, strict=True))
            batches.append(Batch(header.base_offset, header.next_offset, content, header.leader_epoch, times))
        offset = fetched.next_offset
    return LogTruth(
        topic_id=log.topic_id,
        batches=tuple(batches),
        epochs=log.epoch_entries,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        recovery_point=points.get(log.topic_partition, 0),
        high_watermark=manager.checkpoints.high_watermarks().get(LogId.of(log), 0),
        is_compacted=log.config.is_compacted,
        history=histories[log.topic_partition],
    )
