"""A log as the cleaner sees it: what is looked at before it is chosen, and what a pass over it holds on to.

Everything here is used on the loop. What goes to another thread is the `CleaningPlan`, in which nothing is alive. Not
here: the decision (`cleaner_plan.py`), the pass (`log_cleaner.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from storage.cleaner.cleaner_plan import Assessment, CleanableSegment, KnownHorizon, LogFacts
from storage.cleaner.cleaner_types import CleaningPlan, Reason, SegmentFile
from storage.log.log import Log
from storage.segment.segment import Segment


class Candidate(NamedTuple):
    """A log that may be cleaned; that it is compacted, and how dirty, is looked at here."""

    log: Log
    high_watermark: int
    checkpoint: CleanerCheckpoint
    """Of the log's log dir."""

    def facts(self, horizon: KnownHorizon | None) -> LogFacts:
        log = self.log
        return LogFacts(
            segments=[_facts(segment) for segment in log.cleanable_segments(self.high_watermark)],
            begin_offset=log.segments[0].base_offset,
            log_end_offset=log.log_end_offset,
            checkpoint=self.checkpoint.get(log.topic_partition),
            horizon=horizon,
            config=log.config,
        )


def _facts(segment: Segment) -> CleanableSegment:
    return CleanableSegment(
        segment.base_offset,
        segment.next_offset,
        segment.size_bytes,
        segment.first_timestamp_ms,
        lambda: segment.indexes.max_timestamp(segment.file())[0],
    )


@dataclass(frozen=True, slots=True)
class LogToClean:
    """What was chosen."""

    log: Log
    checkpoint: CleanerCheckpoint
    plan: CleaningPlan
    generation: int
    """Of the checkpoint: tells whether the log was truncated during the pass."""
    warning: str | None
    segments: dict[int, Segment]
    """Those of the plan that were not cleaned yet, by base offset."""

    @classmethod
    def of(cls, candidate: Candidate, assessment: Assessment, reason: Reason) -> LogToClean:
        log = candidate.log
        cleanable = log.cleanable_segments(candidate.high_watermark)
        segments = {s.base_offset: s for s in cleanable if s.base_offset < assessment.end_offset}
        files = [SegmentFile(s.log_path, s.base_offset, s.next_offset, s.size_bytes) for s in segments.values()]
        plan = CleaningPlan(
            topic_partition=log.topic_partition,
            directory=log.directory,
            reason=reason,
            segments=tuple(files),
            first_dirty_offset=assessment.first_dirty_offset,
            end_offset=assessment.end_offset,
            clean_bytes=assessment.clean_bytes,
            dirty_bytes=assessment.dirty_bytes,
            config=log.config,
            epoch_entries=log.epoch_entries,
        )
        generation = candidate.checkpoint.generation(log.topic_partition)
        return cls(log, candidate.checkpoint, plan, generation, assessment.warning, segments)

    def has_changed(self) -> bool:
        """Whether any of the segments has left the log, or was cut.

        A truncation anywhere below the end of the pass takes the last of them, also when it spares the one at hand;
        then what supersedes its records may be gone.
        """
        present = set(map(id, self.log.segments))
        return self.log.closed or not present.issuperset(map(id, self.segments.values()))
