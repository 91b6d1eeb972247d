"""The leader-epoch rules, in one copy: for the quorum's log, for replica fetchers and for consumers.

An epoch history is a sequence of `EpochEntry(epoch, start_offset)`, strictly increasing in both. Everything here is a
pure function of such a sequence; storing it is storage's and raft's work. Sources: KIP-101 (truncate by epoch, never to
the high watermark), KIP-279 (answer with the largest epoch not above the one asked for; a leader records its epoch at
once, even with no record), KIP-320 (consumers), KIP-595 (diverging epoch in the fetch answer).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from penstock.types import NO_EPOCH, NO_OFFSET, EpochEndOffset, EpochEntry

UNDEFINED = EpochEndOffset(NO_EPOCH, NO_OFFSET)


def _floor_index(entries: Sequence[EpochEntry], epoch: int) -> int:
    """Index of the last entry whose epoch is not above `epoch`, or -1."""
    return bisect_right(entries, epoch, key=lambda entry: entry.epoch) - 1


def end_offset_for(entries: Sequence[EpochEntry], epoch: int, log_end_offset: int) -> EpochEndOffset:
    """The largest known epoch not above `epoch`, and the offset after its last record.

    UNDEFINED when the history is empty, when `epoch` is unknown (-1), or when it is above every known epoch: then
    the caller knows more than this log does.
    """
    if not entries or epoch == NO_EPOCH or epoch > entries[-1].epoch:
        return UNDEFINED
    if epoch == entries[-1].epoch:
        return EpochEndOffset(epoch, log_end_offset)
    index = _floor_index(entries, epoch)
    if index < 0:
        return EpochEndOffset(epoch, entries[0].start_offset)
    return EpochEndOffset(entries[index].epoch, entries[index + 1].start_offset)


def epoch_for_offset(entries: Sequence[EpochEntry], offset: int) -> int:
    """The epoch of the record at `offset`; -1 before the first entry."""
    index = bisect_right(entries, offset, key=lambda entry: entry.start_offset) - 1
    return entries[index].epoch if index >= 0 else NO_EPOCH


def diverging_epoch(
    entries: Sequence[EpochEntry], log_end_offset: int, fetch_offset: int, last_fetched_epoch: int
) -> EpochEndOffset | None:
    """A leader's answer to a fetch whose position is not in the leader's log; None when the position is good.

    The position is good when this log's records of `last_fetched_epoch` reach at least to `fetch_offset`.
    """
    if last_fetched_epoch == NO_EPOCH:
        return None
    if not entries:
        return EpochEndOffset(NO_EPOCH, log_end_offset)
    if last_fetched_epoch > entries[-1].epoch:
        return EpochEndOffset(entries[-1].epoch, log_end_offset)
    found = end_offset_for(entries, last_fetched_epoch, log_end_offset)
    if found.epoch == last_fetched_epoch and found.end_offset >= fetch_offset:
        return None
    return found


def truncation_offset(entries: Sequence[EpochEntry], log_end_offset: int, answer: EpochEndOffset) -> int:
    """The offset at which a follower with this history must cut its log after the leader's diverging answer.

    It is the smaller of two ends: of the leader's epoch, and of this log's largest epoch not above it. It may take
    several rounds of fetch and truncate until both logs meet (KIP-279).
    """
    own = end_offset_for(entries, answer.epoch, log_end_offset)
    if own == UNDEFINED:
        return min(answer.end_offset, log_end_offset)
    return min(answer.end_offset, own.end_offset, log_end_offset)


def assign(entries: Sequence[EpochEntry], epoch: int, start_offset: int) -> tuple[EpochEntry, ...]:
    """The history after `epoch` began at `start_offset`; unchanged when the epoch is already the last.

    Entries at or above the new start are dropped: their records are gone, or there never was one. A look-up of such an
    epoch then answers with the epoch below it, which ends at the same offset.
    """
    if entries and epoch <= entries[-1].epoch:
        return tuple(entries)
    kept = (entry for entry in entries if entry.start_offset < start_offset)
    return (*kept, EpochEntry(epoch, start_offset))


def truncate_from_end(entries: Sequence[EpochEntry], end_offset: int) -> tuple[EpochEntry, ...]:
    """The history after every record at or above `end_offset` was cut away."""
    return tuple(entry for entry in entries if entry.start_offset < end_offset)


def truncate_from_start(entries: Sequence[EpochEntry], start_offset: int) -> tuple[EpochEntry, ...]:
    """The history after every record below `start_offset` was deleted: the epoch it falls into now begins there."""
    index = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset) - 1
    if index < 0:
        return tuple(entries)
    return (EpochEntry(entries[index].epoch, start_offset), *entries[index + 1 :])
