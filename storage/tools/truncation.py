"""Plans how a damaged log can be used again, and what that costs, for a user without another replica.

    damage only below the log start   the log's files begin behind it (`restart.py`): no readable record is lost
    any other damage                  the log is cut at the first bad byte, and everything behind it is lost

Finds the damage by verifying the whole log, not only the part that a start checks. Reports how many offsets are lost,
as far as later batches, the recovery point and the high watermark show them, and how many of their records can be read
today. Changes nothing; `recover.py` does, once a person has agreed to exactly these offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.lazy_dataclass import dataclass
from penstock.types import METADATA_TOPIC
from storage.disk.file_names import HIGH_WATERMARK_CHECKPOINT
from storage.tools.checkpoint_reader import LogDirKnowledge, read_knowledge
from storage.tools.target import LogPath, Target
from storage.tools.verify.findings import NEW_VOTER, Finding, LogReport
from storage.tools.verify.verify_log import VerifyOptions, verify_log

_CURABLE = ("rot", "short")


@dataclass(frozen=True, slots=True)
class Truncation:
    """One log that would end at `offset`."""

    directory: str
    file: str
    position: int
    offset: int
    lost_offsets: int
    """Offsets from `offset` on, as far as is known; some of their records may have been gone before."""
    readable_records: int
    """Records in good batches behind the cut: they can be read until then."""
    what: str
    caution: str = ""
    """A reason against the cut."""


@dataclass(frozen=True, slots=True)
class Restart:
    """One log whose files would begin at `offset`, at or below its log start: no readable record is lost."""

    directory: str
    file: str
    position: int
    offset: int
    log_start_offset: int
    what: str


Repair = Truncation | Restart


def find_repairs(target: Target, on_read: Callable[[int], None]) -> Iterator[Repair]:
    """The logs of the target that a start would refuse, or refuse to read."""
    knowledge = read_knowledge(target.log_dir)
    for log in target.logs:
        found = find_repair(log, knowledge, on_read)
        if found is not None:
            yield found


def find_repair(log: LogPath, knowledge: LogDirKnowledge, on_read: Callable[[int], None]) -> Repair | None:
    """The repair of a log; None if it needs none."""
    first: Finding | None = None
    report: LogReport | None = None
    last_known = knowledge.last_known(log.topic_partition)
    for found in verify_log(log, last_known, VerifyOptions(on_read=on_read)):
        if isinstance(found, LogReport):
            report = found
        elif first is None and found.kind in _CURABLE and found.offset is not None:
            first = found
    if first is None or first.offset is None or report is None:
        return None
    file, position, what = first.file, first.position or 0, first.what
    behind = _behind_deleted_damage(report)
    if behind is not None:
        return Restart(log.directory, file, position, behind, report.log_start_offset, what)
    high_watermark = knowledge.offset(HIGH_WATERMARK_CHECKPOINT, log.topic_partition) or 0
    end = max(last_known.recovery_point or 0, high_watermark, report.log_end_offset)
    lost, readable = max(end - first.offset, 0), report.readable_behind_damage
    tp = log.topic_partition
    caution = NEW_VOTER if tp is not None and tp.topic == METADATA_TOPIC else ""
    return Truncation(log.directory, file, position, first.offset, lost, readable, what, caution)


def _behind_deleted_damage(report: LogReport) -> int | None:
    """The offset at which the files may begin, if everything from the log start on is good, and no flushed record is
    missing."""
    if report.whole_from is None or report.whole_from > report.log_start_offset:
        return None
    return report.whole_from if report.log_end_offset >= (report.recovery_point or 0) else None
