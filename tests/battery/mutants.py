"""Mistakes to switch on: each is one way in which storage has lost data somewhere, and the battery must notice it.

A mutant replaces one function for the time of a `with`; the engine has no switches. With each stands the part of the
battery that is to notice it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.types import TopicPartition
from storage.append import producer_state
from storage.append.producer_state import KnownProducers
from storage.cleaner import batch_filter
from storage.cleaner.cleaned_file import CleanedFile
from storage.cleaner.cleaned_transactions import AbortedBatches
from storage.cleaner.cleaner_log_view import Candidate
from storage.disk import checkpoint_file, checkpoint_reserve
from storage.disk.atomic_file import read_text
from storage.disk.disk_errors import storage_error
from storage.disk.file_names import CLEAN_SHUTDOWN, CLEANED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from storage.log.file_changes import FileChanges
from storage.log.flush import FlushTracker, PendingFlush
from storage.log.log import Log
from storage.log.producers import producer_cut, producer_log
from storage.log.producers.producer_log import ProducerLog
from storage.log.producers.producer_snapshots import ProducerSnapshots
from storage.log_dirs import log_directory, set_aside
from storage.log_dirs.clean_shutdown import CleanStop, _parse
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_removal import LogRemoval
from storage.recovery import producer_recovery, producer_snapshot
from storage.recovery.producer_recovery import LoadedProducers, replay_batches
from storage.recovery.producer_snapshot import ProducerSnapshot
from storage.recovery.recovery import _Recovery
from storage.segment import index_files
from storage.segment.epoch_cache import EpochCache
from storage.segment.segment import Segment
from storage.segment.transaction_index import AbortedTransactions
from tests.battery import crashes, damage, failures
from tests.battery.outcome import Result, Size, cases_until_wrong
from tests.support.losing_fs import LosingFileSystem

Part = Callable[[Size], Iterator[Result]]
SAMPLES_MAX = 6


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake: what is replaced by what, and which part must notice."""

    what: str
    part: Part
    changes: tuple[tuple[Any, str, Any], ...]
    is_late: bool = False
    """It shows near the end of the script: there the search begins."""


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """The mistake is made inside the `with`."""
    honest = [(place, name, getattr(place, name)) for place, name, _ in mutant.changes]
    try:
        for place, name, mistaken in mutant.changes:
            setattr(place, name, mistaken)
        yield
    finally:
        for place, name, function in honest:
            setattr(place, name, function)


def cases_to_kill(mutant: Mutant, size: Size) -> tuple[int, Result | None]:
    """How many cases it took to notice, and what was noticed; None when it survived. Sample after sample is run."""
    tried = 0
    with mutated(mutant):
        for number in range(SAMPLES_MAX):
            cases, noticed = cases_until_wrong(
                mutant.part(replace(size, seed=size.seed + number, backwards=mutant.is_late))
            )
            tried += cases
            if noticed is not None:
                return tried, noticed
    return tried, None


# -- the mistakes ------------------------------------------------------------------------------------------------------


def _nothing(*_: object, **__: object) -> None:
    """In place of something that must be done."""


def _true(*_: object, **__: object) -> bool:
    return True


def _false(*_: object, **__: object) -> bool:
    return False


_cut = _Recovery._cut


def _cut_rot(self: Any, at: int, place: Any, damage: CorruptFileError) -> None:
    self._bound, self._last_known = 0, replace(self._last_known, recovery_point=0)
    _cut(self, at, place, damage)


def _swap_without_marker(self: Any, new: Segment, replaced: Any) -> None:
    """The old segments go, and then the cleaned one takes its name."""

    def step() -> None:
        for segment in replaced:
            for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                with contextlib.suppress(FileNotFoundError):
                    self._fs.unlink(segment.stem + suffix)
        self._fs.fsync_dir(self._directory)
        self._fs.rename(new.log_path + CLEANED_SUFFIX, new.log_path)
        self._fs.fsync_dir(self._directory)
        new.settled()

    self._steps.append(step)


_prepare = FlushTracker.prepare


def _hasty_prepare(self: FlushTracker, end_offset: int, *, closing: bool = False) -> PendingFlush | None:
    pending = _prepare(self, end_offset, closing=closing)
    if pending is None or closing:
        return pending
    pending.abandon()
    self.complete(pending)
    return None


_run = PendingFlush.run


