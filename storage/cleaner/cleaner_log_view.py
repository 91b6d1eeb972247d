"""A log as the cleaner sees it: the facts for choosing it, and the segments that a pass over it holds.

Everything here is used on the loop. Another thread gets the `CleaningPlan`, which holds only frozen values.
`cleaner_plan.py` decides; the pass is in `log_cleaner.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.lazy_dataclass import dataclass
from storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from storage.cleaner.cleaner_plan import Assessment, CleanableSegment, KnownHorizon, LogFacts
from storage.cleaner.cleaner_types import CleaningPlan, Reason, SegmentFile
from storage.log.log import Log
from storage.segment.segment import Segment


class Candidate(NamedTuple):
    """A log that may be cleaned; `facts` tells whether it is compacted, and how dirty it is."""

    log: Log
    high_watermark: int
    checkpoint: CleanerCheckpoint
    """The cleaner's checkpoint of the log's log dir."""

    @property
    def last_stable_offset(self) -> int:
        """Every transaction that has a record below it is decided."""
        undecided = self.log.transactions.first_undecided(self.high_watermark)
        return self.high_watermark if undecided is None else min(undecided, self.high_watermark)

    def cleanable_segments(self) -> tuple[Segment, ...]:
        return self.log.full.cleanable(self.last_stable_offset)

    def facts(self, horizon: KnownHorizon | None) -> LogFacts:
        log, cleanable = self.log, self.cleanable_segments()
        return LogFacts(
            segments=[_facts(segment) for segment in cleanable],
            begin_offset=log.segments[0].base_offset,
            log_end_offset=log.log_end_offset,
            checkpoint=self.checkpoint.get(log.topic_partition),
            horizon=horizon,
            config=log.config,
            held_up_bytes=sum(segment.size_bytes for segment in log.segments[len(cleanable) : -1]),
        )

    def why_held_up(self) -> str:
        """Why its other full segments cannot be cleaned."""
        flushed, end = self.log.recovery_point, self.log.segments[-1].base_offset
        if flushed < min(self.high_watermark, end):
            return f"its full segments end at {end}, and it is flushed up to {flushed} only"
        stable = self.last_stable_offset
        if stable < min(self.high_watermark, end):
            return f"its full segments end at {end}, and a transaction is not decided from offset {stable} on"
        return f"its full segments end at {end}, and it is committed up to {self.high_watermark} only"


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
    """The chosen log."""

    log: Log
    checkpoint: CleanerCheckpoint
    plan: CleaningPlan
    generation: int
    """The checkpoint's generation, which tells whether the log was truncated during the pass."""
    warning: str | None
    segments: dict[int, Segment]
    """The plan's segments that are not cleaned yet, by base offset."""

    @classmethod
    def of(cls, candidate: Candidate, assessment: Assessment, reason: Reason) -> LogToClean:
        log = candidate.log
        cleanable = candidate.cleanable_segments()
        segments = {s.base_offset: s for s in cleanable if s.base_offset < assessment.end_offset}
        first, end = cleanable[0].base_offset, cleanable[-1].next_offset
        files = [SegmentFile(s.log_path, s.base_offset, s.next_offset, s.size_bytes) for s in segments.values()]
        plan = CleaningPlan(
            topic_partition=log.topic_partition,
            directory=log.directory,
            reason=reason,
            segments=tuple(files),
            first_dirty_offset=assessment.first_dirty_offset,
            end_offset=assessment.end_offset,
            config=log.config,
            epoch_entries=log.epoch_entries,
            kept_offsets=log.producers.known.window_offsets(),
            aborted=tuple(log.transactions.aborted(first, end)),
        )
        generation = candidate.checkpoint.generation(log.topic_partition)
        return cls(log, candidate.checkpoint, plan, generation, assessment.warning, segments)

    def has_changed(self) -> bool:
        """True if any of the segments has left the log, or was cut.

        A truncation anywhere below the end of the pass cuts at least the last of them. Even if the current segment is
        whole, the records that supersede its records may be gone.
        """
        present = set(map(id, self.log.segments))
        return self.log.closed or not present.issuperset(map(id, self.segments.values()))
