"""Does to a follower's log what its fetcher's core has decided. Not here: when (fetcher_driver.py)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.replication.follower.fetcher_values import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    Append,
    Effect,
    StartOver,
    Truncate,
)
from broker.replication.follower.follower_log import (
    advance_log_start,
    append_as_follower,
    start_over_at,
    truncate_to,
)
from broker.replication.partition import Partition
from penstock.epochs import truncation_offset
from penstock.types import EpochEndOffset
from storage.log.producers.producer_cut import PreparedCut

_log = logging.getLogger(__name__)


def perform(effect: Effect, partition: Partition) -> bool:
    """Do to a follower's log what the core decided; nothing is durable yet, but for a truncation. True when the log had
    to begin anew (`append_as_follower`)."""
    rebased = False
    match effect:
        case Append(records=records, leader_high_watermark=high_watermark, leader_log_start_offset=start):
            rebased = append_as_follower(partition, records, start, high_watermark)
            partition.follower_high_watermark(high_watermark)
        case Truncate(answer=answer, leader_log_start_offset=start):
            offset = cut_offset(answer, partition)
            _log.info("%s: truncating to %d by the leader's epoch %s", partition, offset, answer)
            if offset <= start:  # the leader has forgotten the epochs below: what is left here may be another history
                start_over_at(partition, start)
            else:
                truncate_to(partition, offset)  # below its own start, the log starts over there
        case StartOver(log_start_offset=start):
            _log.warning("%s: beginning with an empty log at the leader's log start %d", partition, start)
            start_over_at(partition, start)
        case AdvanceHighWatermark(leader_high_watermark=high_watermark):
            partition.follower_high_watermark(high_watermark)
        case AdvanceLogStart(leader_log_start_offset=start):
            advance_log_start(partition, start)
    return rebased


def prepare(
    effect: Truncate | StartOver, partition: Partition, expect_cut: Callable[[int], None]
) -> PreparedCut | None:
    """The work for a thread before the truncation is performed; None: nothing. `expect_cut` is told the offset of a cut
    that leaves records."""
    if isinstance(effect, StartOver):
        return None
    offset = cut_offset(effect.answer, partition)
    if offset <= effect.leader_log_start_offset:
        return None
    expect_cut(offset)
    return partition.log.producers.prepare_cut(offset)


def cut_offset(answer: EpochEndOffset, partition: Partition) -> int:
    """Where the log is cut by the leader's answer."""
    return truncation_offset(partition.log.epoch_entries, partition.log.log_end_offset, answer)
