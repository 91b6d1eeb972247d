"""Starts a node on what a disk has left, and compares what it shows with the history of what was done.

Nothing here was damaged, only lost: so a refusal is wrong. What must hold: everything that was flushed is there;
nothing is there that was never written, or that was durably taken away; offsets and epochs say what the batches say;
what the start shows is durable, because a second power cut right after it changes nothing; the log takes new records,
and once they are flushed a third one leaves them, and does not take them for committed; no log start that was written
is ever forgotten.
Damaged bytes are judged elsewhere (`damage.py`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from penstock.epochs import epoch_for_offset
from penstock.errors import PenstockError
from penstock.record.batch import iter_headers
from penstock.record.builder import build_batch
from penstock.record.reader import read_columns
from penstock.types import TopicPartition
from storage.append.batch_validation import check_fetched
from storage.log.log import Log
from storage.log.log_types import AbortedRange
from storage.log_dirs.log_manager import LogManager
from tests.battery.history import History, LogHistory, Written
from tests.battery.nodes import format_disk, is_formatted, start
from tests.battery.outcome import Outcome
from tests.support.losing_fs import Directory, LosingFileSystem
from tests.support.storage import NOW_MS, log_named
from tests.support.transactions import batches_of, committed

READ_BYTES = 300
NEVER_MS = 2**62
NEW_EPOCH = 1000
"""The leader epoch after a start: above every epoch of a script."""
Verdict = tuple[Outcome, str]


class Wrong(Exception):
    """Something that must not be; the text says what."""


def judge(fs: LosingFileSystem, history: History) -> Verdict:
    """The verdict on a start on this disk."""
    try:
        found = _first_start(fs, history)
        again = _second_start(fs.after_crash())
        for topic_partition, shown in again.items():
            if shown != found.get(topic_partition):
                before = found.get(topic_partition)
                raise Wrong(f"{topic_partition}: a power cut after the start changed {before} to {shown}")
        if again.keys() != found.keys():
            raise Wrong(f"a power cut after the start left {sorted(again)} of {sorted(found)}")
    except Wrong as wrong:
        return Outcome.WRONG, str(wrong)
    except PenstockError as error:
        return Outcome.WRONG, f"refused: {error}"
    except Exception as error:  # whatever else comes out of storage has no type that a broker could act on
        return Outcome.WRONG, f"untyped {error!r}"
    there = {topic_partition: set(shown.records) for topic_partition, shown in found.items()}
    whole = all(set(log.unflushed.values()) <= there.get(tp, set()) for tp, log in history.logs.items())
    return (Outcome.EXACT if whole else Outcome.TAIL_LOST), ""


class Judge:
    """Judges what may be left of one disk; if that is the same in two ways, every byte of it, it is judged once."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._judged: list[tuple[Directory, Verdict]] = []

    def __call__(self, fs: LosingFileSystem) -> Verdict:
        for root, verdict in self._judged:
            if root == fs.root:
                return verdict
        root = fs.snapshot().root  # the start that judges it changes the disk
        verdict = judge(fs, self._history)
        self._judged.append((root, verdict))
        return verdict

    def __repr__(self) -> str:
        return f"Judge({len(self._judged)} disks)"


class Shown(NamedTuple):
    """The contents of one log after a start."""

    records: list[Written]
    producers: dict[int, tuple[int, list[int]]]
    undecided: int | None

    @classmethod
    def of(cls, log: Log) -> Shown:
        return cls(read_whole(log), producers_of(log), log.transactions.first_undecided(log.log_end_offset))


def _first_start(fs: LosingFileSystem, history: History) -> dict[TopicPartition, Shown]:
    if not is_formatted(fs):
        format_disk(fs)
    manager = start(fs)
    for offline in manager.table.offline.values():
        raise Wrong(f"refused: {offline.error}")
    if manager.previous_broker_epoch not in history.marker_epochs:
        raise Wrong(f"broker epoch {manager.previous_broker_epoch}, not one of {sorted(history.marker_epochs)}")
    found = {log.topic_partition: Shown.of(log) for log in manager.logs()}
    for topic_partition, log_history in history.logs.items():
        log = log_named(manager, topic_partition)
        if log is not None:
            judge_log(log, found[topic_partition].records, log_history)
        elif log_history.must_exist:
            raise Wrong(f"{topic_partition} is gone")
    for topic_partition in history.gone & found.keys():
        raise Wrong(f"{topic_partition} was deleted and is there again")
    _judge_strays(fs, manager, history)
    for (topic_partition, topic_id), offset in manager.checkpoints.high_watermarks().items():
        log = manager.get(topic_partition, topic_id)
        if log is None or not 0 <= offset <= log.log_end_offset:
            raise Wrong(f"{topic_partition}: high watermark {offset}")
    manager.close(False)
    return found


