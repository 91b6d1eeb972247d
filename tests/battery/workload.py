"""Everything that is ever done to the logs of a node, each step told to the history before and after.

A `Workload` drives a real `LogManager` on a losing file system. How a step is tried is the caller's: a crash passes
through, a failing disk is retried or given up as a broker would (`Attempt`). Scripts, which are sequences of steps, are
in `scripts.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.errors import PenstockError
from penstock.record.batch import iter_headers
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from storage.append.append_origin import COORDINATOR
from storage.disk.file_names import CLEAN_SHUTDOWN, LOG_SUFFIX
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.log_table import LogId
from tests.battery.cleaning import NodeCleaner, may_go
from tests.battery.history import Ended, History, LogHistory, Sent, Written
from tests.battery.judge import judge_log, judge_producers, judge_transactions, read_whole
from tests.battery.nodes import DIR, config_for, format_disk, is_formatted, start
from tests.support.look_ups import max_timestamp, offset_for_timestamp
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, log_named
from tests.support.transactions import ABORT, COMMIT, marker_bytes

Cell = tuple[bytes | None, bytes | None]


WRITERS = (10, 11)
"""The producers with transactions."""


def _fields(sent: Sent) -> dict[str, int]:
    """The producer's fields of a batch."""
    fields = {"producer_id": sent.producer_id, "producer_epoch": sent.epoch, "base_sequence": sent.sequence}
    return fields | ({"is_transactional": True} if sent.is_transactional else {})


def _batch_base(log: Log, offset: int) -> int:
    """Where a truncation cuts: batches go whole, also one that the cleaner has stretched over what it took out."""
    try:
        return min(header.base_offset for _, header in iter_headers(log.reader.read(offset, 1).records))
    except (PenstockError, ValueError):
        return min(offset, *(segment.base_offset for segment in log.segments if segment.next_offset > offset))


class Attempt(Protocol):
    """Tries a step; True when it succeeded. `raw`: its contract allows an OSError."""

    def __call__(self, name: str, step: Callable[[], object], *, raw: bool = False) -> bool: ...


def must_succeed(name: str, step: Callable[[], object], *, raw: bool = False) -> bool:
    """Where nothing fails; a crash passes through."""
    step()
    return True


