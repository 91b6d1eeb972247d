"""Mistakes of the storage engine: what is flushed, in which order, and what a restart believes."""

from __future__ import annotations

import errno

from storage.disk import atomic_file
from storage.log.flush import FlushTracker, PendingFlush
from storage.log.flush_schedule import FlushSchedule
from storage.log.group_commit import GroupCommit
from storage.log.log import Log
from storage.log.log_cut import LogCut
from storage.log.log_writer import LogWriter
from storage.recovery.recovery import _Recovery
from tests.simulation.cluster.faults import FAILING_CALLS
from tests.simulation.cluster.mutants import storage_stories as stories
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.replication import TWO_TAILS
from tests.simulation.cluster.mutants.stories import TOGETHER, directed
from tests.simulation.cluster.plan import Fault, Kind

POWERS = (Kind.POWER, Kind.POWER_ALL)

FAILED_SYNC = (FAILING_CALLS.index(("fdatasync", errno.EIO)) + 0.5) / len(FAILING_CALLS)
"""The amount of a fault by which the next fdatasync fails."""

STORAGE = (
    Mutant(
        "an ack comes before fsync",
        "NATS #7564",
        (
            Edit(
                FlushSchedule.flushed_offset,
                'if self._settings.flush_policy == "os" else self._flushing.recovery_point',
                "",
            ),
            Edit(GroupCommit.request, 'log.settings.flush_policy == "os" and', ""),
        ),
        POWERS,
        is_replicated=None,
    ),
    Mutant(
        "a failed fsync counts as done",
        "ATC'20",
        (Edit(GroupCommit._done, "    if error is None:", "    if True:"),),
        (Kind.DEAD_DISK, Kind.FAIL_CALL, *POWERS),
        is_replicated=None,
        stories=directed(
            *(Fault(1.0 + n / 4, Kind.FAIL_CALL, n % 3, 0, 0.2, FAILED_SYNC) for n in range(6)), roles=TOGETHER
        ),
    ),
    Mutant(
        "a failed fsync is tried again",
        "ATC'20",
        (
            Edit(
                GroupCommit._not_flushed,
                "if isinstance(error, FlushDeferredError | NoThreadError | MemoryError):",
                "if True:",
            ),
        ),
        (Kind.DEAD_DISK, Kind.FAIL_CALL, *POWERS),
        is_replicated=None,
        stories=directed(
            *(Fault(1.0 + n / 4, Kind.FAIL_CALL, n % 3, 0, 0.2, FAILED_SYNC) for n in range(6)), roles=TOGETHER
        ),
    ),
    Mutant(
        "a checkpoint of recovery points comes before the flush",
        "seam: checkpoint order",
        (Edit(Log.claimed_recovery_point, "self.recovery_point", "self.log_end_offset"),),
        (*POWERS, Kind.SLOW_DISK),
        is_replicated=None,
        stories=stories.POWER_CUTS,
    ),
    Mutant(
        "checkpoints are not lowered before a cut",
        "fault 10",
        (Edit(LogCut._cutting, "self._lower_checkpoints(offset, log_start)", "pass"),),
        (*POWERS, Kind.ISOLATE, Kind.KILL),
    ),
    Mutant(
        "a checkpoint comes between lowering and cutting",
        "fault 10",
        (Edit(LogCut._cutting, "span.claims_below, span.starts_below = offset, log_start", "pass"),),
        (*POWERS, Kind.ISOLATE, Kind.KILL),
        stories=stories.CHECKPOINTS_DURING_CUTS,
    ),
    Mutant(
        "a flush counts although the log was cut meanwhile",
        "seam: group commit",
        (Edit(FlushTracker.complete, "if pending.generation != self._generation:", "if False:"),),
        (*POWERS, Kind.ISOLATE, Kind.SLOW_DISK),
        stories=stories.CUT_DURING_A_FLUSH,
    ),
    Mutant(
        "a flush syncs the newest segment alone",
        "own fault list: not noticed by a test",
        (
            Edit(
                FlushTracker._dirty, "        found.append(segment)", "        found.append(segment)\n            break"
            ),
        ),
        (*POWERS, Kind.SLOW_DISK),
        is_replicated=None,
        stories=stories.SLOW_SYNCS,
    ),
    Mutant(
        "a flush syncs no directory",
        "seam: group commit",
        (Edit(PendingFlush._sync_directories, "for directory in self.directories:", "for directory in ():"),),
        POWERS,
        is_replicated=None,
    ),
    Mutant(
        "a flush syncs no file",
        "NATS #7564",
        (Edit(PendingFlush.run, "for file in self.files:\n            self.fs.fdatasync(file.fd)", "pass"),),
        POWERS,
        is_replicated=None,
    ),
    Mutant(
        "the epochs are not written with a flush",
        "KIP-279: epoch checkpoint",
        (Edit(PendingFlush._write_small_files, "if self.epochs is not None:", "if False:"),),
        (*POWERS, Kind.KILL),
        stories=stories.THREE_STARTS,
    ),
    Mutant(
        "a request during a flush is forgotten",
        "seam: group commit",
        (
            Edit(
                GroupCommit.flush,
                "if self._closing or log in self._queued",
                "if self._closing or log in self._in_flight or log in self._queued",
            ),
        ),
        (Kind.SLOW_DISK,),
        is_replicated=None,
        stories=stories.LEADER_IS_FENCED,
    ),
    Mutant(
        "a flush that found no room is not tried again",
        "seam: group commit",
        (Edit(GroupCommit._try_again, "self.flush(log)", "pass"),),
        (Kind.FULL_DISK, Kind.FAIL_CALL),
        is_replicated=None,
        stories=stories.ALONE_AND_SHORT_OF_DESCRIPTORS,
    ),
    Mutant(
        "a refused append stays in the files",
        "fault 03",
        (Edit(LogWriter.append, "self._take_back(active, end)", "pass"),),
        (Kind.FULL_DISK, Kind.FAIL_CALL),
        is_replicated=None,
        stories=stories.SHORT_WRITES,
    ),
    Mutant(
        "a refused append may not have left a batch",
        "seam: refused appends",
        (Edit(LogWriter.append, "is_shortage(error) and not has_batch", "True"),),
        (Kind.FULL_DISK, Kind.FAIL_CALL, Kind.DEAD_DISK),
        is_replicated=None,
        stories=stories.SHORT_WRITES,
    ),
    Mutant(
        "the epoch history is not cut with the log",
        "KIP-101: epoch cache",
        (
            Edit(
                LogCut._follow_segments,
                "self._parts.epochs.truncate_from_end(span.end if span.end > oldest else 0)",
                "pass",
            ),
        ),
        (*POWERS, Kind.ISOLATE, Kind.KILL),
        stories=TWO_TAILS,
    ),
    Mutant(
        "recovery does not cut the bad tail",
        "CTRL: torn tail",
        (Edit(_Recovery._cut, "self._fs.truncate(segment.fd(), place.position)", "pass"),),
        POWERS,
        is_replicated=None,
        stories=stories.TORN_AND_ROLLED,
    ),
    Mutant(
        "recovery believes every clean-looking end",
        "CTRL: torn tail",
        (
            Edit(_Recovery.run, "self._last_known.clean and self._ends", "self._ends"),
            Edit(_Recovery._ends_at_recovery_point, "if end.offset != self._bound:", "if end.offset < self._bound:"),
        ),
        POWERS,
        is_replicated=None,
    ),
    Mutant(
        "recovered records count before they are synced",
        "Redpanda, why fsync",
        (
            Edit(_Recovery._check_from_recovery_point, "self._fs.fdatasync(segment.fd())", "pass"),
            Edit(
                _Recovery._verified, "    self._fs.fdatasync(file.fd)\n    self._fs.drop_cache(file.fd, position)\n", ""
            ),
        ),
        (Kind.KILL, *POWERS),
        is_replicated=None,
    ),
    Mutant(
        "small files are renamed before they are synced",
        "etcd #13766: persist order",
        (Edit(atomic_file.write_and_close, "if sync_content and content:", "if False:"),),
        POWERS,
        is_replicated=None,
    ),
    Mutant(
        "the rename of a small file is not synced",
        "etcd #13766: persist order",
        (Edit(atomic_file.write_atomically, "if sync_directory:", "if False:"),),
        POWERS,
        is_replicated=None,
    ),
)