def _judge_strays(fs: LosingFileSystem, manager: LogManager, history: History) -> None:
    manager.removal.delete_due(NEVER_MS)
    for path, files in history.strays.items():
        if path not in manager.removal.strays or not fs.exists(path):
            raise Wrong(f"{path}: a stray directory is gone")
        for name, content in files.items():
            if not fs.read_file(f"{path}/{name}").startswith(content):
                raise Wrong(f"{path}/{name}: what was flushed is gone from a stray directory")


def _second_start(fs: LosingFileSystem) -> dict[TopicPartition, Shown]:
    """The power was cut once more; then the logs are written, the power is cut again, and they are stopped in order."""
    manager = start(fs)
    found = {log.topic_partition: Shown.of(log) for log in manager.logs()}
    committed_below = manager.checkpoints.high_watermarks()
    wanted = {}
    for log in manager.logs():
        end, shown = log.log_end_offset, found[log.topic_partition]
        after = build_batch([b"after"], keys=[b"after"], timestamps_ms=NOW_MS)
        log.append.as_leader(after, NEW_EPOCH, NOW_MS)
        if log.flush() != end + 1:
            raise Wrong(f"{log!r}: cannot be flushed")
        wanted[log.topic_partition] = shown._replace(records=[*shown.records, Written(end, b"after", b"after")])
    fs = fs.after_crash()
    manager = start(fs)
    _must_show(manager, wanted)
    for log_id, offset in manager.checkpoints.high_watermarks().items():
        if offset > committed_below[log_id]:
            raise Wrong(f"{log_id}: a power cut raised the high watermark from {committed_below[log_id]} to {offset}")
    manager.close(True, 77)
    manager = start(fs.after_crash())
    _must_show(manager, wanted)
    if manager.previous_broker_epoch != 77:
        raise Wrong("a clean stop was not seen")
    manager.close(False)
    return found


def _must_show(manager: LogManager, wanted: dict[TopicPartition, Shown]) -> None:
    shown = {log.topic_partition: Shown.of(log) for log in manager.logs()}
    for topic_partition in wanted:
        if shown.get(topic_partition) != wanted[topic_partition]:
            raise Wrong(
                f"{topic_partition}: an append after the start was lost, or changed {wanted[topic_partition]} to"
                f" {shown.get(topic_partition)}"
            )


def judge_log(log: Log, found: list[Written], history: LogHistory) -> None:
    """One log against its history."""
    there = set(found)
    lost = [record for record in history.kept.values() if record not in there]
    if lost:
        raise Wrong(f"{log!r}: lost {lost}; it has {found}")
    made_up = there - history.written
    if made_up:
        raise Wrong(f"{log!r}: nobody wrote {sorted(made_up)}, or it was deleted")
    if log.log_start_offset > min(history.kept, default=log.log_start_offset):
        raise Wrong(f"{log!r}: begins above {min(history.kept)}")
    if log.log_start_offset < history.written_start:
        raise Wrong(f"{log!r}: the log start {history.written_start} was written")
    if log.topic_id not in (history.topic_id, ""):
        raise Wrong(f"{log!r}: topic id {log.topic_id}")
    for tombstone in history.buried.values():
        older = [r for r in found if r.key == tombstone.key and r.offset < tombstone.offset]
        if older and tombstone not in there:
            raise Wrong(f"{log!r}: {older} live again, for {tombstone} is gone")
    judge_producers(log, history)
    judge_transactions(log, found, history)
    if found and log.latest_epoch < history.latest_epoch:  # an epoch without records may go, as Kafka has it
        raise Wrong(f"{log!r}: epoch {history.latest_epoch} is forgotten")