def _retrying_run(self: PendingFlush) -> None:
    abandon = PendingFlush.abandon
    PendingFlush.abandon = _nothing  # type: ignore[method-assign]
    try:
        try:
            _run(self)
        except OSError:
            _run(self)
    finally:
        PendingFlush.abandon = abandon  # type: ignore[method-assign]
        self.abandon()


def _persist_nothing(self: EpochCache, snapshot: Any) -> None:
    self._persisted_version = snapshot.version


def _write_without_sync(fs: LosingFileSystem, path: str, content: bytes, **_: object) -> None:
    with contextlib.suppress(FileNotFoundError):
        fs.unlink(path + ".tmp")
    fd = fs.open(path + ".tmp", create=True)
    fs.pwritev(fd, [content], 0)
    fs.close(fd)
    fs.rename(path + ".tmp", path)
    fs.fsync_dir(path.rpartition("/")[0])


def _finish_without_sync(self: CleanedFile) -> int:
    self.flush()
    self._close()
    return self._written_bytes


def _unseal_anything(path: str, text: str) -> str:
    return text[: text.rfind("\n", 0, -1) + 1]


def _peek_marker(fs: LosingFileSystem, log_dir: str) -> CleanStop | None:
    path = f"{log_dir}/{CLEAN_SHUTDOWN}"
    return _parse(path, read_text(fs, path) or "") if fs.exists(path) else None


def _delete_all_set_aside(self: LogRemoval, set_aside: Any) -> None:
    for path in set_aside:
        self.deleted.add(path, 0)


def _remove_youngest_first(self: FileChanges, segments: Any) -> None:
    for segment in reversed(segments):
        self._steps.append(lambda stem=segment.stem: self._remove(stem))  # type: ignore[misc]


def _replay_all(
    known: KnownProducers, segments: Any, begin: int, replay: Any, below: int, _: object
) -> tuple[int, int]:
    return replay_batches(known, segments, begin, replay)[0], below


def _load_nothing(*_: object, **__: object) -> LoadedProducers:
    return LoadedProducers(KnownProducers(), AbortedTransactions())


_note = ProducerLog.note_snapshot


def _note_nobody(self: ProducerLog, offset: int, **options: bool) -> None:
    known, self._known = self._known, KnownProducers()
    _note(self, offset, **options)
    self._known = known


def _no_offsets(self: KnownProducers) -> frozenset[int]:
    return frozenset()


def _error_without_cause(action: str, path: str, error: OSError, **hope: bool) -> KafkaStorageError:
    return KafkaStorageError(str(storage_error(action, path, error, **hope)))


_lower_checkpoints = LogDirectory.lower_checkpoints


def _lower_log_start_too(self: Any, topic_partition: TopicPartition, offset: int, log_start: int = 0) -> None:
    """The line of a log that begins anew goes before the log does."""
    _lower_checkpoints(self, topic_partition, offset, min(offset, log_start))


