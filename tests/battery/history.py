"""The history of the logs of a node, as far as it decides what the next start must, may and must not show.

Every operation tells its log's history before it begins (from then on what it takes away need not be there) and after
it has succeeded (from then on what it wrote must be there, and what it took away must not be). So a history that is
copied at any moment is what a crash at that moment is judged by. Dumb on purpose: sets of records and comparisons. Not
here: doing anything (`workload.py`), looking at what is left (`judge.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.types import TopicPartition
from storage.append.producer_state import KnownProducers

NEVER = 2**63


class Written(NamedTuple):
    """A record as it was handed to the log."""

    offset: int
    key: bytes | None
    value: bytes | None


class Sent(NamedTuple):
    """A batch of an idempotent producer as it was handed to the log."""

    producer_id: int
    epoch: int
    sequence: int
    count: int
    is_transactional: bool = False


class Ended(NamedTuple):
    """A marker as it was handed to the log: the end of the producer's transaction."""

    producer_id: int
    epoch: int
    is_committed: bool


@dataclass
class LogHistory:
    """One log. Invariant: `kept` and `unflushed` are among `written`."""

    topic_id: str
    written: set[Written] = field(default_factory=set)
    """May be there."""
    kept: dict[int, Written] = field(default_factory=dict)
    """Must be there: flushed, and nothing has begun to take it away."""
    unflushed: dict[int, Written] = field(default_factory=dict)
    buried: dict[bytes | None, Written] = field(default_factory=dict)
    """Tombstones that may be gone by now; what they deleted must not be seen again without them."""
    met_deletions: dict[int, int] = field(default_factory=dict)
    """Offset of a tombstone -> when a cleaning met it first."""
    must_exist: bool = False
    log_start: int = 0
    """Below it nothing is to be read once that is durable."""
    leaving_below: int = 0
    """Segments below it were taken out of the log; their files are on the way out."""
    latest_epoch: int = -1
    """The latest epoch that was flushed."""
    unflushed_epoch: int = -1
    sent: dict[int, Sent] = field(default_factory=dict)
    """The batches of producers by base offset, also those that were deleted: only a truncation makes them unknown."""
    marks: dict[int, Ended] = field(default_factory=dict)
    """The markers that tell epochs of producers; likewise."""
    transacted: dict[int, Sent | Ended] = field(default_factory=dict)
    """The transactional batches and the markers, whatever is known of their producers."""
    may_forget_producers: bool = False
    """The log is being emptied, or was cut where it had been cleaned: some producers may be unknown."""
    end: int = 0
    """Behind the newest record that was handed to the log."""
    flushed_end: int = 0
    """Every record below it was flushed."""
    written_start: int = 0
    """A log start that was written: no crash takes it back."""

    def copy(self) -> LogHistory:
        return LogHistory(
            self.topic_id,
            set(self.written),
            dict(self.kept),
            dict(self.unflushed),
            dict(self.buried),
            dict(self.met_deletions),
            self.must_exist,
            self.log_start,
            self.leaving_below,
            self.latest_epoch,
            self.unflushed_epoch,
            dict(self.sent),
            dict(self.marks),
            dict(self.transacted),
            self.may_forget_producers,
            self.end,
            self.flushed_end,
            self.written_start,
        )

    def appending(self, records: list[Written], sent: dict[int, Sent] | None = None) -> None:
        """`sent`: the batches of producers among them, by base offset."""
        self.written.update(records)
        self._begin_at(records[0].offset, len(records))
        self.sent.update(sent or {})
        self.transacted.update((at, batch) for at, batch in (sent or {}).items() if batch.is_transactional)

    def ending(self, offset: int, marker: Ended) -> None:
        """The marker is about to be appended."""
        self._begin_at(offset, 1)
        self.marks[offset] = self.transacted[offset] = marker

    def _begin_at(self, offset: int, count: int) -> None:
        self._forget_from(offset)
        self.end, self.flushed_end = offset + count, min(self.flushed_end, offset)

    def _forget_from(self, offset: int) -> None:
        self.sent = {at: batch for at, batch in self.sent.items() if at < offset}
        self.marks = {at: marker for at, marker in self.marks.items() if at < offset}
        self.transacted = {at: one for at, one in self.transacted.items() if at < offset}

    def producers(self, log_end: int) -> dict[int, tuple[int, list[int]]]:
        """The latest epoch of each producer, and the base offsets of its newest batches in it: five at most."""
        found: dict[int, tuple[int, list[int]]] = {}
        for offset, one in sorted([*self.sent.items(), *self.marks.items()]):
            if offset >= log_end:
                break
            epoch, offsets = found.get(one.producer_id, (one.epoch, []))
            offsets = offsets if epoch == one.epoch else []
            found[one.producer_id] = one.epoch, [*offsets, offset][-5:] if isinstance(one, Sent) else offsets
        return found

    def open_transactions(self, log_end: int) -> dict[int, int]:
        """The first offset of each producer's open transaction."""
        opened: dict[int, int] = {}
        for offset, one in sorted(self.transacted.items()):
            if offset < log_end:
                if isinstance(one, Ended):
                    opened.pop(one.producer_id, None)
                else:
                    opened.setdefault(one.producer_id, offset)
        return opened

    def aborted(self, log_end: int) -> set[int]:
        """The offsets of all records of aborted transactions."""
        found: set[int] = set()
        opened: dict[int, set[int]] = {}
        for offset, one in sorted(self.transacted.items()):
            if offset >= log_end:
                break
            if isinstance(one, Sent):
                opened.setdefault(one.producer_id, set()).update(range(offset, offset + one.count))
            else:
                records = opened.pop(one.producer_id, set())
                found |= set() if one.is_committed else records
        return found

    def next_batch(self, producer_id: int, count: int, log_end: int, *, new_epoch: bool = False) -> Sent:
        """The batch that the producer sends next."""
        epoch, offsets = self.producers(log_end).get(producer_id, (0, []))
        last = self.sent[offsets[-1]] if offsets else None
        if last is None or new_epoch:
            return Sent(producer_id, epoch + new_epoch, 0, count)
        return Sent(producer_id, epoch, last.sequence + last.count, count)

    def appended(self, records: list[Written], epoch: int) -> None:
        self.unflushed.update((record.offset, record) for record in records)
        self.unflushed_epoch = epoch

    def flushed(self) -> None:
        self.kept.update(self.unflushed)
        self.unflushed.clear()
        self.latest_epoch = max(self.latest_epoch, self.unflushed_epoch)
        self.flushed_end = self.end
        self.must_exist = True

    def truncating(self, cut_at: int) -> None:
        for records in (self.kept, self.unflushed):
            for offset in [offset for offset in records if offset >= cut_at]:
                del records[offset]
        self.end, self.flushed_end = min(self.end, cut_at), min(self.flushed_end, cut_at)
        self.written_start = min(self.written_start, cut_at)
        self.latest_epoch = self.unflushed_epoch = -1  # which epoch ends the log now is not worth a second bookkeeping

    def truncated(self, cut_at: int) -> None:
        self.sent = {at: batch for at, batch in self.sent.items() if at + batch.count <= cut_at}
        self.marks = {at: marker for at, marker in self.marks.items() if at < cut_at}
        ends = {at: at + (one.count if isinstance(one, Sent) else 1) for at, one in self.transacted.items()}
        self.transacted = {at: one for at, one in self.transacted.items() if ends[at] <= cut_at}
        self.met_deletions = {offset: ms for offset, ms in self.met_deletions.items() if offset < cut_at}
        self.written = {record for record in self.written if record.offset < cut_at}
        self.flushed()

    def advancing(self, log_start: int) -> None:
        for records in (self.kept, self.unflushed):
            for offset in [offset for offset in records if offset < log_start]:
                del records[offset]

    def start_written(self, log_start: int) -> None:
        """A checkpoint has this log start; after a truncation that was interrupted, it may be below the one here."""
        self.written_start = max(self.written_start, min(self.log_start, log_start))

    def gone_below(self, offset: int) -> None:
        """Durably: a start that shows any of it shows what was deleted."""
        self.written = {record for record in self.written if record.offset >= offset}

    def started(self, log_start: int, log_end: int, latest_epoch: int) -> None:
        """The node has started: what was deleted, but not durably so, may have come back; the tail may be lost."""
        self.may_forget_producers |= self.has_begun_anew(log_start, log_end)
        self.end = self.flushed_end = log_end
        self.log_start, self.leaving_below = log_start, 0
        self.unflushed = {offset: record for offset, record in self.unflushed.items() if offset < log_end}
        self.latest_epoch = self.unflushed_epoch = latest_epoch
        self._forget_from(log_end)

    def has_begun_anew(self, log_start: int, log_end: int) -> bool:
        """True for a log that begins and ends above all that was flushed: a power cut took records below a log start
        that was written. Their producers are lost with them. So are all others, because what is left of a producer
        may be older than its newest batch, and its next one would be refused."""
        return self.flushed_end < log_start == log_end

    def found_producers(self, known: KnownProducers) -> None:
        """From now on nothing but this is known of producers; it was judged before."""
        if self.may_forget_producers:
            remembered = known.window_offsets()
            self.sent = {offset: batch for offset, batch in self.sent.items() if offset in remembered}
            self.marks = {offset: marker for offset, marker in self.marks.items() if marker.producer_id in known}
            self._forget_cleaned(known)
            self.may_forget_producers = False

    def _forget_cleaned(self, known: KnownProducers) -> None:
        """A cut took markers whose batches a cleaning had taken before: no transaction is open there."""
        for producer_id, first in self.open_transactions(NEVER).items():
            entry = known.get(producer_id)
            found = NEVER
            if entry is not None and entry.transaction is not None and entry.has_open_transaction:
                found = entry.transaction.first_offset
            gone = [at for at, one in self.transacted.items() if one.producer_id == producer_id and first <= at < found]
            for at in gone:
                del self.transacted[at]

    def survived(self, found: list[Written]) -> None:
        """The start has shown this: the rest is gone, and this is durable."""
        self.written = set(found)
        self.unflushed = {offset: record for offset, record in self.unflushed.items() if record in self.written}
        self.flushed()

    def superseded(self, removed: list[Written], tombstones: list[Written]) -> None:
        """The cleaner may take these out: older records of a key, and deletions that were kept long enough."""
        for record in removed:
            self.kept.pop(record.offset, None)
        for record in tombstones:
            self.kept.pop(record.offset, None)
            self.buried[record.key] = record


@dataclass
class History:
    """All logs of a node."""

    logs: dict[TopicPartition, LogHistory] = field(default_factory=dict)
    gone: set[TopicPartition] = field(default_factory=set)
    """Deleted, durably, and not created again."""
    strays: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Directories that were set aside, durably, and their .log files."""
    marker_epochs: set[int] = field(default_factory=lambda: {-1})
    """The epochs that the next start may take for the broker epoch of a clean stop; -1: none."""

    def copy(self) -> History:
        logs = {topic_partition: log.copy() for topic_partition, log in self.logs.items()}
        return History(logs, set(self.gone), dict(self.strays), set(self.marker_epochs))
