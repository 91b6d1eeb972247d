"""The file of a snapshot of a log's producers, `NNNNNNNNNNNNNNNNNNNN.snapshot`: all below the offset in its name.

    1                                       version
    48211 7 1                               the offset; the leader epoch of the record before it, -1: none; producers
    4000 0 1700000000000 9:48190:19:-1      producer id; its epoch; when it last appended, in ms of this node's wall
                                            time, or before; then its newest batches, one to five, oldest first:
                                            base sequence:base offset:last offset delta:append time in ms (-1: none)
    crc32c 0a1b2c3d                         CRC-32C of every byte before this line (sealed_text.py)

The time is `TIME~LIKELY` where the producer probably appended earlier (`producer_state.py`). The version is 2 then: a
release that knows version 1 alone reads the log instead. Where something was transactional, the version is 3:

    3
    48211 7 1 1 1                           and how many transactions and index files follow
    4000 0 1700000000000 48170:5:48100 ...  behind the time: first offset of the open transaction, coordinator epoch of
                                            the newest marker, base offset of the newest batch without a sequence (-1
                                            each: none), or `-`; there may be no numbered batches then
    48100 48185                             a transaction that ended a short while ago: its first offset and its marker
    40000 12 1a2b3c4d                       a segment with markers of aborted transactions: its base offset, how many
                                            below the snapshot's offset, and the CRC-32C of their entries

Where a bound of producers is near, the version is 4: the numbers are those of version 3, and behind the time of each
producer stands how many ms it was surely silent when the snapshot was noted, by what processes have watched and not by
any calendar: `1700000000000+600000` or `TIME~LIKELY+600000`. A process that starts knows by that who may make room for
a new producer. Releases that know versions 1 to 3 do not use it: they use an older one, or the log.

The producers are in the order of their last appends. A snapshot saves reading the headers of all older batches, and
nothing more: one that is damaged, missing or of another history is not used. It is of this log if the record before its
offset has the same leader epoch here, because two logs with one epoch at an offset are equal below it (KIP-101). So
neither a power cut that brings back the snapshot of a cut tail, nor one that loses the log behind it, can make a log
believe it. A truncation deletes the snapshots above the cut all the same, durably BEFORE it cuts.

`producer_recovery.py` uses it, `producer_snapshots.py` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

from penstock import epochs
from penstock.errors import CorruptFileError
from penstock.types import NO_EPOCH, NO_TIMESTAMP, EpochEntry
from storage.append.producer_state import SEQUENCES, WINDOW, ProducerEntry, TakenBatch
from storage.append.transaction_state import EndedRange, ProducerTransaction
from storage.disk.atomic_file import read_text
from storage.disk.file_names import SNAPSHOT_SUFFIX, file_stem
from storage.disk.file_system import FileSystem
from storage.disk.sealed_text import seal, unseal
from storage.segment.transaction_index import IndexedSegment

VERSION = 1
VERSION_WITH_LIKELY_TIMES = 2
VERSION_WITH_TRANSACTIONS = 3
VERSION_WITH_SILENCES = 4
NOBODY_WATCHED: Final[Mapping[int, int]] = MappingProxyType({})
MAX_EPOCH = 2**15 - 1
_MAX_ID = 2**63 - 1


class ProducerSnapshot(NamedTuple):
    """The producers of a log, from its batches below the offset."""

    offset: int
    leader_epoch: int
    """The leader epoch of the record before the offset."""
    producers: dict[int, ProducerEntry]
    """The producers in the order of their last appends."""
    ended: tuple[EndedRange, ...] = ()
    """Transactions that may have their marker at or above the high watermark."""
    indexes: tuple[IndexedSegment, ...] = ()
    """The aborted transactions whose markers are below the offset, by segment."""
    silences: Mapping[int, int] = NOBODY_WATCHED
    """The ms for which each was surely silent, by producer id, as the file says."""
    watched_at_ms: int | None = None
    """The time, by the even clock, for which the silences are to be written; None: they are not."""

    def is_of(self, first_offset: int, log_end_offset: int, entries: Sequence[EpochEntry]) -> bool:
        """True if it is a snapshot of this log, whose files begin at `first_offset`.

        The epoch of a record that was deleted is not known any more; it is not above the first that is known.
        """
        if not first_offset <= self.offset <= log_end_offset:
            return False
        here = epochs.epoch_for_offset(entries, self.offset - 1)
        if here == NO_EPOCH:
            return not entries or self.leader_epoch <= entries[0].epoch
        return self.leader_epoch == here


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{file_stem(offset)}{SNAPSHOT_SUFFIX}"


def snapshot_content(snapshot: ProducerSnapshot) -> bytes:
    """The file's bytes."""
    producers = snapshot.producers
    version, watched_at_ms = VERSION, snapshot.watched_at_ms
    if watched_at_ms is not None:
        version = VERSION_WITH_SILENCES
    elif snapshot.ended or snapshot.indexes or any(known.transaction is not None for known in producers.values()):
        version = VERSION_WITH_TRANSACTIONS
    elif any(known.likely_append_ms != NO_TIMESTAMP for known in producers.values()):
        version = VERSION_WITH_LIKELY_TIMES
    more = f" {len(snapshot.ended)} {len(snapshot.indexes)}" if version >= VERSION_WITH_TRANSACTIONS else ""
    lines = [f"{version}\n{snapshot.offset} {snapshot.leader_epoch} {len(producers)}{more}\n"]
    for producer_id, known in producers.items():
        words = [str(producer_id), str(known.epoch), str(known.last_append_ms)]
        if known.likely_append_ms != NO_TIMESTAMP:
            words[-1] += f"~{known.likely_append_ms}"
        if watched_at_ms is not None:
            words[-1] += f"+{known.silence_ms(watched_at_ms)}"
        if version >= VERSION_WITH_TRANSACTIONS:
            words.append("-" if known.transaction is None else ":".join(map(str, known.transaction)))
        words += [":".join(map(str, batch)) for batch in known.batches]
        lines.append(" ".join(words) + "\n")
    lines += [f"{one.first_offset} {one.marker_offset}\n" for one in snapshot.ended]
    lines += [f"{one.base_offset} {one.entries} {one.crc:08x}\n" for one in snapshot.indexes]
    return seal("".join(lines))