MUTANTS = {
    "truncates at rot": Mutant(
        "rot below the recovery point is cut like a torn tail",
        damage.run,
        ((_Recovery, "_cut", _cut_rot), (_Recovery, "_must_end_at_bound", _nothing)),
    ),
    "skips the fsync of directories": Mutant(
        "a new name is believed to be durable", crashes.run, ((LosingFileSystem, "fsync_dir", _nothing),)
    ),
    "trusts a damaged index": Mutant(
        "an entry is not compared with its batch",
        damage.run,
        ((index_files, "is_true", _true), (index_files, "is_true_time", _true)),
    ),
    "swaps without the marker": Mutant(
        "the old segments go before the new one has a name that a start finishes",
        crashes.run,
        ((FileChanges, "replace", _swap_without_marker),),
    ),
    "acks before the flush": Mutant(
        "the flushed offset advances before fdatasync", crashes.run, ((FlushTracker, "prepare", _hasty_prepare),)
    ),
    "retries a failed fsync": Mutant(
        "the second one succeeds, and the pages are gone",
        failures.of_flushes,
        ((PendingFlush, "run", _retrying_run),),
        is_late=True,
    ),
    "takes a shortage for a broken disk": Mutant(
        "a log that found no room to be set aside stays",
        failures.of_removals,
        ((set_aside, "storage_error", _error_without_cause),),
    ),
    "forgets a written log start": Mutant(
        "a log that a power cut left below it begins where it ends",
        crashes.of_deletion,
        ((Log, "_begin_at_written_start", _nothing),),
    ),
    "lowers the log start before a log begins there": Mutant(
        "a second power cut takes it back",
        crashes.of_deletion,
        ((LogDirectory, "lower_checkpoints", _lower_log_start_too),),
    ),
    "believes a high watermark above the log end": Mutant(
        "records that follow a power cut count as committed",
        crashes.of_deletion,
        ((LogDirectory, "lower_high_watermarks", _nothing),),
    ),
    "deletes a stray directory": Mutant(
        "what nobody asks for is taken for deleted",
        crashes.run,
        ((LogRemoval, "found", _delete_all_set_aside),),
        is_late=True,
    ),
    "loses a tombstone early": Mutant(
        "deletions go at the first cleaning", crashes.run, ((batch_filter, "tombstone_may_go", _true),)
    ),
    "does not sync the cleaned file": Mutant(
        "the swap gives its name to bytes that are not there",
        crashes.run,
        ((CleanedFile, "finish", _finish_without_sync),),
    ),
    "does not check what it reads": Mutant(
        "rot is handed out after a clean stop", damage.run, ((Segment, "unchecked", _false),)
    ),
    "believes a damaged checkpoint": Mutant(
        "the checksum of checkpoints is not looked at",
        damage.of_checkpoints,
        ((checkpoint_file, "unseal", _unseal_anything),),
    ),
    "does not lower checkpoints": Mutant(
        "a truncation goes on before the recovery point says so",
        crashes.run,
        ((LogDirectory, "lower_checkpoints", _nothing),),
    ),
    "forgets epochs": Mutant(
        "records of a new epoch are flushed before their epoch",
        crashes.run,
        ((EpochCache, "persist", _persist_nothing),),
        is_late=True,
    ),
    "writes small files without fsync": Mutant(
        "a checkpoint's name points to bytes that are not there",
        crashes.run,
        (
            (checkpoint_file, "write_atomically", _write_without_sync),
            (checkpoint_reserve, "write_atomically", _write_without_sync),
        ),
    ),
    "removes the youngest first": Mutant(
        "retention leaves a hole if it is interrupted",
        crashes.run,
        ((FileChanges, "remove", _remove_youngest_first),),
        is_late=True,
    ),
    "remembers four batches": Mutant("a window that is too short", crashes.run, ((producer_state, "WINDOW", 4),)),
    "forgets producers in a truncation": Mutant(
        "what was not cut is forgotten, too", crashes.run, ((producer_log, "load_producers", _load_nothing),)
    ),
    "forgets producers at a roll": Mutant(
        "a snapshot has none", crashes.run, ((ProducerLog, "note_snapshot", _note_nobody),)
    ),
    "keeps what was cut": Mutant(
        "producers know batches that are gone", crashes.run, ((ProducerLog, "cut", _nothing),)
    ),
    "takes what will be cut for known": Mutant(
        "a thread reads behind the cut that it prepares", crashes.run, ((producer_cut, "replay_batches", _replay_all),)
    ),
    "believes any snapshot": Mutant(
        "one above the log end, or of another history, that a power cut has left",
        crashes.run,
        (
            (ProducerSnapshot, "is_of", _true),
            (ProducerSnapshots, "cutting", _nothing),
            (producer_recovery, "remove_snapshots", _nothing),
        ),
    ),
    "believes a damaged snapshot": Mutant(
        "the checksum of snapshots is not looked at",
        damage.of_snapshots,
        ((producer_snapshot, "unseal", _unseal_anything),),
    ),
    "removes the only snapshot": Mutant(
        "segments go before what tells their producers is durable",
        crashes.run,
        ((ProducerLog, "leaving", _nothing),),
        is_late=True,
    ),
    "cleans what producers may repeat": Mutant(
        "a batch without records is removed", damage.of_snapshots, ((KnownProducers, "window_offsets", _no_offsets),)
    ),
    "cleans what is not decided": Mutant(
        "records of an open transaction supersede others",
        crashes.run,
        ((Candidate, "last_stable_offset", property(lambda self: self.high_watermark)),),
        is_late=True,
    ),
    "maps aborted records": Mutant(
        "they supersede committed ones", crashes.run, ((AbortedBatches, "has", _false),), is_late=True
    ),
    "keeps the marker of a clean stop": Mutant(
        "a crash is taken for a clean stop",
        crashes.run,
        ((log_directory, "take_marker", _peek_marker),),
        is_late=True,
    ),
}
