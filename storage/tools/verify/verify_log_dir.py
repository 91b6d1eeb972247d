"""Verifies every log of a target, and the checkpoints of its log dir.

A checkpoint line may be too low, never too high: a line above the end of its log means that records are missing. Lines
of logs that are not here, and recovery points, are checked in the same way. `verify_log.py` checks one log.
"""

from __future__ import annotations

from collections.abc import Iterator

from storage.disk.file_names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from storage.tools.checkpoint_reader import LogDirKnowledge, read_knowledge
from storage.tools.overlay import OverlayFileSystem
from storage.tools.target import LogPath, Target
from storage.tools.verify import verify_files
from storage.tools.verify.findings import Finding, LogReport
from storage.tools.verify.verify_log import VerifyOptions, verify_log

_ABOVE_END = {
    HIGH_WATERMARK_CHECKPOINT: "committed records are not in this replica; a leader that has them sends them again",
    LOG_START_CHECKPOINT: "a start begins the log anew there",
    CLEANER_OFFSET_CHECKPOINT: "the cleaner begins anew",
}
_REWRITTEN = "nothing to do: it is written again while the node runs"


def verify(target: Target, options: VerifyOptions) -> Iterator[Finding | LogReport]:
    """All findings, log by log."""
    knowledge = read_knowledge(target.log_dir)
    if target.log_dir is not None:
        yield from _log_dir(target, target.log_dir, knowledge)
    for log in target.logs:
        for found in verify_log(log, knowledge.last_known(log.topic_partition), options):
            if isinstance(found, LogReport) and target.log_dir is not None:
                yield from _lines_fit(target.log_dir, knowledge, log, found.log_end_offset)
            yield found


def _log_dir(target: Target, log_dir: str, knowledge: LogDirKnowledge) -> Iterator[Finding]:
    if knowledge.is_in_use:
        what = "a running node uses this log dir: what it writes meanwhile may look torn"
        yield Finding("note", "in-use", f"{log_dir}/{LOCK}", what, "stop the node, or verify a copy")
    for damage in knowledge.damaged:
        if not damage.path.endswith(RECOVERY_POINT_CHECKPOINT):
            remedy = _REWRITTEN
        else:
            remedy = "nothing to do: every log is checked from its start; a bad byte in a full segment is taken for rot"
        yield Finding("warning", "checkpoint", damage.path, damage.why, remedy, position=damage.position)
    if not target.is_log_dir:
        return
    fs = OverlayFileSystem()
    yield from verify_files.log_dir_names(fs, log_dir)
    yield from verify_files.quorum_voter(fs, log_dir)
    yield from verify_files.meta_properties(fs, log_dir)
    if knowledge.clean_stop is None and not knowledge.is_in_use:
        what = "the node was not stopped in order; its next start checks every log from its recovery point on"
        yield Finding("note", "unclean-stop", log_dir, what)
    yield from _lines_without_log(target, log_dir, knowledge)


def _lines_without_log(target: Target, log_dir: str, knowledge: LogDirKnowledge) -> Iterator[Finding]:
    here = {log.topic_partition for log in target.logs}
    for tp, offset in knowledge.checkpoints.get(RECOVERY_POINT_CHECKPOINT, {}).items():
        if tp not in here and offset:
            what = f"{tp} was flushed up to offset {offset}, and is not here: deleted, or moved away"
            yield Finding("note", "checkpoint", f"{log_dir}/{RECOVERY_POINT_CHECKPOINT}", what)


def _lines_fit(log_dir: str, knowledge: LogDirKnowledge, log: LogPath, log_end: int) -> Iterator[Finding]:
    """Finds checkpoint lines of the log above its end; `damage.py` judges the recovery point."""
    for name, meaning in _ABOVE_END.items():
        offset = knowledge.offset(name, log.topic_partition)
        if offset is not None and offset > log_end:
            what = f"{log.topic_partition}: offset {offset} is above the log's end {log_end}: {meaning}"
            yield Finding("warning", "checkpoint", f"{log_dir}/{name}", what, _REWRITTEN, offset=offset)