def read_snapshot(fs: FileSystem, directory: str, offset: int) -> ProducerSnapshot | None:
    """The snapshot at the offset; None if it does not exist, CorruptFileError if it is damaged."""
    path = snapshot_path(directory, offset)
    text = read_text(fs, path)
    if text is None:
        return None
    if not text.isascii() or not text.endswith("\n"):
        raise CorruptFileError(path, len(text), "not ASCII text that ends with a line feed")
    lines = unseal(path, text).split("\n")[:-1]
    try:
        return _parsed(lines, offset)
    except ValueError as error:
        raise CorruptFileError(path, 0, f"not a snapshot of producers: {error!s:.200}") from error


def _parsed(lines: list[str], offset: int) -> ProducerSnapshot:
    if len(lines) < 2:
        raise ValueError("no version line, or no line with the offset")
    version = int(lines[0])
    if not VERSION <= version <= VERSION_WITH_SILENCES:
        raise ValueError(f"version {lines[0]:.20}, this release knows {VERSION} to {VERSION_WITH_SILENCES}")
    has_transactions = version >= VERSION_WITH_TRANSACTIONS
    found_offset, leader_epoch, *counts = map(int, lines[1].split(" "))
    if found_offset != offset or len(counts) != (3 if has_transactions else 1) or min(counts) < 0:
        raise ValueError(f"offset {found_offset}, and {len(counts)} counts of what follows")
    if sum(counts) != len(lines) - 2:
        raise ValueError(f"offset {found_offset} and {counts} lines, in a file of {len(lines) - 2}")
    if version == VERSION and any("~" in line for line in lines):
        raise ValueError(f"likely times, which version {VERSION} has not")
    behind = 2 + counts[0]
    texts, silences = lines[2:behind], NOBODY_WATCHED
    if version == VERSION_WITH_SILENCES:
        texts, silences = _without_silences(texts)
    producers = dict(_producer(line, offset, has_transactions=has_transactions) for line in texts)
    if len(producers) != counts[0]:
        raise ValueError("a producer is there twice")
    if not has_transactions:
        return ProducerSnapshot(offset, leader_epoch, producers)
    last = behind + counts[1]
    ended = tuple([_ended(line) for line in lines[behind:last]])
    indexes = tuple([_index(line) for line in lines[last:]])
    if any(not 0 <= one.first_offset <= one.marker_offset < offset for one in ended) or any(
        one.first_offset >= two.first_offset or one.marker_offset >= two.marker_offset for one, two in pairwise(ended)
    ):
        raise ValueError("transactions that cannot have ended in this order")
    if any(one.base_offset >= two.base_offset for one, two in pairwise(indexes)) or any(
        not 0 <= one.base_offset < offset or one.entries < 1 for one in indexes
    ):
        raise ValueError("indexes that are not of segments below the offset")
    return ProducerSnapshot(offset, leader_epoch, producers, ended, indexes, silences)


