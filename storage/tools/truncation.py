"""What ending a damaged log at its first bad byte would cost: for who has no other replica and wants the rest.

Finds the place by verifying the whole log, not only what a start looks at, and says how many offsets go: as many as are
known to have been there, by later batches, the recovery point and the high watermark. Changes nothing; `recover.py`
does it, once a person has agreed to the very offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.types import METADATA_TOPIC
from storage.file_names import HIGH_WATERMARK_CHECKPOINT
from storage.tools.findings import NEW_VOTER, Finding, LogReport
from storage.tools.log_dir_knowledge import LogDirKnowledge, read_knowledge
from storage.tools.target import LogPath, Target
from storage.tools.verify_log import VerifyOptions, verify_log

_CURABLE = ("rot", "short")


@dataclass(frozen=True, slots=True)
class Truncation:
    """One log that would end at `offset`."""

    directory: str
    file: str
    position: int
    offset: int
    lost_offsets: int
    """From `offset` on, as far as anybody knows; some of them may have been gone before."""
    what: str
    caution: str = ""
    """Why one may rather not."""


def find_truncations(target: Target, on_read: Callable[[int], None]) -> Iterator[Truncation]:
    """The logs of the target that a start would refuse, or refuse to read."""
    knowledge = read_knowledge(target.log_dir)
    for log in target.logs:
        found = find_truncation(log, knowledge, on_read)
        if found is not None:
            yield found


def find_truncation(log: LogPath, knowledge: LogDirKnowledge, on_read: Callable[[int], None]) -> Truncation | None:
    """None when the log needs none."""
    first: Finding | None = None
    last_known = knowledge.last_known(log.topic_partition)
    end = max(last_known.recovery_point or 0, knowledge.offset(HIGH_WATERMARK_CHECKPOINT, log.topic_partition) or 0)
    for found in verify_log(log, last_known, VerifyOptions(on_read=on_read)):
        if isinstance(found, LogReport):
            end = max(end, found.log_end_offset)
        elif first is None and found.kind in _CURABLE and found.offset is not None:
            first = found
    if first is None or first.offset is None:
        return None
    lost = max(end - first.offset, 0)
    tp = log.topic_partition
    caution = NEW_VOTER if tp is not None and tp.topic == METADATA_TOPIC else ""
    return Truncation(log.directory, first.file, first.position or 0, first.offset, lost, first.what, caution)
