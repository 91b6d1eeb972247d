"""Takes batches into one log: a leader's, which get their offsets here, and a follower's, which have theirs.

    checked     `recompression.prepared` for a leader, `batch_validation.check_fetched` for a follower
    answered    a producer's duplicate is not written again (`producers/producer_log.py`)
    placed      `placing.py`: base offsets and the leader epoch go into the headers
    written     `log_writer.py`: all of it, or nothing

Used from the log's thread. Not here: whether the replica leads, and the requests that wait for the records (broker).
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import ApiError, InvariantViolation
from penstock.types import NO_TIMESTAMP
from storage.append.append_info import AppendInfo
from storage.append.append_origin import PRODUCER, AppendOrigin
from storage.append.batch_validation import check_fetched
from storage.append.placing import Placed, fetched_runs, place_as_leader
from storage.append.recompression import prepared
from storage.append.stretched_batch import without_overlap
from storage.disk.file_system import Bytes
from storage.log.log_parts import LogParts
from storage.log.log_span import NO_LIMIT
from storage.log.log_writer import LogWriter


class LogAppend:
    """Appends to one log."""

    __slots__ = ("_counters", "_epochs", "_health", "_producers", "_segments", "_settings", "_span", "_writer")

    def __init__(self, parts: LogParts, writer: LogWriter) -> None:
        self._settings, self._span, self._writer = parts.settings, parts.span, writer
        self._segments, self._epochs, self._producers = parts.segments, parts.epochs, parts.producers
        self._health, self._counters = parts.health, parts.counters

    def as_leader(self, records: Bytes, leader_epoch: int, now_ms: int, origin: AppendOrigin = PRODUCER) -> AppendInfo:
        """Check the batches, place them, and write all or none; a producer's duplicate is only answered. `now_ms` is
        wall time."""
        self._health.must_be_writable()
        self._producers.reload()
        config = self._settings.config
        try:
            records, batches, _ = prepared(records, config, now_ms, origin=origin)
        except ApiError as refusal:
            return self._producers.answer_refused(records, refusal)
        is_of_producer = batches[0][1].producer_id >= 0 or origin is not PRODUCER
        if is_of_producer and (answer := self._producers.answer_append(records, batches, origin)) is not None:
            return answer
        if leader_epoch < self._epochs.latest_epoch:
            raise InvariantViolation(f"{self!r}: append with epoch {leader_epoch} after {self._epochs.latest_epoch}")
        append_time_ms = now_ms if config.message_timestamp_type == "LogAppendTime" else NO_TIMESTAMP
        placed = place_as_leader(records, batches, self._span.end, leader_epoch, append_time_ms)
        return self._write((placed,), AppendInfo.of(placed.headers, placed.size_bytes, append_time_ms))

    def as_follower(self, records: Bytes, old_below: int = NO_LIMIT) -> AppendInfo:
        """Write the leader's batches, all or none; they must continue this log. `old_below`: see `LogWriter.append`."""
        self._health.must_be_writable()
        self._producers.reload()
        end, config = self._span.end, self._settings.config
        records = without_overlap(records, end)
        batches = check_fetched(records, end, self._epochs.latest_epoch)
        info = AppendInfo.of([header for _, header in batches], len(records), NO_TIMESTAMP)
        room = config.segment_bytes - self._segments.active.size_bytes
        return self._write(fetched_runs(records, batches, room, config.segment_bytes), info, old_below)

    def _write(self, runs: Iterable[Placed], info: AppendInfo, old_below: int = 0) -> AppendInfo:
        self._span.end = self._writer.append(runs, self._span.end, self._settings.config, old_below)
        self._counters.appended_bytes += info.size_bytes
        self._counters.appended_records += info.record_count
        return info

    def __repr__(self) -> str:
        return f"LogAppend({self._health.path}, {self._span.start}..{self._span.end})"