def _without_silences(lines: Iterable[str]) -> tuple[list[str], dict[int, int]]:
    """The lines as they are in the version before, and the silences by producer id."""
    plain, silences = list[str](), dict[int, int]()
    for line in lines:
        producer_id, epoch, time, *others = line.split(" ", 3)
        time, has_silence, silence_ms = time.partition("+")
        if not has_silence or not (silence_ms.isdecimal() and int(silence_ms) <= _MAX_ID):
            raise ValueError(f"no silence: {line:.100}")
        plain.append(" ".join((producer_id, epoch, time, *others)))
        silences[int(producer_id)] = int(silence_ms)
    return plain, silences


def _ended(line: str) -> EndedRange:
    first_offset, marker_offset = line.split(" ")
    return EndedRange(int(first_offset), int(marker_offset))


def _index(line: str) -> IndexedSegment:
    base_offset, entries, crc = line.split(" ")
    return IndexedSegment(int(base_offset), int(entries), int(crc, 16))


def _producer(line: str, snapshot_offset: int, *, has_transactions: bool) -> tuple[int, ProducerEntry]:
    producer_id, epoch, last_append, *texts = line.split(" ", 4 + WINDOW)
    last_append_ms, is_guessed, likely_append_ms = last_append.partition("~")
    transaction = _transaction(texts.pop(0), snapshot_offset) if has_transactions else None
    batches = tuple([_batch(text) for text in texts])
    likely_ms = int(likely_append_ms) if is_guessed else NO_TIMESTAMP
    entry = ProducerEntry(int(epoch), batches, int(last_append_ms), likely_ms, transaction)
    offset = -1
    if not (transaction is None) <= len(batches) <= WINDOW:
        raise ValueError(f"{len(batches)} batches: {line:.100}")
    for batch in batches:
        if batch.base_offset <= offset or batch.last_offset_delta < 0 or not 0 <= batch.base_sequence < SEQUENCES:
            raise ValueError(f"batches that cannot follow each other: {line:.100}")
        offset = batch.last_offset
    if is_guessed and not 0 <= likely_ms < entry.last_append_ms:
        raise ValueError(f"a likely time that is not before the last one: {line:.100}")
    is_below = (offset >= 0 or transaction is not None) and offset < snapshot_offset
    if not is_below or not 0 <= entry.epoch <= MAX_EPOCH or not 0 <= int(producer_id) <= _MAX_ID:
        raise ValueError(f"numbers out of range: {line:.100}")
    return int(producer_id), entry


def _transaction(text: str, snapshot_offset: int) -> ProducerTransaction | None:
    if text == "-":
        return None
    first_offset, coordinator_epoch, unnumbered_offset = map(int, text.split(":"))
    found = ProducerTransaction(first_offset, coordinator_epoch, unnumbered_offset)
    if not (min(found) >= -1 and max(first_offset, unnumbered_offset) < snapshot_offset):
        raise ValueError(f"a transaction that is out of range: {text:.100}")
    return found


def _batch(text: str) -> TakenBatch:
    base_sequence, base_offset, last_offset_delta, append_time_ms = text.split(":")
    return TakenBatch(int(base_sequence), int(base_offset), int(last_offset_delta), int(append_time_ms))