class Workload:
    """One node's logs and their history."""

    def __init__(self, fs: LosingFileSystem, attempt: Attempt = must_succeed) -> None:
        self.fs = fs
        self.attempt = attempt
        self.history = History()
        self.now_ms = NOW_MS
        self.manager: LogManager | None = None
        self._cleaner: NodeCleaner | None = None
        self._counter = self._sent = self._cuts = 0

    # -- the node ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start the node; formats a new disk."""
        if not is_formatted(self.fs):
            self.attempt("format", lambda: format_disk(self.fs))
        if self.attempt("open", self._open):
            self.history.marker_epochs = {-1}
            for log in self._manager().logs():
                history = self.history.logs[log.topic_partition]
                history.started(log.log_start_offset, log.log_end_offset, log.latest_epoch)
                history.found_producers(log.producers.known)

    def _open(self) -> None:
        self.manager = start(self.fs)
        self._cleaner = NodeCleaner(self.fs, self.manager)

    def close(self, broker_epoch: int) -> None:
        """Stop in order; it has worked when the marker is there."""
        manager = self._manager()
        self.history.marker_epochs.add(broker_epoch)
        open_logs = [self.history.logs[log.topic_partition] for log in manager.logs()]
        if self.attempt("close", lambda: manager.close(True, broker_epoch)) and self._marker_is_there():
            for log in open_logs:
                log.flushed()
                log.gone_below(log.log_start)

    def restart(self, fs: LosingFileSystem) -> None:
        """The node starts on what a crash has left, which is durable then; the history goes on from there."""
        self.fs = fs
        self._open()
        self.history.marker_epochs = {-1}
        for log in self._manager().logs():
            history = self.history.logs[log.topic_partition]
            found = read_whole(log)
            judge_log(log, found, history)
            history.started(log.log_start_offset, log.log_end_offset, log.latest_epoch)
            history.found_producers(log.producers.known)
            history.survived(found)

    def _marker_is_there(self) -> bool:
        return f"{DIR}/{CLEAN_SHUTDOWN}" in self.fs.files(DIR)

    def _manager(self) -> LogManager:
        if self.manager is None:
            self.open()
        assert self.manager is not None, "the node does not start"
        return self.manager

    def _log(self, topic_partition: TopicPartition) -> tuple[Log | None, LogHistory]:
        return log_named(self._manager(), topic_partition), self.history.logs[topic_partition]

    def create(self, topic_partition: TopicPartition, topic_id: str) -> None:
        self.history.logs.setdefault(topic_partition, LogHistory(topic_id))
        self.history.gone.discard(topic_partition)
        manager, config = self._manager(), config_for(topic_partition)
        self.attempt("create", lambda: manager.get_or_create(topic_partition, topic_id, config, is_new=True))

    # -- records -------------------------------------------------------------------------------------------------------

    def append(self, topic_partition: TopicPartition, count: int, epoch: int, per_batch: int = 1) -> None:
        """`count` batches of numbered values without keys."""
        for _ in range(count):
            self.append_cells(topic_partition, [(None, self._value()) for _ in range(per_batch)], epoch)

    def _value(self) -> bytes:
        self._counter += 1
        return b"value-%04d" % self._counter

    def append_keys(self, topic_partition: TopicPartition, keys: str, epoch: int) -> None:
        """One batch for each letter; an upper-case letter deletes its lower-case key."""
        for letter in keys:
            value = None if letter.isupper() else self._value()
            self.append_cells(topic_partition, [(letter.lower().encode(), value)], epoch)

    def append_cells(self, topic_partition: TopicPartition, cells: Sequence[Cell], epoch: int) -> None:
        log, history = self._log(topic_partition)
        if log is not None:
            self._append(log, history, cells, epoch, self._send(history, log.log_end_offset, len(cells)))

    def transact(self, topic_partition: TopicPartition, keys: str, epoch: int, writer: int = WRITERS[0]) -> None:
        """One batch of a transaction of this producer."""
        log, history = self._log(topic_partition)
        if log is not None:
            cells = [(letter.lower().encode(), None if letter.isupper() else self._value()) for letter in keys]
            sent = history.next_batch(writer, len(cells), log.log_end_offset)._replace(is_transactional=True)
            self._append(log, history, cells, epoch, sent)

    def end(
        self, topic_partition: TopicPartition, epoch: int, writer: int, *, commits: bool, bumps: bool = True
    ) -> None:
        """The marker of this producer's transaction, of version 2 (it bumps the epoch) or 1."""
        log, history = self._log(topic_partition)
        if log is None or writer not in history.open_transactions(log.log_end_offset):
            return
        known, _ = history.producers(log.log_end_offset)[writer]
        history.ending(log.log_end_offset, Ended(writer, known + bumps, commits))
        content = marker_bytes(writer, known + bumps, COMMIT if commits else ABORT, self.now_ms)
        if self.attempt("append", lambda: log.append.as_leader(content, epoch, self.now_ms, COORDINATOR)):
            history.appended([], epoch)

    def _append(self, log: Log, history: LogHistory, cells: Sequence[Cell], epoch: int, sent: Sent) -> None:
        end = log.log_end_offset
        records = [Written(end + n, key, value) for n, (key, value) in enumerate(cells)]
        history.appending(records, {end: sent})
        content = build_batch(
            [v for _, v in cells], keys=[k for k, _ in cells], timestamps_ms=self.now_ms, **_fields(sent)
        )
        if self.attempt("append", lambda: log.append.as_leader(content, epoch, self.now_ms)):
            history.appended(records, epoch)

    def _send(self, history: LogHistory, log_end: int, count: int) -> Sent:
        """The next batch of one of three producers; now and then one begins a new epoch."""
        self._sent += 1
        producer_id = 0 if self._sent % 3 else self._sent // 3 % 3
        return history.next_batch(producer_id, count, log_end, new_epoch=self._sent % 17 == 0)

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def follow(self, topic_partition: TopicPartition, count: int, epoch: int, key: bytes | None = None) -> None:
        """`count` batches from a leader in one answer, over segment boundaries."""
        log, history = self._log(topic_partition)
        if log is None:
            return
        end = log.log_end_offset
        records = [Written(end + n, key, self._value()) for n in range(count)]
        content = b""
        for record in records:
            sent = self._send(history, record.offset, 1)
            history.appending([record], {record.offset: sent})
            place = {"base_offset": record.offset, "leader_epoch": epoch}
            content += build_batch([record.value], keys=[key], timestamps_ms=self.now_ms, **place, **_fields(sent))

        def append_the_rest() -> None:
            rest = [at for at, header in iter_headers(content) if header.base_offset >= log.log_end_offset]
            if rest:
                log.append.as_follower(content[rest[0] :])

        self.attempt("append_as_follower", append_the_rest)
        history.appended([record for record in records if record.offset < log.log_end_offset], epoch)

    def assign_epoch(self, topic_partition: TopicPartition, epoch: int) -> None:
        log, history = self._log(topic_partition)
        if log is not None and self.attempt("assign_epoch", lambda: log.assign_epoch(epoch, log.log_end_offset)):
            history.unflushed_epoch = epoch

    def roll(self, topic_partition: TopicPartition) -> None:
        log, _ = self._log(topic_partition)
        if log is not None:
            self.attempt("roll", log.roll, raw=True)

    def flush(self, topic_partition: TopicPartition) -> None:
        log, history = self._log(topic_partition)
        if log is not None and self.attempt("flush", log.flush):
            history.flushed()

    def read(self, topic_partition: TopicPartition) -> None:
        """Here and there, by offset and by time, so that indexes are used."""
        log, _ = self._log(topic_partition)
        if log is None:
            return
        for offset in range(log.log_start_offset, log.log_end_offset, 4):
            self.attempt("read", lambda at=offset: log.reader.read(at, 200))  # type: ignore[misc]
        self.attempt("offset_for_timestamp", lambda: offset_for_timestamp(log, self.now_ms))
        self.attempt("max_timestamp", lambda: max_timestamp(log))

    # -- what takes records away ---------------------------------------------------------------------------------------

    def truncate(self, topic_partition: TopicPartition, offset: int) -> None:
        log, history = self._log(topic_partition)
        if log is None:
            return
        if offset >= log.log_end_offset:  # epochs without records may go, even then
            history.latest_epoch = history.unflushed_epoch = -1
            self.attempt("truncate_to", lambda: log.truncate_to(offset))
            return
        history.truncating(_batch_base(log, offset))
        history.may_forget_producers |= log.config.is_compacted
        self._cuts += 1
        if self._cuts % 2 and not self.attempt("prepare_cut", lambda: self._prepare_cut(log, offset), raw=True):
            return
        if self.attempt("truncate_to", lambda: log.truncate_to(offset)):
            history.truncated(offset)
            history.log_start = min(history.log_start, log.log_start_offset)
            if self.attempt("read", lambda: self._judge_cut(log, history)):
                history.found_producers(log.producers.known)

    def _judge_cut(self, log: Log, history: LogHistory) -> None:
        judge_producers(log, history)
        judge_transactions(log, read_whole(log), history)

    @staticmethod
    def _prepare_cut(log: Log, offset: int) -> None:
        """A follower has a thread read first what is known of producers below the cut; here every other time. Of a
        disk that fails this tells the OSError itself."""
        prepared = log.producers.prepare_cut(offset)
        if prepared is not None:
            prepared.run(lambda: True)

    def start_over(self, topic_partition: TopicPartition, offset: int) -> None:
        log, history = self._log(topic_partition)
        if log is None:
            return
        history.truncating(0)
        history.may_forget_producers = True
        if self.attempt("truncate_fully", lambda: log.truncate_fully_and_start_at(offset)):
            history.truncated(0)
            history.log_start = offset
            history.may_forget_producers = False

    def advance_log_start(self, topic_partition: TopicPartition, offset: int) -> None:
        log, history = self._log(topic_partition)
        if log is None:
            return
        history.advancing(offset)
        if self.attempt("advance_log_start", lambda: log.advance_log_start(offset)):
            history.log_start = offset

    def remove_oldest(self, topic_partition: TopicPartition, count: int) -> None:
        """Retention took `count` segments out of the log."""
        log, history = self._log(topic_partition)
        if log is None or len(log.segments) <= count:
            return
        history.advancing(log.segments[count].base_offset)
        if self.attempt("remove_oldest", lambda: log.full.remove_oldest(count)):
            history.leaving_below = log.segments[0].base_offset

    def remove_full(self, topic_partition: TopicPartition) -> None:
        """Retention took all but the active one."""
        log, _ = self._log(topic_partition)
        if log is not None:
            self.remove_oldest(topic_partition, len(log.segments) - 1)

    def clean(self) -> None:
        """Run the node's cleaner over all its compacted logs until it has nothing to do."""
        cleaner = self._cleaner
        if cleaner is None:
            return
        for log in self._manager().logs():
            if log.config.is_compacted:
                history = self.history.logs[log.topic_partition]
                gone = may_go(log, history, self.now_ms)
                history.superseded(gone.superseded, gone.expired)
        self.attempt("clean", lambda: cleaner.run(self.now_ms), raw=True)

    def change_files(self, topic_partition: TopicPartition) -> None:
        """Carry out what removals and cleanings left to do, and what expired."""
        log, history = self._log(topic_partition)
        if log is None:
            return
        if self.attempt("run_file_changes", log.full.run_file_changes, raw=True):
            history.gone_below(history.leaving_below)
        for _ in range(2):
            self.attempt("delete_expired_files", lambda: log.full.delete_expired_files(self.now_ms), raw=True)

    def delete(self, topic_partition: TopicPartition) -> None:
        history = self.history.logs[topic_partition]
        history.truncating(0)
        history.must_exist = False
        removal, topic_id = self._manager().removal, history.topic_id
        paths: list[str | None] = []
        if self.attempt("delete", lambda: paths.append(removal.set_aside_for_deletion(topic_partition, topic_id))):
            del self.history.logs[topic_partition]
            self.history.gone.add(topic_partition)
            for path in filter(None, paths):
                self.attempt("remove_deleted", lambda at=path: removal.remove_deleted(at))  # type: ignore[misc]

    def stray(self, topic_partition: TopicPartition) -> None:
        """Set a flushed log aside."""
        log, history = self._log(topic_partition)
        if log is None:
            return
        files = {path.rpartition("/")[2]: path for path in self.fs.files(log.directory) if path.endswith(LOG_SUFFIX)}
        contents = {name: self.fs.durable(path) for name, path in files.items() if history.kept}
        history.truncating(0)
        history.must_exist = False
        manager = self._manager()
        paths: list[str | None] = []
        if self.attempt("stray", lambda: paths.append(manager.removal.stray(topic_partition, history.topic_id))):
            del self.history.logs[topic_partition]
            self.history.gone.add(topic_partition)
            self.history.strays.update((path, contents) for path in paths if path is not None)

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        manager = self._manager()
        self.attempt("checkpoint_recovery_points", manager.checkpoints.write_recovery_points)
        if self.attempt("checkpoint_log_starts", manager.checkpoints.write_log_starts):
            for log in self.history.logs.values():
                log.gone_below(log.log_start)
            for one in manager.logs():
                self.history.logs[one.topic_partition].start_written(one.log_start_offset)
        high_watermarks = {LogId.of(log): log.log_end_offset for log in manager.logs()}  # a follower flushes later
        self.attempt(
            "checkpoint_high_watermarks", lambda: manager.checkpoints.write_high_watermarks(lambda: high_watermarks)
        )