def judge_producers(log: Log, history: LogHistory) -> None:
    """Checks that the log knows of its producers what all batches say that were ever written to it."""
    known = producers_of(log)
    said = history.producers(log.log_end_offset)
    if history.may_forget_producers:
        wrong = [one for one, (epoch, offsets) in known.items() if not _is_true(history, one, epoch, offsets)]
        if wrong:
            raise Wrong(f"{log!r}: knows {known} of producers, and there was {history.sent}")
    elif known != said and (known or not history.has_begun_anew(log.log_start_offset, log.log_end_offset)):
        raise Wrong(f"{log!r}: knows {known} of producers, and was told {said}")


def judge_transactions(log: Log, found: list[Written], history: LogHistory) -> None:
    """Checks which transactions are open, and what a reader of committed records gets of all that is found."""
    start, end, opened = log.log_start_offset, log.log_end_offset, history.open_transactions(log.log_end_offset)
    undecided = log.transactions.first_undecided(end)
    stable = end if undecided is None else max(undecided, start)
    may_forget = history.may_forget_producers or any(first < start for first in opened.values())
    if stable != max(min([*opened.values(), end]), start) and not may_forget:
        raise Wrong(f"{log!r}: undecided from {undecided}, and {opened} are open")
    aborted = history.aborted(end)
    wanted = {record.offset for record in found if record.offset < stable and record.offset not in aborted}
    shown = read_committed(log, stable)
    if shown != wanted:
        raise Wrong(f"{log!r}: readers of committed records get {sorted(shown)}, not {sorted(wanted)}")


def read_committed(log: Log, stable: int) -> set[int]:
    """The offsets of the records that a consumer delivers: read after read, each with its list of what was aborted."""
    shown: set[int] = set()
    offset = log.log_start_offset
    while offset < stable:
        fetched = log.reader.read(offset, READ_BYTES, max_offset=stable)
        ranges = [
            AbortedRange(one.producer_id, one.first_offset, 0)
            for one in log.transactions.aborted(offset, fetched.next_offset)
        ]
        delivered = committed(batches_of(bytes(fetched.records)), ranges)
        shown.update(one.offset for one in delivered if one.offset >= offset)
        offset = fetched.next_offset
    return shown


def producers_of(log: Log) -> dict[int, tuple[int, list[int]]]:
    """The epoch of each producer, and the base offsets of the batches that the log would know again."""
    log.producers.reload()
    entries = log.producers.known.copy()
    return {one: (entry.epoch, [batch.base_offset for batch in entry.batches]) for one, entry in entries.items()}


def _is_true(history: LogHistory, producer_id: int, epoch: int, offsets: list[int]) -> bool:
    sent = [history.sent.get(offset) for offset in offsets]
    return all(batch is not None and batch[:2] == (producer_id, epoch) for batch in sent)


def read_whole(log: Log) -> list[Written]:
    """Every record as a consumer gets it; and every batch is one that a follower takes."""
    found: list[Written] = []
    offset, epoch = log.log_start_offset, -1
    while offset < log.log_end_offset:
        fetched = log.reader.read(offset, READ_BYTES)
        if fetched.next_offset <= offset:
            raise Wrong(f"{log!r}: no progress at {offset}")
        first = next(iter_headers(fetched.records))[1].base_offset
        headers = check_fetched(fetched.records, first if offset == log.log_start_offset else offset, epoch)
        columns = read_columns(fetched.records, from_offset=offset)
        keys = columns.keys or [None] * len(columns)
        found += map(Written, columns.offsets, map(_bytes, keys), map(_bytes, columns.values))
        for _, header in headers:
            if epoch_for_offset(log.epoch_entries, max(header.base_offset, offset)) != header.leader_epoch:
                raise Wrong(f"{log!r}: epoch {header.leader_epoch} at {header.base_offset}, not {log.epoch_entries}")
        offset, epoch = fetched.next_offset, headers[-1][1].leader_epoch
    for before, after in pairwise(log.epoch_entries):
        if not (before.epoch < after.epoch and before.start_offset < after.start_offset):
            raise Wrong(f"{log!r}: epochs {log.epoch_entries}")
    return found


def _bytes(cell: bytes | None) -> bytes | None:
    return None if cell is None else bytes(cell)
